#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"

/* Guards of the files that commands write, so that a slip of a name destroys neither a source nor
 * another output. Each adds an error and returns false when it refuses. */

/* How one kind of output is known. */
struct output_kind {
    const char *what;   /* for people: "an image" */
    const char *ending; /* a file of such a name may be replaced whatever it holds; NULL: none */
    const char *mark;   /* and so may one whose bytes begin so (at most 64), or an empty one; NULL:
                         * no bytes say it */
};

extern const struct output_kind output_image, output_sidecar, output_cubin, output_fatbin,
    output_json, output_trace, output_object;

/* Whether what stands at `path`, if anything, is of the kind that is to be written there. */
bool output_replaces(const char *path, const struct output_kind *kind, struct diags *diags);

/* Whether two paths lead to the same file, existing or not. */
bool output_same(const char *a, const char *b);

/* Whether none of the images that are read would be written over. */
bool output_spares(const char *path, const char *const *images, size_t count, struct diags *diags);

/* Whether no two of the paths lead to the same file. */
bool outputs_apart(const char *const *paths, size_t count, struct diags *diags);

#endif
