#ifndef COMPILE_CUDA_H
#define COMPILE_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"
#include "base/mem.h"
#include "base/str.h"

/* Where CUDA's compiler libraries and headers are. All strings live in the arena. */
struct cuda {
    const char *dir;       /* the folder that held them, as found */
    const char *found_by;  /* "--cuda", "CUDA_HOME", "CUDA_PATH", "the usual folders", "out/cuda" */
    const char *nvrtc;     /* path of libnvrtc.so.N; NULL: none found */
    const char *nvjitlink; /* path of libnvJitLink.so.N; NULL: none found (it is optional) */
    const char **includes; /* absolute folders of headers, laid over one another: the first wins */
    size_t include_count;
    const char **tried; /* what was looked at, in order, each "PLACE: what was found" */
    size_t tried_count;
};

/* Looks in `explicit_dir` (may be NULL), CUDA_HOME, CUDA_PATH, the usual folders (/usr/local/cuda,
 * /usr/local/cuda-N, /opt/cuda, /usr/lib/cuda) and `out/cuda` under `root` and beside the
 * executable; each may be a toolkit or a folder of unpacked NVIDIA wheels. An explicit folder, or
 * one named by a variable, that holds no NVRTC is an error that names it; nothing anywhere is an
 * error that says what to install. On false, out_cuda->tried says what was looked at. */
bool cuda_find(const char *explicit_dir, const char *root, struct arena *arena,
               struct cuda *out_cuda, struct diags *diags);

/* What an NVRTC library says of itself. */
struct nvrtc_info {
    int major, minor;
    int archs[64]; /* 90 for sm_90 and sm_90a */
    size_t arch_count;
};

/* Opens the library in this process and asks it. */
bool nvrtc_query(const char *path, struct nvrtc_info *out_info, struct diags *diags);

/* Adds the archs that it knows, "sm_75 sm_90[a] sm_100[af]", by the rule of lua/types.lua. */
void nvrtc_add_archs(const struct nvrtc_info *info, const char *separator, struct str *out);

/* Adds what tells one NVRTC from another, without opening it: a line for the library and for each
 * builtins library beside it, "build-id HEX", or "blake2b HEX" of its bytes where it has none. */
bool nvrtc_identity(const char *path, struct str *out, struct diags *diags);

#endif
