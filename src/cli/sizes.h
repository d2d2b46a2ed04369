#ifndef CLI_SIZES_H
#define CLI_SIZES_H

#include <stdint.h>

#include "cli/view.h"

/* Who takes an image's bytes. Cubins share packed groups, and equal cubins are stored once, so what
 * a module takes of the file is an attribution: by raw size within a group, in equal parts among
 * those that share a cubin. Parts sum up to the whole, to the byte. */

struct size_part {
    const char *name; /* borrowed from the image; NULL: the rest of the module's cubins */
    uint32_t index;   /* of the module or the entry, in the image */
    uint64_t raw, packed;
};

struct size_module {
    struct size_part all;
    struct size_part *parts; /* the largest first, then by name; the rest, if any, last */
    uint32_t part_count;
};

struct sizes {
    struct arena arena;          /* owns the lists */
    struct size_module *modules; /* the largest packed first, then by name */
    uint32_t count;
    uint64_t index; /* bytes of the file that no group takes */
};

/* An entry's raw bytes are its code, or its whole cubin when it has one of its own. */
void sizes_of(const struct view *view, struct sizes *out_sizes);
void sizes_free(struct sizes *sizes);

#endif
