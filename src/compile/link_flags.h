#ifndef COMPILE_LINK_FLAGS_H
#define COMPILE_LINK_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

/* NVRTC's LTO-IR forgets the flags that decide how code is made of it, so nvJitLink must be given
 * them in its own words. Returns its options in the arena; or NULL, *out_unknown being the flag
 * that is neither for NVRTC's front end alone nor has a counterpart. */
const char **link_flags(const char *const *flags, size_t count, struct arena *arena,
                        size_t *out_count, const char **out_unknown);

#endif
