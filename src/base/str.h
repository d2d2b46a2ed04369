#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* A growable byte string on the heap. Zero-initialise to start; `data` is NULL until something is
 * added and NUL-terminated from then on (bytes may hold NULs of their own: use `len`). */
struct str {
    char *data; /* owned */
    size_t len, cap;
};

void str_add(struct str *str, const void *bytes, size_t size);
void str_adds(struct str *str, const char *text);
void str_addc(struct str *str, char byte);
void str_addf(struct str *str, const char *format, ...) __attribute__((format(printf, 2, 3)));
void str_addv(struct str *str, const char *format, va_list args);

/* Adds `text` with control bytes and bytes that are not UTF-8 written as \xNN, so that a hostile
 * name cannot drive a terminal. */
void str_add_printable(struct str *str, const char *text, size_t size);

/* Keeps the buffer, drops the bytes. */
void str_clear(struct str *str);
void str_free(struct str *str);

/* The text, "" when nothing was added. Borrowed, until the next change. */
const char *str_text(const struct str *str);

bool str_starts(const char *text, const char *prefix);
bool str_ends(const char *text, const char *suffix);

/* Bytes of the UTF-8 sequence at the start of text[0..size), 0 when it is not well formed. */
size_t str_utf8(const char *text, size_t size);

/* The candidate nearest to `word` by edit distance, the first of equally near ones, when near
 * enough to be worth suggesting: one edit at least; two at most, or a third of the word's length,
 * and fewer than it has letters. Else NULL. Borrowed from `names`. */
const char *str_nearest(const char *word, const char *const *names, size_t count);

#endif
