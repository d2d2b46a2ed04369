// gdn_recompute_wu_registers.cu: the twin of gated_delta_rule_recompute_wu_hopper, with its bits. The columns of W and
// U stand on the M side of the products, so that what one leaves in registers is the next one's A operand; V and
// K are staged by 16-byte copies, and U and W leave through their places.
#include "gdn_entry.cuh"

#define GDN_WU_THREADS 256
static_assert(PITCH_X % 8 == 0 && PITCH_X / 8 % 2 == 1, "16-byte rows in eight different bank groups");

typedef gdn_padded<PITCH_T> gdn_wu_square;
typedef gdn_padded<PITCH_X> gdn_wu_narrow;

struct gdn_wu_smem {
    u8 k[CHUNK * K_DIM * 2]; // swizzled; then W
    u8 v[CHUNK * V_DIM * 2]; // swizzled; then U
    u8 l_high[CHUNK * PITCH_T * 2], l_low[CHUNK * PITCH_T * 2]; // -L below the diagonal blocks
    float l_diagonal[CHUNK][PITCH_X];                           // blocks L_jj below one another
    u8 t_high[CHUNK * PITCH_X * 2], t_low[CHUNK * PITCH_X * 2]; // blocks T_j = (I + L_jj)^-1, likewise
    float gc[CHUNK];
    float beta[CHUNK], beta_exp[CHUNK]; // what scales rows of V and of K; 0 past the last row
};

static_assert(sizeof(gdn_wu_smem) == KPK_SMEM_gated_delta_rule_recompute_wu_registers,
              "the description declares other bytes than gdn_wu_smem");
static_assert(KPK_BLOCK_gated_delta_rule_recompute_wu_registers == GDN_WU_THREADS,
              "eight warps take 16 columns of U and of W each");

extern __shared__ __align__(128) u8 gdn_smem[];

// L for the 16 x 16 tile at (i, l) = (m, n) of the lower half, from its Gram tile.
DEVICE void gdn_wu_put_l(gdn_wu_smem &smem, const float (&gram)[2][4], int rows, int m, int n, int lane)
{
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int i = m + (lane >> 2) + 8 * half;
        const float factor = smem.beta[i];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            float value[2];
            const int l = n + 8 * j + 2 * (lane & 3);
#pragma unroll
            for (int e = 0; e < 2; ++e)
                value[e] = i < rows && l + e < i ? (factor * expf(smem.gc[i] - smem.gc[l + e])) *
                                                       gram[j][2 * half + e]
                                                 : 0.0f;
            if (m == n) {
                *(float2 *)&smem.l_diagonal[i][l - n] = make_float2(value[0], value[1]);
            } else {
                const u32 at = gdn_wu_square::at(i, 0) + l * 2;
                const u32 high = bf16x2_from_f32(-value[0], -value[1]);
                *(u32 *)(smem.l_high + at) = high;
                *(u32 *)(smem.l_low + at) = gdn_rest(high, -value[0], -value[1]);
            }
        }
    }
}

// Column `column` of T for the block at row `first`, by forward substitution; its limbs.
DEVICE void gdn_wu_invert(gdn_wu_smem &smem, int first, int column)
{
    float x[16];
#pragma unroll
    for (int r = 0; r < 16; ++r)
        x[r] = r == column ? 1.0f : 0.0f;
    // Row r is done once every earlier one has been taken from it, in ascending order.
#pragma unroll
    for (int r = 0; r < 16; ++r) {
        const u32 at = gdn_wu_narrow::at(first + r, 0) + column * 2;
        const bf16 high = bf16_from_f32(x[r]);
        *(bf16 *)(smem.t_high + at) = high;
        *(bf16 *)(smem.t_low + at) = bf16_from_f32(x[r] - f32_from_bf16(high));
#pragma unroll
        for (int later = r + 1; later < 16; ++later)
            x[later] = x[later] - smem.l_diagonal[first + later][r] * x[r];
    }
}

// x += A B^T of two limbs each; B is the 16 x 16 piece at (row, column) of two tiles.
template <class TILE>
DEVICE void gdn_wu_multiply(float (&x)[2][4], const u32 (&high)[4], const u32 (&low)[4], const u8 *b_high,
                            const u8 *b_low, int row, int column, int lane)
{
    u32 b[4];
    gdn_load_b<TILE>(b, smem_address(b_high), row, column, lane);
    gdn_mma_pair(x[0], x[1], high, b);
    gdn_mma_pair(x[0], x[1], low, b);
    gdn_load_b<TILE>(b, smem_address(b_low), row, column, lane);
    gdn_mma_pair(x[0], x[1], high, b);
}

// Solves for the 16 columns from `column` of a tile, in place; `scale` multiplies the tile's rows first.
DEVICE void gdn_wu_solve(const gdn_wu_smem &smem, u32 tile, const float *scale, int column, int lane)
{
    float x[4][2][4]; // [block of 16 i][16 columns x 16 i]
#pragma unroll
    for (int block = 0; block < 4; ++block) {
        u32 pair[4];
        gdn_load_a_trans<gdn_swizzled>(pair, tile, 16 * block, column, lane);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float2 factor = *(const float2 *)(scale + 16 * block + 8 * j + 2 * (lane & 3));
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                x[block][j][2 * half] = factor.x * f32_from_bf16_low(pair[2 * j + half]);
                x[block][j][2 * half + 1] = factor.y * f32_from_bf16_high(pair[2 * j + half]);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        u32 high[4], low[4];
        float solved[2][4] = {};
        gdn_high_limb(high, x[j][0], x[j][1]);
        gdn_low_limb(low, high, x[j][0], x[j][1]);
        gdn_wu_multiply<gdn_wu_narrow>(solved, high, low, smem.t_high, smem.t_low, 16 * j, 0, lane);
        gdn_high_limb(high, solved[0], solved[1]);
        gdn_low_limb(low, high, solved[0], solved[1]);
        gdn_store_a_trans<gdn_swizzled>(tile, high, 16 * j, column, lane);
#pragma unroll
        for (int later = j + 1; later < 4; ++later)
            gdn_wu_multiply<gdn_wu_square>(x[later], high, low, smem.l_high, smem.l_low, 16 * later, 16 * j,
                                           lane);
    }
}

// `rows` rows of a tile to `to`.
DEVICE void gdn_wu_copy_out(bf16 *to, const u8 *tile, int rows, int thread)
{
#pragma unroll
    for (int i = thread; i < CHUNK * 16; i += GDN_WU_THREADS)
        if (i < rows * 16)
            *(uint4 *)(to + i * 8) = *(const uint4 *)(tile + gdn_swizzled::at(i >> 4, i & 15));
}

extern "C" __global__ void __launch_bounds__(GDN_WU_THREADS, 3)
    gated_delta_rule_recompute_wu_registers(GDN_WU_PARAMETERS)
{
    gdn_wu_smem &smem = *(gdn_wu_smem *)gdn_smem;
    const u32 c = blockIdx.x, vh = blockIdx.y;
    const gdn_chunk chunk = gdn_my_chunk(c, seq_len, num_chunks, cu_seqlens, is_varlen);
    if (!chunk.exists())
        return;
    const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const int rows = chunk.rows();
    const u64 token = chunk.token(), base = chunk.base(vh, nv);

    const int row = thread & (CHUNK - 1);
    float gate_row = 1.0f, beta_row = 0.0f; // of two groups of threads
    if (thread < CHUNK && row < rows)
        gate_row = gate[(token + row) * gb_stride + vh];
    if (thread >= CHUNK && thread < 2 * CHUNK && row < rows)
        beta_row = beta[(token + row) * gb_stride + vh];
    gdn_copy_chunk<gdn_swizzled>(smem_address(smem.k), key + token * qk_stride + (vh / (nv / nk)) * K_DIM,
                                 qk_stride, rows, thread, GDN_WU_THREADS);
    cp_async_commit();
    gdn_copy_chunk<gdn_swizzled>(smem_address(smem.v), value + token * v_stride + (u64)vh * V_DIM, v_stride,
                                 rows, thread, GDN_WU_THREADS);
    cp_async_commit();
    if (thread < CHUNK)
        smem.gc[row] = row < rows ? logf(fmaxf(gate_row, GDN_GATE_FLOOR)) : 0.0f;
    else if (thread < 2 * CHUNK)
        smem.beta[row] = beta_row;
    cp_async_wait<1>();
    __syncthreads();

    // The ten 16 x 16 tiles of the Gram's lower half: warps 0..3 take a diagonal one each, which they invert, warps
    // 4 and 5 two others, 6 and 7 one.
    const bool two = warp == 4 || warp == 5;
    float gram[2][2][4] = {};
    int m[2], n[2];
#pragma unroll
    for (int p = 0; p < 2; ++p) {
        const int other = warp < 6 ? 2 * (warp - 4) + p : warp - 2, block = other < 1 ? 1 : other < 3 ? 2 : 3;
        m[p] = 16 * (warp < 4 ? warp : block);
        n[p] = 16 * (warp < 4 ? warp : other - block * (block - 1) / 2);
    }
    if (thread == GDN_WU_THREADS - 1)
        gdn_gate_prefix(smem.gc);
    __syncwarp();
#pragma unroll
    for (int window = 0; window < K_DIM; window += 16)
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            if (p == 1 && !two)
                continue;
            u32 a[4], b[4];
            gdn_load_a<gdn_swizzled>(a, smem_address(smem.k), m[p], window, lane);
            gdn_load_b<gdn_swizzled>(b, smem_address(smem.k), n[p], window, lane);
            gdn_mma_pair(gram[p][0], gram[p][1], a, b);
        }
    cp_async_wait<0>();
    __syncthreads();
    gdn_wu_put_l(smem, gram[0], rows, m[0], n[0], lane);
    if (two)
        gdn_wu_put_l(smem, gram[1], rows, m[1], n[1], lane);
    if (warp < 4) {
        __syncwarp();
        if (lane < 16)
            gdn_wu_invert(smem, m[0], lane);
    } else if (warp >= 6) {
        smem.beta_exp[row] = smem.beta[row] * expf(smem.gc[row]);
        if (row < rows)
            gc_out[base * CHUNK + row] = smem.gc[row];
    }
    __syncthreads();

    grid_launch_dependents();
    gdn_wu_solve(smem, smem_address(smem.v), smem.beta, 16 * warp, lane);
    gdn_wu_solve(smem, smem_address(smem.k), smem.beta_exp, 16 * warp, lane);
    __syncthreads();
    gdn_wu_copy_out(u_out + base * (CHUNK * V_DIM), smem.v, rows, thread);
    gdn_wu_copy_out(w_out + base * (CHUNK * K_DIM), smem.k, rows, thread);
}
