#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/report.h"
#include "cli/view.h"

/* Two images compared: the one comparison that diff and verify --rebuild print. */

/* What --fail-on calls a difference. */
enum compare_aspect {
    COMPARE_REMOVED, /* a module or an entry */
    COMPARE_ADDED,
    COMPARE_SPILLS,
    COMPARE_REGISTERS,
    COMPARE_SMEM, /* static or dynamic */
    COMPARE_STACK,
    COMPARE_CODE, /* the machine code's bytes, or its size */
    COMPARE_CONSTANTS,
    COMPARE_FLAGS,
    COMPARE_LEVERS,
    COMPARE_SIZE,  /* of the file */
    COMPARE_OTHER, /* no word of --fail-on: target, NVRTC, block, twin, ... */
    COMPARE_ASPECTS = COMPARE_OTHER,
};

/* By aspect: "removed", "added", ... */
extern const char *const compare_words[COMPARE_ASPECTS];

enum compare_kind {
    COMPARE_NOTHING, /* it is not there, or not known */
    COMPARE_COUNT,
    COMPARE_BYTES,
    COMPARE_TEXT,
};

struct compare_value {
    enum compare_kind kind;
    int64_t number;   /* COUNT, BYTES */
    const char *text; /* TEXT */
};

struct change {
    enum compare_aspect aspect;
    const char *module, *entry; /* NULL: of the image; of the module as a whole */
    const char
        *what; /* "registers", "constant TILE_M"; "module" and "entry": that is there or not */
    struct compare_value before, after;
};

/* Zero-initialise to start. */
struct comparison {
    struct arena arena;   /* owns texts that are made here; the rest belongs to the images */
    struct change *items; /* owned; the image's own first, then by module and entry */
    size_t count, cap;
};

/* Lists every difference between two images but that of stamps and of packing. An unreadable cubin
 * is an error: false. Both views stay open as long as the comparison is used. */
bool compare_images(struct view *before, struct view *after, struct comparison *out_comparison);
void compare_free(struct comparison *comparison);

/* Whether a figure grew; what is not there counts as 0. */
bool compare_grew(const struct change *change);

/* "entry 'alpha:scale': registers 128 to 130"; in the arena. */
char *compare_text(struct arena *arena, const struct change *change);

/* A side's value and what became of it, for people: "130", "1.5 KiB", "-"; "+2", "removed", "". In
 * the arena. */
const char *compare_value(struct arena *arena, const struct compare_value *value);
const char *compare_delta(struct arena *arena, const struct change *change);

/* Rows of a table with the columns name, before, after, change. */
void compare_print(const struct comparison *comparison, FILE *stream);
/* An array of objects; a new reference. */
json_t *compare_json(const struct comparison *comparison);

#endif
