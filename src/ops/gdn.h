/* gdn.h: the launcher of the chunked gated delta rule (GDN) prefill.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Per sequence and value head, with kh = vh / (nv / nk), a token t changes the state S and gives o:
 *
 *     S = gate_t S;  S += k_t (beta_t (v_t - k_t^T S))^T;  o_t = q_t^T S / sqrt(128)
 *
 * in three launches on one stream: recompute_wu, a state spine, chunk_fwd_o.
 *
 *     struct gdn ops;
 *     if (gdn_bind(image, NULL, &ops) != KPK_OK) ...;
 *     struct gdn_scratch scratch;
 *     gdn_scratch_sizes(&args, &scratch);                  // allocate, set args.w .. args.gc
 *     struct gdn_route route;
 *     if (gdn_prefill_fla(&ops, &args, stream, &route) != KPK_OK) ...;
 *
 * The launcher takes the fastest kernels that the image ships and the arguments allow; the route
 * says which, and why each faster one was refused. It checks its arguments before it touches the
 * driver, returns a status and sends its lines to the callback given to bind. Thread-safe after
 * bind.
 */
#ifndef OPS_GDN_H
#define OPS_GDN_H

#include "runtime/kpk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Constants of the kernels; gdn_bind compares them with the image's. */
#define GDN_K_DIM 128u
#define GDN_V_DIM 128u
#define GDN_CHUNK 64u   /* tokens */
#define GDN_DV_BLK 64u  /* value columns a block of _tc_vblock takes */
#define GDN_PITCH 136u  /* padded row of 128, in elements, in the tensor-core kernels */
#define GDN_PITCH_T 72u /* padded row of 64 */
#define GDN_PITCH_X 24u /* padded row of 16 */

/* Dynamic shared memory and threads of each kernel. */
#define GDN_WU_SMEM (GDN_CHUNK * GDN_K_DIM * 2 + GDN_CHUNK * GDN_CHUNK * 4 + GDN_CHUNK * 4)
#define GDN_SPINE_SMEM                                                                             \
    (2 * (GDN_CHUNK * (2 * GDN_K_DIM + GDN_V_DIM) * 2) + 2 * GDN_CHUNK * 4 +                       \
     2 * (GDN_CHUNK + 1) * 4)
#define GDN_FUSED_SMEM                                                                             \
    (GDN_CHUNK * GDN_K_DIM * 2 * 2 + GDN_CHUNK * GDN_V_DIM * 2 + (GDN_CHUNK + 1) * 4)
#define GDN_VBLOCK_SMEM                                                                            \
    (GDN_DV_BLK * GDN_K_DIM * 2 + GDN_CHUNK * GDN_DV_BLK * 4 +                                     \
     2 * (GDN_CHUNK * GDN_K_DIM + GDN_CHUNK * GDN_DV_BLK) * 2 + 2 * GDN_CHUNK * 4 +                \
     2 * (GDN_CHUNK + 1) * 4)
#define GDN_TC_SMEM                                                                                \
    (GDN_K_DIM * GDN_PITCH * 2 + 2 * (GDN_CHUNK * GDN_PITCH * 2) + GDN_K_DIM * GDN_PITCH_T * 2 +   \
     (GDN_CHUNK + 1) * 4)
#define GDN_FWD_O_SMEM                                                                             \
    (2 * GDN_CHUNK * GDN_K_DIM * 2 + GDN_CHUNK * GDN_CHUNK * 4 + GDN_CHUNK * GDN_V_DIM * 2 +       \
     GDN_K_DIM * GDN_V_DIM * 2 + 2 * GDN_CHUNK * 4)
#define GDN_WU_HOPPER_SMEM                                                                         \
    (GDN_CHUNK * GDN_PITCH * 2 + 2 * (GDN_CHUNK * GDN_PITCH_X * 4) +                               \
     2 * (GDN_CHUNK * GDN_PITCH_T * 2) + 2 * (GDN_CHUNK * GDN_PITCH_X * 2) +                       \
     2 * (16 * 16 * GDN_PITCH_X * 2) + GDN_CHUNK * 4)
#define GDN_WU_K_SLOTS 3u /* chunks of K, and of V, in flight or in use at once */
#define GDN_WU_V_SLOTS 2u
/* K and V; twice the limbs of L and T; diagonal blocks of L; gates; tiles; barriers; places. */
#define GDN_WU_REGISTERS_SMEM                                                                      \
    ((GDN_WU_K_SLOTS + GDN_WU_V_SLOTS) * GDN_CHUNK * GDN_K_DIM * 2 + 2 * 2 * 10 * (16 * 16 * 2) +  \
     4 * (16 * 20 + 16) * 4 + GDN_WU_K_SLOTS * 3 * GDN_CHUNK * 4 + 4 * 16 +                        \
     (GDN_WU_K_SLOTS + GDN_WU_V_SLOTS + 2) * 8 + 6 * 4)
#define GDN_WU_REGISTERS_BLOCK 384u
#define GDN_FWD_O_HOPPER_SMEM                                                                      \
    (2 * (GDN_CHUNK * GDN_PITCH * 2) + GDN_K_DIM * GDN_PITCH * 2 + GDN_K_DIM * GDN_PITCH_T * 2 +   \
     GDN_CHUNK * GDN_PITCH_T * 2 + GDN_CHUNK * 4)
#define GDN_SPLIT_STAGES 4u
#define GDN_SPLIT_COLUMNS 64u /* of v, that a block of the split spine takes */
/* Its stages of W, K, U and gc, two each of its S and uc, four decay rows, four barriers a stage.
 */
#define GDN_SPLIT_SMEM                                                                             \
    (GDN_SPLIT_STAGES *                                                                            \
         ((2 * GDN_CHUNK * GDN_K_DIM + GDN_CHUNK * GDN_SPLIT_COLUMNS) * 2 + GDN_CHUNK * 4) +       \
     2 * (GDN_K_DIM + GDN_CHUNK) * GDN_SPLIT_COLUMNS * 2 + 4 * GDN_CHUNK * 4 +                     \
     GDN_SPLIT_STAGES * 4 * 8)
#define GDN_SPLIT_BLOCK 160u

#define GDN_QUARTER_COLUMNS 32u /* of v, that a block of the spine by quarters takes */
/* Its stages of W, K, U and twice gc, three tiles of S, four of d and uc, four barriers a stage and
 * six more, two words. */
#define GDN_QUARTER_SMEM                                                                           \
    (GDN_SPLIT_STAGES * ((2 * GDN_CHUNK * GDN_K_DIM + GDN_CHUNK * GDN_QUARTER_COLUMNS) * 2 +       \
                         2 * GDN_CHUNK * 4 + 4 * 8) +                                              \
     (3 * GDN_K_DIM + 4 * GDN_CHUNK) * GDN_QUARTER_COLUMNS * 2 + 6 * 8 + 8)
#define GDN_QUARTER_BLOCK 448u
/* Q, K and uc; two of S; two rows of gc; four barriers. */
#define GDN_FWD_O_PERSISTENT_SMEM                                                                  \
    (3 * GDN_CHUNK * GDN_K_DIM * 2 + 2 * GDN_K_DIM * GDN_V_DIM * 2 + 2 * GDN_CHUNK * 4 + 4 * 8)
#define GDN_FWD_O_PERSISTENT_BLOCK 128u
#define GDN_WU_BLOCK 256u
#define GDN_WU_HOPPER_BLOCK 512u
#define GDN_SPINE_BLOCK 256u
#define GDN_VTILE_BLOCK 512u
#define GDN_FWD_O_BLOCK 512u

struct gdn_desc {
    kpk_message_fn message; /* NULL: messages are dropped */
    void *message_user;
};

/* Which of the fused scalar spines the levers ask for. */
enum gdn_fused {
    GDN_FUSED_PIPE = 0,
    GDN_FUSED_VFUSED,
    GDN_FUSED_VTILE,
};

enum gdn_kernel {
    GDN_WU,
    GDN_WU_HOPPER,
    GDN_WU_REGISTERS,
    GDN_KSPLIT,
    GDN_VFUSED,
    GDN_PIPE,
    GDN_VTILE,
    GDN_TC_VBLOCK,
    GDN_TMA,
    GDN_TCFUSE_X2,
    GDN_X2_V32, /* _tcfuse_x2 by halves of v, in four for one wave of blocks */
    GDN_X2_V64, /* in two */
    GDN_FWD_O,
    GDN_FWD_O_MMA8,
    GDN_FWD_O_HOPPER,
    GDN_FWD_O_PERSISTENT,
    GDN_KERNEL_COUNT
};

/* The levers, read once by gdn_bind. */
struct gdn_levers {
    bool tc;          /* METRALE_GDN_PREFILL_TC: the tensor-core spine and both Hopper twins */
    bool no_remnants; /* METRALE_NO_GDN_PREFILL_TC_REMNANTS=1: keeps the spine, not the twins */
    bool no_mma8;     /* METRALE_NO_GDN_FWD_O_MMA8 is set */
    bool tma;         /* METRALE_GDN_TMA=1 */
    bool vtile_off;   /* METRALE_GDN_VTILE=0: no fused spine */
    bool tc_vblock;   /* METRALE_GDN_TC_VBLOCK=1 */
    enum gdn_fused fused;
};

/* Handles, levers and the callback. Filled by gdn_bind; borrows the image. A zero handle means that
 * the image does not ship the kernel. */
struct gdn {
    kpk_image *image;
    kpk_message_fn message;
    void *message_user;
    kpk_kernel kernels[GDN_KERNEL_COUNT];
    struct gdn_levers levers;
    uint32_t sm_count; /* of the image's device; 0: not declared */
};

/* Resolves the kernels, reads the levers once and compares constants, blocks and shared memory with
 * the image's. `desc` may be NULL. Errors: ARGUMENT, CONSTANT (both values are named), NOT_BOUND (a
 * bundle before kpk_bind). */
KPK_API kpk_status gdn_bind(kpk_image *image, const struct gdn_desc *desc, struct gdn *out_ops);

/* Device addresses unless said otherwise; strides in elements; rows are tokens. */
struct gdn_args {
    /* f32 [nv][128][128] per sequence, row k, column v, updated in place: batch of them one after
     * another, or with h_state_is_table an array of `batch` device pointers. 16-byte aligned. A
     * fresh sequence's state must be zeroed by the caller. */
    uint64_t h_state;
    uint64_t query, key; /* bf16, (t, kh, j) at t * qk_stride + kh * 128 + j */
    uint64_t value;      /* bf16, (t, vh, j) at t * v_stride + vh * 128 + j */
    uint64_t gate, beta; /* f32, (t, vh) at t * gb_stride + vh; gate is the linear decay */
    uint64_t output;     /* bf16 [tokens][nv][128]; 16-byte aligned */
    /* Scratch of gdn_scratch_sizes() bytes each, 16-byte aligned, contents don't matter. The sizes
     * that the caller has; 0: not checked. */
    uint64_t w, u, s, uc, gc;
    uint64_t w_bytes, u_bytes, s_bytes, uc_bytes, gc_bytes;
    uint32_t batch;      /* sequences */
    uint32_t seq_len;    /* tokens of each sequence; of no meaning to a varlen call but for logs */
    uint32_t num_chunks; /* ceil(seq_len / 64); varlen: the maximum over the sequences */
    uint32_t nk, nv;     /* key and value heads, nv a multiple of nk */
    uint32_t k_dim, v_dim;
    uint32_t qk_stride, v_stride, gb_stride;
    bool h_state_is_table;
    bool is_varlen; /* cu_seqlens: i32 [batch + 1] token offsets; else that is 0 */
    uint64_t cu_seqlens;
    uint64_t cu_chunks; /* passed on, never read */
    bool profile;       /* synchronise after each stage and log its time */
    /* Host copies for checking; NULL: not checked. */
    const int32_t *cu_seqlens_host; /* [batch + 1] */
    const uint64_t *h_state_host;   /* [batch], the table */
    uint64_t total_tokens; /* rows that query, key, value and output have; 0: not checked */
};

struct gdn_scratch {
    uint64_t w, u, s, uc, gc; /* bytes */
    uint64_t blocks;          /* (chunk, value head) pairs */
};

/* The scratch that a call needs: batch * num_chunks * nv blocks, or for a varlen call with
 * cu_seqlens_host only those that exist. 82,176 bytes a block; UINT64_MAX for what 64 bits don't
 * count. */
KPK_API void gdn_scratch_sizes(const struct gdn_args *args, struct gdn_scratch *out_scratch);

/* What the checks before a launch say: KPK_OK, or KPK_ERR_UNSUPPORTED with the message in text. */
KPK_API kpk_status gdn_check(const struct gdn_args *args, char *text, size_t size);

/* Nothing to do: batch, num_chunks or (not varlen) seq_len is 0. gdn_check refuses a num_chunks of
 * 0 that cu_seqlens_host contradicts. */
KPK_API bool gdn_is_empty(const struct gdn_args *args);

/* ---- Guards: pure functions. The reason why a kernel does not run, NULL when it does ----------
 */

KPK_API const char *gdn_tc_spine_reject(bool requested, bool kernel_present, uint32_t k_dim,
                                        uint32_t v_dim, uint32_t chunk, uint32_t qk_stride);
KPK_API const char *gdn_tma_reject(bool requested, bool tc_runs, bool kernel_present,
                                   bool is_varlen, uint32_t k_dim, uint32_t v_dim, uint32_t chunk,
                                   uint32_t qk_stride);
/* Of a Hopper twin of recompute_wu or chunk_fwd_o. */
KPK_API const char *gdn_twin_reject(bool requested, bool no_remnants, bool kernel_present,
                                    uint32_t k_dim, uint32_t v_dim, uint32_t chunk);
KPK_API const char *gdn_mma8_reject(bool twin_runs, bool kernel_present, bool lever_forbids,
                                    uint32_t k_dim, uint32_t v_dim);
KPK_API const char *gdn_fused_reject(bool vtile_off, bool kernel_present);
KPK_API const char *gdn_tc_vblock_reject(bool requested, bool kernel_present, uint32_t batch);
/* From the values of METRALE_GDN_VTILE and METRALE_GDN_PIPE, "" when unset. */
KPK_API enum gdn_fused gdn_fused_of(const char *vtile, const char *pipe);

/* Why a stage's 16-byte loads cannot take these rows; NULL when they can. `value` 0: not loaded so;
 * `query` 0 likewise. */
KPK_API const char *gdn_vector_reject(uint64_t query, uint64_t key, uint64_t value,
                                      uint32_t qk_stride, uint32_t v_stride);

/* Why 16-byte loads cannot take value's rows. */
KPK_API const char *gdn_wide_value_reject(uint64_t value, uint32_t v_stride);

/* ---- The route --------------------------------------------------------------------------------
 */

struct gdn_stage {
    enum gdn_kernel kernel;
    const char *module, *entry; /* fixed strings; "" when nothing was launched */
    kpk_grid grid;
    uint32_t block, smem;
};

/* What is launched for each stage, and why each kernel preferred to it is not. The reasons are
 * fixed strings; NULL: it runs, or a kernel before it in this order does. */
struct gdn_route {
    struct gdn_stage wu, spine, fwd_o;
    const char *wu_registers, *wu_hopper; /* wu: these, parent */
    /* spine: these, then _ksplit */
    const char *x2_quarters, *x2_halves, *tcfuse_x2, *tma, *fused, *tc_vblock;
    /* fwd_o: these, then the parent */
    const char *fwd_o_persistent, *fwd_o_hopper, *mma8;
};

/* Chooses by the guards, the levers and the handles: pure. KPK_ERR_ABSENT when the image lacks the
 * only kernel left for a stage, with the message in text. */
KPK_API kpk_status gdn_choose(const struct gdn *ops, const struct gdn_args *args,
                              struct gdn_route *out_route, char *text, size_t size);

/* One line: the three entries, then each refusal. Returns what snprintf returns. */
KPK_API int gdn_route_line(const struct gdn_route *route, char *text, size_t size);

/* ---- The launcher -----------------------------------------------------------------------------
 */

/* Launches the three stages on `stream`. A stage's first steps may overlap the end of the one
 * before (programmatic dependent launch, in a captured stream too); a call begins after all before
 * it. An empty call (gdn_is_empty) launches nothing. `out_route`
 * may be NULL. Errors: ARGUMENT (ops or args is NULL), UNSUPPORTED (a check failed), ABSENT, DRIVER
 * (a tensor map, a synchronisation), NO_DRIVER (the driver lacks a function that these need), and
 * those of kpk_launch. What was launched before an error stays launched. */
KPK_API kpk_status gdn_prefill_fla(const struct gdn *ops, const struct gdn_args *args,
                                   struct CUstream_st *stream, struct gdn_route *out_route);

/* ---- Entries ----------------------------------------------------------------------------------
 */

/* Module, name, block and dynamic shared memory of a kernel. */
struct gdn_entry {
    const char *module, *name;
    uint32_t block, smem;
};
KPK_API const struct gdn_entry *gdn_entry_of(enum gdn_kernel kernel);

#ifdef __cplusplus
}
#endif

#endif
