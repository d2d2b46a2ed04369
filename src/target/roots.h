#ifndef TARGET_ROOTS_H
#define TARGET_ROOTS_H

#include "target/description.h"

/* Where sources and headers are looked for, all relative to the project root. */

/* The project root of a description, absolute: its folder, or that folder's parent when it is
 * called `targets`. `out_dir`: the same as the user would write it. NULL with an error when it does
 * not exist. */
const char *roots_find(const char *path, struct arena *arena, struct diags *diags,
                       const char **out_dir);

/* Fills the paths of every module that a description itself declares; its parents are read by then.
 * A bare source name is looked for in kernels/<declaring target>/common/, then in its parents',
 * then in kernels/common/. The include folders are those of this list that exist, then the target's
 * `includes`, then the module's own. Adds an error for each source or folder that does not exist.
 */
void roots_resolve(struct description *description, const char *root, struct arena *arena,
                   struct diags *diags);

/* The name in `folder` that is nearest to `name`, NULL when none is near. */
const char *roots_nearest(const char *folder, const char *name, struct arena *arena);

#endif
