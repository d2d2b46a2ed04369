#ifndef BASE_RUN_H
#define BASE_RUN_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/str.h"

/* Other programs, run to their end. */

/* The file that PATH names first for a program, in the arena; NULL when there is none. */
const char *run_find(struct arena *arena, const char *name);

struct run_output {
    struct str out, error; /* owned */
};

/* Runs argv[0] (a path) without input and keeps what it writes, or why it could not be run, or how
 * it ended when it wrote no error. Whether it exited with status 0. */
bool run_program(const char *const argv[], struct run_output *output);
void run_free(struct run_output *output);

#endif
