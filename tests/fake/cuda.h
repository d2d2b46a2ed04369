#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A CUDA driver that records calls and fails on demand. Linked into a test it is used through
 * fake_cuda_symbol; built as libcuda.so.1 it is opened as the real one is, and fake_cuda_state is
 * then found by dlsym.
 *
 * A cubin that it takes is the text "FAKE" followed by " NAME" for each entry and a NUL, or any ELF
 * file (whose entries it does not check). A launch with more shared memory than a device gives
 * without asking must have been opted in to on the current context's device. */

enum {
    FAKE_DEVICES = 4,
    FAKE_LAUNCHES = 64,
    FAKE_NAME = 128,
};

#define FAKE_CUDA_FUNCTIONS(X)                                                                     \
    X(cuDriverGetVersion)                                                                          \
    X(cuInit)                                                                                      \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuCtxGetCurrent)                                                                             \
    X(cuLibraryLoadData)                                                                           \
    X(cuLibraryUnload)                                                                             \
    X(cuLibraryGetKernel)                                                                          \
    X(cuKernelSetAttribute)                                                                        \
    X(cuKernelGetFunction)                                                                         \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchKernelEx)                                                                            \
    X(cuFuncLoad)

enum fake_function {
#define FAKE_ENUM(name) FAKE_##name,
    FAKE_CUDA_FUNCTIONS(FAKE_ENUM)
#undef FAKE_ENUM
    FAKE_FUNCTION_COUNT
};

struct fake_device {
    int major, minor, max_smem, max_smem_optin;
    const char *name;
};

struct fake_launch {
    char entry[FAKE_NAME];
    bool overlapped; /* by programmatic stream serialization */
    unsigned grid[3], block[3], smem;
    void *stream;
    void **args;
};

struct fake_cuda {
    /* Set by the test. */
    int version;
    int device_count;
    struct fake_device devices[FAKE_DEVICES];
    void *context;                                /* what cuCtxGetCurrent gives */
    int context_device;                           /* the ordinal of its device */
    int fail_with[FAKE_FUNCTION_COUNT];           /* a CUresult; 0: succeed */
    unsigned long fail_call[FAKE_FUNCTION_COUNT]; /* the call that fails, from 1; 0: every one */
    bool hidden[FAKE_FUNCTION_COUNT];             /* fake_cuda_symbol does not find it */

    /* Recorded. */
    unsigned long calls[FAKE_FUNCTION_COUNT];
    unsigned long launches;
    struct fake_launch launch[FAKE_LAUNCHES]; /* the first ones */
    unsigned long libraries;                  /* loaded now */
    unsigned long attributes;                 /* set so far */
    int attribute_value, attribute_device;    /* of the last one */
    unsigned long launches_on[FAKE_DEVICES];
    char loaded_text[FAKE_NAME]; /* of the last cubin */
};

/* The driver's only state. */
struct fake_cuda *fake_cuda_state(void);

/* Back to one H200-like device, driver 13.0, nothing recorded. */
void fake_cuda_reset(void);

/* A kpk_symbol_fn. `user` is not used. */
void *fake_cuda_symbol(void *user, const char *name);

/* All calls but those that ask for error texts. */
unsigned long fake_cuda_calls(void);

#endif
