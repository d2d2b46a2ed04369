#ifndef COMPILE_NVRTC_LOG_H
#define COMPILE_NVRTC_LOG_H

#include <stddef.h>

#include "base/diag.h"
#include "compile/cuda.h"

/* Adds what NVRTC's program log says (without ptxas's resource lines) as diagnostics: place,
 * message, and, behind the first line, everything that NVRTC prints with it, such as the template
 * instantiations on the way. Names in the log are seen from the project root; the places added can
 * be read from the current folder; what has no place, such as an option that NVRTC refuses, stands
 * at `place`. Lines of no known form become one note. `cuda` may be NULL. Returns how many errors
 * were added. */
size_t nvrtc_log_add(const char *log, const char *root, const struct cuda *cuda, struct loc place,
                     struct diags *diags);

#endif
