// w8a16_gemm_hopper_16x64, _32x64, _16x32, _32x32 (rows x columns of C per tile): the "tile" contract on sm_90a for few
// rows, with the warp's own MMA.
//
// Sixteen warps multiply: each owns 16 columns and every SPLIT-th K block, by itself; nothing is waited for within a
// block. The warps of a column group then add one another's products in order, each for its part of the outputs.
// Arguments and grid: w8a16_hopper.cuh.
#include "w8a16_hopper.cuh"

constexpr u32 GROUP_COLUMNS = 16; // the MMA's M
constexpr u32 WARPS = 16;
constexpr u32 STORE_BARRIER = 1, GROUP_BARRIERS = 2; // of named_barrier: one per column group; 0 is __syncthreads'

template <u32 rows, u32 columns, u32 stages> struct Shape {
    static constexpr u32 ROWS = rows, COLUMNS = columns, STAGES = stages, CLUSTER = 1;
    static constexpr u32 COLUMN_GROUPS = columns / GROUP_COLUMNS, SPLIT = WARPS / COLUMN_GROUPS;
    static constexpr u32 CONSUMERS = WARPS * WARP, THREADS = CONSUMERS + WARP;
    static constexpr u32 FRAGMENTS = rows / 8; // of the MMA's N side
    static constexpr u32 PARTY = WARP, FLOATS = 4 * FRAGMENTS, BUFFERS = 2; // of Sum

    static constexpr u32 WEIGHT_BYTES = columns * WEIGHT_ROW;
    static constexpr u32 HALF_BYTES = rows * HALF * 2;
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + 2 * HALF_BYTES;
    static constexpr u32 PRODUCT_BYTES = PARTY * FLOATS * 4;
    static constexpr u32 OUT_PITCH = columns + 8; // bf16 elements
    static constexpr u32 PRODUCTS = HEADER + stages * STAGE_BYTES;
    static constexpr u32 OUT = PRODUCTS + BUFFERS * WARPS * PRODUCT_BYTES;
    static constexpr u32 BYTES = OUT + rows * OUT_PITCH * 2;

    static_assert(HALF_BYTES % 1024 == 0 && WEIGHT_BYTES % 1024 == 0, "every tile begins on an atom of the swizzle");
    static_assert(COLUMN_GROUPS * SPLIT == WARPS && FLOATS % SPLIT == 0, "the warps share columns and outputs evenly");
    static_assert(stages >= SPLIT, "a warp goes round the ring at most once from one of its blocks to the next");
    static_assert(stages <= MAX_STAGES, "the header has barriers for this many");
};

// Where this lane's 16 bytes for ldmatrix lie in a half of A, window 0, rows 0..15: lanes 0-7 and 8-15 name the two
// chunks of rows 0..7, lanes 16-31 those of rows 8..15.
DEVICE u32 row_offset()
{
    const u32 lane = threadIdx.x % WARP, row = lane / 16 * 8 + lane % 8, chunk = lane / 8 % 2;
    return row * HALF * 2 + ((chunk ^ row % 8) << 4);
}

// inner = one K block's product of this warp's columns and all rows. Where a weight is NaN, `exact` says to look at
// each; else true comes back and inner is to be computed again.
template <class S, bool exact>
DEVICE bool multiply(float (&inner)[S::FRAGMENTS][4], u32 weights, u32 rows)
{
    u32 largest = 0;
#pragma unroll
    for (u32 f = 0; f < S::FRAGMENTS; f++)
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            inner[f][i] = 0.0f;
#pragma unroll(exact ? 1 : 2 * WINDOWS)
    for (u32 window = 0; window < 2 * WINDOWS; window++) {
        u32 a[4];
        decode_window(a, window_of(weights, window), largest);
        if constexpr (exact) {
#pragma unroll
            for (u32 i = 0; i < 4; i++)
                a[i] = without_nan(a[i]);
        }
        // Two 16-byte chunks of A's row to a window; the swizzle turns their number within eight.
        const u32 at = (rows ^ window % WINDOWS << 5) + window / WINDOWS * S::HALF_BYTES;
#pragma unroll
        for (u32 f = 0; f < S::FRAGMENTS; f += 2) {
            u32 b[4];
            ldmatrix_x4(b, at + f * 8 * HALF * 2);
            const u32 first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
            mma_m16n8k16(inner[f], a, first);
            mma_m16n8k16(inner[f + 1], a, second);
        }
    }
    return !exact && __any_sync(~0u, has_nan(largest));
}

// ---- The sums ----------------------------------------------------------------------------------------

// A column group's SPLIT parties of PARTY threads each hold an accumulator of FLOATS registers per thread, laid out as
// the MMA's: registers 4c..4c+3 are the fragment of rows 8c..8c+7 of C. In shared memory a product is
// f32 [FLOATS / 4][PARTY][4]. A party adds, in order, OUTPUTS of every thread's: pieces of PIECE floats, of which piece
// (j * SPLIT + party) * PARTY + thread is a thread's j-th.
template <class S> struct Sum {
    static constexpr u32 OUTPUTS = S::FLOATS / S::SPLIT, PIECE = OUTPUTS < 4 ? OUTPUTS : 4;
    static constexpr u32 PRODUCT_FLOATS = S::PARTY * S::FLOATS;

    float *products; // [BUFFERS][SPLIT] of PRODUCT_FLOATS
    u32 barrier;     // the column group's named barrier
    u32 party, thread;
    u32 turn;        // the next product's number
    float outer[OUTPUTS];

    DEVICE float *buffer(u32 of) const
    {
        return products + (turn % S::BUFFERS * S::SPLIT + of) * PRODUCT_FLOATS;
    }

    // The place of output i of a thread in a product.
    DEVICE u32 place_of(u32 i, u32 of_thread) const
    {
        return ((i / PIECE * S::SPLIT + party) * S::PARTY + of_thread) * PIECE + i % PIECE;
    }

    DEVICE void clear()
    {
#pragma unroll
        for (u32 i = 0; i < OUTPUTS; i++)
            outer[i] = 0.0f;
    }

    // Takes this party's product, inner * scale, if it has one this turn.
    DEVICE void take(const float *inner, float scale, bool has_one)
    {
        if (!has_one)
            return;
        float4 *to = reinterpret_cast<float4 *>(buffer(party)) + thread;
#pragma unroll
        for (u32 i = 0; i < S::FLOATS; i += 4)
            to[i / 4 * S::PARTY] = make_float4(__fmul_rn(inner[i], scale), __fmul_rn(inner[i + 1], scale),
                                               __fmul_rn(inner[i + 2], scale), __fmul_rn(inner[i + 3], scale));
    }

    // Adds this turn's products, of `count` parties; all are loaded before the first is added.
    DEVICE void add(u32 count)
    {
        named_barrier(barrier, S::SPLIT * S::PARTY);
#pragma unroll
        for (u32 i = 0; i < OUTPUTS; i += PIECE) {
            float product[S::SPLIT][PIECE];
#pragma unroll
            for (u32 of = 0; of < S::SPLIT; of++)
                if (of < count)
                    load_piece(product[of], buffer(of) + place_of(i, thread));
#pragma unroll
            for (u32 of = 0; of < S::SPLIT; of++)
                if (of < count)
#pragma unroll
                    for (u32 j = 0; j < PIECE; j++)
                        outer[i + j] = __fadd_rn(outer[i + j], product[of][j]);
        }
        turn++;
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

    // The outputs, rounded, to a tile of C in shared memory: [rows][pitch], from this column group's first column on.
    DEVICE void round_to(bf16 *out, u32 pitch) const
    {
        const u32 here = opaque(thread); // once per tile: not worth registers in the loop
#pragma unroll
        for (u32 i = 0; i < OUTPUTS; i++) {
            const u32 place = place_of(i, here), owner = place / 4 % S::PARTY, lane = owner % WARP, element = place % 4;
            const u32 row = place / (4 * S::PARTY) * 8 + lane % 4 * 2 + element % 2;
            out[row * pitch + owner / WARP * 16 + lane / 4 + element / 2 * 8] = bf16_from_f32(outer[i]);
        }
    }
};

// ---- The block ---------------------------------------------------------------------------------------

template <class S> DEVICE void consume(const Args &args, u32 shared, u8 *memory, u32 warp)
{
    const u32 group = warp % S::COLUMN_GROUPS, split = warp / S::COLUMN_GROUPS;
    const u32 blocks = args.K / FP8_BLOCK;
    const u32 weights = shared + HEADER + weight_offset(group * GROUP_COLUMNS + threadIdx.x % WARP / 4);
    const u32 rows = shared + HEADER + S::WEIGHT_BYTES + row_offset();
    bf16 *out = reinterpret_cast<bf16 *>(memory + S::OUT); // [ROWS][OUT_PITCH]
    Sum<S> sum;
    sum.products = reinterpret_cast<float *>(memory + S::PRODUCTS + group * S::BUFFERS * S::SPLIT * S::PRODUCT_BYTES);
    sum.barrier = GROUP_BARRIERS + group;
    sum.party = split, sum.thread = threadIdx.x % WARP, sum.turn = 0;
    u32 blocks_before = 0;

    for (u32 tile = blockIdx.x; tile < tile_count<S>(args); tile += gridDim.x) {
        // There are fewer than 2^32 scales.
        const u32 scale0 = min(place<S>(args, tile).column, args.N - 1) / FP8_BLOCK * blocks;
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
                if (multiply<S, false>(inner, weights + offset, rows + offset))
                    multiply<S, true>(inner, weights + offset, rows + offset);
                release<S>(shared, ring.stage);
                ring.advance(S::SPLIT);
            }
            sum.take(inner[0], scale, block < blocks);
            sum.add(min(S::SPLIT, blocks - first));
        }
        blocks_before += blocks;
        named_barrier(STORE_BARRIER, S::CONSUMERS); // the last tile has been read out
        sum.round_to(out + group * GROUP_COLUMNS, S::OUT_PITCH);
        named_barrier(STORE_BARRIER, S::CONSUMERS);
        write_rows<S>(args, place<S>(args, tile), out, threadIdx.x, S::CONSUMERS);
    }
}

template <class S> DEVICE void run(const Args &args)
{
    extern __shared__ __align__(1024) u8 memory[];
    const u32 shared = smem_address(memory);
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < S::STAGES; stage++) {
            mbarrier_init(full_barrier(shared, stage), 1);
            mbarrier_init(empty_barrier(shared, stage), S::COLUMN_GROUPS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    const u32 warp = __shfl_sync(~0u, threadIdx.x / WARP, 0); // uniform, and known to be
    if (warp < WARPS)
        consume<S>(args, shared, memory, warp);
    else if (threadIdx.x % WARP == 0)
        produce<S>(args, shared);
}

#define W8A16_HOPPER_FEW(tile, rows, columns)                                                                       \
    using Shape_##tile = Shape<rows, columns, STAGES_##tile>;                                                       \
    static_assert(Shape_##tile::THREADS == KPK_BLOCK_w8a16_gemm_hopper_##tile, "the description gives this block"); \
    static_assert(Shape_##tile::BYTES == KPK_SMEM_w8a16_gemm_hopper_##tile, "the description gives this size");     \
    extern "C" __global__ void __launch_bounds__(Shape_##tile::THREADS, 1)                                          \
        w8a16_gemm_hopper_##tile(const __grid_constant__ tensor_map weights,                                        \
                                 const __grid_constant__ tensor_map a, const float *__restrict__ bs,                \
                                 bf16 *__restrict__ C, u32 M, u32 N, u32 K, u32 ldc)                                \
    {                                                                                                               \
        run<Shape_##tile>({&weights, &a, bs, C, M, N, K, ldc});                                                     \
    }

W8A16_HOPPER_FEW(16x32, 16, 32)
W8A16_HOPPER_FEW(16x64, 16, 64)
W8A16_HOPPER_FEW(32x32, 32, 32)
W8A16_HOPPER_FEW(32x64, 32, 64)
