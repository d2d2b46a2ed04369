#ifndef COMPILE_NVRTC_H
#define COMPILE_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"
#include "compile/cuda.h"

/* NVRTC's C interface, opened at run time. Values are those of its ABI, the same since 12.0. */
typedef struct nvrtc_program_opaque *nvrtc_program;

enum nvrtc_result {
    NVRTC_OK = 0,
    NVRTC_OUT_OF_MEMORY = 1,
    NVRTC_BAD_OPTION = 5,
    NVRTC_COMPILATION = 6,
};

/* One line per function: field, arguments. The symbol is nvrtc + the name. */
#define NVRTC_FUNCTIONS(X)                                                                         \
    X(Version, (int *major, int *minor))                                                           \
    X(GetNumSupportedArchs, (int *count))                                                          \
    X(GetSupportedArchs, (int *archs))                                                             \
    X(CreateProgram, (nvrtc_program * program, const char *source, const char *name,               \
                      int header_count, const char *const *headers, const char *const *names))     \
    X(DestroyProgram, (nvrtc_program * program))                                                   \
    X(AddNameExpression, (nvrtc_program program, const char *expression))                          \
    X(GetLoweredName, (nvrtc_program program, const char *expression, const char **symbol))        \
    X(CompileProgram, (nvrtc_program program, int count, const char *const *options))              \
    X(GetCUBINSize, (nvrtc_program program, size_t * size))                                        \
    X(GetCUBIN, (nvrtc_program program, char *cubin))                                              \
    X(GetLTOIRSize, (nvrtc_program program, size_t * size))                                        \
    X(GetLTOIR, (nvrtc_program program, char *ir))                                                 \
    X(GetProgramLogSize, (nvrtc_program program, size_t * size))                                   \
    X(GetProgramLog, (nvrtc_program program, char *log))

struct nvrtc {
    void *handle;
#define X(name, arguments) int(*name) arguments;
    NVRTC_FUNCTIONS(X)
#undef X
    const char *(*GetErrorString)(int result);
    struct nvrtc_info info;
};

/* Opens the library and its builtins, which must lie beside it, and asks its version and archs. A
 * version older than NVRTC_LEAST is refused. It stays open for the life of the process. */
bool nvrtc_open(const char *path, struct nvrtc *out_nvrtc, struct diags *diags);

enum {
    NVRTC_LEAST_MAJOR = 12,
    NVRTC_LEAST_MINOR = 4
};

bool nvrtc_at_least(const struct nvrtc_info *info, int major, int minor);

#endif
