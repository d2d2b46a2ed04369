#ifndef CLI_REBUILD_H
#define CLI_REBUILD_H

#include <stdbool.h>

#include "cli/compare.h"
#include "cli/view.h"

/* An image beside a fresh build of its target. */

struct rebuild {
    struct view fresh;  /* of the new image, while it is open */
    const char *folder; /* where the new image is; in the arena of cli; NULL: nowhere */
    const char *path;
    bool same;                    /* byte for byte */
    struct comparison comparison; /* of the image with the new one; empty when they are the same */
};

/* Builds the target without the cache, into a folder of its own under TMPDIR, with the image's
 * stamp, and compares. False with errors when that cannot be done. The caller calls rebuild_end in
 * both cases, and build_end after that. */
bool rebuild_compare(struct view *view, const char *target, struct rebuild *out_rebuild);
void rebuild_end(struct rebuild *rebuild);

#endif
