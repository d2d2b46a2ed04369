#ifndef CLI_TWINS_H
#define CLI_TWINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/view.h"

/* Which of several images ships which twins of which parents. */

enum twin_state {
    TWIN_ABSENT, /* the image does not ship it */
    TWIN_SHIPPED,
    TWIN_POINTLESS, /* its machine code is its parent's, of the same image */
};

struct twin {
    const char *name;        /* "module:entry" */
    enum twin_state *states; /* by image */
    kpk_twin_bits *bits;     /* by image; NONE where it is absent, or a twin of nothing */
};

/* An entry that is no twin itself, or one that others are twins of. */
struct twin_parent {
    const char *name;
    bool *shipped;      /* by image */
    struct twin *twins; /* by name */
    size_t twin_count;
};

/* A constant that two images give different values. */
struct twin_constant {
    const char *module, *name;
    bool *present; /* by image: both the module and the constant are there */
    int64_t *values;
};

struct twins {
    struct arena arena;          /* owns all */
    struct twin_parent *parents; /* by name */
    size_t parent_count;
    struct twin_constant *constants; /* by module, then name */
    size_t constant_count;
    size_t pointless; /* twins, counted in each image */
};

/* False with errors when a cubin cannot be read. Names belong to the images, or to the arena. */
bool twins_of(struct view *views, size_t count, struct twins *out_twins);
void twins_free(struct twins *twins);

#endif
