#include "target/locate.h"

#include <string.h>

void source_index(struct arena *arena, const char *data, size_t size, struct source_text *out)
{
    size_t count = 1;
    for (size_t i = 0; i < size; i++)
        count += data[i] == '\n' || data[i] == '\r';
    *out = (struct source_text){
        .data = data,
        .size = size,
        .lines = arena_alloc(arena, count, sizeof(size_t)),
        .line_count = 1,
    };
    for (size_t i = 0; i < size; i++) {
        if (data[i] != '\n' && data[i] != '\r')
            continue;
        /* \r\n and \n\r are one line end, as in Lua's own reader. */
        if (i + 1 < size && (data[i + 1] == '\n' || data[i + 1] == '\r') && data[i + 1] != data[i])
            i++;
        out->lines[out->line_count++] = i + 1;
    }
}

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_OTHER, /* numbers, and marks by their first byte */
};

struct token {
    enum token_kind kind;
    size_t start, end;            /* of the token in the text */
    size_t text_start, text_size; /* of a string's content, quotes left out */
};

struct scanner {
    const struct source_text *text;
    size_t at;
    struct token token; /* the current one */
};

static bool name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_';
}

/* The level of a long bracket at `at` ("[==[" is 2), or -1. */
static int long_bracket(const struct source_text *text, size_t at)
{
    int level = 0;
    if (at >= text->size || text->data[at] != '[')
        return -1;
    for (at++; at < text->size && text->data[at] == '='; at++)
        level++;
    return at < text->size && text->data[at] == '[' ? level : -1;
}

/* Moves past a long bracket; sets the content's bounds. */
static size_t skip_long(const struct source_text *text, size_t at, int level, struct token *token)
{
    at += (size_t)level + 2;
    token->text_start = at;
    for (; at < text->size; at++) {
        if (text->data[at] != ']')
            continue;
        size_t end = at + 1;
        while (end < text->size && text->data[end] == '=')
            end++;
        if (end < text->size && text->data[end] == ']' && end - at - 1 == (size_t)level) {
            token->text_size = at - token->text_start;
            return end + 1;
        }
    }
    token->text_size = text->size - token->text_start;
    return text->size;
}

static void skip_blanks(struct scanner *scan)
{
    const struct source_text *text = scan->text;
    while (scan->at < text->size) {
        char byte = text->data[scan->at];
        if (byte == ' ' || (byte >= '\t' && byte <= '\r')) {
            scan->at++;
        } else if (byte == '-' && scan->at + 1 < text->size && text->data[scan->at + 1] == '-') {
            struct token ignored;
            int level = long_bracket(text, scan->at + 2);
            if (level >= 0)
                scan->at = skip_long(text, scan->at + 2, level, &ignored);
            else
                while (scan->at < text->size && text->data[scan->at] != '\n' &&
                       text->data[scan->at] != '\r')
                    scan->at++;
        } else {
            return;
        }
    }
}

static void next(struct scanner *scan)
{
    skip_blanks(scan);
    const struct source_text *text = scan->text;
    struct token *token = &scan->token;
    *token = (struct token){TOKEN_OTHER, scan->at, scan->at, 0, 0};
    if (scan->at >= text->size) {
        token->kind = TOKEN_END;
        return;
    }
    char byte = text->data[scan->at];
    int level = long_bracket(text, scan->at);
    if (name_byte(byte)) {
        token->kind = byte >= '0' && byte <= '9' ? TOKEN_OTHER : TOKEN_NAME;
        while (scan->at < text->size && name_byte(text->data[scan->at]))
            scan->at++;
    } else if (byte == '"' || byte == '\'') {
        token->kind = TOKEN_STRING;
        token->text_start = ++scan->at;
        while (scan->at < text->size && text->data[scan->at] != byte)
            scan->at += text->data[scan->at] == '\\' ? 2 : 1;
        if (scan->at > text->size)
            scan->at = text->size;
        token->text_size = scan->at - token->text_start;
        scan->at += scan->at < text->size;
    } else if (level >= 0) {
        token->kind = TOKEN_STRING;
        scan->at = skip_long(text, scan->at, level, token);
    } else {
        scan->at++;
    }
    token->end = scan->at;
}

static bool is_mark(const struct scanner *scan, char mark)
{
    const struct token *token = &scan->token;
    return token->kind == TOKEN_OTHER && scan->text->data[token->start] == mark;
}

static bool is_word(const struct scanner *scan, const char *word)
{
    const struct token *token = &scan->token;
    size_t size = strlen(word);
    return token->kind == TOKEN_NAME && token->end - token->start == size &&
           memcmp(scan->text->data + token->start, word, size) == 0;
}

static struct locate_place place_of(const struct source_text *text, size_t offset)
{
    size_t low = 0, high = text->line_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (text->lines[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return (struct locate_place){(uint32_t)(low + 1), (uint32_t)(offset - text->lines[low] + 1)};
}

/* ---- The tables of a text ----------------------------------------------------------------------
 */

struct field {
    const char *key; /* into the text; NULL: positional */
    size_t key_size, position, offset;
    size_t table; /* what its value is, NONE when that is no table in the text */
};

/* A table constructor. Those of a text are in the order of their starts. */
struct source_table {
    size_t start;     /* of the expression whose end it is: `k` in `k.module "fwd" {` */
    const char *name; /* into the text: the string of that expression, NULL when it has none */
    size_t name_size;
    struct field *fields;
    size_t field_count;
};

enum {
    DEPTH_MAX = 250 /* Lua itself allows 200 */
};

static const size_t NONE = SIZE_MAX;

struct parser {
    struct scanner scan;
    struct source_tables *out;
    struct arena *arena;
    unsigned depth;
    size_t table_cap, root_start;
};

/* An expression such as `k.module "fwd"`, as far as the tokens have shown it. */
struct expression {
    bool open, after_name, named;
    bool mixed;     /* other things than names and strings stand in its open brackets */
    unsigned depth; /* open brackets */
    size_t start, name_start, name_size;
};

static bool is_keyword(const struct scanner *scan)
{
    static const char *const words[] = {
        "and",      "break",  "do",   "else", "elseif", "end",   "false", "for",
        "function", "goto",   "if",   "in",   "local",  "nil",   "not",   "or",
        "repeat",   "return", "then", "true", "until",  "while",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(scan, words[i]))
            return true;
    return false;
}

/* Takes the current token into the expression, or ends it. */
static void extend(struct expression *expression, const struct scanner *scan)
{
    const struct token *token = &scan->token;
    bool name = token->kind == TOKEN_NAME && !is_keyword(scan);
    bool opening = is_mark(scan, '('), closing = is_mark(scan, ')') && expression->depth;
    if (name && (!expression->open || (expression->after_name && !expression->depth))) {
        *expression = (struct expression){.open = true, .start = token->start};
    } else if (token->kind == TOKEN_STRING && expression->open) {
        expression->named = true;
        expression->name_start = token->text_start;
        expression->name_size = token->text_size;
    } else if (opening || closing) {
        expression->depth += opening;
        expression->depth -= closing;
        expression->mixed &= expression->depth > 0;
    } else if (name || is_mark(scan, '.') || expression->depth) {
        expression->named = false; /* what more follows makes another name of it */
        expression->mixed |= !name && !is_mark(scan, '.');
    } else {
        expression->open = false;
    }
    expression->after_name = name;
}

static void *grow(struct arena *arena, void *items, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return items;
    *cap = *cap ? *cap * 2 : 8;
    void *more = arena_alloc(arena, *cap, size);
    if (count)
        memcpy(more, items, count * size);
    return more;
}

static int nesting(const struct scanner *scan)
{
    static const char *const opening[] = {"function", "if", "do", "repeat"};
    if (is_mark(scan, '(') || is_mark(scan, '['))
        return 1;
    if (is_mark(scan, ')') || is_mark(scan, ']') || is_word(scan, "end") || is_word(scan, "until"))
        return -1;
    for (size_t i = 0; i < sizeof opening / sizeof *opening; i++)
        if (is_word(scan, opening[i]))
            return 1;
    return 0;
}

static void parse_fields(struct parser *parser, size_t table);

/* With the current token at '{': adds its table and moves past its '}'. */
static size_t parse_table(struct parser *parser, const struct expression *expression)
{
    struct source_tables *out = parser->out;
    const struct scanner *scan = &parser->scan;
    size_t index = out->count;
    bool whole = expression->open && !expression->mixed;
    out->tables =
        grow(parser->arena, out->tables, out->count, &parser->table_cap, sizeof *out->tables);
    out->tables[out->count++] = (struct source_table){
        .start = whole ? expression->start : scan->token.start,
        .name = whole && expression->named ? scan->text->data + expression->name_start : NULL,
        .name_size = expression->name_size,
    };
    if (out->tables[index].start == parser->root_start)
        out->root = index;
    parser->depth++;
    parse_fields(parser, index);
    parser->depth--;
    return index;
}

/* Moves over a value to the ',', ';' or '}' after it, or to the end of a text that is no value;
 * keeps the tables on the way. Returns the one that the value is. */
static size_t parse_value(struct parser *parser, bool in_table)
{
    struct scanner *scan = &parser->scan;
    struct expression expression = {0};
    size_t start = scan->token.start, found = NONE;
    int depth = 0;
    while (scan->token.kind != TOKEN_END) {
        if (in_table && depth <= 0 &&
            (is_mark(scan, ',') || is_mark(scan, ';') || is_mark(scan, '}')))
            break;
        if (is_mark(scan, '{') && parser->depth < DEPTH_MAX) {
            size_t table = parse_table(parser, &expression);
            if (parser->out->tables[table].start == start)
                found = table;
            expression.open = false;
            continue;
        }
        depth += nesting(scan);
        bool returns = !in_table && depth <= 0 && is_word(scan, "return");
        extend(&expression, scan);
        next(scan);
        if (returns)
            parser->root_start = scan->token.start;
    }
    return found;
}

/* At the key of a `NAME =` or `["NAME"] =` field: notes it and moves to the value. */
static void parse_key(struct scanner *scan, struct field *field)
{
    struct scanner ahead = *scan;
    bool bracket = is_mark(&ahead, '[');
    if (bracket)
        next(&ahead);
    struct token key = ahead.token;
    if (key.kind != (bracket ? TOKEN_STRING : TOKEN_NAME))
        return;
    next(&ahead);
    if (bracket) {
        if (!is_mark(&ahead, ']'))
            return;
        next(&ahead);
    }
    if (!is_mark(&ahead, '='))
        return;
    next(&ahead);
    if (is_mark(&ahead, '='))
        return; /* a comparison */
    field->key = scan->text->data + (bracket ? key.text_start : key.start);
    field->key_size = bracket ? key.text_size : key.end - key.start;
    *scan = ahead;
}

static void parse_fields(struct parser *parser, size_t table)
{
    struct scanner *scan = &parser->scan;
    struct field *fields = NULL;
    size_t count = 0, cap = 0, position = 0;
    next(scan);
    while (scan->token.kind != TOKEN_END && !is_mark(scan, '}')) {
        struct field field = {.offset = scan->token.start};
        parse_key(scan, &field);
        if (!field.key)
            field.position = ++position;
        field.table = parse_value(parser, true);
        fields = grow(parser->arena, fields, count, &cap, sizeof *fields);
        fields[count++] = field;
        if (is_mark(scan, ',') || is_mark(scan, ';'))
            next(scan);
    }
    next(scan);
    parser->out->tables[table].fields = fields;
    parser->out->tables[table].field_count = count;
}

static void parse_text(struct arena *arena, struct source_text *text)
{
    struct parser parser = {
        .scan = {.text = text}, .out = &text->tables, .arena = arena, .root_start = NONE};
    text->tables = (struct source_tables){.parsed = true, .root = NONE};
    if (text->size >= 3 && memcmp(text->data, "\xEF\xBB\xBF", 3) == 0)
        parser.scan.at = 3;
    next(&parser.scan);
    parse_value(&parser, false);
}

/* ---- Finding -----------------------------------------------------------------------------------
 */

/* The table whose expression starts on `line` and has the string `name`, else one there whose name
 * the text does not tell. */
static size_t find_table(const struct source_text *text, uint32_t line, const char *name)
{
    const struct source_tables *tables = &text->tables;
    size_t low = 0, high = tables->count, unnamed = NONE;
    if (line > text->line_count)
        return NONE;
    size_t from = text->lines[line - 1];
    size_t to = line < text->line_count ? text->lines[line] : text->size;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tables->tables[middle].start < from)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < tables->count && tables->tables[i].start < to; i++) {
        const struct source_table *table = &tables->tables[i];
        bool constructor = text->data[table->start] != '{';
        if (constructor && table->name && name && strlen(name) == table->name_size &&
            memcmp(name, table->name, table->name_size) == 0)
            return i;
        if (constructor && !table->name && unnamed == NONE)
            unnamed = i;
    }
    return unnamed;
}

static const struct field *find_field(const struct source_table *table,
                                      const struct locate_step *step)
{
    size_t size = step->name ? strlen(step->name) : 0;
    /* The n-th positional value is the n-th field or a later one. */
    for (size_t i = step->name ? 0 : step->index - 1; i < table->field_count; i++) {
        const struct field *field = &table->fields[i];
        if (step->name
                ? field->key && field->key_size == size && memcmp(field->key, step->name, size) == 0
                : field->position == step->index)
            return field;
    }
    return NULL;
}

struct locate_place locate(struct arena *arena, struct source_text *text, uint32_t line,
                           const char *name, const struct locate_step *steps, size_t count)
{
    if (!text->tables.parsed)
        parse_text(arena, text);
    size_t at = line ? find_table(text, line, name) : text->tables.root;
    if (at == NONE)
        return (struct locate_place){line, 0};
    size_t offset = text->tables.tables[at].start;
    for (size_t i = 0; i < count && at != NONE; i++) {
        const struct field *field = find_field(&text->tables.tables[at], &steps[i]);
        if (!field)
            break;
        offset = field->offset;
        at = field->table;
    }
    return place_of(text, offset);
}
