#include "ops/ops_launch.h"

#include <string.h>

enum {
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
};

typedef int (*launch_ex_fn)(const struct ops_launch_config *config, void *function, void **args,
                            void **extra);

kpk_status ops_launch_overlapped(kpk_image *image, const struct ops_log *log, const char *name,
                                 kpk_kernel kernel, kpk_grid grid, kpk_grid block, uint32_t smem,
                                 struct CUstream_st *stream, void **args)
{
    void *symbol = kpk_driver_symbol(image, "cuLaunchKernelEx"), *function = NULL;
    launch_ex_fn launch_ex;

    if (symbol == NULL)
        return kpk_launch_block(image, kernel, grid, block, smem, stream, args);
    memcpy(&launch_ex, &symbol, sizeof symbol);
    kpk_status status = kpk_function(image, kernel, &function);
    if (status != KPK_OK)
        return status;
    struct ops_launch_attribute overlapped = {
        .id = OPS_LAUNCH_OVERLAPPED,
        .value = {.overlapped = 1},
    };
    const struct ops_launch_config config = {
        .grid = grid,
        .block = block,
        .smem = smem,
        .stream = stream,
        .attributes = &overlapped,
        .attribute_count = 1,
    };
    int error = launch_ex(&config, function, args, NULL);
    if (error == CAPTURE_UNSUPPORTED || error == CAPTURE_INVALIDATED)
        status = KPK_ERR_CAPTURE;
    else if (error != 0)
        status = KPK_ERR_DRIVER;
    if (status != KPK_OK)
        return ops_fail(log, status, "cuLaunchKernelEx of '%s' returned CUDA error %d", name,
                        error);
    return KPK_OK;
}
