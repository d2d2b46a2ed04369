#ifndef COMPILE_PTXAS_LOG_H
#define COMPILE_PTXAS_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"

/* What `--ptxas-options=-v` says of one entry. */
struct ptxas_entry {
    const char *name; /* as the cubin's symbol */
    uint32_t registers, barriers, stack_bytes, smem_bytes;
    /* Of the entry and of the functions that ptxas compiled with it and did not inline. */
    uint32_t spill_store_bytes, spill_load_bytes;
};

struct ptxas_log {
    struct ptxas_entry *entries; /* in the log's order */
    size_t count;
};

/* Takes ptxas's resource lines out of a program log, which may be anything; every other line goes
 * to `out_rest` as it is. */
void ptxas_log_read(const char *log, struct arena *arena, struct ptxas_log *out_log,
                    struct str *out_rest);

#endif
