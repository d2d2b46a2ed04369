#ifndef CLI_SOURCE_STRING_H
#define CLI_SOURCE_STRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "cli/source_lex.h"

/* The bytes of a source, and strings in it. */

struct cursor {
    enum source_language language;
    const char *bytes;
    size_t size, at;
    uint32_t line;
};

/* The byte here and the one behind it, -1 past the end. In C and in Python a backslash before the
 * end of a line joins the two lines: neither is there. */
int cursor_peek(struct cursor *cursor);
int cursor_second(struct cursor *cursor);
/* Steps past it and returns it. */
int cursor_next(struct cursor *cursor);

/* Whether a string starts here, behind a word that may be its prefix ("R", "u8", "b", ...) or "".
 */
bool source_string_follows(struct cursor *cursor, const char *prefix);

/* Reads it, here, and adds its value. False when the value is no constant; the cursor is behind it
 * all the same. */
bool source_string(struct cursor *cursor, const char *prefix, struct str *out_value);

#endif
