#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"

/* Where something stands in a source. `file` NULL: no place. line, col are 1-based; 0: unknown. */
struct loc {
    const char *file; /* borrowed; as the user would write it */
    uint32_t line, col;
};

enum diag_level {
    DIAG_ERROR,
    DIAG_WARNING,
    DIAG_NOTE,
};

struct diag {
    enum diag_level level;
    struct loc loc;
    const char *message; /* one line, lower case, no period; diag_add_text may add more lines */
};

/* The list that the tool's modules add to; only cli/ prints it. Zero-initialise to start. Not
 * thread-safe. Messages say where, what was found, what was expected and what to do. */
struct diags {
    struct arena arena; /* owns messages and file names */
    struct diag *items; /* owned */
    size_t count, cap, errors;
};

/* A newline in what is formatted comes from a name or a file, and is escaped: the message stays one
 * line. All other bytes that would drive a terminal are escaped when it is rendered. */
void diag_add(struct diags *diags, enum diag_level level, struct loc loc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A text that may have several lines, such as a compiler's. */
void diag_add_text(struct diags *diags, enum diag_level level, struct loc loc, const char *text);

/* An error with no place in a source. Always returns false: `return diag_error(...)`. */
bool diag_error(struct diags *diags, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns false, as diag_error does. */
bool diag_error_at(struct diags *diags, struct loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void diag_warning(struct diags *diags, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds "kpack: error: FILE:LINE:COL: message" lines from item `first` on, each followed by its
 * source line and a caret when the file can be read and the column is known. */
void diag_render(const struct diags *diags, size_t first, bool colour, struct str *out);

void diag_free(struct diags *diags);

#endif
