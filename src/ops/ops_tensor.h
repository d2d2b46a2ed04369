#ifndef OPS_OPS_TENSOR_H
#define OPS_OPS_TENSOR_H

/* Tensor maps: what the bulk tensor copy engine reads to find a box of a matrix. Passed to a kernel
 * by value. */

#include "ops/ops_util.h"

/* A CUtensorMap. */
struct ops_tensor_map {
    _Alignas(64) unsigned char bytes[128];
};

enum ops_tensor_type {
    OPS_TENSOR_U8 = 0,
    OPS_TENSOR_F32 = 7,
    OPS_TENSOR_BF16 = 9,
};

enum ops_tensor_swizzle {
    OPS_TENSOR_PLAIN = 0,
    OPS_TENSOR_SWIZZLE_64 = 2,  /* of a 64-byte row at chunk c ^ (r / 2 % 4) */
    OPS_TENSOR_SWIZZLE_128 = 3, /* 16-byte chunk c of 128-byte row r lies at chunk c ^ (r % 8) */
};

/* How much of L2 a copy asks for around its box: a hint. */
enum ops_tensor_promotion {
    OPS_TENSOR_PROMOTE_NONE = 0,
    OPS_TENSOR_PROMOTE_128 = 2,
};

/* A row-major matrix and the box that one copy takes; elements outside are filled with zeros. */
struct ops_tensor_2d {
    enum ops_tensor_type type;
    enum ops_tensor_swizzle swizzle;
    enum ops_tensor_promotion promotion;
    uint64_t address;              /* 16-byte aligned */
    uint64_t columns, rows, pitch; /* elements; a row's bytes are a multiple of 16 */
    uint32_t box_columns, box_rows;
};

/* The driver's cuTensorMapEncodeTiled, NULL when it has none or the image is not bound. */
typedef int (*ops_tensor_encoder)(void *map, int type, uint32_t rank, void *address,
                                  const uint64_t *dims, const uint64_t *strides,
                                  const uint32_t *box, const uint32_t *element_strides,
                                  int interleave, int swizzle, int promotion, int fill);
ops_tensor_encoder ops_tensor_encoder_of(kpk_image *image);

/* KPK_ERR_DRIVER, with a message that starts with `who` and names the matrix, when the driver
 * refuses the map. */
kpk_status ops_tensor_encode(ops_tensor_encoder encoder, const struct ops_log *log, const char *who,
                             const char *matrix, const struct ops_tensor_2d *tensor,
                             struct ops_tensor_map *out_map);

#endif
