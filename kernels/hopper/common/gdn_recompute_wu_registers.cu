// gdn_recompute_wu_registers.cu: the twin of gated_delta_rule_recompute_wu_hopper, with its bits. A block takes one chunk
// of one head after another. In a turn eight warps solve for one chunk's U and W, three build the next one's L and T and
// sum the gates of the one after it, and one asks the copy engine for V and K and sends U and W out of their places. The
// columns of U and W stand on the M side of the products, so that what one leaves in registers is the next one's A operand.
#include "gdn_entry.cuh"

constexpr int SOLVING = 8, BUILDING = 3; // warps: the first take 16 columns of U and of W each
constexpr int THREADS = (SOLVING + BUILDING + 1) * 32;
constexpr u32 HALF = CHUNK * 128;   // bytes of 64 rows of 64 columns: what one copy brings
constexpr u32 ROWS_16 = 16 * 128;   // bytes of 16 of them
constexpr u32 LIMB = 16 * 16 * 2;   // bytes of a 16 x 16 tile of limbs
constexpr int PITCH_L = 20;         // f32 from row to row of a diagonal block
constexpr int TILES = 4;            // of the last turn, this one and the next, and the one being found

// One chunk of one head; no rows: there is none.
struct gdn_wu_tile {
    u32 token, base; // its first row; its block of scratch: a descriptor counts both
    u16 vh, kh;
    int rows;
};

// A place in the order of tiles: heads of one chunk first, for their rows of K and V lie side by side.
struct gdn_wu_place {
    u32 c, vh, b;
};

struct gdn_wu_gates {
    float gc[CHUNK];                    // -infinity past the last row
    float beta[CHUNK], beta_exp[CHUNK]; // 0 there
};

// Limbs in 8 x 8 pieces of 128 bytes: of -L's six tiles below the diagonal, column by column, and of
// T_j = (I + L_jj)^-1, transposed.
struct gdn_wu_factors {
    u8 l_high[6 * LIMB], l_low[6 * LIMB], t_high[4 * LIMB], t_low[4 * LIMB];
};

// Of tile t: k, W and gates in slot t % K_SLOTS, v and U in t % V_SLOTS, the rest in t % 2.
struct gdn_wu_smem {
    u8 k[K_SLOTS][2 * HALF]; // swizzled; columns 0..63, then 64..127; then W
    u8 v[V_SLOTS][2 * HALF]; // then U
    gdn_wu_factors factors[2];
    float l_diagonal[4][16 * PITCH_L + 16]; // the pairs that one warp inverts lie in different banks
    gdn_wu_gates gates[K_SLOTS];
    gdn_wu_tile tiles[TILES];             // tile t in t % TILES
    u64 k_full[K_SLOTS], v_full[V_SLOTS]; // whole chunks of K and V are here
    u64 u_done, w_done;                   // the turn's U and W are in their places
    gdn_wu_place at, step;                // of the next tile to look at
};

static_assert(V_SLOTS == 2 && K_SLOTS == 3, "what may be overwritten in a turn follows from these");
static_assert(sizeof(gdn_wu_smem) == KPK_SMEM_gated_delta_rule_recompute_wu_registers,
              "the description declares other bytes than gdn_wu_smem");
static_assert(KPK_BLOCK_gated_delta_rule_recompute_wu_registers == THREADS, "the warps of the three roles");

extern __shared__ __align__(1024) u8 gdn_smem[];

struct gdn_wu_halves {
    static DEVICE u32 at(int row, int chunk)
    {
        return (chunk >> 3) * HALF + swizzled<128>((u32)row, (u32)chunk & 7);
    }
};

struct gdn_wu_tiles {
    u32 batch, seq_len, num_chunks, nv, share, is_varlen; // share: value heads of a key head
    const int *cu_seqlens;

    DEVICE gdn_wu_place place(u32 index) const
    {
        const u32 rest = index / nv;
        return {rest % num_chunks, index % nv, rest / num_chunks};
    }

    // The first tile from `at` on, in steps of `step`, that exists; `at` moves on.
    DEVICE gdn_wu_tile find(gdn_wu_place &at, const gdn_wu_place &step) const
    {
        gdn_wu_tile tile = {0, 0, 0, 0, 0};
        while (at.b < batch && tile.rows == 0) {
            const gdn_sequence sequence = gdn_locate(at.b, seq_len, num_chunks, cu_seqlens, is_varlen);
            if (at.c < sequence.chunks)
                tile = {(u32)sequence.token + at.c * CHUNK, ((u32)sequence.chunk + at.c) * nv + at.vh, (u16)at.vh,
                        (u16)(at.vh / share), gdn_rows(sequence, at.c)};
            at = {at.c + step.c, at.vh + step.vh, at.b + step.b};
            if (at.vh >= nv)
                at = {at.c + 1, at.vh - nv, at.b};
            if (at.c >= num_chunks)
                at = {at.c - num_chunks, at.vh, at.b + 1};
        }
        return tile;
    }
};

struct gdn_wu_arguments {
    const tensor_map *k_map, *v_map, *w_map, *u_map;
    const bf16 *key, *value;
    const float *gate, *beta;
    bf16 *w, *u;
    float *gc;
    u64 qk_stride, v_stride, gb_stride;
};

// Finds tile t, for its place in the ring, by one warp.
DEVICE void gdn_wu_find(gdn_wu_smem &smem, const gdn_wu_tiles &tiles, u32 t, int lane)
{
    gdn_wu_place place = smem.at;
    const gdn_wu_tile found = tiles.find(place, smem.step);
    __syncwarp();
    if (lane == 0) {
        smem.tiles[t % TILES] = found;
        smem.at = place;
    }
}

// A warp has done its part of what the barrier tells.
DEVICE void gdn_wu_tell(const u64 &barrier, int lane)
{
    __syncwarp();
    if (lane == 0)
        mbarrier_arrive(smem_address(&barrier));
}

// ---- Gates -------------------------------------------------------------------------------------------------

// A lane's gates and betas of a tile: rows lane and lane + 32.
struct gdn_wu_raw_gates {
    float gate[2], beta[2];

    DEVICE gdn_wu_raw_gates(const gdn_wu_arguments &in, const gdn_wu_tile &tile, int lane)
    {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int row = lane + 32 * j;
            const u64 at = ((u64)tile.token + row) * in.gb_stride + tile.vh;
            gate[j] = row < tile.rows ? in.gate[at] : 1.0f;
            beta[j] = row < tile.rows ? in.beta[at] : 0.0f;
        }
    }
};

// Their sums and what scales V and K.
DEVICE void gdn_wu_sum(gdn_wu_gates &gates, const gdn_wu_raw_gates &raw, const gdn_wu_arguments &in, const gdn_wu_tile &tile,
                       int lane)
{
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int row = lane + 32 * j;
        gates.gc[row] = row < tile.rows ? logf(fmaxf(raw.gate[j], GDN_GATE_FLOOR)) : __uint_as_float(0xFF800000u);
        gates.beta[row] = raw.beta[j];
    }
    __syncwarp();
    if (lane == 0)
        gdn_gate_prefix(gates.gc);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int row = lane + 32 * j;
        gates.beta_exp[row] = raw.beta[j] * expf(gates.gc[row]);
        if (row < tile.rows)
            in.gc[(u64)tile.base * CHUNK + row] = gates.gc[row];
    }
}

// ---- Building: L and T -------------------------------------------------------------------------------------

// A lane's part of the 16 x 16 tile of L at (m, n), from the Gram's: value[j][e] as the accumulators have it. Rows past the
// last one are zeros: their gc is -infinity. Where the column is past it too, NaNs stand, which no row that counts meets.
template <bool diagonal>
DEVICE void gdn_wu_l(float (&value)[2][4], const gdn_wu_gates &gates, const float (&gram)[2][4], int m, int n, int lane)
{
    float factor[2], gc[2];
    float2 other[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        factor[half] = gates.beta[m + (lane >> 2) + 8 * half];
        gc[half] = gates.gc[m + (lane >> 2) + 8 * half];
        other[half] = *(const float2 *)&gates.gc[n + 8 * half + 2 * (lane & 3)];
    }
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (!diagonal || j == 0 || e >= 2)
                value[j][e] = (factor[e >> 1] * expf(gc[e >> 1] - (e & 1 ? other[j].y : other[j].x))) * gram[j][e];
}

// The transpose of the diagonal block at row m; nothing above the diagonal is used.
DEVICE void gdn_wu_put_diagonal(float *block, const gdn_wu_gates &gates, const float (&gram)[2][4], int m, int lane)
{
    float value[2][4];
    gdn_wu_l<true>(value, gates, gram, m, m, lane);
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (j == 0 || e >= 2)
                block[(8 * j + 2 * (lane & 3) + (e & 1)) * PITCH_L + (lane >> 2) + 8 * (e >> 1)] = value[j][e];
}

// The limbs of -L for the tile at (m, n) below the diagonal.
DEVICE void gdn_wu_put_l(gdn_wu_factors &factors, const gdn_wu_gates &gates, const float (&gram)[2][4], int m, int n,
                         int tile, int lane)
{
    float value[2][4];
    gdn_wu_l<false>(value, gates, gram, m, n, lane);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float x = -value[j][2 * half], y = -value[j][2 * half + 1];
            const u32 at = tile * LIMB + half * 256 + j * 128 + lane * 4, high = bf16x2_from_f32(x, y);
            *(u32 *)(factors.l_high + at) = high;
            *(u32 *)(factors.l_low + at) = gdn_rest(high, x, y);
        }
}

// Column `column` of a T by forward substitution; its limbs. Row r is done once every earlier one has been taken from it,
// in ascending order.
DEVICE void gdn_wu_invert(u8 *high_tile, u8 *low_tile, const float *block, int column)
{
    float x[16];
#pragma unroll
    for (int r = 0; r < 16; ++r)
        x[r] = r == column ? 1.0f : 0.0f;
#pragma unroll
    for (int r = 0; r < 15; ++r)
#pragma unroll
        for (int later = (r + 1) & ~3; later < 16; later += 4) {
            const float4 l4 = *(const float4 *)&block[r * PITCH_L + later];
            if (later > r)
                x[later] = x[later] - l4.x * x[r];
            if (later + 1 > r)
                x[later + 1] = x[later + 1] - l4.y * x[r];
            if (later + 2 > r)
                x[later + 2] = x[later + 2] - l4.z * x[r];
            x[later + 3] = x[later + 3] - l4.w * x[r];
        }
#pragma unroll
    for (int rows = 0; rows < 16; rows += 8) {
        const u32 at = rows * 32 + (column >> 3) * 128 + (column & 7) * 16;
        u32 high[4], low[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            high[e] = bf16x2_from_f32(x[rows + 2 * e], x[rows + 2 * e + 1]);
            low[e] = gdn_rest(high[e], x[rows + 2 * e], x[rows + 2 * e + 1]);
        }
        *(uint4 *)(high_tile + at) = make_uint4(high[0], high[1], high[2], high[3]);
        *(uint4 *)(low_tile + at) = make_uint4(low[0], low[1], low[2], low[3]);
    }
}

// Where a lane's rows of the A and B fragments of K begin. Windows 1..3 lie in other pieces of the same 128 bytes, 4..7 in
// the other half.
struct gdn_wu_key {
    u32 a_at, b_at;

    DEVICE gdn_wu_key(u32 k, int lane)
        : a_at(k + gdn_wu_halves::at(lane & 15, lane >> 4)),
          b_at(k + gdn_wu_halves::at((lane & 7) + (lane >> 4 << 3), lane >> 3 & 1))
    {
    }
    DEVICE void a(u32 (&fragment)[4], int block, int window) const
    {
        ldmatrix_x4(fragment, (a_at ^ (window & 3) << 5) + (window >> 2) * HALF + block * ROWS_16);
    }
    DEVICE void b(u32 (&fragment)[4], int block, int window) const
    {
        ldmatrix_x4(fragment, (b_at ^ (window & 3) << 5) + (window >> 2) * HALF + block * ROWS_16);
    }
};

// The first two warps' part of L and T of a tile whose K is here: two diagonal tiles of the ten, which a warp inverts, and
// the one between them.
DEVICE void gdn_wu_build_diagonal(gdn_wu_smem &smem, gdn_wu_factors &factors, const gdn_wu_gates &gates, u32 k, int warp,
                                  int lane)
{
    const gdn_wu_key key(k, lane);
    const int first = 2 * warp, block = first + (lane >> 4); // of 16 rows
    float gram[3][2][4] = {};
#pragma unroll
    for (int window = 0; window < K_DIM / 16; ++window) {
        u32 a[4], b[4], b_first[4];
        key.a(a, first, window);
        key.b(b_first, first, window);
        gdn_mma_pair(gram[0][0], gram[0][1], a, b_first);
        key.a(a, first + 1, window);
        key.b(b, first + 1, window);
        gdn_mma_pair(gram[1][0], gram[1][1], a, b);
        gdn_mma_pair(gram[2][0], gram[2][1], a, b_first);
    }
    gdn_wu_put_diagonal(smem.l_diagonal[first], gates, gram[0], 16 * first, lane);
    gdn_wu_put_diagonal(smem.l_diagonal[first + 1], gates, gram[1], 16 * first + 16, lane);
    gdn_wu_put_l(factors, gates, gram[2], 16 * first + 16, 16 * first, warp == 0 ? 0 : 5, lane);
    __syncwarp();
    gdn_wu_invert(factors.t_high + block * LIMB, factors.t_low + block * LIMB, smem.l_diagonal[block], lane & 15);
}

// The third one's: rows 32..63 of columns 0..31.
DEVICE void gdn_wu_build_rest(gdn_wu_factors &factors, const gdn_wu_gates &gates, u32 k, int lane)
{
    const gdn_wu_key key(k, lane);
    float gram[2][2][2][4] = {}; // [column][row]
#pragma unroll
    for (int window = 0; window < K_DIM / 16; ++window) {
        u32 a[2][4], b[4];
        key.a(a[0], 2, window);
        key.a(a[1], 3, window);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            key.b(b, n, window);
            gdn_mma_pair(gram[n][0][0], gram[n][0][1], a[0], b);
            gdn_mma_pair(gram[n][1][0], gram[n][1][1], a[1], b);
        }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int m = 0; m < 2; ++m)
            gdn_wu_put_l(factors, gates, gram[n][m], 32 + 16 * m, 16 * n, 1 + 2 * n + m, lane);
}

// ---- Solving ---------------------------------------------------------------------------------------------

// The 16 x 64 right-hand sides of a warp: its columns of a tile, rows scaled. x[block][j]: i 16 block + 8 j. `at` is
// gdn_trans_at of the tile's first 16 rows, `scale` the lane's first factor.
DEVICE void gdn_wu_scale(float (&x)[4][2][4], u32 at, const float *scale)
{
#pragma unroll
    for (int block = 0; block < 4; ++block) {
        u32 pair[4];
        ldmatrix_x4_transposed(pair, at + block * ROWS_16);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float2 factor = *(const float2 *)(scale + 16 * block + 8 * j);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                x[block][j][2 * half] = factor.x * f32_from_bf16_low(pair[2 * j + half]);
                x[block][j][2 * half + 1] = factor.y * f32_from_bf16_high(pair[2 * j + half]);
            }
        }
    }
}

template <bool transposed> DEVICE void gdn_wu_load_b(u32 (&b)[4], const u8 *limbs, int lane)
{
    const u32 at = smem_address(limbs) + lane * 16;
    if (transposed)
        ldmatrix_x4_transposed(b, at);
    else
        ldmatrix_x4(b, at);
}

template <bool transposed>
DEVICE void gdn_wu_multiply(float (&x)[2][4], const u32 (&high)[4], const u32 (&low)[4], const u8 *b_high,
                            const u8 *b_low, int lane)
{
    u32 b[4];
    gdn_wu_load_b<transposed>(b, b_high, lane);
    gdn_mma_pair(x[0], x[1], high, b);
    gdn_mma_pair(x[0], x[1], low, b);
    gdn_wu_load_b<transposed>(b, b_low, lane);
    gdn_mma_pair(x[0], x[1], high, b);
}

DEVICE void gdn_wu_solve(float (&x)[4][2][4], const gdn_wu_factors &factors, u32 at, int lane)
{
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        u32 high[4], low[4];
        float solved[2][4] = {};
        gdn_high_limb(high, x[j][0], x[j][1]);
        gdn_low_limb(low, high, x[j][0], x[j][1]);
        gdn_wu_multiply<true>(solved, high, low, factors.t_high + j * LIMB, factors.t_low + j * LIMB, lane);
        gdn_high_limb(high, solved[0], solved[1]);
        gdn_low_limb(low, high, solved[0], solved[1]);
        stmatrix_x4_transposed(at + j * ROWS_16, high);
#pragma unroll
        for (int later = j + 1; later < 4; ++later) {
            const int below = (later - 1 + j * (5 - j) / 2) * LIMB;
            gdn_wu_multiply<false>(x[later], high, low, factors.l_high + below, factors.l_low + below, lane);
        }
    }
}

// U and W of tile t.
DEVICE void gdn_wu_solve_both(gdn_wu_smem &smem, u32 t, u32 at, int lane)
{
    const u32 slot = t % K_SLOTS, v = t & 1;
    const gdn_wu_gates &gates = smem.gates[slot];
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        const u32 tile = smem_address(pass == 0 ? smem.v[v] : smem.k[slot]) + at;
        float x[4][2][4];
        gdn_wait(pass == 0 ? smem.v_full[v] : smem.k_full[slot], (pass == 0 ? t >> 1 : t / K_SLOTS) & 1);
        gdn_wu_scale(x, tile, (pass == 0 ? gates.beta : gates.beta_exp) + 2 * (lane & 3));
        gdn_wu_solve(x, smem.factors[v], tile, lane);
        fence_async_shared();
        gdn_wu_tell(pass == 0 ? smem.u_done : smem.w_done, lane);
    }
}

// ---- Copying ---------------------------------------------------------------------------------------------

// Starts the copy of a tile's rows of a matrix, zeros past the last one.
DEVICE void gdn_wu_load(u8 *place, const tensor_map *map, const bf16 *from, u64 stride, u32 column,
                        const gdn_wu_tile &tile, const u64 &full, int lane)
{
    if (tile.rows == CHUNK) {
        if (lane != 0)
            return;
        mbarrier_arrive_expect(smem_address(&full), 2 * HALF);
        tma_load_2d(smem_address(place), map, column, tile.token, smem_address(&full));
        tma_load_2d(smem_address(place + HALF), map, column + 64, tile.token, smem_address(&full));
    } else if (tile.rows != 0) {
        from += tile.token * stride + column;
#pragma unroll 1
        for (int i = lane; i < CHUNK * 16; i += 32) {
            const bool valid = i >> 4 < tile.rows;
            cp_async_16_or_zero(smem_address(place) + gdn_wu_halves::at(i >> 4, i & 15),
                                from + (valid ? (i >> 4) * stride + (i & 15) * 8 : 0), valid ? 16 : 0);
        }
        cp_async_commit();
        cp_async_wait<0>();
        gdn_wu_tell(full, lane);
    }
}

// Starts the copy of a tile's rows to their block of the scratch.
DEVICE void gdn_wu_store(bf16 *to, const tensor_map *map, const u8 *place, const gdn_wu_tile &tile, int lane)
{
    if (tile.rows == CHUNK) {
        if (lane != 0)
            return;
        tma_store_2d(map, 0, tile.base * CHUNK, smem_address(place));
        tma_store_2d(map, 64, tile.base * CHUNK, smem_address(place + HALF));
        bulk_commit();
    } else {
        to += (u64)tile.base * (CHUNK * 128);
#pragma unroll 1
        for (int i = lane; i < tile.rows * 16; i += 32)
            *(uint4 *)(to + i * 8) = *(const uint4 *)(place + gdn_wu_halves::at(i >> 4, i & 15));
        __syncwarp();
    }
}

DEVICE void gdn_wu_load_k(gdn_wu_smem &smem, const gdn_wu_arguments &in, u32 t, int lane)
{
    const gdn_wu_tile &tile = smem.tiles[t % TILES];
    gdn_wu_load(smem.k[t % K_SLOTS], in.k_map, in.key, in.qk_stride, tile.kh * K_DIM, tile, smem.k_full[t % K_SLOTS], lane);
}

DEVICE void gdn_wu_load_v(gdn_wu_smem &smem, const gdn_wu_arguments &in, u32 t, int lane)
{
    const gdn_wu_tile &tile = smem.tiles[t % TILES];
    gdn_wu_load(smem.v[t & 1], in.v_map, in.value, in.v_stride, tile.vh * V_DIM, tile, smem.v_full[t & 1], lane);
}

// What the copying warp itself reads or writes, of a chunk with fewer rows, waits for the next turn.
DEVICE bool gdn_wu_whole(const gdn_wu_smem &smem, u32 t)
{
    return smem.tiles[t % TILES].rows == CHUNK;
}

// Of tile t - 2, what its turn left.
DEVICE void gdn_wu_copy_late(gdn_wu_smem &smem, const gdn_wu_arguments &in, u32 t, int lane)
{
    if (gdn_wu_whole(smem, t - 2))
        return;
    const gdn_wu_tile &left = smem.tiles[(t - 2) % TILES];
    gdn_wu_store(in.u, in.u_map, smem.v[t & 1], left, lane);
    gdn_wu_store(in.w, in.w_map, smem.k[(t - 2) % K_SLOTS], left, lane);
}

// Turn t: tile t - 1 leaves, K and V of t + 1 come, t + 2 is found.
DEVICE void gdn_wu_copy(gdn_wu_smem &smem, const gdn_wu_arguments &in, const gdn_wu_tiles &tiles, u32 t, int lane)
{
    if (t >= 2) {
        gdn_wu_copy_late(smem, in, t, lane);
        if (lane == 0)
            bulk_wait_read(); // the place of K of t + 1 is free
        __syncwarp();
        if (!gdn_wu_whole(smem, t - 2) || !gdn_wu_whole(smem, t))
            gdn_wu_load_v(smem, in, t, lane);
    }
    gdn_wu_load_k(smem, in, t + 1, lane);
    if (t == 0)
        gdn_wu_load_v(smem, in, t + 1, lane);
    gdn_wu_find(smem, tiles, t + 2, lane);
    if (t == 0)
        return;
    const gdn_wu_tile &left = smem.tiles[(t - 1) % TILES];
    gdn_wait(smem.u_done, (t - 1) & 1);
    if (left.rows == CHUNK)
        gdn_wu_store(in.u, in.u_map, smem.v[(t - 1) & 1], left, lane);
    if (left.rows == CHUNK && gdn_wu_whole(smem, t + 1)) {
        if (lane == 0)
            bulk_wait_read();
        gdn_wu_load_v(smem, in, t + 1, lane);
    }
    gdn_wait(smem.w_done, (t - 1) & 1);
    if (left.rows == CHUNK)
        gdn_wu_store(in.w, in.w_map, smem.k[(t - 1) % K_SLOTS], left, lane);
}

// ---- The kernel ----------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    gated_delta_rule_recompute_wu_registers(const __grid_constant__ tensor_map k_map,
                                            const __grid_constant__ tensor_map v_map,
                                            const __grid_constant__ tensor_map w_map,
                                            const __grid_constant__ tensor_map u_map, const bf16 *key,
                                            const bf16 *value, const float *gate, const float *beta, bf16 *w_out,
                                            bf16 *u_out, float *gc_out, u32 batch, u32 seq_len, u32 num_chunks, u32 nk,
                                            u32 nv, u32 qk_stride, u32 v_stride, u32 gb_stride, const int *cu_seqlens,
                                            const int * /*cu_chunks*/, u32 is_varlen)
{
    gdn_wu_smem &smem = *(gdn_wu_smem *)gdn_smem;
    const gdn_wu_arguments in = {&k_map, &v_map, &w_map, &u_map,    key,      value,     gate,
                                 beta,   w_out,  u_out,  gc_out,    qk_stride, v_stride, gb_stride};
    const gdn_wu_tiles tiles = {batch, seq_len, num_chunks, nv, nv / nk, is_varlen, cu_seqlens};
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    const bool copies = warp == SOLVING + BUILDING, sums = warp == SOLVING + BUILDING - 1;

    if (copies) {
        const gdn_wu_place at = tiles.place(blockIdx.x), step = tiles.place(gridDim.x);
        if (lane == 0) {
            tensor_map_prefetch(&k_map);
            tensor_map_prefetch(&v_map);
            for (int i = 0; i < K_SLOTS; ++i)
                mbarrier_init(smem_address(&smem.k_full[i]), 1);
            for (int i = 0; i < V_SLOTS; ++i)
                mbarrier_init(smem_address(&smem.v_full[i]), 1);
            mbarrier_init(smem_address(&smem.u_done), SOLVING);
            mbarrier_init(smem_address(&smem.w_done), SOLVING);
            fence_mbarrier_init();
            smem.at = at;
            smem.step = step;
        }
        __syncwarp();
        gdn_wu_find(smem, tiles, 0, lane);
        __syncwarp();
        gdn_wu_load_k(smem, in, 0, lane);
        gdn_wu_load_v(smem, in, 0, lane);
        gdn_wu_find(smem, tiles, 1, lane);
        if (lane == 0) {
            tensor_map_prefetch(&w_map);
            tensor_map_prefetch(&u_map);
        }
    } else if (sums) {
        gdn_wu_place at = tiles.place(blockIdx.x);
        const gdn_wu_tile tile = tiles.find(at, tiles.place(gridDim.x));
        gdn_wu_sum(smem.gates[0], gdn_wu_raw_gates(in, tile, lane), in, tile, lane);
    }
    __syncthreads();

    // Turn t: tile t - 1 is solved, t built, the gates of t + 1 summed.
    const u32 at = gdn_trans_at<gdn_wu_halves>(0, 16 * (warp & 7), lane);
    u32 t = 0;
#pragma unroll 1
    for (; t == 0 || smem.tiles[(t - 1) % TILES].rows != 0; ++t) {
        const u32 slot = t % K_SLOTS;
        if (warp < SOLVING) {
            if (t > 0)
                gdn_wu_solve_both(smem, t - 1, at, lane);
        } else if (copies) {
            gdn_wu_copy(smem, in, tiles, t, lane);
        } else if (smem.tiles[t % TILES].rows == 0) {
            grid_launch_dependents();
        } else if (sums) {
            const gdn_wu_tile &next = smem.tiles[(t + 1) % TILES];
            const gdn_wu_raw_gates raw(in, next, lane);
            gdn_wait(smem.k_full[slot], t / K_SLOTS & 1);
            gdn_wu_build_rest(smem.factors[t & 1], smem.gates[slot], smem_address(smem.k[slot]), lane);
            gdn_wu_sum(smem.gates[(t + 1) % K_SLOTS], raw, in, next, lane);
        } else {
            gdn_wait(smem.k_full[slot], t / K_SLOTS & 1);
            gdn_wu_build_diagonal(smem, smem.factors[t & 1], smem.gates[slot], smem_address(smem.k[slot]), warp - SOLVING,
                                  lane);
        }
        __syncthreads();
    }
    if (!copies)
        return;
    if (t >= 2)
        gdn_wu_copy_late(smem, in, t, lane);
    if (lane == 0)
        bulk_wait();
}
