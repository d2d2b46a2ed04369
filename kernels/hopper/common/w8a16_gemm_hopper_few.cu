// w8a16_gemm_hopper_ROWSxCOLUMNS (of C per tile): the "tile" contract on sm_90a with the warp's own MMA.
//
// GROUPS x SPLIT warps multiply: each owns 16 columns, or 32, and every SPLIT-th K block, by itself; nothing is waited for
// within a block. Where K is shared out, a column group's warps then add one another's products in order, each for its
// part of the outputs. Arguments and grid: w8a16_hopper.cuh.
#include "w8a16_hopper.cuh"

constexpr u32 MMA_COLUMNS = 16;   // the MMA's M
constexpr u32 FRAGMENT_ROWS = 8;  // the MMA's N
constexpr u32 GROUP_BARRIERS = 1; // of named_barrier: one per column group; 0 is __syncthreads'
constexpr u32 MAX_GROUPS = MADE - GROUP_BARRIERS;

template <u32 rows, u32 wide, u32 groups, u32 split, u32 makers, u32 stages> struct Shape {
    static constexpr u32 ROWS = rows, GROUPS = groups, SPLIT = split, CLUSTER = 1, STAGES = stages;
    static constexpr u32 MAKERS = makers; // threads that make the ring's barriers: one, or both that copy
    static constexpr u32 WIDE = wide, GROUP_COLUMNS = MMA_COLUMNS * wide; // a warp's
    static constexpr u32 COLUMNS = GROUP_COLUMNS * groups, WARPS = groups * split, THREADS = (WARPS + 2) * WARP;
    static constexpr u32 ROW_FRAGMENTS = rows / FRAGMENT_ROWS, FRAGMENTS = wide * ROW_FRAGMENTS;
    static constexpr u32 FLOATS = 4 * FRAGMENTS, BUFFERS = 2; // of Sum

    static constexpr u32 WEIGHT_BYTES = COLUMNS * WEIGHT_ROW;
    static constexpr u32 HALF_BYTES = rows * HALF * 2;
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + 2 * HALF_BYTES;
    static constexpr u32 PRODUCT_BYTES = WARP * FLOATS * 4;
    static constexpr u32 OUT_BYTES = rows * GROUP_COLUMNS * 2; // of a column group
    static constexpr u32 PRODUCTS = HEADER + stages * STAGE_BYTES;
    static constexpr u32 OUT = PRODUCTS + (split == 1 ? 0 : BUFFERS * WARPS * PRODUCT_BYTES);
    static constexpr u32 BYTES = OUT + groups * OUT_BYTES;

    static_assert(WEIGHT_BYTES % 1024 == 0 && HALF_BYTES % 1024 == 0, "every tile begins on an atom of the swizzle");
    static_assert(FLOATS % split == 0, "the warps of a group share its outputs evenly");
    static_assert(wide <= 2, "a NaN is looked for in this many");
    static_assert(groups <= MAX_GROUPS, "there are named barriers for this many");
    static_assert(stages >= split, "a warp goes round the ring at most once from one of its blocks to the next");
    static_assert(stages <= MAX_STAGES, "the header has barriers for this many");
};

// ---- One K block ---------------------------------------------------------------------------------------

// The row of A, within eight, in column g of the MMA: the 16 lanes that load at once then find theirs in other banks.
DEVICE u32 row_of(u32 g)
{
    return g % 4 * 2 + g / 4;
}

// Where this lane's four elements of A, window 0, rows 0..7 lie in a half of a block.
DEVICE u32 row_offset()
{
    const u32 lane = threadIdx.x % WARP, row = row_of(lane / 4), t = lane % 4;
    return row * HALF * 2 + ((t / 2 ^ row) << 4) + t % 2 * 8;
}

// inner = one K block's product of this warp's columns and all rows; `exact` where a weight is NaN.
template <class S, bool exact>
DEVICE void multiply(float (&inner)[S::FRAGMENTS][4], u32 weights, u32 rows)
{
#pragma unroll
    for (u32 f = 0; f < S::FRAGMENTS; f++)
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            inner[f][i] = 0.0f;
#pragma unroll(exact ? 1 : WINDOWS)
    for (u32 pair = 0; pair < WINDOWS; pair++) {
        u32 a[S::WIDE][2][4];
#pragma unroll
        for (u32 w = 0; w < S::WIDE; w++)
            decode_pair<exact>(a[w], weights + w * MMA_COLUMNS * WEIGHT_ROW, pair);
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            const u32 window = 2 * pair + i;
            // Two 16-byte chunks of A's row to a window; the swizzle turns their number within eight.
            const u32 at = (rows ^ window % WINDOWS << 5) + window / WINDOWS * S::HALF_BYTES;
#pragma unroll
            for (u32 f = 0; f < S::ROW_FRAGMENTS; f++) {
                u32 b[2];
                shared_load_u32x2(b, at + f * FRAGMENT_ROWS * HALF * 2);
#pragma unroll
                for (u32 w = 0; w < S::WIDE; w++)
                    mma_m16n8k16(inner[w * S::ROW_FRAGMENTS + f], a[w][i], b);
            }
        }
    }
}

// ---- The sums ----------------------------------------------------------------------------------------

// A column group's SPLIT warps each hold a product of FLOATS registers per lane: registers 4f..4f+3 are the MMA's
// fragment f, of eight rows from 8 * (f % ROW_FRAGMENTS) and 16 columns from 16 * (f / ROW_FRAGMENTS). In shared memory a
// product is f32 [FLOATS / 4][WARP][4]. A warp adds, in order, OUTPUTS of every lane's: pieces of PIECE floats, of which
// piece (j * SPLIT + party) * WARP + lane is a lane's j-th.
template <class S> struct Sum {
    static constexpr u32 OUTPUTS = S::FLOATS / S::SPLIT, PIECE = OUTPUTS < 4 ? OUTPUTS : 4;
    static constexpr u32 PRODUCT_FLOATS = WARP * S::FLOATS;

    float *products; // [BUFFERS][SPLIT] of PRODUCT_FLOATS
    u32 barrier;     // the column group's named barrier
    u32 party, lane;
    u32 turn;        // the next product's number
    float outer[OUTPUTS];

    DEVICE float *buffer(u32 of) const
    {
        return products + (turn % S::BUFFERS * S::SPLIT + of) * PRODUCT_FLOATS;
    }

    // The place of output i of a lane in a product.
    DEVICE u32 place_of(u32 i, u32 of_lane) const
    {
        return ((i / PIECE * S::SPLIT + party) * WARP + of_lane) * PIECE + i % PIECE;
    }

    DEVICE void clear()
    {
#pragma unroll
        for (u32 i = 0; i < OUTPUTS; i++)
            outer[i] = 0.0f;
    }

    // Adds the products, inner * scale, of the group's warps; only the first `count` have one.
    DEVICE void add(const float (&inner)[S::FRAGMENTS][4], float scale, u32 count)
    {
        if constexpr (S::SPLIT == 1) {
#pragma unroll
            for (u32 i = 0; i < OUTPUTS; i++)
                outer[i] = __fadd_rn(outer[i], __fmul_rn(inner[i / 4][i % 4], scale));
        } else {
            if (party < count)
                hand_over(inner, scale);
            sync();
            gather(count);
            turn++;
        }
    }

    DEVICE void hand_over(const float (&inner)[S::FRAGMENTS][4], float scale)
    {
        float4 *to = reinterpret_cast<float4 *>(buffer(party)) + lane;
#pragma unroll
        for (u32 f = 0; f < S::FRAGMENTS; f++)
            to[f * WARP] = make_float4(__fmul_rn(inner[f][0], scale), __fmul_rn(inner[f][1], scale),
                                       __fmul_rn(inner[f][2], scale), __fmul_rn(inner[f][3], scale));
    }

    // All are loaded before the first is added.
    DEVICE void gather(u32 count)
    {
#pragma unroll
        for (u32 i = 0; i < OUTPUTS; i += PIECE) {
            float product[S::SPLIT][PIECE];
#pragma unroll
            for (u32 of = 0; of < S::SPLIT; of++)
                if (of < count)
                    load_piece(product[of], buffer(of) + place_of(i, lane));
#pragma unroll
            for (u32 of = 0; of < S::SPLIT; of++)
                if (of < count)
#pragma unroll
                    for (u32 j = 0; j < PIECE; j++)
                        outer[i + j] = __fadd_rn(outer[i + j], product[of][j]);
        }
    }

    DEVICE static void load_piece(float (&piece)[PIECE], const float *from)
    {
        if constexpr (PIECE == 4) {
            const float4 v = *reinterpret_cast<const float4 *>(from);
            piece[0] = v.x, piece[1] = v.y, piece[2] = v.z, piece[3] = v.w;
        } else if constexpr (PIECE == 2) {
            const float2 v = *reinterpret_cast<const float2 *>(from);
            piece[0] = v.x, piece[1] = v.y;
        } else {
            piece[0] = *from;
        }
    }

    // Waits for the group's other warps.
    DEVICE void sync() const
    {
        if constexpr (S::SPLIT == 1)
            __syncwarp();
        else
            named_barrier(barrier, S::SPLIT * WARP);
    }

    // The outputs, rounded, to the group's part of C in shared memory, [rows][GROUP_COLUMNS].
    DEVICE void round_to(bf16 *out) const
    {
        const u32 here = opaque(lane); // once per tile: not worth registers in the loop
#pragma unroll
        for (u32 i = 0; i < OUTPUTS; i++) {
            const u32 place = place_of(i, here), owner = place / 4 % WARP, element = place % 4;
            const u32 fragment = place / (4 * WARP), w = S::WIDE == 1 ? 0 : fragment / S::ROW_FRAGMENTS;
            const u32 row = (fragment - w * S::ROW_FRAGMENTS) * FRAGMENT_ROWS + row_of(owner % 4 * 2 + element % 2);
            const u32 column = w * MMA_COLUMNS + owner / 4;
            out[SwizzledRows<S::GROUP_COLUMNS>::at(row, column + element / 2 * 8)] = bf16_from_f32(outer[i]);
        }
    }
};

// ---- The block ---------------------------------------------------------------------------------------

template <class S> DEVICE void consume(const Args &args, u32 shared, u8 *memory, u32 warp)
{
    const u32 group = warp % S::GROUPS, split = warp / S::GROUPS;
    const u32 blocks = args.K / FP8_BLOCK;
    const u32 weights = shared + HEADER + group * S::GROUP_COLUMNS * WEIGHT_ROW + weight_offset();
    const u32 rows = shared + HEADER + S::WEIGHT_BYTES + row_offset();
    bf16 *out = reinterpret_cast<bf16 *>(memory + S::OUT + group * S::OUT_BYTES);
    Sum<S> sum;
    sum.products = reinterpret_cast<float *>(memory + S::PRODUCTS + group * S::BUFFERS * S::SPLIT * S::PRODUCT_BYTES);
    sum.barrier = GROUP_BARRIERS + group;
    sum.party = split, sum.lane = threadIdx.x % WARP, sum.turn = 0;
    u32 blocks_before = 0;

    for (u32 tile = blockIdx.x; tile < tile_count<S>(args); tile += gridDim.x) {
        Place at = place<S>(args, tile);
        at.column += group * S::GROUP_COLUMNS;
        const u32 scale0 = min(at.column, args.N - 1) / FP8_BLOCK * blocks; // there are fewer than 2^32 scales
        Ring<S::STAGES> ring(blocks_before + split);
        float next_scale = split < blocks ? args.bs[scale0 + split] : 0.0f;
        sum.clear();
        for (u32 first = 0; first < blocks; first += S::SPLIT) {
            const u32 block = first + split;
            const float scale = next_scale;
            float inner[S::FRAGMENTS][4] = {};
            if (block + S::SPLIT < blocks)
                next_scale = args.bs[scale0 + block + S::SPLIT];
            if (block < blocks) {
                const u32 offset = ring.stage * S::STAGE_BYTES;
                wait(full_barrier(shared, ring.stage), ring.parity);
                multiply<S, false>(inner, weights + offset, rows + offset);
                bool nan = has_nan(inner[0][0], inner[0][2]);
                if constexpr (S::WIDE == 2)
                    nan |= has_nan(inner[S::ROW_FRAGMENTS][0], inner[S::ROW_FRAGMENTS][2]);
                if (nan)
                    multiply<S, true>(inner, weights + offset, rows + offset);
                release<S>(shared, ring.stage);
                ring.advance(S::SPLIT);
            }
            sum.add(inner, scale, min(S::SPLIT, blocks - first));
        }
        blocks_before += blocks;
        if constexpr (S::SPLIT == 1)
            sum.sync(); // the last tile has been read out; with more warps they have met since
        sum.round_to(out);
        sum.sync();
        write_rows<S::ROWS, SwizzledRows<S::GROUP_COLUMNS>>(args, at, out, split * WARP + sum.lane, S::SPLIT * WARP);
    }
}

template <class S> DEVICE void run(const Args &args)
{
    extern __shared__ __align__(1024) u8 memory[];
    const u32 shared = smem_address(memory);
    const u32 warp = __shfl_sync(~0u, threadIdx.x / WARP, 0); // uniform, and known to be
    const bool copies_weights = threadIdx.x == S::WARPS * WARP, copies_rows = threadIdx.x == (S::WARPS + 1) * WARP;
    if constexpr (S::MAKERS == 1) {
        if (copies_weights)
            make_barriers<S>(args, shared, S::GROUPS);
    } else {
        if (copies_weights)
            make_full_barriers<S>(args, shared);
        if (copies_rows)
            make_empty_barriers<S>(shared, S::GROUPS);
    }
    barriers_made<S>(warp == S::WARPS);
    if (warp < S::WARPS) {
        consume<S>(args, shared, memory, warp);
    } else if (copies_weights) {
        produce<S, WEIGHTS, S::MAKERS>(args, shared);
    } else if (copies_rows) {
        if constexpr (S::MAKERS == 2)
            mbarrier_arrive(empties_barrier(shared));
        produce<S, ROWS_OF_A>(args, shared);
    }
}

#define W8A16_HOPPER_FEW(tile, rows, wide, groups, split, makers)                                                   \
    using Shape_##tile = Shape<rows, wide, groups, split, makers, STAGES_##tile>;                                   \
    W8A16_HOPPER_ENTRY(tile, )

W8A16_HOPPER_FEW(16x16, 16, 1, 1, 8, 1)
W8A16_HOPPER_FEW(16x64, 16, 2, 2, 8, 2)
W8A16_HOPPER_FEW(16x96, 16, 1, 6, 4, 1)
W8A16_HOPPER_FEW(16x144, 16, 1, 9, 2, 1)
W8A16_HOPPER_FEW(32x16, 32, 1, 1, 16, 1)
W8A16_HOPPER_FEW(32x32, 32, 2, 1, 8, 1)
W8A16_HOPPER_FEW(32x64, 32, 1, 4, 4, 1)
W8A16_HOPPER_FEW(32x96, 32, 1, 6, 2, 1)
W8A16_HOPPER_FEW(32x144, 32, 1, 9, 2, 1)
W8A16_HOPPER_FEW(48x16, 48, 1, 1, 6, 1)
