// gdn.cuh: what the kernels of the chunked gated delta rule share: the geometry of a sequence, the
// gate's prefix sum, and where fragments lie in tiles.
//
// K_DIM, V_DIM and CHUNK come from the target description. Tokens are rows; strides are in elements.
// One (sequence, chunk, value head) owns block `base` of every scratch buffer:
//   W, U, uc [base][CHUNK][128] bf16, gc [base][CHUNK] f32, S [base][K_DIM][V_DIM] bf16.
// Rows past a chunk's last token are never written there, so no kernel may let them reach a result.
#ifndef GDN_CUH
#define GDN_CUH

#include "mma.cuh"

static_assert(K_DIM == 128 && V_DIM == 128 && CHUNK == 64,
              "fragment maps and tile loops are written for 128 x 128 heads and chunks of 64");

#define GDN_GATE_FLOOR 1e-30f /* keeps the log of a zero gate finite */

// ---- Geometry ----

struct gdn_sequence {
    u32 length; /* tokens */
    u32 chunks;
    u64 token;  /* its first row */
    u64 chunk;  /* chunks of the sequences before it */
};

DEVICE gdn_sequence gdn_locate(u32 b, u32 seq_len, u32 num_chunks, const int *cu_seqlens,
                               u32 is_varlen)
{
    gdn_sequence s;
    if (!is_varlen) {
        s.length = seq_len;
        s.chunks = num_chunks;
        s.token = (u64)b * seq_len;
        s.chunk = (u64)b * num_chunks;
        return s;
    }
    s.chunk = 0;
    int begin = cu_seqlens[0];
    for (u32 i = 0; i < b; ++i) {
        const int end = cu_seqlens[i + 1];
        s.chunk += ((u32)(end - begin) + CHUNK - 1) / CHUNK;
        begin = end;
    }
    s.length = (u32)(cu_seqlens[b + 1] - begin);
    s.chunks = (s.length + CHUNK - 1) / CHUNK;
    s.token = (u64)(u32)begin;
    return s;
}

// Tokens in chunk c, 1 to CHUNK.
DEVICE int gdn_rows(const gdn_sequence &s, u32 c)
{
    const u32 left = s.length - c * CHUNK;
    return left < CHUNK ? (int)left : CHUNK;
}

// The state of (sequence b, head vh): through the table of per-sequence pointers or one base.
DEVICE float *gdn_state(void *h_state, u32 is_table, u32 b, u32 vh, u32 nv)
{
    if (is_table)
        return ((float **)h_state)[b] + (u64)vh * (K_DIM * V_DIM);
    return (float *)h_state + ((u64)b * nv + vh) * (K_DIM * V_DIM);
}

// ---- Gates ----

// gc[i] = log gate of row i, 0 past the last row. Threads 0..CHUNK-1 of the block.
DEVICE void gdn_gate_logs(float *gc, const float *gate, u64 stride, int rows, int thread)
{
    if (thread < CHUNK)
        gc[thread] = thread < rows ? logf(fmaxf(gate[thread * stride], GDN_GATE_FLOOR)) : 0.0f;
}

// From logs to their prefix sums in place, by one thread: a tree would round differently.
DEVICE void gdn_gate_prefix(float *gc)
{
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < CHUNK; i += 4) {
        float4 log4 = *(const float4 *)(gc + i);
        log4.x = sum + log4.x;
        log4.y = log4.x + log4.y;
        log4.z = log4.y + log4.z;
        sum = log4.w = log4.z + log4.w;
        *(float4 *)(gc + i) = log4;
    }
}

// The decay row of a chunk: decay[0] = expf(gc_last), decay[1 + i] = expf(gc_last - gc_i), and 0
// past the last row. Threads 0..CHUNK of the block.
DEVICE void gdn_decay_row(float *decay, const float *gc, int rows, int thread)
{
    if (thread > CHUNK)
        return;
    const float last = gc[rows - 1];
    if (thread == 0)
        decay[0] = expf(last);
    else
        decay[thread] = thread <= rows ? expf(last - gc[thread - 1]) : 0.0f;
}

// ---- Tiles in shared memory ----
// Offsets are in bytes; `chunk` counts 16-byte pieces (8 bf16) along a row.

// 128-column bf16 tile without padding, pieces permuted within a row so that eight neighbouring rows
// of one piece lie in different banks.
struct gdn_swizzled {
    static DEVICE u32 at(int row, int chunk)
    {
        return (u32)(row * 256 + ((chunk ^ (row & 7)) << 4));
    }
};

// Rows ROW elements apart.
template <int ROW> struct gdn_padded {
    static DEVICE u32 at(int row, int chunk)
    {
        return (u32)(row * (ROW * 2) + (chunk << 4));
    }
};

// A fragment a[16][16] at (row, column) of a row-major tile.
template <class TILE>
DEVICE void gdn_load_a(u32 (&a)[4], u32 tile, int row, int column, int lane)
{
    ldmatrix_x4(a, tile + TILE::at(row + (lane & 15), (column >> 3) + (lane >> 4)));
}

// Its reverse.
template <class TILE>
DEVICE void gdn_store_a(u32 tile, const u32 (&a)[4], int row, int column, int lane)
{
    stmatrix_x4(tile + TILE::at(row + (lane & 15), (column >> 3) + (lane >> 4)), a);
}

// Where a lane's row of a 16 x 16 piece begins when its transpose is an A fragment.
template <class TILE> DEVICE u32 gdn_trans_at(int row, int column, int lane)
{
    return TILE::at(row + (lane & 7) + ((lane >> 4) << 3), (column >> 3) + ((lane >> 3) & 1));
}

// The same of the tile's transpose: a[m][k] = tile[row + k][column + m].
template <class TILE>
DEVICE void gdn_load_a_trans(u32 (&a)[4], u32 tile, int row, int column, int lane)
{
    ldmatrix_x4_transposed(a, tile + gdn_trans_at<TILE>(row, column, lane));
}

// Its reverse: tile[row + k][column + m] = a[m][k].
template <class TILE>
DEVICE void gdn_store_a_trans(u32 tile, const u32 (&a)[4], int row, int column, int lane)
{
    stmatrix_x4_transposed(tile + gdn_trans_at<TILE>(row, column, lane), a);
}

// Two B fragments: b[0..1] for n 0..7, b[2..3] for n 8..15, with b[n][k] = tile[row + n][column + k].
template <class TILE>
DEVICE void gdn_load_b(u32 (&b)[4], u32 tile, int row, int column, int lane)
{
    ldmatrix_x4(b, tile + TILE::at(row + (lane & 7) + ((lane >> 4) << 3),
                                   (column >> 3) + ((lane >> 3) & 1)));
}

// The same of the tile's transpose: b[n][k] = tile[row + k][column + n].
template <class TILE>
DEVICE void gdn_load_b_trans(u32 (&b)[4], u32 tile, int row, int column, int lane)
{
    ldmatrix_x4_transposed(b, tile + TILE::at(row + (lane & 15), (column >> 3) + (lane >> 4)));
}

// c0 += a b[0..1]^T, c1 += a b[2..3]^T.
DEVICE void gdn_mma_pair(float (&c0)[4], float (&c1)[4], const u32 (&a)[4], const u32 (&b)[4])
{
    const u32 b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
    mma_m16n8k16(c0, a, b0);
    mma_m16n8k16(c1, a, b1);
}

// The 16 x 16 accumulator c0, c1 (columns 0..7, 8..15) as an A fragment of bf16, and what that leaves over as
// another.
DEVICE void gdn_high_limb(u32 (&high)[4], const float (&c0)[4], const float (&c1)[4])
{
    high[0] = bf16x2_from_f32(c0[0], c0[1]);
    high[1] = bf16x2_from_f32(c0[2], c0[3]);
    high[2] = bf16x2_from_f32(c1[0], c1[1]);
    high[3] = bf16x2_from_f32(c1[2], c1[3]);
}

DEVICE u32 gdn_rest(u32 high, float a, float b)
{
    return bf16x2_from_f32(a - f32_from_bf16_low(high), b - f32_from_bf16_high(high));
}

DEVICE void gdn_low_limb(u32 (&low)[4], const u32 (&high)[4], const float (&c0)[4], const float (&c1)[4])
{
    low[0] = gdn_rest(high[0], c0[0], c0[1]);
    low[1] = gdn_rest(high[1], c0[2], c0[3]);
    low[2] = gdn_rest(high[2], c1[0], c1[1]);
    low[3] = gdn_rest(high[3], c1[2], c1[3]);
}

// What takes a pair of bf16 apart, in shared memory: low limbs that are made of what is loaded behind an instruction stay
// behind it. ptxas would move them up, before products or an arrival that others wait for.
struct gdn_pair_halves {
    u32 shift, mask;

    DEVICE void set()
    {
        shift = 16;
        mask = 0xFFFF0000u;
    }

    gdn_pair_halves() = default;
    DEVICE explicit gdn_pair_halves(const gdn_pair_halves *from)
    {
        u32 words[2];
        shared_load_volatile_u32x2(words, smem_address(from));
        shift = words[0];
        mask = words[1];
    }

    DEVICE u32 rest(u32 high, float a, float b) const
    {
        return bf16x2_from_f32(a - __uint_as_float(high << shift), b - __uint_as_float(high & mask));
    }

    DEVICE void low_limb(u32 (&low)[4], const u32 (&high)[4], const float (&c0)[4], const float (&c1)[4]) const
    {
        low[0] = rest(high[0], c0[0], c0[1]);
        low[1] = rest(high[1], c0[2], c0[3]);
        low[2] = rest(high[2], c1[0], c1[1]);
        low[3] = rest(high[3], c1[2], c1[3]);
    }
};

// Transposes 4 x 4 words over four neighbouring lanes: word p of lane t goes to word t of lane p.
DEVICE void gdn_transpose_quad(u32 (&word)[4], int lane)
{
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2)
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            if (p & bit)
                continue;
            const bool upper = (lane & bit) != 0;
            const u32 got = __shfl_xor_sync(0xFFFFFFFFu, upper ? word[p] : word[p + bit], bit);
            word[p] = upper ? got : word[p];
            word[p + bit] = upper ? word[p + bit] : got;
        }
}

// ---- Staging 128-column bf16 rows ----

// Rows 0..rows-1 by 16-byte asynchronous copies; later rows keep what they hold.
template <class TILE>
DEVICE void gdn_copy_rows(u32 tile, const bf16 *from, u64 stride, int rows, int thread, int threads)
{
#pragma unroll 4
    for (int i = thread; i < rows * 16; i += threads)
        cp_async_16(tile + TILE::at(i >> 4, i & 15), from + (i >> 4) * stride + (i & 15) * 8);
}

// All CHUNK rows likewise, zeros past the last one.
template <class TILE>
DEVICE void gdn_copy_chunk(u32 tile, const bf16 *from, u64 stride, int rows, int thread, int threads)
{
#pragma unroll
    for (int i = thread; i < CHUNK * 16; i += threads) {
        const bool valid = (i >> 4) < rows;
        cp_async_16_or_zero(tile + TILE::at(i >> 4, i & 15),
                            from + (valid ? (i >> 4) * stride + (i & 15) * 8 : 0), valid ? 16 : 0);
    }
}

// A chunk's gc. Four bytes at a time: nothing past its last row is read.
DEVICE void gdn_copy_gc(float *to, const float *gc, int rows, int thread)
{
    if (thread < rows)
        cp_async_4(smem_address(to + thread), gc + thread);
}

// Rows by 2-byte loads, for pointers and strides of any alignment; zeros past the last row.
template <class TILE>
DEVICE void gdn_load_rows(unsigned char *tile, const bf16 *from, u64 stride, int rows, int thread,
                          int threads)
{
#pragma unroll 4
    for (int i = thread; i < CHUNK * 128; i += threads) {
        const int row = i >> 7, column = i & 127;
        *(bf16 *)(tile + TILE::at(row, column >> 3) + (column & 7) * 2) =
            row < rows ? from[row * stride + column] : (bf16)0;
    }
}

// ---- Waiting for the copy engine ----

DEVICE void gdn_wait(const u64 &barrier, u32 parity)
{
    while (!mbarrier_try_wait(smem_address(&barrier), parity)) {
    }
}

// The same for the one waiter of a barrier that keeps its parity.
DEVICE void gdn_wait_turn(const u64 &barrier, u32 &parity)
{
    gdn_wait(barrier, parity);
    parity ^= 1;
}

#endif
