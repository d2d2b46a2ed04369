#include "cli/source_lex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/source_string.h"

enum source_language source_language_of(const char *path)
{
    static const struct {
        const char *ending;
        enum source_language language;
    } known[] = {
        {".c", SOURCE_C},       {".h", SOURCE_C},        {".cc", SOURCE_C},  {".cpp", SOURCE_C},
        {".cxx", SOURCE_C},     {".hh", SOURCE_C},       {".hpp", SOURCE_C}, {".hxx", SOURCE_C},
        {".inl", SOURCE_C},     {".cu", SOURCE_C},       {".cuh", SOURCE_C}, {".rs", SOURCE_RUST},
        {".py", SOURCE_PYTHON}, {".pyi", SOURCE_PYTHON},
    };
    const char *ending = strrchr(path_base(path), '.');
    for (size_t i = 0; ending && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].ending, ending) == 0)
            return known[i].language;
    return SOURCE_NONE;
}

struct lexer {
    struct source *out;
    struct arena *arena;
    struct cursor cursor;
    bool directive;
    bool line_start; /* nothing but blanks so far on this line */
};

static struct source_token *add(struct lexer *lexer, enum source_kind kind, uint32_t line,
                                size_t start)
{
    struct source *out = lexer->out;
    if (out->count == out->cap) {
        out->cap = out->cap ? out->cap * 2 : 256;
        out->tokens = mem_resize(out->tokens, out->cap, sizeof *out->tokens);
    }
    struct source_token *token = &out->tokens[out->count++];
    *token = (struct source_token){
        .kind = kind,
        .directive = lexer->directive,
        .line = line,
        .start = start,
        .end = lexer->cursor.at,
    };
    lexer->line_start = false;
    return token;
}

static bool word_start(int byte)
{
    return isalpha(byte) || byte == '_' || byte == '$' || byte >= 0x80;
}

static bool word_part(int byte)
{
    return word_start(byte) || isdigit(byte);
}

/* ---- Comments, numbers, characters ------------------------------------------------------------
 */

static void skip_line(struct cursor *cursor)
{
    while (cursor_peek(cursor) != -1 && cursor_peek(cursor) != '\n')
        cursor_next(cursor);
}

/* Behind the opening; in Rust comments nest. */
static void skip_block(struct cursor *cursor)
{
    unsigned depth = 1;
    int last = 0, byte;
    while (depth && (byte = cursor_next(cursor)) != -1) {
        if (last == '*' && byte == '/') {
            depth--;
            byte = 0;
        } else if (cursor->language == SOURCE_RUST && last == '/' && byte == '*') {
            depth++;
            byte = 0;
        }
        last = byte;
    }
}

static bool skip_comment(struct cursor *cursor)
{
    int byte = cursor_peek(cursor);
    if (cursor->language == SOURCE_PYTHON) {
        if (byte != '#')
            return false;
        skip_line(cursor);
        return true;
    }
    if (byte != '/' || (cursor_second(cursor) != '/' && cursor_second(cursor) != '*'))
        return false;
    cursor_next(cursor);
    if (cursor_next(cursor) == '/')
        skip_line(cursor);
    else
        skip_block(cursor);
    return true;
}

/* C's pp-number, which the others' numbers resemble: an exponent may have a sign, and ' separates
 * digits. */
static void skip_number(struct cursor *cursor)
{
    for (int last = 0, byte; (byte = cursor_peek(cursor)) != -1; last = byte) {
        bool sign = (byte == '+' || byte == '-') && strchr("eEpP", last) && last;
        bool separator =
            byte == '\'' && cursor->language == SOURCE_C && word_part(cursor_second(cursor));
        bool dot =
            byte == '.' && (cursor->language != SOURCE_RUST || isdigit(cursor_second(cursor)));
        if (!word_part(byte) && !sign && !separator && !dot)
            return;
        cursor_next(cursor);
    }
}

/* 'x' and '\n'; in Rust a lifetime, 'name, is none. A lone quote, as in the text of an #error, ends
 * with its line. */
static void skip_character(struct cursor *cursor)
{
    cursor_next(cursor);
    if (cursor->language == SOURCE_RUST && cursor_peek(cursor) != '\\') {
        size_t length = str_utf8(cursor->bytes + cursor->at, cursor->size - cursor->at);
        size_t behind = cursor->at + (length ? length : 1);
        if (behind >= cursor->size || cursor->bytes[behind] != '\'')
            return;
    }
    for (int byte; (byte = cursor_peek(cursor)) != -1 && byte != '\n';) {
        cursor_next(cursor);
        if (byte == '\'')
            return;
        if (byte == '\\' && cursor_peek(cursor) != '\n')
            cursor_next(cursor);
    }
}

/* ---- Words and strings ------------------------------------------------------------------------
 */

static void add_string(struct lexer *lexer, const char *prefix, uint32_t line, size_t start)
{
    struct str value = {0};
    bool constant = source_string(&lexer->cursor, prefix, &value);
    while (value.len && lexer->cursor.language != SOURCE_PYTHON &&
           value.data[value.len - 1] == '\0')
        value.len--; /* what Rust code writes for C, b"name\0" */
    constant = constant && !memchr(str_text(&value), '\0', value.len);
    struct source_token *token = add(lexer, SOURCE_STRING, line, start);
    token->text = constant ? arena_strndup(lexer->arena, str_text(&value), value.len) : NULL;
    str_free(&value);
}

static void add_word(struct lexer *lexer)
{
    struct cursor *cursor = &lexer->cursor;
    struct str word = {0};
    uint32_t line = cursor->line;
    size_t start = cursor->at;
    while (word_part(cursor_peek(cursor)))
        str_addc(&word, (char)cursor_next(cursor));
    if (source_string_follows(cursor, str_text(&word))) {
        add_string(lexer, str_text(&word), line, start);
    } else {
        if (cursor->language == SOURCE_RUST && strcmp(str_text(&word), "r") == 0 &&
            cursor_peek(cursor) == '#' && word_start(cursor_second(cursor))) {
            cursor_next(cursor); /* r#name is the name */
            str_clear(&word);
            while (word_part(cursor_peek(cursor)))
                str_addc(&word, (char)cursor_next(cursor));
        }
        struct source_token *token = add(lexer, SOURCE_WORD, line, start);
        token->text = arena_strdup(lexer->arena, str_text(&word));
    }
    str_free(&word);
}

static void add_token(struct lexer *lexer)
{
    struct cursor *cursor = &lexer->cursor;
    int byte = cursor_peek(cursor);
    uint32_t line = cursor->line;
    size_t start = cursor->at;
    if (word_start(byte)) {
        add_word(lexer);
    } else if (source_string_follows(cursor, "")) {
        add_string(lexer, "", line, start);
    } else if (byte == '\'') {
        skip_character(cursor);
        add(lexer, SOURCE_OTHER, line, start);
    } else if (isdigit(byte) || (byte == '.' && isdigit(cursor_second(cursor)))) {
        skip_number(cursor);
        add(lexer, SOURCE_OTHER, line, start);
    } else {
        if (byte == '#' && lexer->line_start && cursor->language == SOURCE_C)
            lexer->directive = true;
        cursor_next(cursor);
        add(lexer, SOURCE_CHAR, line, start)->byte = (char)byte;
    }
}

void source_lex(enum source_language language, const char *bytes, size_t size, struct arena *arena,
                struct source *out_source)
{
    *out_source = (struct source){.language = language, .bytes = bytes, .size = size};
    struct lexer lexer = {
        .out = out_source,
        .arena = arena,
        .cursor = {.language = language, .bytes = bytes, .size = size, .line = 1},
        .line_start = true,
    };
    struct cursor *cursor = &lexer.cursor;
    for (int byte; (byte = cursor_peek(cursor)) != -1;) {
        if (byte == '\n')
            lexer.directive = false;
        if (isspace(byte)) {
            lexer.line_start = lexer.line_start || byte == '\n';
            cursor_next(cursor);
        } else if (!skip_comment(cursor)) {
            add_token(&lexer);
        }
    }
}

void source_free(struct source *source)
{
    free(source->tokens);
    *source = (struct source){0};
}
