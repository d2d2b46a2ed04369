// gdn_recompute_wu_hopper.cu: the tensor-core twin of gated_delta_rule_recompute_wu. gc has the parent's
// bits; W and U come from a blocked solve over four blocks of 16 rows,
//   T_j = (I + L_jj)^-1;  for j = 0..3:  X_j = T_j B_j,  B_i += (-L_ij) X_j for i > j,
// in which every operand is two bf16 limbs, high and low, and each product is accumulated as high high,
// high low, low high.
#include "gdn_entry.cuh"

#define GDN_WU_THREADS 512
static_assert(PITCH_X % 8 == 0 && PITCH_X / 8 % 2 == 1, "16-byte rows in eight different bank groups");

typedef gdn_padded<PITCH> gdn_wu_wide;
typedef gdn_padded<PITCH_T> gdn_wu_square;
typedef gdn_padded<PITCH_X> gdn_wu_narrow;

struct gdn_wu_smem {
    u8 k[CHUNK * PITCH * 2];
    float l_diagonal[CHUNK][PITCH_X]; // blocks L_jj below one another
    float t[CHUNK][PITCH_X];          // blocks T_j, likewise
    u8 l_high[CHUNK * PITCH_T * 2], l_low[CHUNK * PITCH_T * 2]; // -L below the diagonal blocks
    u8 t_high[CHUNK * PITCH_X * 2], t_low[CHUNK * PITCH_X * 2];
    u8 x_high[16][16 * PITCH_X * 2], x_low[16][16 * PITCH_X * 2]; // one a warp
    float gc[CHUNK];
};

static_assert(sizeof(gdn_wu_smem) == KPK_SMEM_gated_delta_rule_recompute_wu_hopper,
              "the description declares other bytes than gdn_wu_smem");
static_assert(KPK_BLOCK_gated_delta_rule_recompute_wu_hopper == GDN_WU_THREADS,
              "sixteen warps take 16 of the 256 columns each");

extern __shared__ __align__(128) u8 gdn_smem[];

// Stores a pair's limbs at (row, column) of two tiles.
template <class TILE>
DEVICE void gdn_wu_put(u8 *high_tile, u8 *low_tile, int row, int column, float a, float b)
{
    const u32 at = TILE::at(row, 0) + column * 2;
    const u32 high = bf16x2_from_f32(a, b);
    *(u32 *)(high_tile + at) = high;
    *(u32 *)(low_tile + at) =
        bf16x2_from_f32(a - f32_from_bf16_low(high), b - f32_from_bf16_high(high));
}

// A 16 x 16 accumulator to the limbs in a warp's own tiles.
DEVICE void gdn_wu_put_x(gdn_wu_smem &smem, const float (&x)[2][4], int warp, int lane)
{
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            gdn_wu_put<gdn_wu_narrow>(smem.x_high[warp], smem.x_low[warp], (lane >> 2) + 8 * half,
                                      8 * j + 2 * (lane & 3), x[j][2 * half], x[j][2 * half + 1]);
}

// x += A B with A at (row, column) of two limb tiles and B in the warp's own.
template <class TILE>
DEVICE void gdn_wu_multiply(float (&x)[2][4], const gdn_wu_smem &smem, const u8 *high, const u8 *low,
                            int row, int column, int warp, int lane)
{
    u32 a_high[4], a_low[4], b_high[4], b_low[4];
    gdn_load_a<TILE>(a_high, smem_address(high), row, column, lane);
    gdn_load_a<TILE>(a_low, smem_address(low), row, column, lane);
    gdn_load_b_trans<gdn_wu_narrow>(b_high, smem_address(smem.x_high[warp]), 0, 0, lane);
    gdn_load_b_trans<gdn_wu_narrow>(b_low, smem_address(smem.x_low[warp]), 0, 0, lane);
    gdn_mma_pair(x[0], x[1], a_high, b_high);
    gdn_mma_pair(x[0], x[1], a_high, b_low);
    gdn_mma_pair(x[0], x[1], a_low, b_high);
}

// L for the 16 x 16 tile at (i, l) = (m, n) of the lower half, from its Gram tile.
DEVICE void gdn_wu_put_l(gdn_wu_smem &smem, const float (&gram)[2][4], const float *beta, u64 stride,
                         int rows, int m, int n, int lane)
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int i = m + (lane >> 2) + 8 * half;
        const float factor = i < rows ? beta[i * stride] : 0.0f;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            float value[2];
            const int l = n + 8 * j + 2 * (lane & 3);
#pragma unroll
            for (int e = 0; e < 2; ++e)
                value[e] = i < rows && l + e < i ? (factor * expf(smem.gc[i] - smem.gc[l + e])) *
                                                       gram[j][2 * half + e]
                                                 : 0.0f;
            if (m == n)
                *(float2 *)&smem.l_diagonal[i][l - n] = make_float2(value[0], value[1]);
            else
                gdn_wu_put<gdn_wu_square>(smem.l_high, smem.l_low, i, l, -value[0], -value[1]);
        }
    }
}

// Column `column` of T for the block at row `first`, by forward substitution.
DEVICE void gdn_wu_invert(gdn_wu_smem &smem, int first, int column)
{
    float x[16];
#pragma unroll
    for (int r = 0; r < 16; ++r) {
        float sum = r == column ? 1.0f : 0.0f;
#pragma unroll
        for (int q = 0; q < r; ++q)
            sum = sum - smem.l_diagonal[first + r][q] * x[q];
        x[r] = sum;
        smem.t[first + r][column] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(GDN_WU_THREADS, 1)
    gated_delta_rule_recompute_wu_hopper(GDN_WU_PARAMETERS)
{
    gdn_wu_smem &smem = *(gdn_wu_smem *)gdn_smem;
    const u32 c = blockIdx.x, vh = blockIdx.y;
    const gdn_chunk chunk = gdn_my_chunk(c, seq_len, num_chunks, cu_seqlens, is_varlen);
    if (!chunk.exists())
        return;
    const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const int rows = chunk.rows();
    const u64 token = chunk.token(), base = chunk.base(vh, nv);
    const float *gates = gate + token * gb_stride + vh, *betas = beta + token * gb_stride + vh;

    gdn_copy_chunk<gdn_wu_wide>(smem_address(smem.k),
                                key + token * qk_stride + (vh / (nv / nk)) * K_DIM, qk_stride, rows,
                                thread, GDN_WU_THREADS);
    cp_async_commit();
    gdn_gate_logs(smem.gc, gates, gb_stride, rows, thread);
    cp_async_wait<0>();
    __syncthreads();

    // The ten 16 x 16 tiles (m, n) of the Gram's lower half, one each for warps 0..9.
    const int row = warp < 1 ? 0 : warp < 3 ? 1 : warp < 6 ? 2 : 3;
    const int m = 16 * row, n = 16 * (warp - row * (row + 1) / 2);
    float gram[2][4] = {};
    if (thread == GDN_WU_THREADS - 1)
        gdn_gate_prefix(smem.gc);
    if (warp < 10) {
#pragma unroll
        for (int window = 0; window < K_DIM; window += 16) {
            u32 a[4], b[4];
            gdn_load_a<gdn_wu_wide>(a, smem_address(smem.k), m, window, lane);
            gdn_load_b<gdn_wu_wide>(b, smem_address(smem.k), n, window, lane);
            gdn_mma_pair(gram[0], gram[1], a, b);
        }
    }
    __syncthreads();
    if (thread < rows)
        gc_out[base * CHUNK + thread] = smem.gc[thread];
    if (warp < 10)
        gdn_wu_put_l(smem, gram, betas, gb_stride, rows, m, n, lane);

    // Right-hand sides in registers: warps 0..7 take U's columns, the others W's.
    const bool is_w = warp >= 8;
    const int column = 16 * (warp & 7);
    float x[4][2][4]; // [block of 16 i][16 columns]
#pragma unroll
    for (int block = 0; block < 4; ++block)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = 16 * block + (lane >> 2) + 8 * half;
            float factor = i < rows ? betas[i * (u64)gb_stride] : 0.0f;
            if (is_w)
                factor = factor * expf(smem.gc[i]);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int at = column + 8 * j + 2 * (lane & 3);
                u32 pair = 0;
                if (is_w)
                    pair = *(const u32 *)(smem.k + gdn_wu_wide::at(i, 0) + at * 2);
                else if (i < rows)
                    pair = *(const u32 *)(value + (token + i) * v_stride + (u64)vh * V_DIM + at);
                x[block][j][2 * half] = factor * f32_from_bf16_low(pair);
                x[block][j][2 * half + 1] = factor * f32_from_bf16_high(pair);
            }
        }
    __syncthreads();
    if (thread < CHUNK)
        gdn_wu_invert(smem, thread & ~15, thread & 15);
    __syncthreads();
    gdn_wu_put<gdn_wu_narrow>(smem.t_high, smem.t_low, thread >> 3, 2 * (thread & 7),
                              smem.t[thread >> 3][2 * (thread & 7)],
                              smem.t[thread >> 3][2 * (thread & 7) + 1]);
    __syncthreads();

    bf16 *const out = (is_w ? w_out : u_out) + base * (CHUNK * V_DIM) + column;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        float solved[2][4] = {};
        gdn_wu_put_x(smem, x[j], warp, lane);
        __syncwarp();
        gdn_wu_multiply<gdn_wu_narrow>(solved, smem, smem.t_high, smem.t_low, 16 * j, 0, warp, lane);
        __syncwarp();
        gdn_wu_put_x(smem, solved, warp, lane);
        __syncwarp();
        const int i = 16 * j + (lane >> 1);
        if (i < rows)
            *(uint4 *)(out + i * V_DIM + 8 * (lane & 1)) =
                *(const uint4 *)(smem.x_high[warp] + gdn_wu_narrow::at(lane >> 1, lane & 1));
#pragma unroll
        for (int later = j + 1; later < 4; ++later)
            gdn_wu_multiply<gdn_wu_square>(x[later], smem, smem.l_high, smem.l_low, 16 * later, 16 * j,
                                           warp, lane);
        __syncwarp();
    }
}
