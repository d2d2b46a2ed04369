#ifndef COMPILE_SCAN_H
#define COMPILE_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

/* For an NVRTC whose reading of files cannot be watched: what a compile may have read, from the
 * text alone. Too much rather than too little: conditions and comments are not heeded, and a name
 * in __has_include counts. */

/* Whether the text has an #include at all. */
bool scan_has_includes(const char *text);

/* Reads the source, and whatever it may include, through the file layer, which records it, and
 * what is tried in vain, by the names that a watched compile would use. Needs layer_start. False
 * when a name is known to the preprocessor alone, as in `#include MACRO`. */
bool scan_includes(const char *source, const char *const *options, size_t option_count);

/* The options with CUDA's folders as they lie on the disk, which such an NVRTC can read; the
 * built-in headers, which lie nowhere, are left out. */
const char **scan_real_options(const char *const *options, size_t count,
                               const char *const *cuda_folders, size_t folder_count,
                               struct arena *arena, size_t *out_count);

#endif
