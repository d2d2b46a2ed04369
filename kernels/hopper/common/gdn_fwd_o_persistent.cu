// gdn_fwd_o_persistent.cu: the twin of gated_delta_rule_chunk_fwd_o_hopper, with its bits. A block, one warpgroup, takes one
// chunk of one head after another; the copy engine brings the next one's Q, K and uc as soon as this one's are no longer
// needed, and its S a turn ahead. Rows stand on wgmma's M side, so that kq is the A operand of its product with uc where it
// is computed.
#include "gdn.cuh"

constexpr int THREADS = 128;      // warp w: rows from 16 w
constexpr u32 HALF = CHUNK * 128; // bytes of 64 rows of 64 columns: what one copy brings
constexpr u32 STATE_HALF = K_DIM * 128;

// Rows of 128 bytes under the copy engine's swizzle: columns 0..63, then 64..127 `bytes` after them.
template <u32 bytes> struct gdn_halves {
    static DEVICE u32 at(int row, int chunk)
    {
        return (chunk >> 3) * bytes + swizzled<128>((u32)row, (u32)chunk & 7);
    }
};

typedef gdn_halves<HALF> gdn_fwd_o_chunk;

struct gdn_fwd_o_smem {
    u8 q[2 * HALF], k[2 * HALF];
    u8 s[2][2 * STATE_HALF]; // of this chunk and the next, row k
    u8 uc[2 * HALF];
    float gc[2][CHUNK];
    u64 rows_full, state_full[2], uc_full; // Q and K, S, uc are here
};

static_assert(sizeof(gdn_fwd_o_smem) == KPK_SMEM_gated_delta_rule_chunk_fwd_o_persistent,
              "the description declares other bytes than gdn_fwd_o_smem");
static_assert(KPK_BLOCK_gated_delta_rule_chunk_fwd_o_persistent == THREADS, "four warps take 16 rows of the output each");

extern __shared__ __align__(1024) u8 gdn_smem[];

struct gdn_fwd_o_maps {
    const tensor_map *q, *k, *s, *uc;
};

// One chunk of one head.
struct gdn_fwd_o_tile {
    u32 token, base; // its first row; its block of scratch: a descriptor counts both
    u32 vh;
    int rows;
};

// In order of sequence, chunk and head: what blocks take at one time lies side by side.
struct gdn_fwd_o_tiles {
    u32 batch, seq_len, num_chunks, nv, is_varlen;
    const int *cu_seqlens;

    // The first tile from `index` on that exists; false when none does.
    DEVICE bool find(gdn_fwd_o_tile &tile, u32 &index) const
    {
        for (; index < num_chunks * nv * batch; index += gridDim.x) {
            const u32 rest = index / nv, c = rest % num_chunks;
            const gdn_sequence sequence = gdn_locate(rest / num_chunks, seq_len, num_chunks, cu_seqlens, is_varlen);
            if (c >= sequence.chunks)
                continue;
            tile.vh = index % nv;
            tile.rows = gdn_rows(sequence, c);
            tile.token = (u32)sequence.token + c * CHUNK;
            tile.base = ((u32)sequence.chunk + c) * nv + tile.vh;
            return true;
        }
        return false;
    }
};

struct gdn_fwd_o_inputs {
    const bf16 *query, *key, *uc;
    const float *gc;
    u64 qk_stride;
    u32 share; // value heads of a key head
};

// Starts the copies of Q and K.
DEVICE void gdn_fwd_o_copy_rows(gdn_fwd_o_smem &smem, const gdn_fwd_o_maps &maps, const gdn_fwd_o_inputs &in,
                           const gdn_fwd_o_tile &tile, int thread)
{
    const u32 column = tile.vh / in.share * K_DIM;
    if (tile.rows < CHUNK) {
        const u64 at = tile.token * in.qk_stride + column;
        gdn_copy_chunk<gdn_fwd_o_chunk>(smem_address(smem.q), in.query + at, in.qk_stride, tile.rows, thread, THREADS);
        gdn_copy_chunk<gdn_fwd_o_chunk>(smem_address(smem.k), in.key + at, in.qk_stride, tile.rows, thread, THREADS);
        cp_async_commit();
    } else if (thread == 0) {
        const u32 full = smem_address(&smem.rows_full), token = tile.token;
        mbarrier_arrive_expect(full, 4 * HALF);
        tma_load_2d(smem_address(smem.q), maps.q, column, token, full);
        tma_load_2d(smem_address(smem.q + HALF), maps.q, column + 64, token, full);
        tma_load_2d(smem_address(smem.k), maps.k, column, token, full);
        tma_load_2d(smem_address(smem.k + HALF), maps.k, column + 64, token, full);
    }
}

// Those of S, for an even or odd turn.
DEVICE void gdn_fwd_o_copy_state(gdn_fwd_o_smem &smem, const gdn_fwd_o_maps &maps, const gdn_fwd_o_tile &tile, u32 odd,
                                 int thread)
{
    if (thread != 0)
        return;
    const u32 full = smem_address(&smem.state_full[odd]), row = tile.base * K_DIM;
    mbarrier_arrive_expect(full, 2 * STATE_HALF);
    tma_load_2d(smem_address(smem.s[odd]), maps.s, 0, row, full);
    tma_load_2d(smem_address(smem.s[odd] + STATE_HALF), maps.s, 64, row, full);
}

// Those of uc; zeros past the last row, where kq is zero too and nobody wrote.
DEVICE void gdn_fwd_o_copy_uc(gdn_fwd_o_smem &smem, const gdn_fwd_o_maps &maps, const gdn_fwd_o_inputs &in,
                              const gdn_fwd_o_tile &tile, int thread)
{
    if (tile.rows < CHUNK) {
        gdn_copy_chunk<gdn_fwd_o_chunk>(smem_address(smem.uc), in.uc + (u64)tile.base * (CHUNK * V_DIM), V_DIM, tile.rows,
                                        thread, THREADS);
        cp_async_commit();
    } else if (thread == 0) {
        const u32 full = smem_address(&smem.uc_full), row = tile.base * CHUNK;
        mbarrier_arrive_expect(full, 2 * HALF);
        tma_load_2d(smem_address(smem.uc), maps.uc, 0, row, full);
        tma_load_2d(smem_address(smem.uc + HALF), maps.uc, 64, row, full);
    }
}

DEVICE float gdn_fwd_o_gc(const gdn_fwd_o_inputs &in, const gdn_fwd_o_tile &tile, int thread)
{
    return thread < tile.rows ? in.gc[(u64)tile.base * CHUNK + thread] : 0.0f;
}

// Copies of fewer rows go past the copy engine: they are here, and wgmma sees them.
DEVICE void gdn_fwd_o_wait_tail()
{
    cp_async_wait<0>();
    fence_async_shared();
    __syncthreads();
}

// From q k^T of the 16 rows from m: decayed, masked, as limbs that are A operands.
DEVICE void gdn_fwd_o_limbs(u32 (&high)[CHUNK / 16][4], u32 (&low)[CHUNK / 16][4], const float (&qk)[CHUNK / 8][4],
                            const float *gc, int m, int rows, int lane)
{
    const int first = m + (lane >> 2);
    const float gc_row[2] = {gc[first], gc[first + 8]};
#pragma unroll
    for (int window = 0; window < CHUNK / 16; ++window) {
        float kq[2][4] = {};
        if (16 * window <= m) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int l = 16 * window + 8 * j + 2 * (lane & 3);
                const float2 gc_column = *(const float2 *)(gc + l);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int i = first + 8 * half;
                    const float x = expf(gc_row[half] - gc_column.x) * qk[2 * window + j][2 * half];
                    const float y = expf(gc_row[half] - gc_column.y) * qk[2 * window + j][2 * half + 1];
                    kq[j][2 * half] = i < rows && l <= i ? x : 0.0f;
                    kq[j][2 * half + 1] = i < rows && l + 1 <= i ? y : 0.0f;
                }
            }
        }
        gdn_high_limb(high[window], kq[0], kq[1]);
        gdn_low_limb(low[window], high[window], kq[0], kq[1]);
    }
}

// acc += A B for windows of 16 in ascending order; `tile`'s rows are B's, halves of them `bytes` apart.
template <int windows>
DEVICE void gdn_fwd_o_add(float (&acc)[V_DIM / 8][4], const u32 (&a)[windows][4], u32 tile, u32 bytes)
{
#pragma unroll
    for (int window = 0; window < windows; ++window)
        wgmma_m64n128k16<1>(reinterpret_cast<float (&)[64]>(acc), a[window],
                            wgmma_operand_n128(tile + window * 2048, bytes), 1);
}

DEVICE void gdn_fwd_o_store(bf16 *output, const float (&acc)[V_DIM / 8][4], int m, const gdn_fwd_o_tile &tile, u32 nv,
                            int lane)
{
    const float scale = rsqrtf((float)K_DIM);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int quad = 0; quad < 4; ++quad) {
            u32 word[4];
#pragma unroll
            for (int j = 0; j < 4; ++j)
                word[j] = bf16x2_from_f32(acc[4 * quad + j][2 * half] * scale, acc[4 * quad + j][2 * half + 1] * scale);
            gdn_transpose_quad(word, lane);
            const int i = m + (lane >> 2) + 8 * half;
            if (i < tile.rows)
                *(uint4 *)(output + (((u64)tile.token + i) * nv + tile.vh) * V_DIM + 32 * quad + 8 * (lane & 3)) =
                    make_uint4(word[0], word[1], word[2], word[3]);
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    gated_delta_rule_chunk_fwd_o_persistent(const __grid_constant__ tensor_map q_map,
                                            const __grid_constant__ tensor_map k_map,
                                            const __grid_constant__ tensor_map s_map,
                                            const __grid_constant__ tensor_map uc_map, const bf16 *query,
                                            const bf16 *key, const float *gc, const bf16 *uc, bf16 *output, u32 batch,
                                            u32 seq_len, u32 num_chunks, u32 nk, u32 nv, u32 qk_stride,
                                            const int *cu_seqlens, const int * /*cu_chunks*/, u32 is_varlen)
{
    gdn_fwd_o_smem &smem = *(gdn_fwd_o_smem *)gdn_smem;
    const gdn_fwd_o_maps maps = {&q_map, &k_map, &s_map, &uc_map};
    const gdn_fwd_o_inputs in = {query, key, uc, gc, qk_stride, nv / nk};
    const gdn_fwd_o_tiles tiles = {batch, seq_len, num_chunks, nv, is_varlen, cu_seqlens};
    const int thread = (int)threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const int m = 16 * warp;
    gdn_fwd_o_tile tile, next;
    u32 index = blockIdx.x;
    u32 rows_parity = 0, uc_parity = 0;

    if (!tiles.find(tile, index))
        return;
    if (thread == 0) {
        mbarrier_init(smem_address(&smem.rows_full), 1);
        mbarrier_init(smem_address(&smem.state_full[0]), 1);
        mbarrier_init(smem_address(&smem.state_full[1]), 1);
        mbarrier_init(smem_address(&smem.uc_full), 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    gdn_fwd_o_copy_rows(smem, maps, in, tile, thread);
    grid_wait(); // gc, S and uc are others'
    gdn_fwd_o_copy_state(smem, maps, tile, 0, thread);
    if (thread < CHUNK)
        smem.gc[0][thread] = gdn_fwd_o_gc(in, tile, thread);
    __syncthreads();
    gdn_fwd_o_copy_uc(smem, maps, in, tile, thread);
    bool more = true;
#pragma unroll 1
    for (u32 turn = 0; more; ++turn) {
        const u32 odd = turn & 1;
        const float *const gc_rows = smem.gc[odd];
        u32 q[K_DIM / 16][4], high[CHUNK / 16][4], low[CHUNK / 16][4];
        float qk[CHUNK / 8][4] = {}, acc[V_DIM / 8][4] = {}; // [16 i][64 l], [16 i][128 v] of a warp
        float next_gc = 0.0f;
        index += gridDim.x;
        more = tiles.find(next, index);
        if (more) {
            gdn_fwd_o_copy_state(smem, maps, next, odd ^ 1, thread);
            if (thread < CHUNK)
                next_gc = gdn_fwd_o_gc(in, next, thread);
        }
        if (tile.rows < CHUNK)
            gdn_fwd_o_wait_tail();
        else
            gdn_wait_turn(smem.rows_full, rows_parity);
#pragma unroll
        for (int window = 0; window < K_DIM / 16; ++window)
            gdn_load_a<gdn_fwd_o_chunk>(q[window], smem_address(smem.q), m, 16 * window, lane);
        wgmma_fence();
#pragma unroll
        for (int window = 0; window < K_DIM / 16; ++window)
            wgmma_m64n64k16(reinterpret_cast<float (&)[32]>(qk), q[window],
                            wgmma_operand_k128(smem_address(smem.k) + (window >> 2) * HALF) + 2 * (window & 3), 1);
        wgmma_commit();
        gdn_wait(smem.state_full[odd], turn >> 1 & 1);
        wgmma_fence();
        gdn_fwd_o_add(acc, q, smem_address(smem.s[odd]), STATE_HALF);
        wgmma_commit();
        wgmma_wait<1>();
        gdn_fwd_o_limbs(high, low, qk, gc_rows, m, tile.rows, lane);
        const float decay[2] = {expf(gc_rows[m + (lane >> 2)]), expf(gc_rows[m + (lane >> 2) + 8])};
        if (thread < CHUNK)
            smem.gc[odd ^ 1][thread] = next_gc;
        wgmma_wait<0>();
        __syncthreads(); // Q, K and S have been read
        if (more)
            gdn_fwd_o_copy_rows(smem, maps, in, next, thread);
#pragma unroll
        for (int j = 0; j < V_DIM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                acc[j][e] = acc[j][e] * decay[e >> 1];
        if (tile.rows == CHUNK)
            gdn_wait_turn(smem.uc_full, uc_parity);
        wgmma_fence();
        gdn_fwd_o_add(acc, high, smem_address(smem.uc), HALF); // zeros right of the diagonal add nothing
        gdn_fwd_o_add(acc, low, smem_address(smem.uc), HALF);
        wgmma_commit();
        wgmma_wait<0>();
        __syncthreads(); // uc has been read
        if (more)
            gdn_fwd_o_copy_uc(smem, maps, in, next, thread);
        gdn_fwd_o_store(output, acc, m, tile, nv, lane);
        tile = next;
    }
}
