#include "cli/source_string.h"

#include <ctype.h>
#include <string.h>

/* ---- Bytes ------------------------------------------------------------------------------------
 */

static int raw_peek(const struct cursor *cursor)
{
    return cursor->at < cursor->size ? (unsigned char)cursor->bytes[cursor->at] : -1;
}

static int raw_next(struct cursor *cursor)
{
    int byte = raw_peek(cursor);
    cursor->at += byte != -1;
    cursor->line += byte == '\n';
    return byte;
}

static void skip_splices(struct cursor *cursor)
{
    if (cursor->language == SOURCE_RUST)
        return;
    while (raw_peek(cursor) == '\\') {
        size_t end = cursor->at + 1;
        if (end < cursor->size && cursor->bytes[end] == '\r')
            end++;
        if (end >= cursor->size || cursor->bytes[end] != '\n')
            return;
        cursor->at = end + 1;
        cursor->line++;
    }
}

int cursor_peek(struct cursor *cursor)
{
    skip_splices(cursor);
    return raw_peek(cursor);
}

int cursor_next(struct cursor *cursor)
{
    skip_splices(cursor);
    return raw_next(cursor);
}

int cursor_second(struct cursor *cursor)
{
    struct cursor ahead = *cursor;
    cursor_next(&ahead);
    return cursor_peek(&ahead);
}

/* ---- Escapes ----------------------------------------------------------------------------------
 */

static void add_code_point(struct str *out, uint32_t code)
{
    if (code < 0x80) {
        str_addc(out, (char)code);
    } else if (code < 0x800) {
        str_addc(out, (char)(0xc0 | code >> 6));
        str_addc(out, (char)(0x80 | (code & 0x3f)));
    } else if (code < 0x10000) {
        str_addc(out, (char)(0xe0 | code >> 12));
        str_addc(out, (char)(0x80 | (code >> 6 & 0x3f)));
        str_addc(out, (char)(0x80 | (code & 0x3f)));
    } else {
        str_addc(out, (char)(0xf0 | (code >> 18 & 7)));
        str_addc(out, (char)(0x80 | (code >> 12 & 0x3f)));
        str_addc(out, (char)(0x80 | (code >> 6 & 0x3f)));
        str_addc(out, (char)(0x80 | (code & 0x3f)));
    }
}

/* Up to `most` digits of a base. */
static uint32_t digits(struct cursor *cursor, uint32_t base, unsigned most)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < most; i++) {
        int byte = cursor_peek(cursor);
        uint32_t digit = isdigit(byte)    ? (uint32_t)byte - '0'
                         : isxdigit(byte) ? (uint32_t)tolower(byte) - 'a' + 10
                                          : base;
        if (digit >= base)
            break;
        value = value * base + digit;
        cursor_next(cursor);
    }
    return value;
}

static void unicode(struct cursor *cursor, unsigned count, struct str *out)
{
    if (cursor->language == SOURCE_RUST && cursor_peek(cursor) == '{') {
        cursor_next(cursor);
        add_code_point(out, digits(cursor, 16, 6));
        if (cursor_peek(cursor) == '}')
            cursor_next(cursor);
        return;
    }
    add_code_point(out, digits(cursor, 16, count));
}

/* Behind a backslash. False: an escape that names a character, which we do not look up. */
static bool escape(struct cursor *cursor, struct str *out)
{
    static const char letters[] = "abfnrtv", values[] = "\a\b\f\n\r\t\v";
    int byte = cursor_peek(cursor);
    if (byte >= '0' && byte <= '7' && cursor->language != SOURCE_RUST) {
        str_addc(out, (char)digits(cursor, 8, 3));
        return true;
    }
    cursor_next(cursor);
    const char *letter = byte > 0 ? strchr(letters, byte) : NULL;
    if (letter) {
        str_addc(out, values[letter - letters]);
    } else if (byte == '0') {
        str_addc(out, '\0');
    } else if (byte == 'x') {
        str_addc(out, (char)digits(cursor, 16, cursor->language == SOURCE_C ? 8 : 2));
    } else if (byte == 'u' || byte == 'U') {
        unicode(cursor, byte == 'u' ? 4 : 8, out);
    } else if (byte == 'N' && cursor->language == SOURCE_PYTHON) {
        return false;
    } else if (byte == '\n' && cursor->language == SOURCE_RUST) {
        while (isspace(cursor_peek(cursor)))
            cursor_next(cursor);
    } else if (byte != -1) {
        if (cursor->language == SOURCE_PYTHON && !strchr("\\'\"", byte))
            str_addc(out, '\\');
        str_addc(out, (char)byte);
    }
    return true;
}

/* ---- Strings ----------------------------------------------------------------------------------
 */

static bool among(const char *word, const char *const words[])
{
    for (size_t i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

static bool python_prefix(const char *prefix)
{
    size_t length = strlen(prefix);
    return length <= 2 && strspn(prefix, "rRbBuUfFtT") == length;
}

/* How many '#' stand here before a quote; -1: something else does. */
static int hashes(const struct cursor *cursor)
{
    size_t at = cursor->at;
    while (at < cursor->size && cursor->bytes[at] == '#')
        at++;
    return at < cursor->size && cursor->bytes[at] == '"' ? (int)(at - cursor->at) : -1;
}

bool source_string_follows(struct cursor *cursor, const char *prefix)
{
    static const char *const c[] = {"", "L", "u", "U", "u8", "R", "LR", "uR", "UR", "u8R", NULL};
    static const char *const rust[] = {"", "b", "c", NULL}, *const rust_raw[] = {"r", "br", "cr",
                                                                                 NULL};
    int byte = cursor_peek(cursor);
    switch (cursor->language) {
    case SOURCE_C:
        return byte == '"' && among(prefix, c);
    case SOURCE_RUST:
        return (byte == '"' && among(prefix, rust)) ||
               (among(prefix, rust_raw) && hashes(cursor) >= 0);
    case SOURCE_PYTHON:
        return (byte == '"' || byte == '\'') && python_prefix(prefix);
    case SOURCE_NONE:
        break;
    }
    return false;
}

/* Up to `closing`, byte for byte. */
static void raw_until(struct cursor *cursor, const char *closing, struct str *out)
{
    size_t length = strlen(closing);
    while (raw_peek(cursor) != -1) {
        if (cursor->size - cursor->at >= length &&
            memcmp(cursor->bytes + cursor->at, closing, length) == 0) {
            cursor->at += length;
            return;
        }
        str_addc(out, (char)raw_next(cursor));
    }
}

/* R"delimiter( ... )delimiter" and r##" ... "##: the opening up to and with `last` says how it
 * ends. */
static void raw_string(struct cursor *cursor, struct str *out)
{
    enum {
        DELIMITER_MAX = 16 /* of C++ */
    };
    struct str closing = {0};
    if (cursor->language == SOURCE_C) {
        raw_next(cursor);
        str_addc(&closing, ')');
        while (closing.len <= DELIMITER_MAX && raw_peek(cursor) != '(' && raw_peek(cursor) != -1)
            str_addc(&closing, (char)raw_next(cursor));
        raw_next(cursor);
        str_addc(&closing, '"');
    } else {
        str_addc(&closing, '"');
        while (raw_next(cursor) == '#')
            str_addc(&closing, '#');
    }
    raw_until(cursor, str_text(&closing), out);
    str_free(&closing);
}

/* "...", '...' and Python's triple quotes. */
static bool quoted(struct cursor *cursor, bool raw, struct str *out)
{
    bool constant = true;
    char quote = (char)cursor_next(cursor);
    bool triple = cursor->language == SOURCE_PYTHON && cursor_peek(cursor) == quote &&
                  cursor_second(cursor) == quote;
    bool lines = triple || cursor->language == SOURCE_RUST;
    if (triple)
        cursor->at += 2;
    for (int byte; (byte = cursor_peek(cursor)) != -1;) {
        if (byte == '\n' && !lines)
            return constant; /* it has no end */
        cursor_next(cursor);
        if (byte == quote && !triple)
            return constant;
        if (byte == quote && cursor_peek(cursor) == quote && cursor_second(cursor) == quote) {
            cursor->at += 2;
            return constant;
        }
        if (byte == '\\' && raw) {
            str_addc(out, '\\');
            if (cursor_peek(cursor) != -1)
                str_addc(out, (char)cursor_next(cursor));
        } else if (byte == '\\') {
            constant = escape(cursor, out) && constant;
        } else {
            str_addc(out, (char)byte);
        }
    }
    return constant;
}

bool source_string(struct cursor *cursor, const char *prefix, struct str *out_value)
{
    bool raw = strpbrk(prefix, "rR") != NULL;
    if (raw && cursor->language != SOURCE_PYTHON) {
        raw_string(cursor, out_value);
        return true;
    }
    bool constant = quoted(cursor, raw, out_value);
    bool fields = cursor->language == SOURCE_PYTHON && strpbrk(prefix, "fFtT");
    return constant && !(fields && strpbrk(str_text(out_value), "{}"));
}
