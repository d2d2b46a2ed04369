// gated_delta_rule_fla.cu: the chunked gated delta rule in three launches: recompute_wu, one of the
// state spines, chunk_fwd_o. The portable kernels; twins live in modules of their own.
#include "gdn_entry.cuh"
#include "gdn_fwd_o.cuh"
#include "gdn_spine.cuh"
#include "gdn_vblock.cuh"
#include "gdn_wu.cuh"

#define SMEM_MATCHES(type, entry)                                                                  \
    static_assert(sizeof(type) == KPK_SMEM_##entry, "the description declares other bytes than " #type)

SMEM_MATCHES(gdn_wu_smem, gated_delta_rule_recompute_wu);
SMEM_MATCHES(gdn_spine_slots, gated_delta_rule_chunk_delta_h_ksplit);
SMEM_MATCHES(gdn_spine_slots, gated_delta_rule_chunk_delta_h_pipe);
SMEM_MATCHES(gdn_spine_slots, gated_delta_rule_chunk_delta_h_tma);
SMEM_MATCHES(gdn_spine_slot1, gated_delta_rule_chunk_delta_h_vfused);
SMEM_MATCHES(gdn_spine_slot1, gated_delta_rule_chunk_delta_h_vtile);
SMEM_MATCHES(gdn_vblock_smem, gated_delta_rule_chunk_delta_h_tc_vblock);
SMEM_MATCHES(gdn_fwd_o_smem, gated_delta_rule_chunk_fwd_o);
static_assert(KPK_BLOCK_gated_delta_rule_recompute_wu == GDN_WU_THREADS &&
                  KPK_BLOCK_gated_delta_rule_chunk_delta_h_ksplit == 2 * V_DIM &&
                  KPK_BLOCK_gated_delta_rule_chunk_delta_h_pipe == 2 * V_DIM &&
                  KPK_BLOCK_gated_delta_rule_chunk_delta_h_tma == 2 * V_DIM &&
                  KPK_BLOCK_gated_delta_rule_chunk_delta_h_vfused == 2 * V_DIM &&
                  KPK_BLOCK_gated_delta_rule_chunk_delta_h_vtile == 4 * V_DIM &&
                  KPK_BLOCK_gated_delta_rule_chunk_delta_h_tc_vblock == 4 * DV_BLK &&
                  KPK_BLOCK_gated_delta_rule_chunk_fwd_o == GDN_FWD_O_THREADS,
              "thread maps are written for these blocks");

extern __shared__ __align__(128) unsigned char gdn_smem[];

extern "C" __global__ void __launch_bounds__(GDN_WU_THREADS)
    gated_delta_rule_recompute_wu(GDN_WU_PARAMETERS)
{
    gdn_wu_smem &smem = *(gdn_wu_smem *)gdn_smem;
    const u32 c = blockIdx.x, vh = blockIdx.y;
    const gdn_chunk chunk = gdn_my_chunk(c, seq_len, num_chunks, cu_seqlens, is_varlen);
    if (!chunk.exists())
        return;
    const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const int rows = chunk.rows();
    const u64 token = chunk.token(), base = chunk.base(vh, nv);
    const u32 kh = vh / (nv / nk);
    const float *gates = gate + token * gb_stride + vh, *betas = beta + token * gb_stride + vh;

    gdn_load_rows<gdn_swizzled>(smem.k, key + token * qk_stride + kh * K_DIM, qk_stride, rows, thread,
                                GDN_WU_THREADS);
    gdn_gate_logs(smem.gc, gates, gb_stride, rows, thread);
    __syncthreads();
    if (thread == GDN_WU_THREADS - 1)
        gdn_gate_prefix(smem.gc);

    // The ten 16 x 16 tiles (m, n) of the Gram's upper half, n >= m: warp w takes w and w + 8.
    const u32 k = smem_address(smem.k);
    const int m0 = warp < 4 ? 0 : warp < 7 ? 1 : 2, n0 = warp < 4 ? warp : warp < 7 ? warp - 3 : 2;
    const int m1 = 2 + warp, n1 = 3;
    float acc0[2][4] = {}, acc1[2][4] = {};
    gdn_wu_gram(acc0, k, 16 * m0, 16 * n0, lane);
    if (warp < 2)
        gdn_wu_gram(acc1, k, 16 * m1, 16 * n1, lane);
    __syncthreads();
    if (thread < rows)
        gc_out[base * CHUNK + thread] = smem.gc[thread];
    gdn_wu_store_l(smem.l, smem.gc, acc0, betas, gb_stride, rows, 16 * m0, 16 * n0, lane);
    if (warp < 2)
        gdn_wu_store_l(smem.l, smem.gc, acc1, betas, gb_stride, rows, 16 * m1, 16 * n1, lane);

    // Threads 0..127 solve for U's columns, the others for W's. Lane j holds the factors of rows j
    // and j + 32.
    const bool is_w = thread >= V_DIM;
    const int column = thread & (V_DIM - 1);
    float factor0 = lane < rows ? betas[lane * (u64)gb_stride] : 0.0f;
    float factor1 = lane + 32 < rows ? betas[(lane + 32) * (u64)gb_stride] : 0.0f;
    if (is_w) {
        factor0 = factor0 * expf(smem.gc[lane]);
        factor1 = factor1 * expf(smem.gc[lane + 32]);
    }
    const bf16 *values = value + token * v_stride + (u64)vh * V_DIM + column;
    float x[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        const float factor = __shfl_sync(0xFFFFFFFFu, i < 32 ? factor0 : factor1, i & 31);
        bf16 element = 0;
        if (is_w)
            element = *(const bf16 *)(smem.k + gdn_swizzled::at(i, column >> 3) + (column & 7) * 2);
        else if (i < rows)
            element = values[i * (u64)v_stride];
        x[i] = factor * f32_from_bf16(element);
    }
    __syncthreads();
    gdn_wu_solve(x, smem.l);

    bf16 *out = (is_w ? w_out : u_out) + base * (CHUNK * V_DIM) + column;
#pragma unroll
    for (int i = 0; i < CHUNK; ++i)
        if (i < rows)
            out[i * V_DIM] = bf16_from_f32(x[i]);
}

DEVICE gdn_spine_head gdn_my_head(u32 b, void *h_state, const bf16 *w, const bf16 *u,
                                  const bf16 *key, const float *gc, bf16 *s_out, bf16 *uc_out,
                                  u32 seq_len, u32 num_chunks, u32 nk, u32 nv, u32 qk_stride,
                                  u32 h_state_is_table, const int *cu_seqlens, u32 is_varlen)
{
    gdn_spine_head head;
    head.sequence = gdn_locate(b, seq_len, num_chunks, cu_seqlens, is_varlen);
    head.nv = nv;
    head.vh = blockIdx.x;
    head.state = gdn_state(h_state, h_state_is_table, b, head.vh, nv);
    head.w = w;
    head.u = u;
    head.key = key + head.sequence.token * qk_stride + (head.vh / (nv / nk)) * K_DIM;
    head.key_stride = qk_stride;
    head.gc = gc;
    head.s_out = s_out;
    head.uc_out = uc_out;
    return head;
}

// The head that a spine's arguments describe.
#define SPINE_HEAD(b)                                                                              \
    gdn_my_head(b, h_state, w, u, key, gc, s_out, uc_out, seq_len, num_chunks, nk, nv, qk_stride,  \
                h_state_is_table, cu_seqlens, is_varlen)

extern "C" __global__ void __launch_bounds__(2 * V_DIM)
    gated_delta_rule_chunk_delta_h_ksplit(GDN_SPINE_PARAMETERS)
{
    gdn_spine_double(*(gdn_spine_slots *)gdn_smem, SPINE_HEAD(blockIdx.y), gdn_chunk_two_pass);
}

extern "C" __global__ void __launch_bounds__(2 * V_DIM)
    gated_delta_rule_chunk_delta_h_pipe(GDN_SPINE_PARAMETERS)
{
    gdn_spine_double(*(gdn_spine_slots *)gdn_smem, SPINE_HEAD(blockIdx.y), gdn_chunk_fused<2>);
}

extern "C" __global__ void __launch_bounds__(2 * V_DIM)
    gated_delta_rule_chunk_delta_h_vfused(GDN_SPINE_PARAMETERS)
{
    gdn_spine_single<2>(*(gdn_spine_slot1 *)gdn_smem, SPINE_HEAD(blockIdx.y));
}

extern "C" __global__ void __launch_bounds__(4 * V_DIM)
    gated_delta_rule_chunk_delta_h_vtile(GDN_SPINE_PARAMETERS)
{
    gdn_spine_single<4>(*(gdn_spine_slot1 *)gdn_smem, SPINE_HEAD(blockIdx.y));
}

extern "C" __global__ void __launch_bounds__(4 * DV_BLK)
    gated_delta_rule_chunk_delta_h_tc_vblock(GDN_SPINE_PARAMETERS)
{
    gdn_spine_vblock(*(gdn_vblock_smem *)gdn_smem, SPINE_HEAD(blockIdx.y % batch),
                     (int)(blockIdx.y / batch) * DV_BLK);
}

// Starts the copies of the boxes of chunk c: all 64 rows of each, so rows past the chunk's end hold other
// bytes, and the loops stop before them.
DEVICE void gdn_tma_fetch(gdn_spine_slot &slot, u32 barrier, const gdn_spine_head &head,
                          const tensor_map *w_map, const tensor_map *u_map, const tensor_map *k_map,
                          u32 key_column, u32 c)
{
    const u32 row = (u32)(head.block(c) * CHUNK);
    mbarrier_arrive_expect(barrier, sizeof(gdn_spine_slot));
    tma_load_2d(smem_address(slot.w), w_map, 0, row, barrier);
    tma_load_2d(smem_address(slot.u), u_map, 0, row, barrier);
    tma_load_2d(smem_address(slot.k), k_map, key_column, (u32)head.sequence.token + c * CHUNK, barrier);
}

extern "C" __global__ void __launch_bounds__(2 * V_DIM)
    gated_delta_rule_chunk_delta_h_tma(void *h_state, const __grid_constant__ tensor_map w_map,
                                       const __grid_constant__ tensor_map u_map,
                                       const __grid_constant__ tensor_map k_map, const float *gc,
                                       bf16 *s_out, bf16 *uc_out, u32 /*batch*/, u32 seq_len,
                                       u32 num_chunks, u32 nk, u32 nv, u32 /*v_dim*/,
                                       u32 h_state_is_table, const int *cu_seqlens,
                                       const int * /*cu_chunks*/, u32 is_varlen)
{
    gdn_spine_slots &smem = *(gdn_spine_slots *)gdn_smem;
    static __shared__ u64 arrived[2];
    const gdn_spine_head head =
        gdn_my_head(blockIdx.y, h_state, nullptr, nullptr, nullptr, gc, s_out, uc_out, seq_len,
                    num_chunks, nk, nv, 0, h_state_is_table, cu_seqlens, is_varlen);
    if (head.sequence.length == 0)
        return;
    const u32 kh = head.vh / (nv / nk), chunks = head.sequence.chunks;
    const gdn_column<2> at = gdn_my_column<2>();
    if (threadIdx.x == 0) {
        mbarrier_init(smem_address(&arrived[0]), 1);
        mbarrier_init(smem_address(&arrived[1]), 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0)
        gdn_tma_fetch(smem.slot[0], smem_address(&arrived[0]), head, &w_map, &u_map, &k_map, kh * K_DIM, 0);
    float s[K_DIM / 2];
    gdn_read_state<2>(s, head.state, at);
#pragma unroll 1
    for (u32 c = 0; c < chunks; ++c) {
        const int rows = gdn_rows(head.sequence, c);
        const u64 base = head.block(c);
        float *decay = smem.decay[c & 1];
        if (threadIdx.x == 0 && c + 1 < chunks)
            gdn_tma_fetch(smem.slot[(c + 1) & 1], smem_address(&arrived[(c + 1) & 1]), head, &w_map,
                          &u_map, &k_map, kh * K_DIM, c + 1);
        gdn_decay_row(decay, gc + base * CHUNK, rows, (int)threadIdx.x);
        gdn_write_snapshot<2>(s_out + base * (K_DIM * V_DIM), s, at);
        __syncthreads();
        while (!mbarrier_try_wait(smem_address(&arrived[c & 1]), (c >> 1) & 1)) {
        }
        gdn_chunk_fused<2>(s, smem.slot[c & 1], decay, uc_out + base * (CHUNK * V_DIM), rows, at);
        __syncthreads();
    }
    gdn_write_state<2>(head.state, s, at);
}

extern "C" __global__ void __launch_bounds__(GDN_FWD_O_THREADS)
    gated_delta_rule_chunk_fwd_o(GDN_FWD_O_PARAMETERS)
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

    gdn_load_rows<gdn_swizzled>(smem.q, query + head, qk_stride, rows, thread, GDN_FWD_O_THREADS);
    gdn_load_rows<gdn_swizzled>(smem.k, key + head, qk_stride, rows, thread, GDN_FWD_O_THREADS);
    for (int i = thread; i < CHUNK * 16; i += GDN_FWD_O_THREADS)
        *(uint4 *)&smem.uc[i >> 4][(i & 15) * 8] =
            (i >> 4) < rows ? *(const uint4 *)(uc_in + base * (CHUNK * V_DIM) + i * 8)
                            : make_uint4(0, 0, 0, 0);
    for (int i = thread; i < K_DIM * 16; i += GDN_FWD_O_THREADS)
        *(uint4 *)(smem.s + gdn_swizzled::at(i >> 4, i & 15)) =
            *(const uint4 *)(s_in + base * (K_DIM * V_DIM) + i * 8);
    if (thread < CHUNK) {
        const float value = thread < rows ? gc[base * CHUNK + thread] : 0.0f;
        smem.gc[thread] = value;
        smem.gc_exp[thread] = expf(value);
    }
    __syncthreads();
    if (warp < 4)
        for (int n = 0; n <= warp; ++n)
            gdn_fwd_o_kq(smem, 16 * warp, 16 * n, lane);
    __syncthreads();
    if (warp < 4)
        for (int n = 0; n < V_DIM; n += 64) {
            float acc[8][4] = {};
            gdn_fwd_o_state(acc, smem, 16 * warp, n, lane);
            gdn_fwd_o_store_state(smem, acc, 16 * warp, n, lane);
        }
    __syncthreads();
    gdn_fwd_o_output(smem, output + (token * nv + vh) * V_DIM, (u64)nv * V_DIM, rows, thread);
}
