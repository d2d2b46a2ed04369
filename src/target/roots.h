#ifndef TARGET_ROOTS_H
#define TARGET_ROOTS_H

#include "target/description.h"

/* Where sources and headers are looked for, all relative to the project root. */

/* The project root of a description, absolute: its folder, or that folder's parent when it is
 * called `targets`. `out_dir`: the same as the user would write it. NULL with an error when it does
 * not exist. */
const char *roots_find(const char *path, struct arena *arena, struct diags *diags,
                       const char **out_dir);

/* The root-relative path of a module's source: a bare name is looked for in
 * kernels/<declaring target>/common/, then in its parents', then in kernels/common/. NULL with an
 * error when it is nowhere. */
const char *roots_source(const struct declared_module *module, const char *root,
                         struct arena *arena, struct diags *diags);

/* The name in `folder` that is nearest to `name`, NULL when none is near. */
const char *roots_nearest(const char *folder, const char *name, struct arena *arena);

/* The include folders of a module: those of the list above that exist, then the declaring target's
 * `includes`, then the module's own. A folder of the last two that does not exist is an error. */
const char **roots_includes(const struct declared_module *module, const char *root,
                            struct arena *arena, struct diags *diags, size_t *out_count);

#endif
