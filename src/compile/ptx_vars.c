#include "compile/ptx_vars.h"

#include <ctype.h>
#include <string.h>

#include "base/str.h"

struct text {
    const char *at;
    size_t size;
};

struct list {
    struct text *items;
    size_t count, cap;
};

struct reader {
    struct arena *arena;
    const char *at, *end;
    struct ptx_variable *variables;
    size_t count, cap;
    struct list statements; /* of the function that is being read */
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static void push(struct arena *arena, struct list *list, struct text text)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 64;
        struct text *more = arena_alloc(arena, cap, sizeof *more);
        if (list->count)
            memcpy(more, list->items, list->count * sizeof *more);
        list->items = more;
        list->cap = cap;
    }
    list->items[list->count++] = text;
}

static bool same(struct text text, const char *name)
{
    return text.size == strlen(name) && memcmp(text.at, name, text.size) == 0;
}

static bool starts(struct text text, const char *prefix)
{
    size_t size = strlen(prefix);
    return text.size >= size && memcmp(text.at, prefix, size) == 0;
}

/* Takes the next token of names' characters from *text; size 0 at its end. */
static struct text next_name(struct text *text)
{
    while (text->size && !is_name(*text->at))
        text->at++, text->size--;
    struct text name = {text->at, 0};
    while (text->size && is_name(*text->at))
        text->at++, text->size--, name.size++;
    return name;
}

static bool mentions(struct text statement, struct text name)
{
    for (struct text found; (found = next_name(&statement)).size;)
        if (found.size == name.size && memcmp(found.at, name.at, name.size) == 0)
            return true;
    return false;
}

/* ---- One variable in one function -------------------------------------------------------------
 */

/* By the start of the opcode: what only reads through an address, and what only computes. */
static const char *const reading[] = {"ld.", "ldu.", "prefetch", "setp.", "isspacep."};
static const char *const computing[] = {"mov.", "cvta.", "add.", "sub.",  "mad.", "mul.",  "and.",
                                        "or.",  "shl.",  "shr.", "selp.", "cvt.", "lop3.", "min.",
                                        "max.", "bfi.",  "bfe.", "xor.",  "not.", "shf.",  "prmt."};

static bool starts_any(struct text text, const char *const *prefixes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (starts(text, prefixes[i]))
            return true;
    return false;
}

static struct text opcode_of(struct text statement, struct text *out_operands)
{
    struct text rest = statement, name = next_name(&rest);
    if (statement.size && *statement.at == '@')
        name = next_name(&rest);
    *out_operands = rest;
    return name;
}

static bool touches(struct text operands, const struct list *tainted)
{
    for (struct text name; (name = next_name(&operands)).size;)
        for (size_t i = 0; i < tainted->count; i++)
            if (tainted->items[i].size == name.size &&
                memcmp(tainted->items[i].at, name.at, name.size) == 0)
                return true;
    return false;
}

/* Follows the variable's address from register to register; whatever is not known to read counts
 * as writing. */
static bool is_written(struct reader *reader, const char *name)
{
    struct arena arena = {0};
    struct list tainted = {0};
    push(&arena, &tainted, (struct text){name, strlen(name)});
    bool written = false, more = true;
    while (more && !written) {
        more = false;
        for (size_t i = 0; i < reader->statements.count && !written; i++) {
            struct text operands, opcode = opcode_of(reader->statements.items[i], &operands);
            if (!touches(operands, &tainted) ||
                starts_any(opcode, reading, sizeof reading / sizeof *reading))
                continue;
            struct text rest = operands, target = next_name(&rest);
            if (!starts_any(opcode, computing, sizeof computing / sizeof *computing)) {
                written = true;
            } else if (touches(rest, &tainted) && !touches(target, &tainted)) {
                push(&arena, &tainted, target);
                more = true;
            }
        }
    }
    arena_free(&arena);
    return written;
}

static void end_function(struct reader *reader, const char *kernel)
{
    for (size_t v = 0; v < reader->count; v++) {
        struct ptx_variable *variable = &reader->variables[v];
        struct text name = {variable->name, strlen(variable->name)};
        bool used = false;
        for (size_t i = 0; i < reader->statements.count && !used; i++)
            used = mentions(reader->statements.items[i], name);
        if (!used)
            continue;
        variable->written |= is_written(reader, variable->name);
        variable->in_function |= !kernel;
        if (!kernel)
            continue;
        const char **users = arena_alloc(reader->arena, variable->user_count + 1, sizeof *users);
        if (variable->user_count)
            memcpy(users, variable->users, variable->user_count * sizeof *users);
        users[variable->user_count++] = kernel;
        variable->users = users;
    }
    reader->statements = (struct list){0};
}

/* ---- The text ---------------------------------------------------------------------------------
 */

static void add_variable(struct reader *reader, struct text declaration)
{
    /* ".visible .global .align 4 .b8 table[16] = {...}": the last name before '[', '=' or the end.
     */
    struct text name = {0}, rest = declaration;
    rest.size = strcspn(declaration.at, "[=;");
    for (struct text found; (found = next_name(&rest)).size;)
        name = found;
    if (!name.size || *name.at == '$' || starts(name, "__unnamed_") ||
        mentions(declaration, (struct text){".extern", 7}))
        return;
    if (reader->count == reader->cap) {
        size_t cap = reader->cap ? reader->cap * 2 : 16;
        struct ptx_variable *more = arena_alloc(reader->arena, cap, sizeof *more);
        if (reader->count)
            memcpy(more, reader->variables, reader->count * sizeof *more);
        reader->variables = more;
        reader->cap = cap;
    }
    reader->variables[reader->count++] =
        (struct ptx_variable){.name = arena_strndup(reader->arena, name.at, name.size)};
}

/* The name behind ".entry", NULL when the header is another function's. */
static const char *kernel_of(struct reader *reader, struct text header)
{
    for (struct text name; (name = next_name(&header)).size;)
        if (same(name, ".entry")) {
            name = next_name(&header);
            return arena_strndup(reader->arena, name.at, name.size);
        }
    return NULL;
}

static void skip_braces(struct reader *reader)
{
    for (int depth = 0; reader->at < reader->end; reader->at++) {
        depth += (*reader->at == '{') - (*reader->at == '}');
        if (depth == 0 && *reader->at == '}')
            return;
    }
}

/* Comments become blanks, and lines of their own that no ';' ends vanish. */
static char *cleaned(struct arena *arena, const char *ptx, size_t size)
{
    char *text = arena_strndup(arena, ptx, size);
    for (char *line = text, *next; *line; line = next) {
        char *end = strchrnul(line, '\n'), *start = line, *comment;
        next = *end ? end + 1 : end;
        if ((comment = memmem(line, (size_t)(end - line), "//", 2)))
            memset(comment, ' ', (size_t)(end - comment));
        while (start < end && isspace((unsigned char)*start))
            start++;
        static const char *const bare[] = {".loc", ".file", ".version", ".target", ".address_size"};
        for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
            if (strncmp(start, bare[i], strlen(bare[i])) == 0)
                memset(start, ' ', (size_t)(end - start));
    }
    return text;
}

static struct text trimmed(const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from))
        from++;
    return (struct text){from, (size_t)(to - from)};
}

static bool is_label(struct text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!is_name(text.at[i]) || text.at[i] == '.')
            return false;
    return text.size > 0;
}

struct ptx_variable *ptx_variables(const char *ptx, size_t size, struct arena *arena,
                                   size_t *out_count)
{
    struct reader reader = {.arena = arena};
    const char *from = cleaned(arena, ptx, size), *kernel = NULL;
    int depth = 0;
    reader.at = from;
    reader.end = from + strlen(from);
    for (; reader.at < reader.end; reader.at++) {
        char c = *reader.at;
        if (c != ';' && c != '{' && c != '}' && c != ':')
            continue;
        struct text text = trimmed(from, reader.at);
        bool global = !depth && mentions(text, (struct text){".global", 7});
        bool header = !depth && (mentions(text, (struct text){".entry", 6}) ||
                                 mentions(text, (struct text){".func", 5}));
        if (c == '{' && header) {
            kernel = kernel_of(&reader, text);
            depth = 1;
        } else if (c == '{' && !depth) {
            skip_braces(&reader);
            if (global)
                continue;
        } else if (c == '{' && !text.size) {
            depth++;
        } else if (c == '}' && !text.size) {
            depth -= depth > 0;
            if (!depth)
                end_function(&reader, kernel);
        } else if (c == ';' && global) {
            add_variable(&reader, text);
        } else if (c == ';' && depth) {
            push(arena, &reader.statements, text);
        } else if (c != ';' && !(c == ':' && is_label(text))) {
            continue;
        }
        from = reader.at + 1;
    }
    *out_count = reader.count;
    return reader.variables;
}
