#include "ops/w8a16.h"

#include <string.h>

#include "ops/ops_tensor.h"
#include "ops/w8a16_rules.h"

enum {
    PIPELINED,
    M32,
    M64,
    PIPE128,
    HOPPER,
    ROWS_16 = HOPPER + W8A16_TWIN_COUNT,
    ROWS_32,
    ROWS_64,
    KERNEL_COUNT
};

#define FEW_MODULE "w8a16_gemm_hopper_few"
#define HOPPER_MODULE "w8a16_gemm_hopper"
/* A header, the ring, copies of the tile that are handed over, and C's tile: as the kernels lay
 * them out. */
#define HOPPER_SMEM(rows, columns, copies, stages)                                                 \
    (1024u + (stages##u) * (columns##u + 2 * rows##u) * W8A16_K_BLOCK +                            \
     (4 * copies##u + 2) * rows##u * columns##u)
#define TWIN(module, rows, columns, copies, stages, threads)                                       \
    [HOPPER + W8A16_TWIN_##rows##X##columns] = {module, "w8a16_gemm_hopper_" #rows "x" #columns,   \
                                                threads,                                           \
                                                HOPPER_SMEM(rows, columns, copies, stages)}
#define DECODED_MODULE "w8a16_gemm_hopper_decoded"
/* A header, the ring, and buffers of decoded weights. */
#define DECODED_TWIN(columns, stages, buffers, threads)                                            \
    [HOPPER + W8A16_TWIN_64X##columns] = {                                                         \
        DECODED_MODULE, "w8a16_gemm_hopper_64x" #columns, threads,                                 \
        1024u + (stages##u * (columns##u + 128) + 2 * buffers##u * columns##u) * W8A16_K_BLOCK}

static const struct ops_entry entries[KERNEL_COUNT] = {
    [PIPELINED] = {"w8a16_gemm_pipelined", "w8a16_gemm_pipelined", W8A16_BLOCK, 0},
    [M32] = {"w8a16_gemm_pipelined_m32", "w8a16_gemm_pipelined_m32", W8A16_BLOCK,
             W8A16_M32_SMEM_BYTES},
    [M64] = {"w8a16_gemm_pipelined_m64", "w8a16_gemm_pipelined_m64", W8A16_BLOCK, 0},
    [PIPE128] = {"w8a16_gemm_pipe128", "w8a16_gemm_pipe128", W8A16_BLOCK, W8A16_PIPE128_SMEM_BYTES},
    TWIN(FEW_MODULE, 16, 16, 16, 32, 320),
    TWIN(FEW_MODULE, 16, 64, 16, 13, 576),
    TWIN(FEW_MODULE, 16, 96, 8, 10, 832),
    TWIN(FEW_MODULE, 16, 144, 4, 8, 640),
    TWIN(FEW_MODULE, 32, 16, 32, 16, 576),
    TWIN(FEW_MODULE, 32, 32, 16, 13, 320),
    TWIN(FEW_MODULE, 32, 64, 8, 9, 576),
    TWIN(FEW_MODULE, 32, 96, 4, 8, 448),
    TWIN(FEW_MODULE, 32, 144, 4, 5, 640),
    TWIN(FEW_MODULE, 48, 16, 12, 13, 256),
    DECODED_TWIN(64, 7, 3, 640),
    DECODED_TWIN(96, 5, 3, 640),
    DECODED_TWIN(136, 4, 2, 512),
    TWIN(HOPPER_MODULE, 128, 64, 0, 5, 256),
    TWIN(HOPPER_MODULE, 128, 128, 0, 4, 384),
    [ROWS_16] = {"w8a16_tc_rows", "w8a16_tc_rows_16", W8A16_ROWS_BLOCK, 0},
    [ROWS_32] = {"w8a16_tc_rows", "w8a16_tc_rows_32", W8A16_ROWS_BLOCK, 0},
    [ROWS_64] = {"w8a16_tc_rows", "w8a16_tc_rows_64", W8A16_ROWS_BLOCK, 0},
};

static const struct ops_constant constants[] = {
    {"w8a16_gemm_pipelined", "M_TILE", W8A16_TILE_ROWS},
    {"w8a16_gemm_pipelined", "N_TILE", W8A16_TILE_COLS},
    {"w8a16_gemm_pipelined", "FP8_BLOCK", W8A16_K_BLOCK},
    {"w8a16_gemm_pipelined_m32", "M_TILE", W8A16_M32_TILE_ROWS},
    {"w8a16_gemm_pipelined_m32", "N_TILE", W8A16_M32_TILE_COLS},
    {"w8a16_gemm_pipelined_m32", "FP8_BLOCK", W8A16_K_BLOCK},
    {"w8a16_gemm_pipelined_m32", "SKINNY_MAX_M", W8A16_M16_MAX_ROWS},
    {"w8a16_gemm_pipelined_m32", "SKINNY_MAX_K", W8A16_M16_MAX_K},
    {"w8a16_gemm_pipelined_m32", "SKINNY_N_TILE", W8A16_M16_COLS},
    {"w8a16_gemm_pipelined_m64", "M_TILE", W8A16_M64_TILE_ROWS},
    {"w8a16_gemm_pipelined_m64", "N_TILE", W8A16_M64_TILE_COLS},
    {"w8a16_gemm_pipelined_m64", "FP8_BLOCK", W8A16_K_BLOCK},
    {"w8a16_gemm_pipe128", "M_TILE", W8A16_PIPE128_TILE},
    {"w8a16_gemm_pipe128", "N_TILE", W8A16_PIPE128_TILE},
    {"w8a16_gemm_pipe128", "GROUP_ROWS", W8A16_PIPE128_GROUP_ROWS},
    {"w8a16_gemm_pipe128", "FP8_BLOCK", W8A16_K_BLOCK},
    {FEW_MODULE, "GROUP_ROWS", W8A16_HOPPER_GROUP_ROWS},
    {FEW_MODULE, "FP8_BLOCK", W8A16_K_BLOCK},
    {HOPPER_MODULE, "GROUP_ROWS", W8A16_HOPPER_GROUP_ROWS},
    {HOPPER_MODULE, "FP8_BLOCK", W8A16_K_BLOCK},
    {DECODED_MODULE, "GROUP_ROWS", W8A16_HOPPER_GROUP_ROWS},
    {DECODED_MODULE, "FP8_BLOCK", W8A16_K_BLOCK},
    {"w8a16_tc_rows", "N_TILE", W8A16_ROWS_COLS},
    {"w8a16_tc_rows", "FP8_BLOCK", W8A16_K_BLOCK},
};

static struct ops_log log_of(const struct w8a16 *ops)
{
    return (struct ops_log){ops->message, ops->message_user};
}

kpk_status w8a16_bind(kpk_image *image, const struct w8a16_desc *desc, struct w8a16 *out_ops)
{
    static const struct w8a16_desc defaults;
    kpk_kernel kernels[KERNEL_COUNT];

    if (out_ops == NULL)
        return KPK_ERR_ARGUMENT;
    memset(out_ops, 0, sizeof *out_ops);
    if (desc == NULL)
        desc = &defaults;
    struct ops_log log = {desc->message, desc->message_user};
    kpk_image_info info;
    kpk_status status = ops_describe(image, &log, "w8a16_bind", &info);
    if (status == KPK_OK)
        status = ops_check_constants(image, &log, constants, sizeof constants / sizeof *constants);
    if (status == KPK_OK)
        status = ops_resolve(image, &log, entries, KERNEL_COUNT, kernels);
    if (status != KPK_OK)
        return status;
    *out_ops = (struct w8a16){
        .image = image,
        .message = desc->message,
        .message_user = desc->message_user,
        .pipelined = kernels[PIPELINED],
        .m32 = kernels[M32],
        .m64 = kernels[M64],
        .pipe128 = kernels[PIPE128],
        .rows = {kernels[ROWS_16], kernels[ROWS_32], kernels[ROWS_64]},
        .encode = (void (*)(void))ops_tensor_encoder_of(image),
        .sm_count = info.sm_count,
        .no_twins = desc->no_twins,
        .policy = w8a16_policy_of(ops_lever(image, "canonical_tiers", false),
                                  ops_lever(image, "row_exact_tiers", false), desc->canonical),
        .no_pipe128 = ops_lever(image, "no_w8a16_pipe128", false),
        .no_rows = ops_lever(image, "no_w8a16_tc_rows", false),
    };
    memcpy(out_ops->hopper, &kernels[HOPPER], sizeof out_ops->hopper);
    return KPK_OK;
}

static kpk_status launch_with(const struct w8a16 *ops, int which, kpk_kernel kernel, kpk_grid grid,
                              uint32_t smem, void **pointers, struct CUstream_st *stream,
                              struct w8a16_route *route)
{
    const struct ops_entry *entry = &entries[which];
    struct ops_log log = log_of(ops);

    if (kernel.id == 0)
        return ops_fail(
            &log, KPK_ERR_ABSENT, "%s: the image does not ship this kernel: %s", entry->name,
            kpk_absence_text(kpk_absent_reason(ops->image, entry->module, entry->name)));
    kpk_status status = kpk_launch(ops->image, kernel, grid, smem, stream, pointers);
    if (status != KPK_OK)
        return ops_fail(&log, status, "%s: the launch failed: %s", entry->name,
                        kpk_status_text(status));
    route->module = entry->module;
    route->entry = entry->name;
    route->contract = which >= ROWS_16 ? W8A16_CONTRACT_ROWS : W8A16_CONTRACT_TILE;
    route->grid = grid;
    route->dynamic_smem = smem;
    return KPK_OK;
}

/* Launches entry `which`. The strided kernels take all nine arguments, the others the first seven.
 */
static kpk_status launch(const struct w8a16 *ops, int which, kpk_kernel kernel, kpk_grid grid,
                         uint32_t smem, const struct w8a16_args *args, struct CUstream_st *stream,
                         struct w8a16_route *route)
{
    struct w8a16_args a = *args;
    void *pointers[] = {&a.input, &a.weight, &a.block_scale,  &a.output,      &a.m,
                        &a.n,     &a.k,      &a.a_row_stride, &a.c_row_stride};

    return launch_with(ops, which, kernel, grid, smem, pointers, stream, route);
}

/* Launches the Hopper twin for these rows, if it can run: route->twin says why not. */
static kpk_status try_twin(const struct w8a16 *ops, const struct w8a16_args *args,
                           struct CUstream_st *stream, struct w8a16_route *route)
{
    const enum w8a16_twin twin = w8a16_hopper_twin(ops->hopper, args->m, args->n, ops->sm_count);
    const struct w8a16_hopper_tile *tile = &w8a16_hopper_tiles[twin];
    struct ops_log log = log_of(ops);
    struct ops_tensor_map weights, rows;
    struct w8a16_args a = *args;

    route->twin = w8a16_hopper_refusal(ops, twin);
    if (route->twin != W8A16_TAKEN)
        return KPK_OK;
    const struct ops_tensor_2d weight = {
        .type = OPS_TENSOR_U8,
        .swizzle = OPS_TENSOR_SWIZZLE_128,
        .promotion = OPS_TENSOR_PROMOTE_128,
        .address = a.weight,
        .columns = a.k,
        .rows = a.n,
        .pitch = a.k,
        .box_columns = W8A16_K_BLOCK,
        .box_rows = tile->columns,
    };
    const struct ops_tensor_2d input = {
        .type = OPS_TENSOR_BF16,
        .swizzle = OPS_TENSOR_SWIZZLE_128,
        .promotion = OPS_TENSOR_PROMOTE_128,
        .address = a.input,
        .columns = a.k,
        .rows = a.m,
        .pitch = a.a_row_stride,
        .box_columns = W8A16_K_BLOCK / 2,
        .box_rows = a.m < tile->rows ? a.m : tile->rows,
    };
    ops_tensor_encoder encoder = (ops_tensor_encoder)ops->encode;
    const int which = HOPPER + (int)twin;
    const char *name = entries[which].name;
    kpk_status status = ops_tensor_encode(encoder, &log, name, "weight", &weight, &weights);
    if (status == KPK_OK)
        status = ops_tensor_encode(encoder, &log, name, "input", &input, &rows);
    if (status != KPK_OK)
        return status;
    void *pointers[] = {&weights, &rows, &a.block_scale, &a.output,
                        &a.m,     &a.n,  &a.k,           &a.c_row_stride};
    return launch_with(ops, which, ops->hopper[twin],
                       w8a16_hopper_grid(twin, a.m, a.n, ops->sm_count),
                       entries[which].dynamic_smem, pointers, stream, route);
}

static kpk_status begin(const struct w8a16 *ops, enum w8a16_launcher launcher,
                        const struct w8a16_args *args)
{
    char text[256];
    kpk_status status = w8a16_check(launcher, args, text, sizeof text);

    if (status == KPK_OK)
        return KPK_OK;
    struct ops_log log = log_of(ops);
    return ops_fail(&log, status, "%s", text);
}

static const struct w8a16_route no_route = {.module = "", .entry = ""};

/* Starts a launcher's route in the caller's struct, or in `local` when there is none. */
static struct w8a16_route *start(struct w8a16_route *out_route, struct w8a16_route *local)
{
    struct w8a16_route *route = out_route != NULL ? out_route : local;

    *route = no_route;
    return route;
}

static kpk_status try_rows(const struct w8a16 *ops, const struct w8a16_args *a,
                           struct CUstream_st *stream, struct w8a16_route *route)
{
    unsigned entry = w8a16_rows_entry(a->m);

    route->rows = w8a16_rows_refusal(ops, a->m, a->n, a->k, a->a_row_stride, a->c_row_stride);
    if (route->rows != W8A16_TAKEN)
        return KPK_OK;
    kpk_status status = begin(ops, W8A16_ROWS, a);
    if (status != KPK_OK)
        return status;
    kpk_grid grid = {a->n / W8A16_ROWS_COLS, 1, 1};
    return launch(ops, ROWS_16 + (int)entry, ops->rows[entry], grid, 0, a, stream, route);
}

/* What the tiles of few rows begin with: their checks, then the kernels that go before them. */
static kpk_status begin_few(const struct w8a16 *ops, enum w8a16_launcher launcher,
                            const struct w8a16_args *args, struct CUstream_st *stream,
                            struct w8a16_route *route)
{
    if (ops == NULL)
        return KPK_ERR_ARGUMENT;
    kpk_status status = begin(ops, launcher, args);
    if (status == KPK_OK)
        status = try_rows(ops, args, stream, route);
    if (status == KPK_OK && route->contract == W8A16_NOTHING)
        status = try_twin(ops, args, stream, route);
    return status;
}

kpk_status w8a16_tc_rows_launch(const struct w8a16 *ops, uint64_t input, uint64_t weight,
                                uint64_t block_scale, uint64_t output, uint32_t m, uint32_t n,
                                uint32_t k, uint32_t a_row_stride, uint32_t c_row_stride,
                                struct CUstream_st *stream, struct w8a16_route *out_route)
{
    const struct w8a16_args args = {input, weight, block_scale,  output,      m,
                                    n,     k,      a_row_stride, c_row_stride};

    if (out_route == NULL)
        return KPK_ERR_ARGUMENT;
    *out_route = no_route;
    if (ops == NULL)
        return KPK_ERR_ARGUMENT;
    return try_rows(ops, &args, stream, out_route);
}

kpk_status w8a16_gemm_pipelined(const struct w8a16 *ops, uint64_t input, uint64_t weight,
                                uint64_t block_scale, uint64_t output, uint32_t m, uint32_t n,
                                uint32_t k, struct CUstream_st *stream,
                                struct w8a16_route *out_route)
{
    const struct w8a16_args args = {input, weight, block_scale, output, m, n, k, k, n};
    struct w8a16_route local, *route = start(out_route, &local);

    if (ops == NULL)
        return KPK_ERR_ARGUMENT;
    kpk_status status = begin(ops, W8A16_PIPELINED, &args);
    if (status != KPK_OK)
        return status;
    status = try_twin(ops, &args, stream, route);
    if (status != KPK_OK || route->contract != W8A16_NOTHING)
        return status;
    route->pipe128 = w8a16_pipe128_refusal(ops->no_pipe128, m, n, k, ops->pipe128);
    if (route->pipe128 == W8A16_TAKEN) {
        kpk_grid grid = {n / W8A16_PIPE128_TILE, w8a16_tiles(m, W8A16_PIPE128_TILE), 1};
        return launch(ops, PIPE128, ops->pipe128, grid, W8A16_PIPE128_SMEM_BYTES, &args, stream,
                      route);
    }
    kpk_grid grid = {w8a16_tiles(n, W8A16_TILE_COLS), w8a16_tiles(m, W8A16_TILE_ROWS), 1};
    return launch(ops, PIPELINED, ops->pipelined, grid, 0, &args, stream, route);
}

kpk_status w8a16_gemm_pipelined_m32_strided(const struct w8a16 *ops, uint64_t input,
                                            uint64_t weight, uint64_t block_scale, uint64_t output,
                                            uint32_t m, uint32_t n, uint32_t k,
                                            uint32_t a_row_stride, uint32_t c_row_stride,
                                            struct CUstream_st *stream,
                                            struct w8a16_route *out_route)
{
    const struct w8a16_args args = {input, weight, block_scale,  output,      m,
                                    n,     k,      a_row_stride, c_row_stride};
    struct w8a16_route local, *route = start(out_route, &local);

    kpk_status status = begin_few(ops, W8A16_M32, &args, stream, route);
    if (status != KPK_OK || route->contract != W8A16_NOTHING)
        return status;
    route->skinny = w8a16_m32_is_skinny(m, k);
    if (route->skinny) {
        kpk_grid grid = {w8a16_tiles(n, W8A16_M16_COLS), 1, 1};
        return launch(ops, M32, ops->m32, grid, w8a16_m16_smem_bytes(k), &args, stream, route);
    }
    kpk_grid grid = {w8a16_tiles(n, W8A16_M32_TILE_COLS), w8a16_tiles(m, W8A16_M32_TILE_ROWS), 1};
    return launch(ops, M32, ops->m32, grid, W8A16_M32_SMEM_BYTES, &args, stream, route);
}

kpk_status w8a16_gemm_pipelined_m32(const struct w8a16 *ops, uint64_t input, uint64_t weight,
                                    uint64_t block_scale, uint64_t output, uint32_t m, uint32_t n,
                                    uint32_t k, struct CUstream_st *stream,
                                    struct w8a16_route *out_route)
{
    return w8a16_gemm_pipelined_m32_strided(ops, input, weight, block_scale, output, m, n, k, k, n,
                                            stream, out_route);
}

kpk_status w8a16_gemm_pipelined_m64_strided(const struct w8a16 *ops, uint64_t input,
                                            uint64_t weight, uint64_t block_scale, uint64_t output,
                                            uint32_t m, uint32_t n, uint32_t k,
                                            uint32_t a_row_stride, uint32_t c_row_stride,
                                            struct CUstream_st *stream,
                                            struct w8a16_route *out_route)
{
    const struct w8a16_args args = {input, weight, block_scale,  output,      m,
                                    n,     k,      a_row_stride, c_row_stride};
    struct w8a16_route local, *route = start(out_route, &local);

    kpk_status status = begin_few(ops, W8A16_M64, &args, stream, route);
    if (status != KPK_OK || route->contract != W8A16_NOTHING)
        return status;
    kpk_grid grid = {w8a16_tiles(n, W8A16_M64_TILE_COLS), w8a16_tiles(m, W8A16_M64_TILE_ROWS), 1};
    return launch(ops, M64, ops->m64, grid, 0, &args, stream, route);
}

kpk_status w8a16_gemm_pipelined_m64(const struct w8a16 *ops, uint64_t input, uint64_t weight,
                                    uint64_t block_scale, uint64_t output, uint32_t m, uint32_t n,
                                    uint32_t k, struct CUstream_st *stream,
                                    struct w8a16_route *out_route)
{
    return w8a16_gemm_pipelined_m64_strided(ops, input, weight, block_scale, output, m, n, k, k, n,
                                            stream, out_route);
}

kpk_status w8a16_gemm_pipelined_by_m(const struct w8a16 *ops, uint64_t input, uint64_t weight,
                                     uint64_t block_scale, uint64_t output, uint32_t m, uint32_t n,
                                     uint32_t k, struct CUstream_st *stream,
                                     struct w8a16_route *out_route)
{
    struct w8a16_route local;

    start(out_route, &local);
    if (ops == NULL)
        return KPK_ERR_ARGUMENT;
    if (m == 0 || n == 0)
        return KPK_OK;
    if (w8a16_pipelined_prefers_m32(m, k, ops->m32))
        return w8a16_gemm_pipelined_m32(ops, input, weight, block_scale, output, m, n, k, stream,
                                        out_route);
    if (w8a16_pipelined_prefers_m64(m, k, ops->m64))
        return w8a16_gemm_pipelined_m64(ops, input, weight, block_scale, output, m, n, k, stream,
                                        out_route);
    return w8a16_gemm_pipelined(ops, input, weight, block_scale, output, m, n, k, stream,
                                out_route);
}
