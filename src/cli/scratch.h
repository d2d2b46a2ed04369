#ifndef CLI_SCRATCH_H
#define CLI_SCRATCH_H

#include <stdbool.h>

#include "cli/cli.h"

/* A folder of the command's own under TMPDIR, for files that nobody else should see. */

/* In the arena of cli; NULL with an error. */
const char *scratch_make(struct cli *cli, const char *purpose);

/* Removes the folder and the files in it. */
void scratch_remove(const char *folder);

#endif
