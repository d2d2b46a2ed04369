#include "cli/lookup_scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum {
    NEST_MAX = 64,        /* tokens between < and > of a call with type arguments */
    ARGUMENTS_MAX = 1024, /* tokens of one call's arguments: brackets that never close end there */
    TEXT_MAX = 400,       /* bytes of a call that are shown */
};

static bool is_char(const struct source *source, size_t index, char byte)
{
    return index < source->count && source->tokens[index].kind == SOURCE_CHAR &&
           source->tokens[index].byte == byte;
}

static bool is_word(const struct source *source, size_t index, const char *word)
{
    return index < source->count && source->tokens[index].kind == SOURCE_WORD &&
           strcmp(source->tokens[index].text, word) == 0;
}

static char opener(const struct source *source, size_t index)
{
    if (index >= source->count || source->tokens[index].kind != SOURCE_CHAR)
        return '\0';
    char byte = source->tokens[index].byte;
    return byte == '(' || byte == '[' || byte == '{' ? byte : '\0';
}

static char closer(const struct source *source, size_t index)
{
    char byte = source->tokens[index].kind == SOURCE_CHAR ? source->tokens[index].byte : '\0';
    return byte == ')' || byte == ']' || byte == '}' ? byte : '\0';
}

/* Behind a name: name::<T> of Rust, name<T> of C++. */
static size_t skip_types(const struct source *source, size_t index)
{
    size_t at = index, depth = 0;
    if (is_char(source, at, ':') && is_char(source, at + 1, ':'))
        at += 2;
    if (!is_char(source, at, '<'))
        return index;
    for (size_t end = at + NEST_MAX; at < end && at < source->count; at++) {
        depth += is_char(source, at, '<');
        depth -= is_char(source, at, '>');
        if (!depth)
            return at + 1;
    }
    return index;
}

/* The index of the bracket that opens the arguments; SIZE_MAX: it is no call. */
static size_t arguments(const struct source *source, size_t name)
{
    size_t at = skip_types(source, name + 1);
    if (source->language == SOURCE_RUST && is_char(source, at, '!') && opener(source, at + 1))
        return at + 1;
    return opener(source, at) == '(' ? at : SIZE_MAX;
}

/* ---- Arguments --------------------------------------------------------------------------------
 */

static bool string_suffix(const struct source *source, size_t index)
{
    const struct source_token *token = &source->tokens[index];
    return source->language == SOURCE_C && token->kind == SOURCE_WORD &&
           token->start == source->tokens[index - 1].end &&
           (strcmp(token->text, "s") == 0 || strcmp(token->text, "sv") == 0 ||
            token->text[0] == '_');
}

/* The value of an argument, the tokens from `at` to `end`: one string, or several side by side as
 * C and Python join them, perhaps called on (.as_ptr(), .encode()) or cast by Rust. NULL: it is not
 * literal. */
static const char *literal(const struct source *source, size_t at, size_t end, struct arena *arena)
{
    const char *value = NULL;
    if (source->language == SOURCE_PYTHON && end - at > 2 &&
        source->tokens[at].kind == SOURCE_WORD && is_char(source, at + 1, '='))
        at += 2;
    if (source->language == SOURCE_RUST && at < end && is_char(source, at, '&'))
        at++;
    for (; at < end && source->tokens[at].kind == SOURCE_STRING; at++) {
        const char *text = source->tokens[at].text;
        if (!text || (value && source->language == SOURCE_RUST))
            return NULL;
        value = value ? arena_printf(arena, "%s%s", value, text) : text;
        if (at + 1 < end && string_suffix(source, at + 1))
            at++;
    }
    while (value && at + 1 < end && is_char(source, at, '.') &&
           source->tokens[at + 1].kind == SOURCE_WORD) {
        size_t open = skip_types(source, at + 2);
        if (open + 2 > end || !is_char(source, open, '(') || !is_char(source, open + 1, ')'))
            return NULL;
        at = open + 2;
    }
    if (value && source->language == SOURCE_RUST && at < end && is_word(source, at, "as"))
        at = end;
    return at == end ? value : NULL;
}

/* Reads the arguments behind the bracket at `open`. Returns the index behind the closing one. */
static size_t read_arguments(const struct source *source, size_t open, struct arena *arena,
                             const char **out_module, const char **out_entry)
{
    const char *last = NULL;
    size_t depth = 1, at = open + 1, start = at;
    *out_module = *out_entry = NULL;
    size_t stop = source->count - open > ARGUMENTS_MAX ? open + ARGUMENTS_MAX : source->count;
    for (; at < stop && depth; at++) {
        bool comma = depth == 1 && is_char(source, at, ',');
        if (opener(source, at))
            depth++;
        else if (closer(source, at))
            depth--;
        if (!comma && depth)
            continue;
        const char *value = literal(source, start, at, arena);
        if (value && value[0] && last && last[0] && !*out_entry) {
            *out_module = last;
            *out_entry = value;
        }
        last = value;
        start = at + 1;
    }
    return at;
}

/* ---- Calls ------------------------------------------------------------------------------------
 */

/* Whether what stands before a name makes its brackets a declaration's: a type, but no keyword that
 * an expression follows. Only asked of brackets without literal strings in them. */
static bool declares(const struct source *source, size_t name)
{
    static const char *const before_call[] = {
        "return",    "else",  "do",    "case",   "throw",  "co_await", "co_yield",
        "co_return", "in",    "match", "if",     "while",  "and",      "or",
        "not",       "await", "yield", "lambda", "assert", "break"};
    size_t at = name - 1;
    if (!name)
        return false;
    if (is_word(source, at, "fn") || is_word(source, at, "def"))
        return true;
    if (source->language != SOURCE_C || source->tokens[name].directive)
        return false;
    while (at && (is_char(source, at, '*') || is_char(source, at, '&')))
        at--;
    if (is_char(source, at, '>'))
        return at && !is_char(source, at - 1, '-');
    if (source->tokens[at].kind != SOURCE_WORD)
        return false;
    for (size_t i = 0; i < sizeof before_call / sizeof *before_call; i++)
        if (is_word(source, at, before_call[i]))
            return false;
    return true;
}

/* The call's text on one line, each run of blanks one. */
static const char *call_text(struct lookup_scan *scan, const struct source *source, size_t first,
                             size_t end)
{
    size_t at = source->tokens[first].start, stop = source->tokens[end - 1].end;
    struct str text = {0};
    for (; at < stop && text.len < TEXT_MAX; at++) {
        bool blank = isspace((unsigned char)source->bytes[at]);
        if (!blank || (text.len && text.data[text.len - 1] != ' '))
            str_addc(&text, blank ? ' ' : source->bytes[at]);
    }
    const char *copy = arena_strndup(&scan->arena, str_text(&text), text.len);
    str_free(&text);
    return copy;
}

static bool wanted(const struct lookup_scan *scan, const struct source_token *token)
{
    for (size_t i = 0; token->kind == SOURCE_WORD && i < scan->name_count; i++)
        if (strcmp(scan->names[i], token->text) == 0)
            return true;
    return false;
}

static void add_call(struct lookup_scan *scan, struct lookup_call call)
{
    if (scan->count == scan->cap) {
        scan->cap = scan->cap ? scan->cap * 2 : 64;
        scan->calls = mem_resize(scan->calls, scan->cap, sizeof *scan->calls);
    }
    scan->calls[scan->count++] = call;
}

void lookup_scan(struct lookup_scan *scan, const char *file, enum source_language language,
                 const char *bytes, size_t size)
{
    struct source source;
    source_lex(language, bytes, size, &scan->arena, &source);
    for (size_t i = 0; i < source.count; i++) {
        size_t open = wanted(scan, &source.tokens[i]) ? arguments(&source, i) : SIZE_MAX;
        if (open == SIZE_MAX)
            continue;
        struct lookup_call call = {.file = file, .line = source.tokens[i].line};
        size_t end = read_arguments(&source, open, &scan->arena, &call.module, &call.entry);
        if (!call.entry && declares(&source, i))
            continue;
        if (!call.entry)
            call.text = call_text(scan, &source, i, end);
        add_call(scan, call);
    }
    source_free(&source);
}

void lookup_scan_free(struct lookup_scan *scan)
{
    free(scan->calls);
    arena_free(&scan->arena);
    *scan = (struct lookup_scan){0};
}
