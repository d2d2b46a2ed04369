#include "ops/ops_tensor.h"

#include <inttypes.h>
#include <string.h>

enum {
    INTERLEAVE_NONE = 0,
    FILL_ZEROS = 0,
};

ops_tensor_encoder ops_tensor_encoder_of(kpk_image *image)
{
    void *symbol = kpk_driver_symbol(image, "cuTensorMapEncodeTiled");
    ops_tensor_encoder encoder;

    memcpy(&encoder, &symbol, sizeof encoder);
    return encoder;
}

kpk_status ops_tensor_encode(ops_tensor_encoder encoder, const struct ops_log *log, const char *who,
                             const char *matrix, const struct ops_tensor_2d *tensor,
                             struct ops_tensor_map *out_map)
{
    static const uint64_t sizes[] = {
        [OPS_TENSOR_U8] = 1, [OPS_TENSOR_F32] = 4, [OPS_TENSOR_BF16] = 2};
    const uint64_t element = sizes[tensor->type];
    const uint64_t dims[2] = {tensor->columns, tensor->rows};
    const uint64_t strides[1] = {tensor->pitch * element};
    const uint32_t box[2] = {tensor->box_columns, tensor->box_rows}, steps[2] = {1, 1};

    int error =
        encoder(out_map, tensor->type, 2, (void *)(uintptr_t)tensor->address, dims, strides, box,
                steps, INTERLEAVE_NONE, tensor->swizzle, tensor->promotion, FILL_ZEROS);
    if (error != 0)
        return ops_fail(log, KPK_ERR_DRIVER,
                        "%s: the tensor map of %s (%" PRIu64 " x %" PRIu64 ", pitch %" PRIu64
                        ") was refused with CUDA error %d",
                        who, matrix, tensor->rows, tensor->columns, tensor->pitch, error);
    return KPK_OK;
}
