#ifndef KPK_CUDA_H
#define KPK_CUDA_H

#include <stddef.h>

/* The few types, constants and functions of the CUDA driver that the runtime uses, so that it
 * builds without CUDA's headers. A test compares each with cuda.h. */

#ifdef __cplusplus
extern "C" {
#endif

typedef int kpk_cu_result; /* CUresult */
typedef int kpk_cu_device; /* CUdevice */
typedef struct CUctx_st *kpk_cu_context;
typedef struct CUlib_st *kpk_cu_library;
typedef struct CUkern_st *kpk_cu_kernel;
typedef struct CUfunc_st *kpk_cu_function;
typedef struct CUstream_st *kpk_cu_stream;

enum {
    KPK_CU_SUCCESS = 0,
    KPK_CU_INVALID_IMAGE = 200,
    KPK_CU_NO_BINARY_FOR_GPU = 209,
    KPK_CU_INVALID_PTX = 218,
    KPK_CU_UNSUPPORTED_PTX_VERSION = 222,
    KPK_CU_INVALID_SOURCE = 300,
    KPK_CU_NOT_FOUND = 500,
    KPK_CU_CAPTURE_UNSUPPORTED = 900,
    KPK_CU_CAPTURE_INVALIDATED = 901,
};

enum {
    KPK_CU_DEVICE_MAX_SMEM = 8, /* per block, without opting in */
    KPK_CU_DEVICE_MAJOR = 75,
    KPK_CU_DEVICE_MINOR = 76,
    KPK_CU_DEVICE_MAX_SMEM_OPTIN = 97,
};

enum {
    KPK_CU_FUNC_MAX_DYNAMIC_SMEM = 8,
};

/* X(name, parameters, required): one line per function; all return a CUresult. */
#define KPK_CUDA_SYMBOLS(X)                                                                        \
    X(cuDriverGetVersion, (int *version), 1)                                                       \
    X(cuInit, (unsigned flags), 1)                                                                 \
    X(cuDeviceGet, (kpk_cu_device * device, int ordinal), 1)                                       \
    X(cuDeviceGetName, (char *name, int size, kpk_cu_device device), 1)                            \
    X(cuDeviceGetAttribute, (int *value, int attribute, kpk_cu_device device), 1)                  \
    X(cuGetErrorName, (kpk_cu_result error, const char **text), 1)                                 \
    X(cuGetErrorString, (kpk_cu_result error, const char **text), 1)                               \
    X(cuCtxGetCurrent, (kpk_cu_context * context), 1)                                              \
    X(cuLibraryLoadData,                                                                           \
      (kpk_cu_library * library, const void *code, int *jit_options, void **jit_values,            \
       unsigned jit_count, int *library_options, void **library_values, unsigned library_count),   \
      1)                                                                                           \
    X(cuLibraryUnload, (kpk_cu_library library), 1)                                                \
    X(cuLibraryGetKernel, (kpk_cu_kernel * kernel, kpk_cu_library library, const char *name), 1)   \
    X(cuKernelSetAttribute,                                                                        \
      (int attribute, int value, kpk_cu_kernel kernel, kpk_cu_device device), 1)                   \
    X(cuKernelGetFunction, (kpk_cu_function * function, kpk_cu_kernel kernel), 1)                  \
    X(cuLaunchKernel,                                                                              \
      (kpk_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned smem, kpk_cu_stream stream,  \
       void **args, void **extra),                                                                 \
      1)                                                                                           \
    X(cuFuncLoad, (kpk_cu_function function), 0) /* from 12.4 */

#define KPK_CUDA_TYPE(name, parameters, required)                                                  \
    typedef kpk_cu_result(*kpk_##name##_fn) parameters;
KPK_CUDA_SYMBOLS(KPK_CUDA_TYPE)
#undef KPK_CUDA_TYPE

struct kpk_cuda {
#define KPK_CUDA_FIELD(name, parameters, required) kpk_##name##_fn name;
    KPK_CUDA_SYMBOLS(KPK_CUDA_FIELD)
#undef KPK_CUDA_FIELD
};

#ifdef __cplusplus
}
#endif

#endif
