#ifndef IMAGE_BUNDLE_H
#define IMAGE_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/str.h"

/* An image that goes into a bundle. All borrowed. */
struct bundle_part {
    const char *path; /* for messages */
    const char *target, *arch;
    uint32_t compute_major, compute_minor, min_driver;
    const void *bytes; /* the whole image, found good */
    size_t size;
};

/* Writes the whole file's bytes, the same ones in whatever order the parts come. Errors: two parts
 * for one target or of one arch, a limit of the format passed. */
bool bundle_write(const struct bundle_part *parts, size_t count, struct str *out,
                  struct diags *diags);

#endif
