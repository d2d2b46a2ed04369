#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* The CUDA driver for programs that measure or check the runtime on a device: opened at run time,
 * the names as exported. What fails ends the program. */

#define BENCH_DRIVER(X)                                                                            \
    X(cuInit, (unsigned))                                                                          \
    X(cuDriverGetVersion, (int *))                                                                 \
    X(cuDeviceGet, (int *, int))                                                                   \
    X(cuDeviceGetName, (char *, int, int))                                                         \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                    \
    X(cuCtxCreate_v2, (void **, unsigned, int))                                                    \
    X(cuCtxDestroy_v2, (void *))                                                                   \
    X(cuCtxSetCurrent, (void *))                                                                   \
    X(cuCtxSynchronize, (void))                                                                    \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                         \
    X(cuMemFree_v2, (uint64_t))                                                                    \
    X(cuMemsetD8_v2, (uint64_t, unsigned char, size_t))                                            \
    X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                                 \
    X(cuStreamCreate, (void **, unsigned))                                                         \
    X(cuStreamDestroy_v2, (void *))                                                                \
    X(cuStreamSynchronize, (void *))                                                               \
    X(cuStreamBeginCapture_v2, (void *, int))                                                      \
    X(cuStreamEndCapture, (void *, void **))                                                       \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                          \
    X(cuGraphLaunch, (void *, void *))                                                             \
    X(cuGraphExecDestroy, (void *))                                                                \
    X(cuGraphDestroy, (void *))                                                                    \
    X(cuLibraryLoadData,                                                                           \
      (void **, const void *, void *, void **, unsigned, void *, void **, unsigned))               \
    X(cuLibraryGetKernel, (void **, void *, const char *))                                         \
    X(cuKernelGetFunction, (void **, void *))                                                      \
    X(cuLibraryUnload, (void *))                                                                   \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                       unsigned, void *, void **, void **))

struct bench_driver {
#define BENCH_FIELD(name, arguments) int(*name) arguments;
    BENCH_DRIVER(BENCH_FIELD)
#undef BENCH_FIELD
};

/* Opens libcuda.so.1, makes device 0's primary context current and prints the device. */
struct bench_driver bench_driver(void);

/* Ends the program when `error`, a CUresult or kpk_status, is not 0. */
void bench_must(int error, const char *what);

void bench_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- Time and lists ---- */

double bench_now(void); /* ns */

/* Sorts the values. */
double bench_median(double *values, size_t count);
double bench_quantile(double *values, size_t count, double at);

struct bench_module {
    char name[128], entry[128];
};

/* Reads FOLDER/modules, which tests/bench/peers.py writes; returns how many. */
size_t bench_list(const char *folder, struct bench_module *modules, size_t room);

/* The whole file; free() it. */
void *bench_read(const char *path, size_t *out_size);

#endif
