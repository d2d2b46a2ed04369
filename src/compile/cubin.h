#ifndef COMPILE_CUBIN_H
#define COMPILE_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/mem.h"

#define CUBIN_UNKNOWN UINT32_MAX

/* What a cubin (CUDA's ELF) says of one kernel. */
struct cubin_entry {
    const char *name;
    uint32_t registers;      /* per thread */
    uint32_t stack_bytes;    /* per thread; CUBIN_UNKNOWN: the compiler cannot bound a recursion */
    uint32_t static_smem;    /* bytes, without the part the driver reserves */
    uint64_t code_bytes;     /* of its .text section */
    uint32_t max_threads[3]; /* of __launch_bounds__ or reqntid; 0: not said */
    uint64_t code_offset;    /* of the .text section: it and code_bytes are inside the cubin */
};

struct cubin {
    uint32_t arch;               /* 90 for sm_90 and sm_90a: the suffix is not in the file */
    struct cubin_entry *entries; /* sorted by name */
    size_t count;
};

/* Reads bytes[0..size), which may be hostile: every offset is checked. Both of CUDA's ELF versions
 * are read: ABI 7 (up to CUDA 12) and ABI 8 (CUDA 13). `name` is for messages.
 *
 * Static shared memory is the size of .nv.shared.ENTRY. From sm_90 on that section starts with the
 * 1024 bytes that the driver takes of every block, and cuobjdump's SHARED column shows them: it
 * says 1024 for a kernel that has none and 2224 for one with `__shared__ float s[300]`, where ptxas
 * says 1200. Here they are taken off. */
bool cubin_read(const char *name, const void *bytes, size_t size, struct arena *arena,
                struct cubin *out_cubin, struct diags *diags);

#endif
