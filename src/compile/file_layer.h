#ifndef COMPILE_FILE_LAYER_H
#define COMPILE_FILE_LAYER_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"
#include "compile/compile.h"

/* What NVRTC sees of the file system. The executable exports fopen and its kin, which NVRTC's calls
 * then reach; between layer_start and layer_stop the thread's calls go through here:
 *
 *   name given to NVRTC            what it reads
 *   relative, COMPILE_CWD/...      the file under the project root (the current folder)
 *   COMPILE_CUDA_ROOT/...          the first of CUDA's header folders that has it
 *   COMPILE_HEADERS_ROOT/...       the built-in C headers
 *   any other absolute name        that file
 *
 * Only regular files exist, nothing can be written, times are zero and the current folder is
 * COMPILE_CWD, so that equal inputs give equal cubins on every machine. Every name asked for is
 * kept. */

struct layer_log {
    struct compile_input *opened;    /* owned; in order, each name once */
    struct layer_content **contents; /* owned; what was read of opened[i] */
    size_t opened_count, opened_cap;
    const char **seen; /* owned: found by a stat; what of it was not opened is read at the end */
    size_t seen_count, seen_cap;
    const char **missed; /* owned; in order, may repeat; what was refused is missed too */
    size_t missed_count, missed_cap;
    const char **refused; /* owned: names that exist and cannot be read as files */
    size_t refused_count, refused_cap;
    size_t calls;       /* of NVRTC to stat: none means that it does not go through here */
    struct arena arena; /* owns the names */
};

/* CUDA's header folders, kept by reference for all later compiles. */
void layer_set_cuda(const char *const *folders, size_t count);

/* The bytes of a file as NVRTC would get them, recorded like its own reads; they live as long as
 * the log. Needs layer_start. Returns 0 or an errno. */
int layer_read(const char *name, const struct str **out);

void layer_start(struct layer_log *log);
void layer_stop(void);
void layer_free(struct layer_log *log);

#endif
