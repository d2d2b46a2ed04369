#ifndef BENCH_IMAGE_H
#define BENCH_IMAGE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes of an image with `modules` modules of `entries` entries each and one small cubin per
 * module, named as real kernels are; from the tool's own writer. free() them. NULL on failure. */
void *bench_image(size_t modules, size_t entries, size_t *out_size);

#ifdef __cplusplus
}
#endif

#endif
