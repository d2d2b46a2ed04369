// gdn_spine_hopper.cu: the twin of _tcfuse_x2 that takes half of v, with its bits. One warpgroup computes. Products have
// v on wgmma's M side, so that what one leaves in registers is the next one's A operand, and S never leaves them:
//   ws^T = S^T W^T (S's high limb, then its low one);  uc = U - ws;  d = decay uc;  S^T = decay_0 S^T + d^T K
// A fifth warp asks the copy engine for W, U and K, STAGES chunks ahead. S and uc leave by the copy engine too.
#include "gdn_spine_hopper.cuh"

constexpr int COMPUTING = 128; // threads: a warpgroup
constexpr int COLUMNS = 64;    // of v: wgmma's M
constexpr u32 HALF = CHUNK * 128;       // bytes of 64 rows of 64 columns: what one copy brings
constexpr u32 STATE_TILE = K_DIM * 128; // bytes of S's 64 columns

// Named barriers; 0 is __syncthreads'. S and uc are in their places; W and K of a chunk of fewer rows are here.
enum : u32 { STORE_BARRIER = 1, TAIL_BARRIER };
constexpr int THREADS = COMPUTING + 32;

// Tiles are rows of 128 bytes under the copy engine's swizzle. W and K: columns 0..63, then 64..127.
struct gdn_split_smem {
    struct stage {
        u8 w[2 * HALF], k[2 * HALF], u[HALF];
    };

    stage staged[STAGES];
    u8 s[2][STATE_TILE]; // of even and odd chunks: bf16 of S, row k, what S_out takes
    u8 uc[2][HALF];
    float gc[STAGES][CHUNK];            // of a stage
    float decay[COMPUTING / 32][CHUNK]; // each warp's own: expf(gc_last - gc_i), 0 past the last row
    // Of a stage: W, U and gc, and K, are here; are no longer needed.
    u64 front_full[STAGES], back_full[STAGES], front_empty[STAGES], back_empty[STAGES];
};

static_assert(sizeof(gdn_split_smem) == KPK_SMEM_gated_delta_rule_chunk_delta_h_tcfuse_x2_v64,
              "the description declares other bytes than gdn_split_smem");
static_assert(KPK_BLOCK_gated_delta_rule_chunk_delta_h_tcfuse_x2_v64 == THREADS, "a warpgroup and a warp");
static_assert(sizeof(gdn_split_smem::stage) % 1024 == 0 && HALF % 1024 == 0 && STATE_TILE % 1024 == 0,
              "every tile begins on an atom of the swizzle");

extern __shared__ __align__(1024) u8 gdn_smem[];

// ---- The copying warp --------------------------------------------------------------------------------

// The rows that are left, zeros after them: what stands there belongs to others or to nobody.
DEVICE void gdn_split_copy_tail(u8 *tile, const bf16 *from, u64 stride, int rows, int lane)
{
#pragma unroll 8
    for (int i = lane; i < CHUNK * 16; i += 32) {
        const int row = i >> 4, piece = i & 15;
        uint4 value = make_uint4(0, 0, 0, 0);
        if (row < rows)
            value = *(const uint4 *)(from + row * stride + piece * 8);
        *(uint4 *)(tile + (piece >> 3) * HALF + gdn_wide_tile::at(row, piece & 7)) = value;
    }
}

DEVICE void gdn_split_copy(gdn_split_smem &smem, const gdn_head_part &head, const tensor_map &w_map,
                           const tensor_map &u_map, const tensor_map &k_map, const tensor_map &gc_map,
                           const bf16 *w, const bf16 *key, u64 key_stride, u32 kh, int lane)
{
    if (lane == 0) {
        tensor_map_prefetch(&w_map);
        tensor_map_prefetch(&u_map);
        tensor_map_prefetch(&k_map);
        tensor_map_prefetch(&gc_map);
    }
    grid_wait();
#pragma unroll 1
    for (u32 c = 0; c < head.sequence.chunks; ++c) {
        const u32 slot = c % STAGES, parity = c / STAGES & 1;
        gdn_split_smem::stage &stage = smem.staged[slot];
        const u32 row = (u32)(head.block(c) * CHUNK), front = smem_address(&smem.front_full[slot]),
                  back = smem_address(&smem.back_full[slot]);
        const int rows = gdn_rows(head.sequence, c);
        gdn_wait(smem.front_empty[slot], parity ^ 1);
        if (rows == CHUNK && lane == 0) {
            mbarrier_arrive_expect(front, 3 * HALF + CHUNK * 4);
            tma_load_2d(smem_address(stage.w), &w_map, 0, row, front);
            tma_load_2d(smem_address(stage.w + HALF), &w_map, 64, row, front);
            tma_load_2d(smem_address(stage.u), &u_map, head.first, row, front);
            tma_load_2d(smem_address(smem.gc[slot]), &gc_map, 0, (u32)head.block(c), front);
        }
        gdn_wait(smem.back_empty[slot], parity ^ 1);
        if (rows == CHUNK && lane == 0) {
            const u32 token = (u32)head.sequence.token + c * CHUNK;
            mbarrier_arrive_expect(back, 2 * HALF);
            tma_load_2d(smem_address(stage.k), &k_map, kh * K_DIM, token, back);
            tma_load_2d(smem_address(stage.k + HALF), &k_map, kh * K_DIM + 64, token, back);
        }
        if (rows < CHUNK) {
            gdn_split_copy_tail(stage.w, w + (u64)row * K_DIM, K_DIM, rows, lane);
            gdn_split_copy_tail(stage.k, key + (u64)c * CHUNK * key_stride, key_stride, rows, lane);
            fence_async_shared();
            fixed_barrier_arrive<TAIL_BARRIER, THREADS>();
        }
    }
}

// ---- The computing warpgroup -------------------------------------------------------------------------

// A warp's decay row from a chunk's gc; returns expf(gc_last).
DEVICE float gdn_split_decays(float *decay, const float *gc, int rows, int lane)
{
    const float last = gc[rows - 1];
#pragma unroll
    for (int j = 0; j < 2; ++j)
        decay[lane + 32 * j] = lane + 32 * j < rows ? expf(last - gc[lane + 32 * j]) : 0.0f;
    __syncwarp();
    return expf(last);
}

// Where element e of fragment j of a lane's S lies in the state.
DEVICE int gdn_split_at(int j, int e)
{
    return (8 * j + (e & 1)) * V_DIM + 8 * (e >> 1);
}

// One of d's two products with K: four windows of i in ascending order.
DEVICE void gdn_split_update(float (&s)[K_DIM / 8][4], const u32 (&d)[4], u64 key, int window)
{
    wgmma_m64n128k16<1>(reinterpret_cast<float (&)[64]>(s), d, key + window * (2048 >> 4), 1);
}

// ws^T += A W^T for windows of k in ascending order, as one group.
DEVICE void gdn_split_project(float (&ws)[CHUNK / 8][4], const u32 (&a)[K_DIM / 16][4], u32 w)
{
    const u64 operand = wgmma_operand_k128(w);
    wgmma_fence();
#pragma unroll
    for (int window = 0; window < K_DIM / 16; ++window)
        wgmma_m64n64k16(reinterpret_cast<float (&)[32]>(ws), a[window],
                        operand + (window >> 2) * (HALF >> 4) + 2 * (window & 3), 1);
    wgmma_commit();
}

// The rows that are left of a warp's 16 columns: of U in, zeros after them; of uc out.
DEVICE void gdn_split_load_tail(u8 *tile, const bf16 *from, int rows, int v, int lane)
{
    for (int i = lane; i < CHUNK * 2; i += 32) {
        const int row = i >> 1, piece = (v >> 3) + (i & 1);
        uint4 value = make_uint4(0, 0, 0, 0);
        if (row < rows)
            value = *(const uint4 *)(from + row * V_DIM + piece * 8);
        *(uint4 *)(tile + gdn_wide_tile::at(row, piece)) = value;
    }
    __syncwarp();
}

DEVICE void gdn_split_store_tail(bf16 *to, const u8 *tile, int rows, int v, int lane)
{
    __syncwarp();
    for (int i = lane; i < rows * 2; i += 32) {
        const int row = i >> 1, piece = (v >> 3) + (i & 1);
        *(uint4 *)(to + row * V_DIM + piece * 8) = *(const uint4 *)(tile + gdn_wide_tile::at(row, piece));
    }
}

// uc = U - ws, left at `uc_tile`; d = decay uc; S^T += d^T K for d's high limb, then its low one, each with windows of
// i in ascending order. The last group is still under way.
DEVICE void gdn_split_second(float (&s)[K_DIM / 8][4], const float (&ws)[CHUNK / 8][4],
                             const u32 (&u)[CHUNK / 16][4], const float2 (&decay)[CHUNK / 8], u32 key_tile,
                             u32 uc_tile, int v, int lane)
{
    const u64 key = wgmma_operand_n128(key_tile, HALF);
    float d[CHUNK / 8][4];
    u32 d_high[CHUNK / 16][4], d_low[CHUNK / 16][4], uc[CHUNK / 16][4];
#pragma unroll
    for (int window = 0; window < CHUNK / 16; ++window) {
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int tile = 2 * window + j, word = 2 * j + half;
                const float x = f32_from_bf16_low(u[window][word]) - ws[tile][2 * half];
                const float y = f32_from_bf16_high(u[window][word]) - ws[tile][2 * half + 1];
                uc[window][word] = bf16x2_from_f32(x, y);
                d[tile][2 * half] = decay[tile].x * x;
                d[tile][2 * half + 1] = decay[tile].y * y;
            }
        gdn_high_limb(d_high[window], d[2 * window], d[2 * window + 1]);
        wgmma_fence();
        gdn_split_update(s, d_high[window], key, window);
        wgmma_commit();
    }
#pragma unroll
    for (int window = 0; window < CHUNK / 16; ++window)
        gdn_low_limb(d_low[window], d_high[window], d[2 * window], d[2 * window + 1]);
    wgmma_fence();
#pragma unroll
    for (int window = 0; window < CHUNK / 16; ++window)
        gdn_split_update(s, d_low[window], key, window);
    wgmma_commit();
#pragma unroll
    for (int window = 0; window < CHUNK / 16; ++window)
        gdn_store_a_trans<gdn_wide_tile>(uc_tile, uc[window], 16 * window, v, lane);
}

// Starts the copies of a chunk's S and uc out of their places.
DEVICE void gdn_split_out(gdn_split_smem &smem, const gdn_head_part &head, u32 c, const tensor_map &s_map,
                          const tensor_map &uc_map, bf16 *uc_out, int v, int thread)
{
    const u64 base = head.block(c);
    const int rows = gdn_rows(head.sequence, c);
    u8 *const s_tile = smem.s[c & 1], *const uc_tile = smem.uc[c & 1];
    fence_async_shared();
    if (thread == 0)
        bulk_wait_read(); // the last chunk's S and uc: the other places are free
    named_barrier(STORE_BARRIER, COMPUTING);
    if (thread == 0) {
        tma_store_2d(&s_map, head.first, (u32)(base * K_DIM), smem_address(s_tile));
        if (rows == CHUNK)
            tma_store_2d(&uc_map, head.first, (u32)(base * CHUNK), smem_address(uc_tile));
        bulk_commit();
    }
    if (rows < CHUNK)
        gdn_split_store_tail(uc_out + base * (CHUNK * V_DIM), uc_tile, rows, v, thread & 31);
}

DEVICE void gdn_split_compute(gdn_split_smem &smem, const gdn_head_part &head, float *state,
                              const float *gc, const tensor_map &s_map, const tensor_map &uc_map, const bf16 *u_in,
                              bf16 *uc_out, int thread)
{
    const int lane = thread & 31, v = thread >> 5 << 4, t2 = 2 * (lane & 3);
    const gdn_sequence &sequence = head.sequence;
    float *const decays = smem.decay[thread >> 5];
    float s[K_DIM / 8][4]; // [16 v][128 k] of a warp
    state += v + t2 * V_DIM + (lane >> 2);
#pragma unroll
    for (int j = 0; j < K_DIM / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            s[j][e] = state[gdn_split_at(j, e)];
    grid_wait();
#pragma unroll 1
    for (u32 c = 0; c < sequence.chunks; ++c) {
        const u32 slot = c % STAGES, parity = c / STAGES & 1;
        gdn_split_smem::stage &stage = smem.staged[slot];
        u8 *const s_tile = smem.s[c & 1], *const uc_tile = smem.uc[c & 1];
        const int rows = gdn_rows(sequence, c);
        const u64 base = head.block(c);
        u32 high[K_DIM / 16][4], low[K_DIM / 16][4];
        float ws[CHUNK / 8][4] = {}; // [16 v][64 i] of a warp
        wgmma_wait<0>(); // nothing is under way, and the compiler knows: it may read S beside the next products
#pragma unroll
        for (int window = 0; window < K_DIM / 16; ++window) {
            gdn_high_limb(high[window], s[2 * window], s[2 * window + 1]);
            gdn_store_a_trans<gdn_wide_tile>(smem_address(s_tile), high[window], 16 * window, v, lane);
        }
        if (rows < CHUNK) {
            fixed_barrier_wait<TAIL_BARRIER, THREADS>();
            gdn_split_load_tail(stage.u, u_in + base * (CHUNK * V_DIM), rows, v, lane);
        } else {
            gdn_wait(smem.front_full[slot], parity);
        }
        gdn_split_project(ws, high, smem_address(stage.w));
#pragma unroll
        for (int window = 0; window < K_DIM / 16; ++window)
            gdn_low_limb(low[window], high[window], s[2 * window], s[2 * window + 1]);
        gdn_split_project(ws, low, smem_address(stage.w));
        const float first = rows == CHUNK ? gdn_split_decays(decays, smem.gc[slot], CHUNK, lane)
                                          : gdn_split_decays(decays, gc + base * CHUNK, rows, lane);

        u32 u[CHUNK / 16][4];
        float2 decay[CHUNK / 8];
#pragma unroll
        for (int window = 0; window < CHUNK / 16; ++window)
            gdn_load_a_trans<gdn_wide_tile>(u[window], smem_address(stage.u), 16 * window, v, lane);
#pragma unroll
        for (int j = 0; j < CHUNK / 8; ++j)
            decay[j] = *(const float2 *)&decays[8 * j + t2];
#pragma unroll
        for (int j = 0; j < K_DIM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                s[j][e] = s[j][e] * first;
        if (c + 2 >= sequence.chunks)
            grid_launch_dependents();
        if (rows == CHUNK)
            gdn_wait(smem.back_full[slot], parity);
        wgmma_wait<0>();

        gdn_split_second(s, ws, u, decay, smem_address(stage.k), smem_address(uc_tile), v, lane);
        gdn_warp_release(smem.front_empty[slot], lane);
        gdn_split_out(smem, head, c, s_map, uc_map, uc_out, v, thread);
        wgmma_wait<0>();
        gdn_warp_release(smem.back_empty[slot], lane);
    }
#pragma unroll
    for (int j = 0; j < K_DIM / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            state[gdn_split_at(j, e)] = s[j][e];
    if (thread == 0)
        bulk_wait();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gated_delta_rule_chunk_delta_h_tcfuse_x2_v64(
        void *h_state, const __grid_constant__ tensor_map w_map, const __grid_constant__ tensor_map u_map,
        const __grid_constant__ tensor_map k_map, const __grid_constant__ tensor_map gc_map,
        const __grid_constant__ tensor_map s_map, const __grid_constant__ tensor_map uc_map, const bf16 *w, const bf16 *u, const bf16 *key,
        const float *gc, bf16 *uc_out,
        u32 /*batch*/, u32 seq_len, u32 num_chunks, u32 nk, u32 nv, u32 qk_stride, u32 h_state_is_table,
        const int *cu_seqlens, const int * /*cu_chunks*/, u32 is_varlen)
{
    constexpr u32 split = V_DIM / COLUMNS;
    gdn_split_smem &smem = *(gdn_split_smem *)gdn_smem;
    const u32 vh = blockIdx.x / split, b = blockIdx.y, kh = vh / (nv / nk);
    const gdn_sequence sequence = gdn_locate(b, seq_len, num_chunks, cu_seqlens, is_varlen);
    if (sequence.length == 0)
        return;
    const int thread = (int)threadIdx.x;
    const gdn_head_part head = {sequence, nv, vh, blockIdx.x % split * COLUMNS};
    if (thread == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(smem_address(&smem.front_full[i]), 1);
            mbarrier_init(smem_address(&smem.back_full[i]), 1);
            mbarrier_init(smem_address(&smem.front_empty[i]), COMPUTING / 32);
            mbarrier_init(smem_address(&smem.back_empty[i]), COMPUTING / 32);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (__shfl_sync(~0u, thread / COMPUTING, 0) == 0) // uniform, and known to be: else products wait for one another
        gdn_split_compute(smem, head, gdn_state(h_state, h_state_is_table, b, vh, nv) + head.first, gc, s_map, uc_map,
                          u + head.first, uc_out + head.first, thread);
    else
        gdn_split_copy(smem, head, w_map, u_map, k_map, gc_map, w, key + sequence.token * qk_stride + kh * K_DIM, qk_stride,
                       kh, thread - COMPUTING);
}
