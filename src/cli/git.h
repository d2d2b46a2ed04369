#ifndef CLI_GIT_H
#define CLI_GIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

/* The git state of a project root. */
struct git_state {
    const char *commit; /* in the arena; NULL: not a repository, no commit yet, or no git here */
    bool dirty; /* a tracked file differs from the commit, or a file of `used` is untracked */
    const char *problem; /* why there is no commit; in the arena */
};

/* Asks git about `root`; `used` are root-relative names of files that a build read. */
struct git_state git_query(const char *root, const char *const *used, size_t used_count,
                           struct arena *arena);

/* The files that the commit, and what is tracked, are read from; those that are not there as well.
 * In the arena. */
const char **git_files(const char *root, struct arena *arena, size_t *out_count);

#endif
