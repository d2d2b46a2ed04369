// gdn_wu.cuh: kernel 1. Per chunk and value head: the gate's prefix sum gc, and W and U of
// (I + L) [U | W] = [beta v | beta exp(gc) k], L_il = (beta_i exp(gc_i - gc_l)) <k_l, k_i> for l < i.
#ifndef GDN_WU_CUH
#define GDN_WU_CUH

#include "gdn.cuh"

#define GDN_WU_THREADS 256

struct gdn_wu_smem {
    unsigned char k[CHUNK * K_DIM * 2]; /* bf16, swizzled */
    float l[CHUNK][CHUNK];              /* strictly lower; the rest is never written */
    float gc[CHUNK];
};

// acc = <k_m, k_n> for the 16 x 16 tile at (m, n); K windows ascend from 0.
DEVICE void gdn_wu_gram(float (&acc)[2][4], u32 k, int m, int n, int lane)
{
#pragma unroll
    for (int window = 0; window < K_DIM; window += 16) {
        u32 a[4], b[4];
        gdn_load_a<gdn_swizzled>(a, k, m, window, lane);
        gdn_load_b<gdn_swizzled>(b, k, n, window, lane);
        gdn_mma_pair(acc[0], acc[1], a, b);
    }
}

// From the Gram tile <k_l, k_i> at (l, i) = (m.., n..) to rows i of L.
DEVICE void gdn_wu_store_l(float (*l)[CHUNK], const float *gc, const float (&acc)[2][4],
                           const float *beta, u64 stride, int rows, int m, int n, int lane)
{
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int row = n + 8 * j + 2 * (lane & 3) + (e & 1);
            const int column = m + (lane >> 2) + 8 * (e >> 1);
            if (column >= row)
                continue;
            float value = 0.0f;
            if (row < rows)
                value = (beta[row * stride] * expf(gc[row] - gc[column])) * acc[j][e];
            l[row][column] = value;
        }
}

// Solves (I + L) x = x for one column held in registers, in blocks of 16 rows. Every row subtracts
// its terms in ascending order.
DEVICE void gdn_wu_solve(float (&x)[CHUNK], const float (*l)[CHUNK])
{
#pragma unroll
    for (int block = 0; block < CHUNK; block += 16)
#pragma unroll
        for (int i = block + 1; i < CHUNK; ++i)
#pragma unroll
            for (int q = block; q < block + 16 && q < i; q += 4) {
                const float4 l4 = *(const float4 *)&l[i][q];
                x[i] = x[i] - l4.x * x[q];
                if (q + 1 < i)
                    x[i] = x[i] - l4.y * x[q + 1];
                if (q + 2 < i)
                    x[i] = x[i] - l4.z * x[q + 2];
                if (q + 3 < i)
                    x[i] = x[i] - l4.w * x[q + 3];
            }
}

#endif
