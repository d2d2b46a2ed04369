// What the Hopper twins of the W8A16 tiles share: the ring that one thread fills, the walk over tiles, the decoding.
// They give the "tile" contract's bits (w8a16.cuh): the weight is the MMA's A operand, decoded in registers, rows of A
// are its N side, and each K window of 16 goes into the same accumulator in the same order.
//
// weights: map of B, u8 [N][K], box 128 x columns, 128-byte swizzle
// rows:    map of A, bf16 [M][K], pitch lda, box 64 x min(M, rows), 128-byte swizzle, zeros outside. (Copies of rows that
//          A does not have would cost the time of others. What a tile then has in their place goes into no row of C.)
// bs [ceil(N/128)][K/128] f32, C [M][ldc] bf16, 4-byte aligned; K a multiple of 128.
// Grid: any number of whole clusters; each walks over tiles.
//
// The K blocks of a tile are shared out among `split` parties. The contract rounds each block's product, inner * scale,
// before the sum, so products may be computed side by side, and are then added in order.
#ifndef KERNELS_HOPPER_COMMON_W8A16_HOPPER_CUH
#define KERNELS_HOPPER_COMMON_W8A16_HOPPER_CUH

#include "ptx.cuh"

static_assert(FP8_BLOCK == 128, "one scale per 128 x 128 block of the weight is the checkpoint's format");

constexpr u32 MMA_K = 16;
constexpr u32 WEIGHT_ROW = FP8_BLOCK;  // bytes
constexpr u32 HALF = FP8_BLOCK / 2;    // K of one 128-byte row of A in shared memory
constexpr u32 WINDOWS = HALF / MMA_K;  // per half
constexpr u32 HEADER = 1024;           // the barriers, and the alignment of the swizzle's atoms
constexpr u32 MAX_STAGES = 32;

static_assert(2 * MAX_STAGES * 8 + 8 <= HEADER, "the header holds the barriers");

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
    if (all_rows == 1) // saves divisions where they would delay the first copy
        return {0, (tile * S::CLUSTER + blockIdx.x % S::CLUSTER) * S::COLUMNS};
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

// One thread's work; `readers` warps of each block of the cluster read a stage. The barriers' places are known to the
// compiler: by lanes they would be made one after the other too, and 0.8 us later.
template <class S> DEVICE void make_barriers(const Args &args, u32 shared, u32 readers)
{
    tensor_map_prefetch(args.weights);
    tensor_map_prefetch(args.rows);
#pragma unroll
    for (u32 stage = 0; stage < S::STAGES; stage++) {
        mbarrier_init(full_barrier(shared, stage), 1);
        mbarrier_init(empty_barrier(shared, stage), readers * S::CLUSTER);
    }
    fence_mbarrier_init();
}

// The same by two threads, of which the one that copies weights makes the full barriers, and begins with the first round
// of copies as soon as they are there; empties_barrier() tells it of the others.
DEVICE u32 empties_barrier(u32 shared)
{
    return shared + HEADER - 8;
}

template <class S> DEVICE void make_full_barriers(const Args &args, u32 shared)
{
    tensor_map_prefetch(args.weights);
    tensor_map_prefetch(args.rows);
    mbarrier_init(empties_barrier(shared), 1);
#pragma unroll
    for (u32 stage = 0; stage < S::STAGES; stage++)
        mbarrier_init(full_barrier(shared, stage), 1);
    fence_mbarrier_init();
}

template <class S> DEVICE void make_empty_barriers(u32 shared, u32 readers)
{
#pragma unroll
    for (u32 stage = 0; stage < S::STAGES; stage++)
        mbarrier_init(empty_barrier(shared, stage), readers * S::CLUSTER);
    fence_mbarrier_init();
}

// The block's first barrier: the warp that made the ring's barriers goes on, the others wait for it. All wait by the same
// instruction, as synccheck asks; barrier 0 would have to be all threads'.
constexpr u32 MADE = 15; // of named_barrier

template <class S> DEVICE void barriers_made(bool here)
{
    if (here) {
        __syncwarp();
        fixed_barrier_arrive<MADE, S::THREADS>();
    } else {
        fixed_barrier_wait<MADE, S::THREADS>();
    }
}

// ---- The copying threads -----------------------------------------------------------------------------

// One copies the weights, and says how many bytes a stage gets, another the rows of A: a copy takes some 50 cycles to
// start, so the stages of a tile are under way in less time.
enum Copies { WEIGHTS = 1, ROWS_OF_A = 2, ALL = 3 };

template <class S, Copies what, u32 makers = 1> DEVICE void produce(const Args &args, u32 shared)
{
    const u32 blocks = args.K / FP8_BLOCK, tiles = tile_count<S>(args);
    const u32 bytes = S::WEIGHT_BYTES + 2 * min(args.M, S::ROWS) * HALF * 2;
    Ring<S::STAGES> ring(0);
    u32 unused = makers == 2 && what & WEIGHTS ? S::STAGES : 0; // stages
    for (u32 tile = blockIdx.x / S::CLUSTER; tile < tiles; tile += gridDim.x / S::CLUSTER) {
        const Place at = place<S>(args, tile);
        for (u32 block = 0; block < blocks; block++) {
            if (unused > 0) {
                unused--;
            } else {
                if (makers == 2 && what & WEIGHTS)
                    wait(empties_barrier(shared), 0);
                wait(empty_barrier(shared, ring.stage), ring.parity ^ 1); // the first round passes at once
            }
            const u32 full = full_barrier(shared, ring.stage), k = block * FP8_BLOCK;
            const u32 weight = shared + HEADER + ring.stage * S::STAGE_BYTES, a = weight + S::WEIGHT_BYTES;
            if constexpr (what & WEIGHTS) {
                mbarrier_arrive_expect(full, bytes);
                tma_load_2d(weight, args.weights, k, at.column, full);
            }
            if constexpr (what & ROWS_OF_A && S::CLUSTER == 1) {
                tma_load_2d(a, args.rows, k, at.row, full);
                tma_load_2d(a + S::HALF_BYTES, args.rows, k + HALF, at.row, full);
            } else if constexpr (what & ROWS_OF_A) {
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
//
// ldmatrix gives lane 4g + t the codes 4t..4t+3 of a window's 16 in column g. So slots 2t, 2t+1 of the MMA's K are the
// window's K 4t, 4t+1, and slots 2t+8, 2t+9 its K 4t+2, 4t+3, in both operands: within a window the order of K does not
// matter to the bits.

// Where this lane's 16 bytes for ldmatrix lie in a weight tile of 16 columns, windows 0 and 1: lanes 0-15 name the
// columns of window 0, lanes 16-31 those of window 1. The copy engine puts 16-byte chunk c of row r at c ^ (r % 8).
DEVICE u32 weight_offset()
{
    const u32 lane = threadIdx.x % WARP, column = lane % 16, window = lane / 16;
    return column * WEIGHT_ROW + ((window ^ column % 8) << 4);
}

// The same with the codes that are NaN made zeros of their sign.
DEVICE u32 without_nan(u32 codes)
{
    const u32 nan = ((codes & 0x7f7f7f7f) + 0x01010101) & 0x80808080;
    return codes & ~(nan - (nan >> 7));
}

// The MMA's A fragments of windows 2 * pair and the next; a NaN code gives a NaN, or with `exact` a zero.
template <bool exact> DEVICE void decode_pair(u32 (&a)[2][4], u32 weights, u32 pair)
{
    u32 codes[4]; // of columns g and g + 8 in the first window, then in the next
    ldmatrix_x4(codes, weights ^ pair << 5);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        if constexpr (exact)
            codes[i] = without_nan(codes[i]);
        bf16x2_from_e4m3(a[i / 2][i % 2], a[i / 2][2 + i % 2], codes[i]);
    }
}

// Whether a NaN weight went into an accumulator of columns g and g + 8: every row of C would hold it. Row 0, which the
// lanes with t = 0 have, is the one that A is sure to have.
DEVICE bool has_nan(float g, float g8)
{
    return __any_sync(~0u, threadIdx.x % 4 == 0 && (g != g || g8 != g8));
}

// ---- C -----------------------------------------------------------------------------------------------

// Where an element lies in a part of C in shared memory, bf16, in pieces of eight. Both layouts put what the lanes of a
// fragment write into different banks.
constexpr u32 PIECE = 8;

// [rows][columns]: piece p of row r is at piece p ^ (r / 2 % pieces).
template <u32 columns> struct SwizzledRows {
    static constexpr u32 COLUMNS = columns;

    DEVICE static u32 at(u32 row, u32 column)
    {
        return row * columns + (column / PIECE ^ row / 2 % (columns / PIECE)) * PIECE + column % PIECE;
    }
};

// [rows][PITCH]: an odd number of pieces to a row.
template <u32 columns> struct PaddedRows {
    static constexpr u32 COLUMNS = columns, PITCH = (columns / PIECE | 1) * PIECE;

    DEVICE static u32 at(u32 row, u32 column)
    {
        return row * PITCH + column;
    }
};

// Such a part to C at `at`, in pieces of 16 bytes where they fit.
template <u32 rows, class Layout>
DEVICE void write_rows(const Args &args, Place at, const bf16 *out, u32 thread, u32 threads)
{
    constexpr u32 PIECES = Layout::COLUMNS / PIECE;
    const bool whole = args.ldc % PIECE == 0 && reinterpret_cast<u64>(args.C) % 16 == 0;
    for (u32 i = thread; i < rows * PIECES; i += threads) {
        const u32 row = at.row + i / PIECES, n = at.column + i % PIECES * PIECE;
        if (row >= args.M || n >= args.N)
            continue;
        const bf16 *from = out + Layout::at(i / PIECES, i % PIECES * PIECE);
        bf16 *to = args.C + static_cast<u64>(row) * args.ldc + n;
        if (whole && n + PIECE <= args.N) {
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
        } else {
            for (u32 j = 0; j < PIECE && n + j < args.N; j++)
                to[j] = from[j];
        }
    }
}

// The entry of a tile whose Shape_##tile stands before it; attributes: its cluster, or nothing.
#define W8A16_HOPPER_ENTRY(tile, attributes)                                                                        \
    static_assert(Shape_##tile::THREADS == KPK_BLOCK_w8a16_gemm_hopper_##tile, "the description gives this block"); \
    static_assert(Shape_##tile::BYTES == KPK_SMEM_w8a16_gemm_hopper_##tile, "the description gives this size");     \
    extern "C" __global__ void attributes __launch_bounds__(Shape_##tile::THREADS, 1)                               \
        w8a16_gemm_hopper_##tile(const __grid_constant__ tensor_map weights,                                        \
                                 const __grid_constant__ tensor_map a, const float *__restrict__ bs,                \
                                 bf16 *__restrict__ C, u32 M, u32 N, u32 K, u32 ldc)                                \
    {                                                                                                               \
        run<Shape_##tile>({&weights, &a, bs, C, M, N, K, ldc});                                                     \
    }

#endif
