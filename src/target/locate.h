#ifndef TARGET_LOCATE_H
#define TARGET_LOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

/* Finds where a field of a table stands in the text of a Lua file, by tokens alone. */

/* The table constructors of a text. */
struct source_tables {
    bool parsed;
    struct source_table *tables;
    size_t count, root; /* root: the one that the file returns, SIZE_MAX when it returns none */
};

struct source_text {
    const char *data;
    size_t size;
    size_t *lines; /* offset at which each line starts */
    size_t line_count;
    struct source_tables tables; /* of a text that Lua has parsed; filled by the first locate() */
};

/* Indexes the lines of a text as Lua counts them; `data` is borrowed. */
void source_index(struct arena *arena, const char *data, size_t size, struct source_text *out);

/* One step into a table: a field by name, or the n-th positional value (name NULL). */
struct locate_step {
    const char *name;
    size_t index; /* 1-based */
};

struct locate_place {
    uint32_t line, col; /* 1-based; col 0: not found in the text */
};

/* Where steps[0..count) lead to from the table constructor that starts on `line`: `name` is the
 * string before its brace ("fwd" in `k.module "fwd" {`), NULL when there is none. Line 0: the table
 * that the file returns. Stops at the deepest step that the text shows. */
struct locate_place locate(struct arena *arena, struct source_text *text, uint32_t line,
                           const char *name, const struct locate_step *steps, size_t count);

#endif
