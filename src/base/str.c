#include "base/str.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void reserve(struct str *str, size_t more)
{
    if (more > SIZE_MAX / 4 - str->len)
        BUG("string too long");
    size_t need = str->len + more + 1;
    if (need <= str->cap)
        return;
    size_t cap = str->cap ? str->cap : 64;
    while (cap < need)
        cap *= 2;
    str->data = mem_resize(str->data, cap, 1);
    str->cap = cap;
}

void str_add(struct str *str, const void *bytes, size_t size)
{
    reserve(str, size);
    if (size)
        memcpy(str->data + str->len, bytes, size);
    str->len += size;
    str->data[str->len] = '\0';
}

void str_adds(struct str *str, const char *text)
{
    str_add(str, text, strlen(text));
}

void str_addc(struct str *str, char byte)
{
    str_add(str, &byte, 1);
}

void str_addv(struct str *str, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0)
        BUG("format string refused by vsnprintf");
    reserve(str, (size_t)length);
    vsnprintf(str->data + str->len, (size_t)length + 1, format, again);
    va_end(again);
    str->len += (size_t)length;
}

void str_addf(struct str *str, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    str_addv(str, format, args);
    va_end(args);
}

size_t str_utf8(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    if (!size)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates and code points past U+10FFFF (Unicode 15, table 3-7). */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

void str_add_printable(struct str *str, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        unsigned char byte = (unsigned char)text[i];
        size_t length = str_utf8(text + i, size - i);
        /* U+0080..U+009F are control characters too: C2 80..C2 9F. */
        bool control = byte < 0x20 || byte == 0x7f ||
                       (byte == 0xc2 && length == 2 && (unsigned char)text[i + 1] < 0xa0);
        if (!length || control) {
            str_addf(str, "\\x%02X", byte);
            i++;
        } else {
            str_add(str, text + i, length);
            i += length;
        }
    }
}

void str_clear(struct str *str)
{
    str->len = 0;
    if (str->data)
        str->data[0] = '\0';
}

void str_free(struct str *str)
{
    free(str->data);
    *str = (struct str){0};
}

const char *str_text(const struct str *str)
{
    return str->data ? str->data : "";
}

bool str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && memcmp(text + length - tail, suffix, tail) == 0;
}

enum {
    NEAREST_MAX = 128
};

/* Edit distance with adjacent transpositions (optimal string alignment). */
static size_t distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t rows[3][NEAREST_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_size; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b_size];
}

const char *str_nearest(const char *word, const char *const *names, size_t count)
{
    size_t length = strlen(word);
    if (length > NEAREST_MAX)
        return NULL;
    const char *nearest = NULL;
    size_t best = (length < 6 ? 2 : length / 3) + 1;
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(names[i]);
        if (other > NEAREST_MAX)
            continue;
        size_t edits = distance(word, length, names[i], other);
        if (edits > 0 && edits < best && edits < length) {
            best = edits;
            nearest = names[i];
        }
    }
    return nearest;
}
