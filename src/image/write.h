#ifndef IMAGE_WRITE_H
#define IMAGE_WRITE_H

#include "image/image.h"

/* What a file may hold: the width of the format's fields, or less in tests. */
struct image_limits {
    uint64_t string_bytes;
    uint64_t records;     /* of any one section */
    uint64_t entries;     /* so that the hash table's count fits too */
    uint64_t cubin_bytes; /* of one cubin, and of a group */
};

/* image_write with limits of the caller's. */
bool image_write_limited(const struct image *image, size_t group_cap,
                         const struct image_limits *limits, struct str *out,
                         struct image_stats *out_stats, struct diags *diags);

#endif
