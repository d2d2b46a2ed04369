#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* What this machine gives a build. */

/* Cores that this process may run on, at least 1. */
unsigned machine_cores(void);

/* Bytes of memory that a build may use: KPACK_MEM ("8G", "512M", plain bytes) when set, else what
 * the system says is available now, within this process's cgroup; 0: unknown. False when KPACK_MEM
 * is no size, or none at all. */
bool machine_memory(uint64_t *out_bytes);

/* Seconds since some fixed point. */
double machine_now(void);

/* A size such as "8G", "512M", "1024": binary suffixes K, M, G, T. False when it is none. */
bool machine_parse_size(const char *text, uint64_t *out_bytes);

#endif
