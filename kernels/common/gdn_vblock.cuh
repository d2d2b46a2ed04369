// gdn_vblock.cuh: the state spine over DV_BLK value columns a block. W S runs on the tensor cores
// against a bf16 snapshot of the state; the f32 state itself is never rounded, and its update is the
// scalar spines'. Four threads share one column, 32 rows of the state each.
#ifndef GDN_VBLOCK_CUH
#define GDN_VBLOCK_CUH

#include "gdn_spine.cuh"

static_assert(DV_BLK == 64 && V_DIM % DV_BLK == 0, "warps cover 64 columns, half of them each");

struct gdn_vblock_smem {
    unsigned char snapshot[DV_BLK * K_DIM * 2]; /* bf16, row v, swizzled */
    float ws[CHUNK][DV_BLK];
    struct {
        unsigned char wk[CHUNK * K_DIM * 2]; /* W, then K; bf16, swizzled */
        bf16 u[CHUNK][DV_BLK];
    } slot[2];
    float gc[2][CHUNK];
    float decay[2][CHUNK + 1];
};

// ws = W S for the 16 x 32 tile at (m, n). Rows past the last are stale W rows times the state:
// they land in rows that nothing reads.
DEVICE void gdn_vblock_ws(gdn_vblock_smem &smem, const unsigned char *w, int m, int n, int lane)
{
    float acc[4][4] = {};
#pragma unroll
    for (int window = 0; window < K_DIM; window += 16) {
        u32 a[4];
        gdn_load_a<gdn_swizzled>(a, smem_address(w), m, window, lane);
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            u32 b[4];
            gdn_load_b<gdn_swizzled>(b, smem_address(smem.snapshot), n + 8 * j, window, lane);
            gdn_mma_pair(acc[j], acc[j + 1], a, b);
        }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            *(float2 *)&smem.ws[m + (lane >> 2) + 8 * half][n + 8 * j + 2 * (lane & 3)] =
                make_float2(acc[j][2 * half], acc[j][2 * half + 1]);
}

// W, U and gc of chunk c into their slot.
DEVICE void gdn_vblock_prefetch(gdn_vblock_smem &smem, const gdn_spine_head &head, int v0, u32 c)
{
    const int rows = gdn_rows(head.sequence, c), thread = (int)threadIdx.x;
    const u64 base = head.block(c);
    auto &slot = smem.slot[c & 1];
    gdn_copy_rows<gdn_swizzled>(smem_address(slot.wk), head.w + base * (CHUNK * K_DIM), K_DIM, rows,
                                thread, 4 * DV_BLK);
    for (int i = thread; i < rows * 8; i += 4 * DV_BLK)
        cp_async_16(smem_address(&slot.u[i >> 3][(i & 7) * 8]),
                    head.u + (base * CHUNK + (i >> 3)) * V_DIM + v0 + (i & 7) * 8);
    gdn_copy_gc(smem.gc[c & 1], head.gc + base * CHUNK, rows, thread);
}

// The spine of columns v0..v0 + DV_BLK - 1.
DEVICE void gdn_spine_vblock(gdn_vblock_smem &smem, const gdn_spine_head &head, int v0)
{
    if (head.sequence.length == 0)
        return;
    const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const gdn_column<4> at = gdn_my_column<4>();
    const gdn_column<4> in_state = {v0 + at.v, at.part};
    const u32 chunks = head.sequence.chunks;
    float s[K_DIM / 4];
    gdn_vblock_prefetch(smem, head, v0, 0);
    cp_async_commit();
    gdn_read_state<4>(s, head.state, in_state);
#pragma unroll 1
    for (u32 c = 0; c < chunks; ++c) {
        const int rows = gdn_rows(head.sequence, c);
        const u64 base = head.block(c);
        auto &slot = smem.slot[c & 1];
        float *decay = smem.decay[c & 1];
        cp_async_wait<0>();
        __syncthreads();
        gdn_decay_row(decay, smem.gc[c & 1], rows, thread);
        gdn_write_snapshot<4>(head.s_out + base * (K_DIM * V_DIM), s, in_state);
#pragma unroll
        for (int k = 0; k < K_DIM / 4; k += 8)
            *(uint4 *)(smem.snapshot + gdn_swizzled::at(at.v, (at.k0() + k) >> 3)) =
                make_uint4(bf16x2_from_f32(s[k], s[k + 1]), bf16x2_from_f32(s[k + 2], s[k + 3]),
                           bf16x2_from_f32(s[k + 4], s[k + 5]), bf16x2_from_f32(s[k + 6], s[k + 7]));
        __syncthreads();
        gdn_vblock_ws(smem, slot.wk, 16 * (warp & 3), 32 * (warp >> 2), lane);
        __syncthreads();
        gdn_copy_rows<gdn_swizzled>(smem_address(slot.wk), head.key + (u64)c * CHUNK * head.key_stride,
                                    head.key_stride, rows, thread, 4 * DV_BLK);
        cp_async_commit();
        if (c + 1 < chunks)
            gdn_vblock_prefetch(smem, head, v0, c + 1);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        bf16 *uc_out = head.uc_out + base * (CHUNK * V_DIM) + v0 + at.v;
#pragma unroll
        for (int k = 0; k < K_DIM / 4; ++k)
            s[k] = decay[0] * s[k];
#pragma unroll 2
        for (int i = 0; i < rows; ++i) {
            const float uc = f32_from_bf16(slot.u[i][at.v]) - smem.ws[i][at.v];
            if (at.part == 0)
                uc_out[i * V_DIM] = bf16_from_f32(uc);
            const float d = decay[1 + i] * uc;
#pragma unroll
            for (int k = 0; k < K_DIM / 4; k += 8)
                gdn_add8(s + k, d,
                         *(const uint4 *)(slot.wk + gdn_swizzled::at(i, (at.k0() + k) >> 3)));
        }
    }
    gdn_write_state<4>(head.state, s, in_state);
}

#endif
