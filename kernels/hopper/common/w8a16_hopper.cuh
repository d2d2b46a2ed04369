// What the Hopper twins of the W8A16 tiles share: the ring that one thread fills, the walk over tiles, the decoding.
// They give the "tile" contract's bits (w8a16.cuh): the weight is the MMA's A operand, decoded in registers, rows of A
// are its N side, and each K window of 16 goes into the same accumulator in the same order.
//
// weights: map of B, u8 [N][K], box 128 x columns, 128-byte swizzle
// rows:    map of A, bf16 [M][K], pitch lda, box 64 x rows, 128-byte swizzle, zeros outside
// bs [ceil(N/128)][K/128] f32, C [M][ldc] bf16, 4-byte aligned; K a multiple of 128.
// Grid: any number of whole clusters; each walks over tiles.
//
// The K blocks of a tile are shared out among `split` parties. The contract rounds each block's product, inner * scale,
// before the sum, so products may be computed side by side, and are then added in order.
#ifndef KERNELS_HOPPER_COMMON_W8A16_HOPPER_CUH
#define KERNELS_HOPPER_COMMON_W8A16_HOPPER_CUH

#include "e4m3.cuh"
#include "ptx.cuh"

static_assert(FP8_BLOCK == 128, "one scale per 128 x 128 block of the weight is the checkpoint's format");

constexpr u32 MMA_K = 16;
constexpr u32 WEIGHT_ROW = FP8_BLOCK;  // bytes
constexpr u32 HALF = FP8_BLOCK / 2;    // K of one 128-byte row of A in shared memory
constexpr u32 WINDOWS = HALF / MMA_K;  // per half
constexpr u32 HEADER = 1024;           // the barriers, and the alignment of the swizzle's atoms
constexpr u32 MAX_STAGES = 32;

static_assert(2 * MAX_STAGES * 8 <= HEADER, "the header holds the barriers");

struct Args {
    const tensor_map *weights, *rows;
    const float *bs;
    bf16 *C;
    u32 M, N, K, ldc;
};

struct Place {
    u32 row, column;
};

// ---- Which tile --------------------------------------------------------------------------------------

template <class S> DEVICE u32 cluster_columns(u32 N)
{
    return (N + S::COLUMNS * S::CLUSTER - 1) / (S::COLUMNS * S::CLUSTER);
}

template <class S> DEVICE u32 tile_count(const Args &args)
{
    return cluster_columns<S>(args.N) * ((args.M + S::ROWS - 1) / S::ROWS);
}

// Tiles in an order that keeps GROUP_ROWS row tiles together, so that a wave shares A and B in the cache.
template <class S> DEVICE Place place(const Args &args, u32 tile)
{
    const u32 columns = cluster_columns<S>(args.N), all_rows = (args.M + S::ROWS - 1) / S::ROWS;
    const u32 group = tile / (GROUP_ROWS * columns), in_group = tile % (GROUP_ROWS * columns);
    const u32 rows = min(GROUP_ROWS, all_rows - group * GROUP_ROWS);
    return {(group * GROUP_ROWS + in_group % rows) * S::ROWS,
            (in_group / rows * S::CLUSTER + blockIdx.x % S::CLUSTER) * S::COLUMNS};
}

// ---- The ring ----------------------------------------------------------------------------------------

// The header's mbarriers: a full and an empty one for each stage.
DEVICE u32 full_barrier(u32 shared, u32 stage)
{
    return shared + stage * 8;
}

DEVICE u32 empty_barrier(u32 shared, u32 stage)
{
    return shared + (MAX_STAGES + stage) * 8;
}

DEVICE void wait(u32 barrier, u32 parity)
{
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

// A place in the ring: the stage, and the parity of its current phase.
template <u32 stages> struct Ring {
    u32 stage, parity;

    DEVICE explicit Ring(u32 blocks_before) : stage(blocks_before % stages), parity(blocks_before / stages % 2)
    {
    }

    DEVICE void advance(u32 blocks)
    {
        stage += blocks;
        if (stage >= stages) {
            stage -= stages;
            parity ^= 1;
        }
    }

    // The stage from which `blocks` led here.
    DEVICE u32 before(u32 blocks) const
    {
        return stage >= blocks ? stage - blocks : stage + stages - blocks;
    }
};

// ---- The copying thread ------------------------------------------------------------------------------

template <class S> DEVICE void produce(const Args &args, u32 shared)
{
    const u32 blocks = args.K / FP8_BLOCK, tiles = tile_count<S>(args);
    Ring<S::STAGES> ring(0);
    tensor_map_prefetch(args.weights);
    tensor_map_prefetch(args.rows);
    for (u32 tile = blockIdx.x / S::CLUSTER; tile < tiles; tile += gridDim.x / S::CLUSTER) {
        const Place at = place<S>(args, tile);
        for (u32 block = 0; block < blocks; block++) {
            wait(empty_barrier(shared, ring.stage), ring.parity ^ 1); // the first round passes at once
            const u32 full = full_barrier(shared, ring.stage), k = block * FP8_BLOCK;
            const u32 weight = shared + HEADER + ring.stage * S::STAGE_BYTES, a = weight + S::WEIGHT_BYTES;
            mbarrier_arrive_expect(full, S::STAGE_BYTES);
            tma_load_2d(weight, args.weights, k, at.column, full);
            if constexpr (S::CLUSTER == 1) {
                tma_load_2d(a, args.rows, k, at.row, full);
                tma_load_2d(a + S::HALF_BYTES, args.rows, k + HALF, at.row, full);
            } else {
                const u32 half = cluster_rank();
                tma_load_2d_multicast(a + half * S::HALF_BYTES, args.rows, k + half * HALF, at.row, full, 3);
            }
            ring.advance(1);
        }
    }
}

// This warp no longer reads the stage: every block of the cluster that copies into it hears so.
template <class S> DEVICE void release(u32 shared, u32 stage)
{
    const u32 lane = threadIdx.x % WARP; // lane i tells block i
    const u32 barrier = empty_barrier(shared, stage);
    if (S::CLUSTER == 1 && lane == 0)
        mbarrier_arrive(barrier);
    if (S::CLUSTER > 1 && lane < S::CLUSTER)
        mbarrier_arrive_cluster(cluster_address(barrier, lane));
}

// ---- Decoding ----------------------------------------------------------------------------------------

// A magnitude's bits, at bf16's place for value * 2^-120, times 2^120 with the signs that bits 15 and 31 of `signs` give.
DEVICE u32 to_bf16x2(u32 magnitude, u32 signs)
{
    return bf16x2_mul(magnitude, (signs & 0x80008000) | BF16X2_2_POW_120);
}

// NaN codes come out of the exact product as 480 or -480, which no other code gives: make them zeros.
DEVICE u32 without_nan(u32 pair)
{
    const u32 difference = (pair & 0x7fff7fff) ^ 0x43f043f0;
    if ((difference & 0xffff) == 0)
        pair &= 0xffff8000;
    if ((difference >> 16) == 0)
        pair &= 0x8000ffff;
    return pair;
}

// Where this lane's weights of window 0 lie in a stage's weight tile, for the column that is its row of the MMA: the
// copy engine puts 16-byte chunk c of row r at chunk c ^ (r % 8). window_of turns it to another window.
DEVICE u32 weight_offset(u32 column)
{
    return column * WEIGHT_ROW + (column % 8 << 4) + threadIdx.x % 4 * 2;
}

DEVICE u32 window_of(u32 address, u32 window)
{
    return address ^ window << 4;
}

// The MMA's A fragment of one window: columns c and c + 8, decoded; `address` is that of the window in column c.
// `largest` keeps the largest magnitude per half of a register, 0x07f0 for a NaN code.
DEVICE void decode_window(u32 (&a)[4], u32 address, u32 &largest)
{
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        const u32 low = i == 0 ? shared_load_u16<0>(address) : shared_load_u16<8 * WEIGHT_ROW>(address);
        const u32 high = i == 0 ? shared_load_u16<8>(address) : shared_load_u16<8 * WEIGHT_ROW + 8>(address);
        const u32 q = __byte_perm(low, high, 0x1504); // low's codes in the upper byte of each half, high's in the lower
        const u32 low_magnitude = (q >> 4) & 0x07f007f0, high_magnitude = (q << 4) & 0x07f007f0;
        largest = u16x2_max(u16x2_max(largest, low_magnitude), high_magnitude);
        a[i] = to_bf16x2(low_magnitude, q);
        a[2 + i] = to_bf16x2(high_magnitude, q << 8);
    }
}

DEVICE bool has_nan(u32 largest)
{
    return (largest & 0xffff) == 0x07f0 || (largest >> 16) == 0x07f0;
}

// ---- C -----------------------------------------------------------------------------------------------

// Rows of a tile of C from shared memory, [rows][pitch] bf16, in pieces of 16 bytes where they fit.
template <class S> DEVICE void write_rows(const Args &args, Place tile, const bf16 *out, u32 thread, u32 threads)
{
    constexpr u32 PIECE = 8, PIECES = S::COLUMNS / PIECE;
    const bool whole = args.ldc % PIECE == 0 && reinterpret_cast<u64>(args.C) % 16 == 0;
    for (u32 i = thread; i < S::ROWS * PIECES; i += threads) {
        const u32 row = tile.row + i / PIECES, n = tile.column + i % PIECES * PIECE;
        if (row >= args.M || n >= args.N)
            continue;
        const bf16 *from = out + i / PIECES * S::OUT_PITCH + i % PIECES * PIECE;
        bf16 *to = args.C + static_cast<u64>(row) * args.ldc + n;
        if (whole && n + PIECE <= args.N) {
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
        } else {
            for (u32 j = 0; j < PIECE && n + j < args.N; j++)
                to[j] = from[j];
        }
    }
}

#endif
