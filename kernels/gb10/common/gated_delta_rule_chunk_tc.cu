// gated_delta_rule_chunk_tc.cu: the tensor-core state spine. The f32 state lives in MMA accumulators:
// warp w holds rows k = 16 w .. 16 w + 15, all V_DIM columns. Per chunk
//   phase A: ws = W S;  uc = U - ws;  d = decay uc      phase B: S = decay_0 S + K^T d
// with S and d as one bf16 limb (_tcfuse) or two (_tcfuse_x2: high, then low, into the same sums).
// Tiles are stored as they are in memory, rows PITCH apart, and transposed by ldmatrix where a product
// needs it, so that the snapshot and uc leave in 16-byte pieces.
#include "gdn_entry.cuh"

typedef gdn_padded<PITCH> gdn_tc_tile;

struct gdn_tc_smem {
    u8 state[K_DIM * PITCH * 2]; // a limb of S, row k; then K, row i
    u8 w[CHUNK * PITCH * 2];     // W; then d's low limb, row i
    u8 u[CHUNK * PITCH * 2];     // U; then uc
    u8 d[K_DIM * PITCH_T * 2];   // d's high limb, row i
    float decay[CHUNK + 1];
};

static_assert(sizeof(gdn_tc_smem) == KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse &&
                  sizeof(gdn_tc_smem) == KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse_x2,
              "the description declares other bytes than gdn_tc_smem");
static_assert(CHUNK * PITCH <= K_DIM * PITCH_T, "d's rows fit");
static_assert(PITCH % 8 == 0 && PITCH / 8 % 8 != 0, "16-byte rows that do not share a bank");

#define GDN_TC_THREADS 256
static_assert(KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse == GDN_TC_THREADS &&
                  KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse_x2 == GDN_TC_THREADS,
              "eight warps cover the 128 rows of the state");

extern __shared__ __align__(128) u8 gdn_smem[];

DEVICE u32 *gdn_tc_pair(u8 *tile, int row, int column)
{
    return (u32 *)(tile + row * (PITCH * 2) + column * 2);
}

// bf16 of what `limb` earlier roundings left over.
DEVICE u32 gdn_tc_limb(float low, float high, int limb)
{
    const u32 pair = bf16x2_from_f32(low, high);
    if (limb == 0)
        return pair;
    return bf16x2_from_f32(low - f32_from_bf16_low(pair), high - f32_from_bf16_high(pair));
}

// A limb of the warp's rows of the state, from accumulators to shared memory.
DEVICE void gdn_tc_put_state(u8 *tile, const float (&s)[V_DIM / 8][4], int k, int limb, int lane)
{
#pragma unroll
    for (int j = 0; j < V_DIM / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            *gdn_tc_pair(tile, k + (lane >> 2) + 8 * half, 8 * j + 2 * (lane & 3)) =
                gdn_tc_limb(s[j][2 * half], s[j][2 * half + 1], limb);
}

// ws += W S for the 16 x 64 tile at (m, n); K windows ascend.
DEVICE void gdn_tc_phase_a(float (&ws)[8][4], const gdn_tc_smem &smem, int m, int n, int lane)
{
#pragma unroll
    for (int window = 0; window < K_DIM; window += 16) {
        u32 a[4], b[4];
        gdn_load_a<gdn_tc_tile>(a, smem_address(smem.w), m, window, lane);
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            gdn_load_b_trans<gdn_tc_tile>(b, smem_address(smem.state), window, n + 8 * j, lane);
            gdn_mma_pair(ws[j], ws[j + 1], a, b);
        }
    }
}

// s += K^T d for rows k..k+15; windows of rows i ascend.
DEVICE void gdn_tc_phase_b(float (&s)[V_DIM / 8][4], const u8 *key, const u8 *d, int k, int lane)
{
#pragma unroll
    for (int window = 0; window < CHUNK; window += 16) {
        u32 a[4], b[4];
        gdn_load_a_trans<gdn_tc_tile>(a, smem_address(key), window, k, lane);
#pragma unroll
        for (int j = 0; j < V_DIM / 8; j += 2) {
            gdn_load_b_trans<gdn_tc_tile>(b, smem_address(d), window, 8 * j, lane);
            gdn_mma_pair(s[j], s[j + 1], a, b);
        }
    }
}

// From ws to uc in U's place, and to the limbs of d = decay uc, zero past the last row.
template <int LIMBS>
DEVICE void gdn_tc_delta(gdn_tc_smem &smem, const float (&ws)[8][4], int m, int n, int rows, int lane)
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int i = m + (lane >> 2) + 8 * half;
        const float decay = smem.decay[1 + i];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int v = n + 8 * j + 2 * (lane & 3);
            u32 *const u = gdn_tc_pair(smem.u, i, v);
            const float low = f32_from_bf16_low(*u) - ws[j][2 * half];
            const float high = f32_from_bf16_high(*u) - ws[j][2 * half + 1];
            *u = bf16x2_from_f32(low, high);
            const float d_low = i < rows ? decay * low : 0.0f;
            const float d_high = i < rows ? decay * high : 0.0f;
            *gdn_tc_pair(smem.d, i, v) = gdn_tc_limb(d_low, d_high, 0);
            if (LIMBS == 2)
                *gdn_tc_pair(smem.w, i, v) = gdn_tc_limb(d_low, d_high, 1);
        }
    }
}

// `rows` rows of a tile to `to`, rows 128 elements apart.
DEVICE void gdn_tc_copy_out(bf16 *to, const u8 *tile, int rows, int thread)
{
    for (int i = thread; i < rows * 16; i += GDN_TC_THREADS)
        *(uint4 *)(to + i * 8) = *(const uint4 *)(tile + gdn_tc_tile::at(i >> 4, i & 15));
}

template <int LIMBS>
DEVICE void gdn_tc_spine(void *h_state, const bf16 *w, const bf16 *u, const bf16 *key, const float *gc,
                         bf16 *s_out, bf16 *uc_out, u32 seq_len, u32 num_chunks, u32 nk, u32 nv,
                         u32 qk_stride, u32 h_state_is_table, const int *cu_seqlens, u32 is_varlen)
{
    gdn_tc_smem &smem = *(gdn_tc_smem *)gdn_smem;
    const u32 vh = blockIdx.x, b = blockIdx.y;
    const gdn_sequence sequence = gdn_locate(b, seq_len, num_chunks, cu_seqlens, is_varlen);
    if (sequence.length == 0)
        return;
    const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const int k = 16 * warp, m = 16 * (warp & 3), n = 64 * (warp >> 2);
    float *const state = gdn_state(h_state, h_state_is_table, b, vh, nv) +
                         (k + (lane >> 2)) * V_DIM + 2 * (lane & 3);
    key += sequence.token * qk_stride + (vh / (nv / nk)) * K_DIM;

    float s[V_DIM / 8][4]; // [16 k][128 v] a warp
#pragma unroll
    for (int j = 0; j < V_DIM / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float2 pair = *(const float2 *)(state + 8 * half * V_DIM + 8 * j);
            s[j][2 * half] = pair.x;
            s[j][2 * half + 1] = pair.y;
        }
#pragma unroll 1
    for (u32 c = 0; c < sequence.chunks; ++c) {
        const int rows = gdn_rows(sequence, c);
        const u64 base = (sequence.chunk + c) * nv + vh;
        gdn_copy_chunk<gdn_tc_tile>(smem_address(smem.w), w + base * (CHUNK * K_DIM), K_DIM, rows,
                                    thread, GDN_TC_THREADS);
        gdn_copy_chunk<gdn_tc_tile>(smem_address(smem.u), u + base * (CHUNK * V_DIM), V_DIM, rows,
                                    thread, GDN_TC_THREADS);
        cp_async_commit();
        uint4 keys[4]; // K, 16-byte piece thread + 256 p
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            const int row = (thread >> 4) + 16 * p;
            keys[p] = make_uint4(0, 0, 0, 0);
            if (row < rows)
                keys[p] = *(const uint4 *)(key + ((u64)c * CHUNK + row) * qk_stride + (thread & 15) * 8);
        }
        gdn_decay_row(smem.decay, gc + base * CHUNK, rows, thread);
        gdn_tc_put_state(smem.state, s, k, 0, lane);
        cp_async_wait<0>();
        __syncthreads();

        gdn_tc_copy_out(s_out + base * (K_DIM * V_DIM), smem.state, K_DIM, thread);
        float ws[8][4] = {}; // [16 i][64 v] a warp
        gdn_tc_phase_a(ws, smem, m, n, lane);
        __syncthreads();
        if (LIMBS == 2) {
            gdn_tc_put_state(smem.state, s, k, 1, lane);
            __syncthreads();
            gdn_tc_phase_a(ws, smem, m, n, lane);
            __syncthreads();
        }

        gdn_tc_delta<LIMBS>(smem, ws, m, n, rows, lane);
#pragma unroll
        for (int p = 0; p < 4; ++p)
            *(uint4 *)(smem.state + gdn_tc_tile::at((thread >> 4) + 16 * p, thread & 15)) = keys[p];
        const float decay = smem.decay[0];
#pragma unroll
        for (int j = 0; j < V_DIM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[j][e] = s[j][e] * decay;
        __syncthreads();

        gdn_tc_copy_out(uc_out + base * (CHUNK * V_DIM), smem.u, rows, thread);
        gdn_tc_phase_b(s, smem.state, smem.d, k, lane);
        if (LIMBS == 2)
            gdn_tc_phase_b(s, smem.state, smem.w, k, lane);
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < V_DIM / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            *(float2 *)(state + 8 * half * V_DIM + 8 * j) =
                make_float2(s[j][2 * half], s[j][2 * half + 1]);
}

extern "C" __global__ void __launch_bounds__(GDN_TC_THREADS)
    gated_delta_rule_chunk_delta_h_tcfuse(GDN_SPINE_PARAMETERS)
{
    gdn_tc_spine<1>(h_state, w, u, key, gc, s_out, uc_out, seq_len, num_chunks, nk, nv, qk_stride,
                    h_state_is_table, cu_seqlens, is_varlen);
}

extern "C" __global__ void __launch_bounds__(GDN_TC_THREADS)
    gated_delta_rule_chunk_delta_h_tcfuse_x2(GDN_SPINE_PARAMETERS)
{
    gdn_tc_spine<2>(h_state, w, u, key, gc, s_out, uc_out, seq_len, num_chunks, nk, nv, qk_stride,
                    h_state_is_table, cu_seqlens, is_varlen);
}
