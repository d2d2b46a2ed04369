#ifndef IMAGE_SIMILAR_H
#define IMAGE_SIMILAR_H

#include <stddef.h>
#include <stdint.h>

#include "image/groups.h"

/* Clusters of items that resemble each other, `cap` raw bytes at most each (an item larger than
 * that is alone). Fills out_cluster[0..count) with numbers from 0 on and returns how many there
 * are. Depends on nothing but the items and their order. */
size_t similar_clusters(const struct group_item *items, size_t count, size_t cap,
                        size_t *out_cluster);

#endif
