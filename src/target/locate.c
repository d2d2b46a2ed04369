#include "target/locate.h"

#include <string.h>

void source_index(struct arena *arena, const char *data, size_t size, struct source_text *out)
{
    size_t count = 1;
    for (size_t i = 0; i < size; i++)
        count += data[i] == '\n' || data[i] == '\r';
    *out = (struct source_text){data, size, arena_alloc(arena, count, sizeof(size_t)), 1};
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

static bool is_string(const struct scanner *scan, const char *content)
{
    const struct token *token = &scan->token;
    return token->kind == TOKEN_STRING && token->text_size == strlen(content) &&
           memcmp(scan->text->data + token->text_start, content, token->text_size) == 0;
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

/* Skips to the end of the value that starts at the current token: the ',' or ';' after it or the
 * '}' that closes its table. */
static void skip_value(struct scanner *scan)
{
    unsigned depth = 0;
    for (; scan->token.kind != TOKEN_END; next(scan)) {
        if (!depth && (is_mark(scan, ',') || is_mark(scan, ';') || is_mark(scan, '}')))
            return;
        if (is_mark(scan, '{') || is_mark(scan, '(') || is_mark(scan, '['))
            depth++;
        else if (is_mark(scan, '}') || is_mark(scan, ')') || is_mark(scan, ']'))
            depth -= depth > 0;
        else if (is_word(scan, "function") || is_word(scan, "if") || is_word(scan, "do"))
            depth++; /* commas of a body belong to the body */
        else if (is_word(scan, "end"))
            depth -= depth > 0;
    }
}

/* At the key of a `NAME =` or `["NAME"] =` field: moves to its value and says whether it is the one
 * wanted. Leaves other tokens alone. */
static bool at_field(struct scanner *scan, const char *wanted, bool *out_match)
{
    struct scanner ahead = *scan;
    bool match = false;
    if (ahead.token.kind == TOKEN_NAME) {
        match = wanted && is_word(&ahead, wanted);
    } else if (is_mark(&ahead, '[')) {
        next(&ahead);
        match = wanted && is_string(&ahead, wanted);
        next(&ahead);
        if (!is_mark(&ahead, ']'))
            return false;
    } else {
        return false;
    }
    next(&ahead);
    if (!is_mark(&ahead, '='))
        return false;
    next(&ahead);
    if (is_mark(&ahead, '='))
        return false; /* a comparison */
    *scan = ahead;
    *out_match = match;
    return true;
}

/* With the scanner at the value of a step, moves to the '{' of the table that it is, through
 * `k.module "name"` and the like. */
static bool enter_table(struct scanner *scan)
{
    unsigned depth = 0;
    for (; scan->token.kind != TOKEN_END; next(scan)) {
        if (is_mark(scan, '{'))
            return true;
        if (is_mark(scan, '('))
            depth++;
        bool part = scan->token.kind == TOKEN_NAME || scan->token.kind == TOKEN_STRING ||
                    is_mark(scan, '.') || is_mark(scan, '(') || (is_mark(scan, ')') && depth);
        if (!part || is_word(scan, "function"))
            return false;
    }
    return false;
}

/* With the scanner at '{': moves to the value of the step; the place is that of its key, or of the
 * value when it has none. */
static bool find_step(struct scanner *scan, const struct locate_step *step, size_t *out_offset)
{
    size_t position = 0;
    next(scan);
    while (scan->token.kind != TOKEN_END && !is_mark(scan, '}')) {
        size_t start = scan->token.start;
        bool match = false;
        if (!at_field(scan, step->name, &match))
            match = !step->name && ++position == step->index;
        if (match) {
            *out_offset = start;
            return true;
        }
        skip_value(scan);
        if (is_mark(scan, ',') || is_mark(scan, ';'))
            next(scan);
    }
    return false;
}

/* Moves to what the file returns: after the last `return` outside of every block and bracket. */
static bool find_return(struct scanner *scan)
{
    static const char *const opening[] = {"function", "if", "do", "repeat"};
    struct scanner best = {0};
    unsigned depth = 0;
    for (next(scan); scan->token.kind != TOKEN_END; next(scan)) {
        bool open = is_mark(scan, '{') || is_mark(scan, '(');
        for (size_t i = 0; i < sizeof opening / sizeof *opening; i++)
            open |= is_word(scan, opening[i]);
        bool close = is_mark(scan, '}') || is_mark(scan, ')') || is_word(scan, "end") ||
                     is_word(scan, "until");
        depth += open;
        depth -= close && depth;
        if (!depth && is_word(scan, "return"))
            best = *scan;
    }
    if (!best.text)
        return false;
    *scan = best;
    next(scan);
    return true;
}

/* Moves to the start of the expression that is the constructor's call, from its line on: the one
 * with the string `name`, or without a name the one before the first brace. */
static bool find_constructor(struct scanner *scan, uint32_t line, const char *name)
{
    enum {
        TOKENS = 4096 /* a name stands near the start of its call */
    };
    if (line > scan->text->line_count)
        return false;
    scan->at = scan->text->lines[line - 1];
    next(scan);
    struct scanner start = *scan;
    bool chained = false, after_name = false;
    for (int i = 0; i < TOKENS && scan->token.kind != TOKEN_END; i++, next(scan)) {
        bool is_name = scan->token.kind == TOKEN_NAME;
        if (name ? is_string(scan, name) : is_mark(scan, '{')) {
            if (chained)
                *scan = start;
            return true;
        }
        bool part = is_name || is_mark(scan, '.') || is_mark(scan, '(');
        if (part && (!chained || (after_name && is_name)))
            start = *scan;
        chained = part;
        after_name = is_name;
    }
    return false;
}

struct locate_place locate(const struct source_text *text, uint32_t line, const char *name,
                           const struct locate_step *steps, size_t count)
{
    struct scanner scan = {.text = text};
    bool found = line ? find_constructor(&scan, line, name) : find_return(&scan);
    if (!found)
        return (struct locate_place){line, 0};
    size_t offset = scan.token.start;
    for (size_t i = 0; i < count; i++)
        if (!enter_table(&scan) || !find_step(&scan, &steps[i], &offset))
            break;
    return place_of(text, offset);
}
