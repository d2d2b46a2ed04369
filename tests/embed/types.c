/* Compiled against the real cuda.h: the runtime's own declarations say the same. */
#include <cuda.h>

#include "kpk_cuda.h"
#include "ops/ops_launch.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs)
#define SAME_SIZE(ours, theirs)                                                                    \
    _Static_assert(sizeof(ours) == sizeof(theirs), #ours " has not the size of " #theirs)

SAME(KPK_CU_SUCCESS, CUDA_SUCCESS);
SAME(KPK_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(KPK_CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(KPK_CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME(KPK_CU_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(KPK_CU_INVALID_SOURCE, CUDA_ERROR_INVALID_SOURCE);
SAME(KPK_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(KPK_CU_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(KPK_CU_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(KPK_CU_DEVICE_MAX_SMEM, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(KPK_CU_DEVICE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(KPK_CU_DEVICE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(KPK_CU_DEVICE_MAX_SMEM_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(KPK_CU_FUNC_MAX_DYNAMIC_SMEM, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(OPS_LAUNCH_OVERLAPPED, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

SAME_SIZE(kpk_cu_result, CUresult);
SAME_SIZE(kpk_cu_device, CUdevice);
SAME_SIZE(kpk_cu_context, CUcontext);
SAME_SIZE(kpk_cu_library, CUlibrary);
SAME_SIZE(kpk_cu_kernel, CUkernel);
SAME_SIZE(kpk_cu_function, CUfunction);
SAME_SIZE(kpk_cu_stream, CUstream);
SAME_SIZE(int, CUjit_option);
SAME_SIZE(int, CUlibraryOption);
SAME_SIZE(int, CUdevice_attribute);
SAME_SIZE(int, CUfunction_attribute);
SAME_SIZE(struct ops_launch_attribute, CUlaunchAttribute);
SAME_SIZE(struct ops_launch_config, CUlaunchConfig);

#define SAME_PLACE(ours, field, theirs, its_field)                                                 \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, its_field),                           \
                   #field " does not lie where " #its_field " does")

SAME_PLACE(struct ops_launch_attribute, id, CUlaunchAttribute, id);
SAME_PLACE(struct ops_launch_attribute, value.overlapped, CUlaunchAttribute,
           value.programmaticStreamSerializationAllowed);
SAME_PLACE(struct ops_launch_config, grid.y, CUlaunchConfig, gridDimY);
SAME_PLACE(struct ops_launch_config, block, CUlaunchConfig, blockDimX);
SAME_PLACE(struct ops_launch_config, smem, CUlaunchConfig, sharedMemBytes);
SAME_PLACE(struct ops_launch_config, stream, CUlaunchConfig, hStream);
SAME_PLACE(struct ops_launch_config, attributes, CUlaunchConfig, attrs);
SAME_PLACE(struct ops_launch_config, attribute_count, CUlaunchConfig, numAttrs);

/* -Wcast-function-type compares the number of parameters, pointers and widths, and lets enums pass
 * for the integers that we write for them. */
#define CONVERT(name, parameters, required)                                                        \
    kpk_##name##_fn check_##name(void);                                                            \
    kpk_##name##_fn check_##name(void)                                                             \
    {                                                                                              \
        return (kpk_##name##_fn)name;                                                              \
    }
KPK_CUDA_SYMBOLS(CONVERT)

/* As exported: cuda.h maps some names to versioned ones by macro, and then a plain name is wrong.
 */
#define TEXT(name) #name
#define EXPANDED(name) TEXT(name)
#define UNVERSIONED(name, parameters, required)                                                    \
    _Static_assert(sizeof(#name) == sizeof(EXPANDED(name)), #name " has a versioned symbol");
KPK_CUDA_SYMBOLS(UNVERSIONED)
