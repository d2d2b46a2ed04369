#ifndef IMAGE_GROUPS_H
#define IMAGE_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/mem.h"
#include "base/str.h"

/* Which cubins share a zstd frame, and the frames. */

struct group_item {
    const void *bytes;
    size_t size; /* not 0 */
};

struct group {
    size_t first, count; /* positions in the grouping's order */
    uint64_t raw_size;
    void *packed; /* owned: one zstd frame */
    size_t packed_size;
};

struct grouping {
    size_t *order;        /* owned; indices of items, group after group */
    struct group *groups; /* owned */
    size_t count;
};

/* Puts items that resemble each other into groups of at most `cap` raw bytes; an item larger than
 * that is alone. Within a group the smaller items come first: a reader that stops decoding behind
 * the item it wants then decodes least. Depends on nothing but the items and their order. */
void groups_plan(const struct group_item *items, size_t count, size_t cap,
                 struct grouping *out_grouping);

/* Fills in `packed`, on as many threads as there are processors; the bytes do not depend on it. */
bool groups_pack(const struct group_item *items, struct grouping *grouping, struct diags *diags);

void groups_free(struct grouping *grouping);

#endif
