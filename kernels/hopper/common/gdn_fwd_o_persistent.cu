// gdn_fwd_o_persistent.cu: the twin of gated_delta_rule_chunk_fwd_o_hopper, with its bits. A block takes one chunk of one
// head after another; the copy engine brings the next one's Q, K, S and uc as soon as this one's are no longer needed.
#include "gdn.cuh"

constexpr int THREADS = 256;     // warp (m, h): 16 rows, 64 columns of v
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
typedef gdn_halves<STATE_HALF> gdn_fwd_o_state;

struct gdn_fwd_o_smem {
    u8 q[2 * HALF], k[2 * HALF];
    u8 s[2 * STATE_HALF]; // row k
    u8 uc[2 * HALF];
    u8 kq_high[HALF], kq_low[HALF]; // kq's limbs, row i
    float gc[2][CHUNK];             // of this chunk and the next
    u64 rows_full, state_full, uc_full; // Q and K, S, uc are here
};

static_assert(sizeof(gdn_fwd_o_smem) == KPK_SMEM_gated_delta_rule_chunk_fwd_o_persistent,
              "the description declares other bytes than gdn_fwd_o_smem");
static_assert(KPK_BLOCK_gated_delta_rule_chunk_fwd_o_persistent == THREADS, "eight warps take 16 x 64 of the output each");

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

struct gdn_fwd_o_tiles {
    u32 batch, seq_len, num_chunks, nv, is_varlen;
    const int *cu_seqlens;

    // The first tile from `index` on that exists; false when none does.
    DEVICE bool find(gdn_fwd_o_tile &tile, u32 &index) const
    {
        for (; index < num_chunks * nv * batch; index += gridDim.x) {
            const u32 c = index % num_chunks, rest = index / num_chunks;
            const gdn_sequence sequence = gdn_locate(rest / nv, seq_len, num_chunks, cu_seqlens, is_varlen);
            if (c >= sequence.chunks)
                continue;
            tile.vh = rest % nv;
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

// Those of S.
DEVICE void gdn_fwd_o_copy_state(gdn_fwd_o_smem &smem, const gdn_fwd_o_maps &maps, const gdn_fwd_o_tile &tile, int thread)
{
    if (thread != 0)
        return;
    const u32 full = smem_address(&smem.state_full), row = tile.base * K_DIM;
    mbarrier_arrive_expect(full, 2 * STATE_HALF);
    tma_load_2d(smem_address(smem.s), maps.s, 0, row, full);
    tma_load_2d(smem_address(smem.s + STATE_HALF), maps.s, 64, row, full);
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

// kq of the 16 rows from 16 mw, columns 16 n for n = h, h + 2 up to mw: decayed, masked, as limbs in their places.
DEVICE void gdn_fwd_o_kq(gdn_fwd_o_smem &smem, const float *gc, int mw, int h, int rows, int lane)
{
    float acc[2][2][4] = {};
    const int m = 16 * mw;
    if (h > mw)
        return;
#pragma unroll
    for (int window = 0; window < K_DIM; window += 16) {
        u32 a[4], b[4];
        gdn_load_a<gdn_fwd_o_chunk>(a, smem_address(smem.q), m, window, lane);
        gdn_load_b<gdn_fwd_o_chunk>(b, smem_address(smem.k), 16 * h, window, lane);
        gdn_mma_pair(acc[0][0], acc[0][1], a, b);
        if (h + 2 <= mw) {
            gdn_load_b<gdn_fwd_o_chunk>(b, smem_address(smem.k), 16 * h + 32, window, lane);
            gdn_mma_pair(acc[1][0], acc[1][1], a, b);
        }
    }
#pragma unroll
    for (int p = 0; p < 2; ++p) {
        const int n = 16 * h + 32 * p;
        if (n > m)
            continue;
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int i = m + (lane >> 2) + 8 * half, l = n + 8 * j + 2 * (lane & 3);
                float kq[2];
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    kq[e] = i < rows && l + e <= i ? expf(gc[i] - gc[l + e]) * acc[p][j][2 * half + e] : 0.0f;
                const u32 high = bf16x2_from_f32(kq[0], kq[1]);
                const u32 at = swizzled<128>((u32)i, (u32)l >> 3) + 4 * (lane & 3);
                *(u32 *)(smem.kq_high + at) = high;
                *(u32 *)(smem.kq_low + at) = gdn_rest(high, kq[0], kq[1]);
            }
    }
}

// acc += A[m..][a window] B[window][64 h ..] for `windows` windows of 16.
template <class A_TILE, class B_TILE>
DEVICE void gdn_fwd_o_add(float (&acc)[8][4], const u8 *a_tile, const u8 *b_tile, int m, int h, int windows, int lane)
{
#pragma unroll
    for (int window = 0; window < windows; ++window) {
        u32 a[4], b[4];
        gdn_load_a<A_TILE>(a, smem_address(a_tile), m, 16 * window, lane);
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            gdn_load_b_trans<B_TILE>(b, smem_address(b_tile), 16 * window, 64 * h + 8 * j, lane);
            gdn_mma_pair(acc[j], acc[j + 1], a, b);
        }
    }
}

DEVICE void gdn_fwd_o_store(bf16 *output, const float (&acc)[8][4], int m, int h, const gdn_fwd_o_tile &tile, u32 nv,
                            int lane)
{
    const float scale = rsqrtf((float)K_DIM);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int quad = 0; quad < 2; ++quad) {
            u32 word[4];
#pragma unroll
            for (int j = 0; j < 4; ++j)
                word[j] = bf16x2_from_f32(acc[4 * quad + j][2 * half] * scale, acc[4 * quad + j][2 * half + 1] * scale);
            gdn_transpose_quad(word, lane);
            const int i = m + (lane >> 2) + 8 * half;
            if (i < tile.rows)
                *(uint4 *)(output + (((u64)tile.token + i) * nv + tile.vh) * V_DIM + 64 * h + 32 * quad + 8 * (lane & 3)) =
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
    const int mw = warp & 3, m = 16 * mw, h = warp >> 2;
    gdn_fwd_o_tile tile, next;
    u32 index = blockIdx.x;
    u32 rows_parity = 0, state_parity = 0, uc_parity = 0, turn = 0;

    if (!tiles.find(tile, index))
        return;
    if (thread == 0) {
        mbarrier_init(smem_address(&smem.rows_full), 1);
        mbarrier_init(smem_address(&smem.state_full), 1);
        mbarrier_init(smem_address(&smem.uc_full), 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    gdn_fwd_o_copy_rows(smem, maps, in, tile, thread);
    grid_wait(); // gc, S and uc are others'
    gdn_fwd_o_copy_state(smem, maps, tile, thread);
    if (thread < CHUNK)
        smem.gc[0][thread] = gdn_fwd_o_gc(in, tile, thread);
    __syncthreads();
    gdn_fwd_o_copy_uc(smem, maps, in, tile, thread);
    for (bool more = true; more; turn ^= 1) {
        const float *row_gc = smem.gc[turn];
        float next_gc = 0.0f;
        index += gridDim.x;
        more = tiles.find(next, index);
        if (more && thread < CHUNK)
            next_gc = gdn_fwd_o_gc(in, next, thread);
        if (tile.rows < CHUNK) {
            cp_async_wait<0>();
            __syncthreads();
        } else {
            gdn_wait_turn(smem.rows_full, rows_parity);
        }
        gdn_fwd_o_kq(smem, row_gc, mw, h, tile.rows, lane);
        gdn_wait_turn(smem.state_full, state_parity);
        float acc[8][4] = {}; // [16 i][64 v]
        gdn_fwd_o_add<gdn_fwd_o_chunk, gdn_fwd_o_state>(acc, smem.q, smem.s, m, h, K_DIM / 16, lane);
        const float decay[2] = {expf(row_gc[m + (lane >> 2)]), expf(row_gc[m + (lane >> 2) + 8])};
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                acc[j][e] = acc[j][e] * decay[e >> 1];
        if (thread < CHUNK)
            smem.gc[turn ^ 1][thread] = next_gc;
        __syncthreads(); // kq is in its place; Q, K and S have been read
        if (tile.rows == CHUNK)
            gdn_wait_turn(smem.uc_full, uc_parity);
        if (more) {
            gdn_fwd_o_copy_rows(smem, maps, in, next, thread);
            gdn_fwd_o_copy_state(smem, maps, next, thread);
        }
        // Windows right of the diagonal tile hold zeros and would add nothing.
        gdn_fwd_o_add<gdn_halves<0>, gdn_fwd_o_chunk>(acc, smem.kq_high, smem.uc, m, h, mw + 1, lane);
        gdn_fwd_o_add<gdn_halves<0>, gdn_fwd_o_chunk>(acc, smem.kq_low, smem.uc, m, h, mw + 1, lane);
        __syncthreads(); // kq and uc have been read
        if (more)
            gdn_fwd_o_copy_uc(smem, maps, in, next, thread);
        gdn_fwd_o_store(output, acc, m, h, tile, nv, lane);
        tile = next;
    }
}
