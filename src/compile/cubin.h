#ifndef COMPILE_CUBIN_H
#define COMPILE_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/mem.h"

/* What a cubin (CUDA's ELF) says of one kernel. */
struct cubin_entry {
    const char *name;
    uint32_t registers;      /* per thread */
    uint32_t stack_bytes;    /* per thread */
    uint32_t static_smem;    /* bytes, without the part the driver reserves */
    uint64_t code_bytes;     /* of its .text section */
    uint32_t max_threads[3]; /* of __launch_bounds__ or reqntid; 0: not said */
};

struct cubin {
    struct cubin_entry *entries; /* sorted by name */
    size_t count;
};

/* Reads bytes[0..size), which may be hostile: every offset is checked. `name` is for messages. */
bool cubin_read(const char *name, const void *bytes, size_t size, struct arena *arena,
                struct cubin *out_cubin, struct diags *diags);

#endif
