#ifndef CLI_FATBIN_H
#define CLI_FATBIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "cli/cli.h"

/* CUDA's own container of cubins for several archs, made by the toolkit's fatbinary. */

struct fatbin_member {
    const char *path; /* of the image that it is from, for messages */
    const char *arch; /* "sm_90a" */
    const void *cubin;
    size_t size;
};

/* Adds the fatbin's bytes. `cuda_dir` as for a build, may be NULL. Errors: no fatbinary, it fails,
 * two members of one arch. */
bool fatbin_make(struct cli *cli, const char *cuda_dir, const struct fatbin_member *members,
                 size_t count, struct str *out);

#endif
