// gdn_fwd_o_hopper.cu: the tensor-core twin of gated_delta_rule_chunk_fwd_o. One f32 accumulator takes
// Q S, is scaled by expf(gc_i), and takes kq uc with kq in two bf16 limbs: the output is rounded once.
#include "gdn_entry.cuh"

#define GDN_FWD_O_THREADS 512

typedef gdn_padded<PITCH> gdn_fwd_o_wide;
typedef gdn_padded<PITCH_T> gdn_fwd_o_square;

struct gdn_fwd_o_smem {
    u8 q[CHUNK * PITCH * 2];
    u8 k[CHUNK * PITCH * 2];   // K; then kq's low limb, row i
    u8 s[K_DIM * PITCH * 2];   // row k
    u8 uc[K_DIM * PITCH_T * 2]; // row l, PITCH apart; zeros past the last row
    u8 kq[CHUNK * PITCH_T * 2]; // kq's high limb, row i
    float gc[CHUNK];
};

static_assert(sizeof(gdn_fwd_o_smem) == KPK_SMEM_gated_delta_rule_chunk_fwd_o_hopper,
              "the description declares other bytes than gdn_fwd_o_smem");
static_assert(CHUNK * PITCH <= K_DIM * PITCH_T && PITCH_T <= PITCH, "uc's rows and the low limb fit");
static_assert(KPK_BLOCK_gated_delta_rule_chunk_fwd_o_hopper == GDN_FWD_O_THREADS,
              "sixteen warps take 16 x 32 of the output each");

extern __shared__ __align__(128) u8 gdn_smem[];

// kq for the 16 x 16 tile at (i, l) = (m, n), decayed and masked, kept as pairs' limbs.
DEVICE void gdn_fwd_o_kq(u32 (&high)[2][2], u32 (&low)[2][2], const gdn_fwd_o_smem &smem, int m, int n,
                         int rows, int lane)
{
    float acc[2][4] = {};
#pragma unroll
    for (int window = 0; window < K_DIM; window += 16) {
        u32 a[4], b[4];
        gdn_load_a<gdn_fwd_o_wide>(a, smem_address(smem.q), m, window, lane);
        gdn_load_b<gdn_fwd_o_wide>(b, smem_address(smem.k), n, window, lane);
        gdn_mma_pair(acc[0], acc[1], a, b);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = m + (lane >> 2) + 8 * half, l = n + 8 * j + 2 * (lane & 3);
            float kq[2];
#pragma unroll
            for (int e = 0; e < 2; ++e)
                kq[e] = i < rows && l + e <= i
                            ? expf(smem.gc[i] - smem.gc[l + e]) * acc[j][2 * half + e]
                            : 0.0f;
            high[j][half] = bf16x2_from_f32(kq[0], kq[1]);
            low[j][half] = bf16x2_from_f32(kq[0] - f32_from_bf16_low(high[j][half]),
                                           kq[1] - f32_from_bf16_high(high[j][half]));
        }
}

// acc += A[m..][a window] B[window][n..n+31] for `windows` windows of 16.
template <class A_TILE>
DEVICE void gdn_fwd_o_add(float (&acc)[4][4], const u8 *a_tile, const u8 *b_tile, int m, int n,
                          int windows, int lane)
{
#pragma unroll
    for (int window = 0; window < windows; ++window) {
        u32 a[4], b[4];
        gdn_load_a<A_TILE>(a, smem_address(a_tile), m, 16 * window, lane);
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            gdn_load_b_trans<gdn_fwd_o_wide>(b, smem_address(b_tile), 16 * window, n + 8 * j, lane);
            gdn_mma_pair(acc[j], acc[j + 1], a, b);
        }
    }
}

extern "C" __global__ void __launch_bounds__(GDN_FWD_O_THREADS, 2)
    gated_delta_rule_chunk_fwd_o_hopper(GDN_FWD_O_PARAMETERS)
{
    gdn_fwd_o_smem &smem = *(gdn_fwd_o_smem *)gdn_smem;
    const u32 c = blockIdx.x, vh = blockIdx.y;
    const gdn_chunk chunk = gdn_my_chunk(c, seq_len, num_chunks, cu_seqlens, is_varlen);
    if (!chunk.exists())
        return;
    const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const int rows = chunk.rows();
    const u64 token = chunk.token(), base = chunk.base(vh, nv);
    const u64 head = token * qk_stride + (vh / (nv / nk)) * K_DIM;

    gdn_copy_chunk<gdn_fwd_o_wide>(smem_address(smem.q), query + head, qk_stride, rows, thread,
                                   GDN_FWD_O_THREADS);
    gdn_copy_chunk<gdn_fwd_o_wide>(smem_address(smem.k), key + head, qk_stride, rows, thread,
                                   GDN_FWD_O_THREADS);
    cp_async_commit();
    gdn_copy_rows<gdn_fwd_o_wide>(smem_address(smem.s), s_in + base * (K_DIM * V_DIM), V_DIM, K_DIM,
                                  thread, GDN_FWD_O_THREADS);
    gdn_copy_chunk<gdn_fwd_o_wide>(smem_address(smem.uc), uc_in + base * (CHUNK * V_DIM), V_DIM, rows,
                                   thread, GDN_FWD_O_THREADS);
    cp_async_commit();
    if (thread < CHUNK)
        smem.gc[thread] = thread < rows ? gc[base * CHUNK + thread] : 0.0f;
    cp_async_wait<1>();
    __syncthreads();

    // Warp (mw, nw): 16 rows i from m; first 16 columns l, then 32 columns v.
    const int mw = warp & 3, nw = warp >> 2, m = 16 * mw;
    u32 high[2][2], low[2][2];
    if (nw <= mw)
        gdn_fwd_o_kq(high, low, smem, m, 16 * nw, rows, lane);
    cp_async_wait<0>();
    __syncthreads();
    if (nw <= mw) {
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32 at = gdn_fwd_o_square::at(m + (lane >> 2) + 8 * half, 2 * nw + j) +
                               4 * (lane & 3);
                *(u32 *)(smem.kq + at) = high[j][half];
                *(u32 *)(smem.k + at) = low[j][half];
            }
    }
    float acc[4][4] = {}; // [16 i][32 v]
    gdn_fwd_o_add<gdn_fwd_o_wide>(acc, smem.q, smem.s, m, 32 * nw, K_DIM / 16, lane);
    const float decay[2] = {expf(smem.gc[m + (lane >> 2)]), expf(smem.gc[m + (lane >> 2) + 8])};
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            acc[j][e] = acc[j][e] * decay[e >> 1];
    __syncthreads();
    // Windows right of the diagonal tile hold zeros and would add nothing.
    gdn_fwd_o_add<gdn_fwd_o_square>(acc, smem.kq, smem.uc, m, 32 * nw, mw + 1, lane);
    gdn_fwd_o_add<gdn_fwd_o_square>(acc, smem.k, smem.uc, m, 32 * nw, mw + 1, lane);

    const float scale = rsqrtf((float)K_DIM);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        u32 word[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            word[j] = bf16x2_from_f32(acc[j][2 * half] * scale, acc[j][2 * half + 1] * scale);
        gdn_transpose_quad(word, lane);
        const int i = m + (lane >> 2) + 8 * half;
        if (i < rows)
            *(uint4 *)(output + ((token + i) * nv + vh) * V_DIM + 32 * nw + 8 * (lane & 3)) =
                make_uint4(word[0], word[1], word[2], word[3]);
    }
}
