// gdn_spine_hopper.cu: the twin of _tcfuse_x2, split over v, with its bits. A computing warp owns 16 columns of
// the state, transposed: products are taken with v on the M side, so that what one leaves in registers is the
// next one's A operand, and no warp needs another's numbers:
//   ws^T = S^T W^T (S's high limb, then its low one);  uc = U - ws;  d = decay uc;  S^T = decay_0 S^T + d^T K
// Beside the computing warps as many helping ones stage W, K and U ahead, compute decay rows and write S and uc.
// All of them meet once a chunk, at one instruction.
#include "gdn.cuh"

static_assert(STAGES >= 2 && (STAGES & (STAGES - 1)) == 0, "a stage is a chunk's low bits");

// WARPS computing warps: 16 WARPS columns of v.
template <int WARPS> struct gdn_split_smem {
    static constexpr int columns = 16 * WARPS;
    static constexpr int pitch = columns + 8; // 16-byte rows that do not share a bank

    struct stage {
        u8 w[CHUNK * K_DIM * 2], k[CHUNK * K_DIM * 2]; // swizzled
        u8 u[CHUNK * pitch * 2];
    };

    stage stages[STAGES];
    u8 s[2][K_DIM * pitch * 2]; // bf16 of S, row k: what S_out takes
    u8 uc[2][CHUNK * pitch * 2];
    float decay[2][CHUNK], first[2]; // of even and odd chunks
};

static_assert(sizeof(gdn_split_smem<2>) == KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse_x2_v32 &&
                  sizeof(gdn_split_smem<4>) == KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse_x2_v64,
              "the description declares other bytes than gdn_split_smem");
static_assert(KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse_x2_v32 == 2 * 2 * 32 &&
                  KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse_x2_v64 == 4 * 2 * 32,
              "a helping warp for each computing one");

extern __shared__ __align__(128) u8 gdn_smem[];

struct gdn_split_head {
    gdn_sequence sequence;
    u32 nv, vh;
    const bf16 *w, *u, *key; // u: the block's columns
    u64 key_stride;
    const float *gc;
    bf16 *s_out, *uc_out; // the block's columns

    DEVICE u64 block(u32 c) const
    {
        return (sequence.chunk + c) * nv + vh;
    }
};

// ---- Helping warps -----------------------------------------------------------------------------------

// Starts the copies of chunk c, zeros past its last row.
template <int WARPS>
DEVICE void gdn_split_stage(gdn_split_smem<WARPS> &smem, const gdn_split_head &head, u32 c, int thread)
{
    typedef gdn_split_smem<WARPS> memory;
    constexpr int threads = 32 * WARPS, pieces = memory::columns / 8;
    typename memory::stage &stage = smem.stages[c & (STAGES - 1)];
    const int rows = gdn_rows(head.sequence, c);
    const u64 base = head.block(c);
    gdn_copy_chunk<gdn_swizzled>(smem_address(stage.w), head.w + base * (CHUNK * K_DIM), K_DIM, rows, thread,
                                 threads);
    gdn_copy_chunk<gdn_swizzled>(smem_address(stage.k), head.key + (u64)c * CHUNK * head.key_stride,
                                 head.key_stride, rows, thread, threads);
    const bf16 *u = head.u + base * (CHUNK * V_DIM);
#pragma unroll
    for (int i = thread; i < CHUNK * pieces; i += threads) {
        const int row = i / pieces, piece = i % pieces;
        const bool valid = row < rows;
        cp_async_16_or_zero(smem_address(stage.u) + gdn_padded<memory::pitch>::at(row, piece),
                            u + (valid ? row * V_DIM + piece * 8 : 0), valid ? 16 : 0);
    }
}

// The decay row of chunk c: decay[i] = expf(gc_last - gc_i), 0 past the last row; first = expf(gc_last).
template <int WARPS>
DEVICE void gdn_split_decay(gdn_split_smem<WARPS> &smem, const gdn_split_head &head, u32 c, int thread)
{
    const int rows = gdn_rows(head.sequence, c);
    const float *gc = head.gc + head.block(c) * CHUNK;
    const float last = gc[rows - 1];
#pragma unroll
    for (int i = thread; i < CHUNK; i += 32 * WARPS)
        smem.decay[c & 1][i] = i < rows ? expf(last - gc[i]) : 0.0f;
    if (thread == 0)
        smem.first[c & 1] = expf(last);
}

// `rows` rows of the block's columns to `to`, rows V_DIM apart.
template <int WARPS> DEVICE void gdn_split_copy_out(bf16 *to, const u8 *tile, int rows, int thread)
{
    typedef gdn_split_smem<WARPS> memory;
    constexpr int pieces = memory::columns / 8;
#pragma unroll 4
    for (int i = thread; i < rows * pieces; i += 32 * WARPS) {
        const int row = i / pieces, piece = i % pieces;
        *(uint4 *)(to + row * V_DIM + piece * 8) =
            *(const uint4 *)(tile + gdn_padded<memory::pitch>::at(row, piece));
    }
}

// Starts the copies of the first chunks, one group each.
template <int WARPS>
DEVICE void gdn_split_help_first(gdn_split_smem<WARPS> &smem, const gdn_split_head &head, int thread)
{
#pragma unroll 1
    for (u32 c = 0; c < STAGES - 1; ++c) {
        if (c < head.sequence.chunks)
            gdn_split_stage<WARPS>(smem, head, c, thread);
        cp_async_commit();
    }
    gdn_split_decay<WARPS>(smem, head, 0, thread);
}

// Beside the computing warps' chunk c: what comes after it, and what came before.
template <int WARPS>
DEVICE void gdn_split_help(gdn_split_smem<WARPS> &smem, const gdn_split_head &head, u32 c, int thread)
{
    const u32 chunks = head.sequence.chunks;
    if (c + STAGES - 1 < chunks)
        gdn_split_stage<WARPS>(smem, head, c + STAGES - 1, thread);
    cp_async_commit();
    if (c + 1 < chunks)
        gdn_split_decay<WARPS>(smem, head, c + 1, thread);
    if (c > 0) {
        const u64 base = head.block(c - 1);
        gdn_split_copy_out<WARPS>(head.s_out + base * (K_DIM * V_DIM), smem.s[(c - 1) & 1], K_DIM, thread);
        gdn_split_copy_out<WARPS>(head.uc_out + base * (CHUNK * V_DIM), smem.uc[(c - 1) & 1],
                                  gdn_rows(head.sequence, c - 1), thread);
    }
    cp_async_wait<STAGES - 2>(); // chunk c + 1 is here
}

// ---- Computing warps ---------------------------------------------------------------------------------

// ws^T += A W^T for windows of k in ascending order.
DEVICE void gdn_split_phase_a(float (&ws)[CHUNK / 8][4], const u32 (&a)[K_DIM / 16][4], u32 w, int lane)
{
#pragma unroll
    for (int window = 0; window < K_DIM / 16; ++window)
#pragma unroll
        for (int j = 0; j < CHUNK / 8; j += 2) {
            u32 b[4];
            gdn_load_b<gdn_swizzled>(b, w, 8 * j, 16 * window, lane);
            gdn_mma_pair(ws[j], ws[j + 1], a[window], b);
        }
}

// S^T += d^T K: d's high limb, then its low one, each with windows of i in ascending order. Eight tiles at a
// time, so that K's fragments serve both limbs.
DEVICE void gdn_split_phase_b(float (&s)[K_DIM / 8][4], const u32 (&high)[CHUNK / 16][4],
                              const u32 (&low)[CHUNK / 16][4], u32 key, int lane)
{
#pragma unroll
    for (int first = 0; first < K_DIM / 8; first += 8) {
        u32 b[CHUNK / 16][4][4];
#pragma unroll
        for (int window = 0; window < CHUNK / 16; ++window)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                gdn_load_b_trans<gdn_swizzled>(b[window][j], key, 16 * window, 8 * first + 16 * j, lane);
                gdn_mma_pair(s[first + 2 * j], s[first + 2 * j + 1], high[window], b[window][j]);
            }
#pragma unroll
        for (int window = 0; window < CHUNK / 16; ++window)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                gdn_mma_pair(s[first + 2 * j], s[first + 2 * j + 1], low[window], b[window][j]);
    }
}

// Where element e of tile j of a lane's s lies in the state.
DEVICE int gdn_split_at(int j, int e)
{
    return (8 * j + (e & 1)) * V_DIM + 8 * (e >> 1);
}

// Chunk c for 16 columns from v of the block's; s is [16 v][128 k].
template <int WARPS>
DEVICE void gdn_split_compute(float (&s)[K_DIM / 8][4], gdn_split_smem<WARPS> &smem, const gdn_sequence &sequence,
                              u32 c, int v, int lane)
{
    typedef gdn_split_smem<WARPS> memory;
    typedef gdn_padded<memory::pitch> tile;
    const int t2 = 2 * (lane & 3);
    const typename memory::stage &stage = smem.stages[c & (STAGES - 1)];
    const u32 w = smem_address(stage.w), key = smem_address(stage.k);
    const int rows = gdn_rows(sequence, c);
    u32 limb[K_DIM / 16][4];
    float ws[CHUNK / 8][4] = {}; // [16 v][64 i]
#pragma unroll
    for (int window = 0; window < K_DIM / 16; ++window) {
        gdn_high_limb(limb[window], s[2 * window], s[2 * window + 1]);
        gdn_store_a_trans<tile>(smem_address(smem.s[c & 1]), limb[window], 16 * window, v, lane);
    }
    gdn_split_phase_a(ws, limb, w, lane);
    const float first = smem.first[c & 1];
#pragma unroll
    for (int window = 0; window < K_DIM / 16; ++window) {
        gdn_low_limb(limb[window], limb[window], s[2 * window], s[2 * window + 1]);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            s[2 * window][e] = s[2 * window][e] * first;
            s[2 * window + 1][e] = s[2 * window + 1][e] * first;
        }
    }
    __syncwarp();
    gdn_split_phase_a(ws, limb, w, lane);

    u32 high[CHUNK / 16][4], low[CHUNK / 16][4];
#pragma unroll
    for (int window = 0; window < CHUNK / 16; ++window) {
        u32 u[4];
        gdn_load_a_trans<tile>(u, smem_address(stage.u), 16 * window, v, lane);
        float d[2][4];
        u32 uc[4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int i = 16 * window + 8 * j + t2;
            const float2 decay = *(const float2 *)&smem.decay[c & 1][i];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float x = f32_from_bf16_low(u[2 * j + half]) - ws[2 * window + j][2 * half];
                const float y = f32_from_bf16_high(u[2 * j + half]) - ws[2 * window + j][2 * half + 1];
                uc[2 * j + half] = bf16x2_from_f32(x, y);
                d[j][2 * half] = i < rows ? decay.x * x : 0.0f;
                d[j][2 * half + 1] = i + 1 < rows ? decay.y * y : 0.0f;
            }
        }
        gdn_store_a_trans<tile>(smem_address(smem.uc[c & 1]), uc, 16 * window, v, lane);
        gdn_high_limb(high[window], d[0], d[1]);
        gdn_low_limb(low[window], high[window], d[0], d[1]);
    }
    gdn_split_phase_b(s, high, low, key, lane);
}

template <int WARPS>
DEVICE void gdn_split_spine(void *h_state, const bf16 *w, const bf16 *u, const bf16 *key, const float *gc,
                            bf16 *s_out, bf16 *uc_out, u32 seq_len, u32 num_chunks, u32 nk, u32 nv,
                            u32 qk_stride, u32 h_state_is_table, const int *cu_seqlens, u32 is_varlen)
{
    typedef gdn_split_smem<WARPS> memory;
    constexpr u32 split = V_DIM / memory::columns;
    memory &smem = *(memory *)gdn_smem;
    const u32 vh = blockIdx.x / split, b = blockIdx.y, first = blockIdx.x % split * memory::columns;
    const gdn_sequence sequence = gdn_locate(b, seq_len, num_chunks, cu_seqlens, is_varlen);
    if (sequence.length == 0)
        return;
    const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const bool computes = warp < WARPS;
    const gdn_split_head head = {
        sequence,  nv, vh,
        w,         u + first,
        key + sequence.token * qk_stride + (vh / (nv / nk)) * K_DIM, qk_stride,
        gc,        s_out + first, uc_out + first,
    };
    float *const state = gdn_state(h_state, h_state_is_table, b, vh, nv) + first + 16 * warp +
                         2 * (lane & 3) * V_DIM + (lane >> 2);
    float s[K_DIM / 8][4];
    if (computes) {
#pragma unroll
        for (int j = 0; j < K_DIM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[j][e] = state[gdn_split_at(j, e)];
    } else {
        gdn_split_help_first<WARPS>(smem, head, thread - 32 * WARPS);
        cp_async_wait<STAGES - 2>(); // chunk 0 is here
    }
#pragma unroll 1
    for (u32 c = 0; c <= sequence.chunks; ++c) {
        __syncthreads();
        if (!computes)
            gdn_split_help<WARPS>(smem, head, c, thread - 32 * WARPS);
        else if (c < sequence.chunks)
            gdn_split_compute<WARPS>(s, smem, sequence, c, 16 * warp, lane);
    }
    if (computes) {
#pragma unroll
        for (int j = 0; j < K_DIM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                state[gdn_split_at(j, e)] = s[j][e];
    }
}

#define SPINE_PARAMETERS                                                                           \
    void *h_state, const bf16 *w, const bf16 *u, const bf16 *key, const float * /*gate*/,          \
        const float *gc, bf16 *s_out, bf16 *uc_out, u32 /*batch*/, u32 seq_len, u32 num_chunks,    \
        u32 nk, u32 nv, u32 /*k_dim*/, u32 /*v_dim*/, u32 qk_stride, u32 /*gb_stride*/,            \
        u32 h_state_is_table, const int *cu_seqlens, const int * /*cu_chunks*/, u32 is_varlen

extern "C" __global__ void __launch_bounds__(128, 1)
    gated_delta_rule_chunk_delta_h_tcfuse_x2_v32(SPINE_PARAMETERS)
{
    gdn_split_spine<2>(h_state, w, u, key, gc, s_out, uc_out, seq_len, num_chunks, nk, nv, qk_stride,
                       h_state_is_table, cu_seqlens, is_varlen);
}

extern "C" __global__ void __launch_bounds__(256, 1)
    gated_delta_rule_chunk_delta_h_tcfuse_x2_v64(SPINE_PARAMETERS)
{
    gdn_split_spine<4>(h_state, w, u, key, gc, s_out, uc_out, seq_len, num_chunks, nk, nv, qk_stride,
                       h_state_is_table, cu_seqlens, is_varlen);
}
