#ifndef COMPILE_PTX_VARS_H
#define COMPILE_PTX_VARS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

/* A variable in global memory that linked PTX declares, and the kernels that use it. */
struct ptx_variable {
    const char *name;
    bool written;       /* or its address goes where we do not follow it */
    bool in_function;   /* used by a function that is no kernel: any kernel may call it */
    const char **users; /* kernels */
    size_t user_count;
};

/* Reads the PTX of nvJitLink; text for printf and assert is left out. In the arena. */
struct ptx_variable *ptx_variables(const char *ptx, size_t size, struct arena *arena,
                                   size_t *out_count);

#endif
