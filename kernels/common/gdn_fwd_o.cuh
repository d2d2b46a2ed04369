// gdn_fwd_o.cuh: kernel 3 in the parent's rounding, shared by the parent and its byte-identical twin.
//   kq = Q K^T (MMA), kq_il = expf(gc_i - gc_l) kq_il for l <= i
//   o1 = bf16(Q S) (MMA); out = bf16((expf(gc_i) o1 + sum_{l <= i} kq_il uc_l) rsqrtf(K_DIM))
#ifndef GDN_FWD_O_CUH
#define GDN_FWD_O_CUH

#include "gdn.cuh"

#define GDN_FWD_O_THREADS 512

struct gdn_fwd_o_smem {
    unsigned char q[CHUNK * K_DIM * 2];  /* bf16, swizzled */
    unsigned char k[CHUNK * K_DIM * 2];  /* bf16, swizzled; then o1 [CHUNK][V_DIM] bf16, plain */
    float kq[CHUNK][CHUNK];              /* l <= i; the rest is never written */
    bf16 uc[CHUNK][V_DIM];                /* zeros past the last row */
    unsigned char s[K_DIM * V_DIM * 2];  /* bf16, row k, swizzled */
    float gc[CHUNK], gc_exp[CHUNK];
};

// kq for the 16 x 16 tile at (i, l) = (m, n).
DEVICE void gdn_fwd_o_kq(gdn_fwd_o_smem &smem, int m, int n, int lane)
{
    float acc[2][4] = {};
#pragma unroll
    for (int window = 0; window < K_DIM; window += 16) {
        u32 a[4], b[4];
        gdn_load_a<gdn_swizzled>(a, smem_address(smem.q), m, window, lane);
        gdn_load_b<gdn_swizzled>(b, smem_address(smem.k), n, window, lane);
        gdn_mma_pair(acc[0], acc[1], a, b);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int i = m + (lane >> 2) + 8 * (e >> 1);
            const int l = n + 8 * j + 2 * (lane & 3) + (e & 1);
            if (l <= i)
                smem.kq[i][l] = expf(smem.gc[i] - smem.gc[l]) * acc[j][e];
        }
}

// acc = Q S for the 16 x 64 tile at (i, v) = (m, n).
DEVICE void gdn_fwd_o_state(float (&acc)[8][4], const gdn_fwd_o_smem &smem, int m, int n, int lane)
{
#pragma unroll
    for (int window = 0; window < K_DIM; window += 16) {
        u32 a[4], b[4];
        gdn_load_a<gdn_swizzled>(a, smem_address(smem.q), m, window, lane);
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            gdn_load_b_trans<gdn_swizzled>(b, smem_address(smem.s), window, n + 8 * j, lane);
            gdn_mma_pair(acc[j], acc[j + 1], a, b);
        }
    }
}

// o1 = bf16(acc) into k's bytes: every warp is done with k.
DEVICE void gdn_fwd_o_store_state(gdn_fwd_o_smem &smem, const float (&acc)[8][4], int m, int n,
                                  int lane)
{
    bf16 *o1 = (bf16 *)smem.k;
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = m + (lane >> 2) + 8 * half, v = n + 8 * j + 2 * (lane & 3);
            *(u32 *)(o1 + i * V_DIM + v) = bf16x2_from_f32(acc[j][2 * half], acc[j][2 * half + 1]);
        }
}

// The masked sums and the output. Thread t takes columns 2 (t % 64) and the next, rows t / 64 + 8 r:
// a warp's rows are its own, so kq reads are broadcasts and the mask does not diverge.
DEVICE void gdn_fwd_o_output(const gdn_fwd_o_smem &smem, bf16 *output, u64 stride, int rows,
                             int thread)
{
    const int v = 2 * (thread & 63), first = thread >> 6;
    float low[8] = {}, high[8] = {};
#pragma unroll 1
    for (int l = 0; l < rows; l += 4) {
        u32 uc[4];
#pragma unroll
        for (int n = 0; n < 4; ++n)
            uc[n] = *(const u32 *)&smem.uc[l + n][v];
#pragma unroll
        for (int r = 0; r < 8; ++r) {
            const int i = first + 8 * r;
            if (i < l)
                continue;
            const float4 kq4 = *(const float4 *)&smem.kq[i][l];
            const float kq[4] = {kq4.x, kq4.y, kq4.z, kq4.w};
#pragma unroll
            for (int n = 0; n < 4; ++n)
                if (l + n <= i) {
                    low[r] = low[r] + kq[n] * f32_from_bf16_low(uc[n]);
                    high[r] = high[r] + kq[n] * f32_from_bf16_high(uc[n]);
                }
        }
    }
    const bf16 *o1 = (const bf16 *)smem.k;
    const float scale = rsqrtf((float)K_DIM);
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        const int i = first + 8 * r;
        if (i >= rows)
            break;
        const u32 state = *(const u32 *)(o1 + i * V_DIM + v);
        const float decay = smem.gc_exp[i];
        const float a = (decay * f32_from_bf16_low(state) + low[r]) * scale;
        const float b = (decay * f32_from_bf16_high(state) + high[r]) * scale;
        *(u32 *)(output + i * stride + v) = bf16x2_from_f32(a, b);
    }
}

#endif
