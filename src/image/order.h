#ifndef IMAGE_ORDER_H
#define IMAGE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/mem.h"
#include "image/image.h"

/* An image's lists in the one order that the file has, whatever order they came in. */

struct ordered_module {
    const struct image_module *in;
    const struct image_entry **entries;      /* by name */
    const struct image_constant **constants; /* by name */
    size_t *objects; /* indices into in->objects: by first entry, then by bytes */
    size_t *places;  /* the inverse */
};

struct ordered {
    struct ordered_module *modules;    /* by name */
    const struct image_lever **levers; /* by name */
    const struct image_absent **absents;
    size_t entry_count, object_count, constant_count, flag_count;
};

/* Sorts and checks. Every fault becomes an error: a name that is empty, used twice, not UTF-8 or
 * ambiguous, a module without cubins. All results live in the arena. */
bool order_image(const struct image *image, struct arena *arena, struct ordered *out_ordered,
                 struct diags *diags);

#endif
