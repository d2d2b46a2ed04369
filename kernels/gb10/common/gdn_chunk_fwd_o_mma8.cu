// gdn_chunk_fwd_o_mma8.cu: the twin of gated_delta_rule_chunk_fwd_o for 16-byte aligned q and k rows,
// byte-identical to it: asynchronous copies, Q K^T on eight warps beside Q S on the other eight.
#include "gdn_entry.cuh"
#include "gdn_fwd_o.cuh"

static_assert(sizeof(gdn_fwd_o_smem) == KPK_SMEM_gated_delta_rule_chunk_fwd_o_mma8,
              "the description declares other bytes than gdn_fwd_o_smem");
static_assert(KPK_BLOCK_gated_delta_rule_chunk_fwd_o_mma8 == GDN_FWD_O_THREADS,
              "the thread map is written for this block");

extern __shared__ __align__(128) u8 gdn_smem[];

extern "C" __global__ void __launch_bounds__(GDN_FWD_O_THREADS, 2)
    gated_delta_rule_chunk_fwd_o_mma8(GDN_FWD_O_PARAMETERS)
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
    struct plain : gdn_padded<V_DIM> {
    };

    gdn_copy_chunk<gdn_swizzled>(smem_address(smem.q), query + head, qk_stride, rows, thread,
                                 GDN_FWD_O_THREADS);
    gdn_copy_chunk<gdn_swizzled>(smem_address(smem.k), key + head, qk_stride, rows, thread,
                                 GDN_FWD_O_THREADS);
    gdn_copy_rows<gdn_swizzled>(smem_address(smem.s), s_in + base * (K_DIM * V_DIM), V_DIM, K_DIM,
                                thread, GDN_FWD_O_THREADS);
    gdn_copy_chunk<plain>(smem_address(smem.uc), uc_in + base * (CHUNK * V_DIM), V_DIM, rows, thread,
                          GDN_FWD_O_THREADS);
    cp_async_commit();
    if (thread < CHUNK) {
        const float value = thread < rows ? gc[base * CHUNK + thread] : 0.0f;
        smem.gc[thread] = value;
        smem.gc_exp[thread] = expf(value);
    }
    cp_async_wait<0>();
    __syncthreads();

    // Warps 0..7: the ten 16 x 16 tiles of kq's lower half. Warps 8..15: 16 x 64 tiles of Q S.
    const int m = 16 * (warp & 3), n = 64 * ((warp >> 2) & 1);
    float acc[8][4] = {};
    if (warp < 8) {
        for (int tile = warp; tile < 10; tile += 8) {
            const int row = tile < 1 ? 0 : tile < 3 ? 1 : tile < 6 ? 2 : 3;
            gdn_fwd_o_kq(smem, 16 * row, 16 * (tile - row * (row + 1) / 2), lane);
        }
    } else {
        gdn_fwd_o_state(acc, smem, m, n, lane);
    }
    __syncthreads();
    if (warp >= 8)
        gdn_fwd_o_store_state(smem, acc, m, n, lane);
    __syncthreads();
    gdn_fwd_o_output(smem, output + (token * nv + vh) * V_DIM, (u64)nv * V_DIM, rows, thread);
}
