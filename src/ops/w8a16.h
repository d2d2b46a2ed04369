/* w8a16.h: launchers of the block-scaled FP8 weight GEMM.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 *     C[r][n] = sum over k of A[r][k] * E4M3(B[n][k]) * bs[n/128][k/128]
 *
 * input A: bf16 [m][a_row_stride], the first k of a row are read. weight B: E4M3 bytes [n][k].
 * block_scale: f32 [ceil(n/128)][k/128], multipliers. output C: bf16 [m][c_row_stride], the first n
 * of a row are written. Device addresses; A and B 16-byte aligned, block_scale and C 4-byte
 * aligned.
 *
 *     struct w8a16 ops;
 *     if (w8a16_bind(image, NULL, &ops) != KPK_OK) ...;
 *     w8a16_gemm_pipelined_by_m(&ops, a, b, scales, c, m, n, k, stream, NULL);
 *
 * Two numeric contracts. "tile": w8a16_gemm_pipelined, _m32, _m64, pipe128 and their twins give
 * each output the same bits, whatever m is. "rows": w8a16_tc_rows gives other bits, the same for
 * every m up to 64 and over its three entries. _m32, _m64 and _by_m keep to "tile" unless the
 * row-tier policy is canonical; the route says which contract was used. NaN codes (0x7f, 0xff)
 * count as zeros under "tile" and as 480 and -480 under "rows": w8a16_check_weights finds them.
 *
 * Every launcher checks its arguments before it touches the driver, returns a status and sends one
 * line to the callback given to bind. `out_route` may be NULL. Thread-safe after bind.
 */
#ifndef OPS_W8A16_H
#define OPS_W8A16_H

#include "runtime/kpk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Constants of the kernels; w8a16_bind compares them with the image's. */
#define W8A16_K_BLOCK 128u /* FP8 scales are per 128 x 128 block */
#define W8A16_BLOCK 256u   /* threads of every tile */

#define W8A16_TILE_ROWS 128u
#define W8A16_TILE_COLS 32u

#define W8A16_M32_TILE_ROWS 32u
#define W8A16_M32_TILE_COLS 32u
#define W8A16_M32_SMEM_BYTES 44032u
#define W8A16_M32_K_BLOCK W8A16_K_BLOCK
#define W8A16_M16_MAX_ROWS 16u /* the skinny body of the m32 entry */
#define W8A16_M16_MAX_K 5120u
#define W8A16_M16_COLS 8u

#define W8A16_M64_TILE_ROWS 64u
#define W8A16_M64_TILE_COLS 32u

#define W8A16_PIPE128_TILE 128u
#define W8A16_PIPE128_SMEM_BYTES 54272u
#define W8A16_PIPE128_MIN_ROWS 256u
#define W8A16_PIPE128_GROUP_ROWS 8u /* tiles of rows that one raster group spans */

#define W8A16_HOPPER_GROUP_ROWS 8u

#define W8A16_ROWS_BLOCK 128u
#define W8A16_ROWS_COLS 64u
#define W8A16_ROWS_MAX_ROWS 64u

/* The Hopper twins, by the rows and columns of C that a tile covers. */
enum w8a16_twin {
    W8A16_TWIN_16X16,
    W8A16_TWIN_16X64,
    W8A16_TWIN_16X96,
    W8A16_TWIN_16X144,
    W8A16_TWIN_32X16,
    W8A16_TWIN_32X32,
    W8A16_TWIN_32X64,
    W8A16_TWIN_32X96,
    W8A16_TWIN_32X144,
    W8A16_TWIN_48X16,
    W8A16_TWIN_64X64,
    W8A16_TWIN_64X96,
    W8A16_TWIN_64X136,
    W8A16_TWIN_128X64,
    W8A16_TWIN_128X128,
    W8A16_TWIN_COUNT
};

/* Which numeric contract the small-m launchers use. */
enum w8a16_policy {
    W8A16_POLICY_TILE = 0,  /* "tile" always: the default */
    W8A16_POLICY_CANONICAL, /* "rows" where its kernels apply */
    W8A16_POLICY_ROW_EXACT, /* "tile" always, whatever else asks for "rows" */
};

struct w8a16_desc {
    kpk_message_fn message; /* NULL: messages are dropped */
    void *message_user;
    bool canonical; /* ask for the canonical policy, as METRALE_CANONICAL_TIERS=1 does */
    bool no_twins;  /* never run a Hopper twin: for comparing them with what they stand for */
};

/* Handles, levers and the callback. Filled by w8a16_bind; borrows the image. A zero handle means
 * that the image does not ship the kernel. */
struct w8a16 {
    kpk_image *image;
    kpk_message_fn message;
    void *message_user;
    kpk_kernel pipelined, m32, m64, pipe128;
    kpk_kernel rows[3]; /* _16, _32, _64 */
    kpk_kernel hopper[W8A16_TWIN_COUNT];
    void (*encode)(void); /* cuTensorMapEncodeTiled, which the twins need; NULL: none run */
    uint32_t sm_count;
    bool no_twins;
    enum w8a16_policy policy; /* levers METRALE_CANONICAL_TIERS, METRALE_ROW_EXACT_TIERS */
    bool no_pipe128;          /* lever METRALE_NO_W8A16_PIPE128 */
    bool no_rows;             /* lever METRALE_NO_W8A16_TC_ROWS */
};

/* Resolves the kernels, reads the levers once and compares constants, blocks and shared memory with
 * the image's. Bind the image first (kpk_bind): the Hopper twins need a function of the driver.
 * `desc` may be NULL. Errors: ARGUMENT, CONSTANT (both values are named), NOT_BOUND (a bundle
 * before kpk_bind). */
KPK_API kpk_status w8a16_bind(kpk_image *image, const struct w8a16_desc *desc,
                              struct w8a16 *out_ops);

/* Why a preferred kernel did not run. */
enum w8a16_refusal {
    W8A16_TAKEN = 0,
    W8A16_REFUSED_LEVER,   /* its METRALE_NO_* variable is set */
    W8A16_REFUSED_POLICY,  /* the row-tier policy is not canonical */
    W8A16_REFUSED_ROWS,    /* m is outside its range */
    W8A16_REFUSED_COLUMNS, /* n is not a multiple of 128 */
    W8A16_REFUSED_K,       /* k is not a positive multiple of 128 */
    W8A16_REFUSED_PITCH,   /* a row pitch is too short, or A's rows are not 16-byte aligned */
    W8A16_REFUSED_ABSENT,  /* the image does not ship it */
    W8A16_REFUSED_DRIVER,  /* the driver, or an image bound to it, was missing at w8a16_bind */
    W8A16_REFUSED_ASKED,   /* the bind struct asked for no twins */
    W8A16_REFUSED_COUNT
};

/* A fixed text for a refusal; never NULL. */
KPK_API const char *w8a16_refusal_text(enum w8a16_refusal refusal);

enum w8a16_contract {
    W8A16_NOTHING = 0, /* nothing was launched */
    W8A16_CONTRACT_TILE,
    W8A16_CONTRACT_ROWS,
};

/* What a launcher launched, and why it did not take what it would rather have taken. */
struct w8a16_route {
    const char *module, *entry; /* fixed strings; "" when nothing was launched */
    enum w8a16_contract contract;
    bool skinny; /* the m32 entry ran its skinny body */
    kpk_grid grid;
    uint32_t dynamic_smem;
    /* W8A16_TAKEN when it ran, or when it was not asked. */
    enum w8a16_refusal rows, twin, pipe128;
};

/* ---- Guards and rules: pure functions ------------------------------------------------------- */

/* Dynamic shared memory of a skinny block: its 8 weight rows, k + 16 bytes apart. */
KPK_API uint32_t w8a16_m16_smem_bytes(uint32_t k);
/* Whether the m32 entry runs its skinny body; the kernel applies the same test. */
KPK_API bool w8a16_m32_is_skinny(uint32_t m, uint32_t k);
/* 1..32 rows, k a positive multiple of 128, handle present. */
KPK_API bool w8a16_pipelined_prefers_m32(uint32_t m, uint32_t k, kpk_kernel m32);
/* 33..64 rows, likewise. */
KPK_API bool w8a16_pipelined_prefers_m64(uint32_t m, uint32_t k, kpk_kernel m64);
/* pipe128 runs at 256 rows or more when n and k are multiples of 128, unless its lever forbids. */
KPK_API enum w8a16_refusal w8a16_pipe128_refusal(bool no_pipe128, uint32_t m, uint32_t n,
                                                 uint32_t k, kpk_kernel pipe128);
/* The gate of w8a16_tc_rows. Reasons in this order: lever, policy, m, n, k, pitches, handle. */
KPK_API enum w8a16_refusal w8a16_rows_refusal(const struct w8a16 *ops, uint32_t m, uint32_t n,
                                              uint32_t k, uint32_t a_row_stride,
                                              uint32_t c_row_stride);
/* The twin that covers the shape soonest: of those that are shipped, the one whose rounds over the
 * device's multiprocessors cost least. */
KPK_API enum w8a16_twin w8a16_hopper_twin(const kpk_kernel shipped[W8A16_TWIN_COUNT], uint32_t m,
                                          uint32_t n, uint32_t sm_count);
KPK_API enum w8a16_refusal w8a16_hopper_refusal(const struct w8a16 *ops, enum w8a16_twin twin);
/* Whole clusters, at most one block per multiprocessor: blocks walk over tiles. */
KPK_API kpk_grid w8a16_hopper_grid(enum w8a16_twin twin, uint32_t m, uint32_t n, uint32_t sm_count);
/* Index into w8a16.rows for m rows: 0 (_16), 1 (_32), 2 (_64). */
KPK_API unsigned w8a16_rows_entry(uint32_t m);
/* The row-tier policy from the two levers and the bind struct's wish. */
KPK_API enum w8a16_policy w8a16_policy_of(bool canonical_lever, bool row_exact_lever,
                                          bool canonical_asked);

enum w8a16_launcher {
    W8A16_PIPELINED,
    W8A16_M32,
    W8A16_M64,
    W8A16_ROWS,
};

struct w8a16_args {
    uint64_t input, weight, block_scale, output;
    uint32_t m, n, k, a_row_stride, c_row_stride;
};

/* What a launcher's checks say: KPK_OK, or KPK_ERR_UNSUPPORTED with the message in text. Of
 * W8A16_ROWS only the addresses are checked: its gate has checked the rest. */
KPK_API kpk_status w8a16_check(enum w8a16_launcher launcher, const struct w8a16_args *args,
                               char *text, size_t size);

/* NaN codes in a host copy of a weight [n][k]; *out_first is the offset of the first. Both may be
 * 0.
 */
KPK_API uint64_t w8a16_check_weights(const uint8_t *weight, uint64_t n, uint64_t k,
                                     uint64_t *out_first);

/* ---- Launchers --------------------------------------------------------------------------------
 *
 * Errors: ARGUMENT (ops is NULL), UNSUPPORTED (a check failed), ABSENT (the image does not ship the
 * kernel), and those of kpk_launch. */

/* The 128 x 32 tile, or pipe128 where its rule takes it. Pitches are k and n. */
KPK_API kpk_status w8a16_gemm_pipelined(const struct w8a16 *ops, uint64_t input, uint64_t weight,
                                        uint64_t block_scale, uint64_t output, uint32_t m,
                                        uint32_t n, uint32_t k, struct CUstream_st *stream,
                                        struct w8a16_route *out_route);

/* The 32 x 32 tile with the caller's row pitches, in elements; any m, with one pass over the weight
 * per 32 rows. */
KPK_API kpk_status w8a16_gemm_pipelined_m32_strided(
    const struct w8a16 *ops, uint64_t input, uint64_t weight, uint64_t block_scale, uint64_t output,
    uint32_t m, uint32_t n, uint32_t k, uint32_t a_row_stride, uint32_t c_row_stride,
    struct CUstream_st *stream, struct w8a16_route *out_route);

/* The same with pitches k and n. */
KPK_API kpk_status w8a16_gemm_pipelined_m32(const struct w8a16 *ops, uint64_t input,
                                            uint64_t weight, uint64_t block_scale, uint64_t output,
                                            uint32_t m, uint32_t n, uint32_t k,
                                            struct CUstream_st *stream,
                                            struct w8a16_route *out_route);

/* The 64 x 32 tile; arguments and checks of the 32-row one. */
KPK_API kpk_status w8a16_gemm_pipelined_m64_strided(
    const struct w8a16 *ops, uint64_t input, uint64_t weight, uint64_t block_scale, uint64_t output,
    uint32_t m, uint32_t n, uint32_t k, uint32_t a_row_stride, uint32_t c_row_stride,
    struct CUstream_st *stream, struct w8a16_route *out_route);

KPK_API kpk_status w8a16_gemm_pipelined_m64(const struct w8a16 *ops, uint64_t input,
                                            uint64_t weight, uint64_t block_scale, uint64_t output,
                                            uint32_t m, uint32_t n, uint32_t k,
                                            struct CUstream_st *stream,
                                            struct w8a16_route *out_route);

/* The tile that m asks for: m32, m64 or the 128-row one, which serves any m when the others are
 * absent. m == 0 or n == 0: KPK_OK, nothing launched. */
KPK_API kpk_status w8a16_gemm_pipelined_by_m(const struct w8a16 *ops, uint64_t input,
                                             uint64_t weight, uint64_t block_scale, uint64_t output,
                                             uint32_t m, uint32_t n, uint32_t k,
                                             struct CUstream_st *stream,
                                             struct w8a16_route *out_route);

/* Launches w8a16_tc_rows if its gate lets it. KPK_OK with out_route->contract W8A16_NOTHING and the
 * reason in out_route->rows when it does not. `out_route` is required. */
KPK_API kpk_status w8a16_tc_rows_launch(const struct w8a16 *ops, uint64_t input, uint64_t weight,
                                        uint64_t block_scale, uint64_t output, uint32_t m,
                                        uint32_t n, uint32_t k, uint32_t a_row_stride,
                                        uint32_t c_row_stride, struct CUstream_st *stream,
                                        struct w8a16_route *out_route);

#ifdef __cplusplus
}
#endif

#endif
