// w8a16_gemm_hopper_m16, _m32, _m64, _m128: the "tile" contract (w8a16.cuh) on sm_90a, byte for byte.
//
// The weight is wgmma's A operand, decoded in registers; rows of A are its N side, read from shared memory. That
// gives the tiles' bits: each K window of 16 goes into the same accumulator in the same order.
//
// weights: map of B, u8 [N][K], box 128 x 64 * WARPGROUPS, 128-byte swizzle
// rows:    map of A, bf16 [M][K], pitch lda, box 64 x ROWS, 128-byte swizzle, zeros outside
// bs [ceil(N/128)][K/128] f32, C [M][ldc] bf16, 4-byte aligned; K a multiple of 128.
// Grid (ceil(N / (64 * WARPGROUPS)) rounded up to whole clusters, ceil(M/ROWS)).
// Dynamic shared memory: HEADER + stages * (64 * WARPGROUPS * 128 + ROWS * 256) bytes, stages in 2..MAX_STAGES.
//
// Each warpgroup owns 64 columns. One warp copies: per 128-wide K block a box of the weight and two boxes (the
// halves of the block) of A, which the blocks of a cluster share: each fetches one half for both.
#include "e4m3.cuh"
#include "ptx.cuh"

static_assert(FP8_BLOCK == 128, "one scale per 128 x 128 block of the weight is the checkpoint's format");

constexpr u32 GROUP_THREADS = 128; // of a warpgroup
constexpr u32 COLUMNS = 64;        // of a warpgroup: wgmma's M
constexpr u32 MMA_K = 16;
constexpr u32 WEIGHT_ROW = FP8_BLOCK;              // bytes
constexpr u32 HALF = FP8_BLOCK / 2;                // K of one 128-byte row of A in shared memory
constexpr u32 WINDOWS = HALF / MMA_K;              // per half
constexpr u32 HEADER = 1024;                       // the barriers, and the alignment of the swizzle's atoms
constexpr u32 EPILOGUE_BARRIER = 1;

static_assert(2 * MAX_STAGES * 8 <= HEADER, "both barriers of every stage lie in the header");

struct Args {
    const tensor_map *weights, *rows;
    const float *bs;
    bf16 *C;
    u32 M, N, K, ldc, stages;
    u32 row0, column0; // of this block
};

template <u32 ROWS, u32 WARPGROUPS, u32 CLUSTER> struct Shape {
    static constexpr u32 BLOCK_COLUMNS = COLUMNS * WARPGROUPS;
    static constexpr u32 CONSUMERS = GROUP_THREADS * WARPGROUPS;
    // One thread copies. Its warpgroup is whole where the others take its registers.
    static constexpr bool TAKES_REGISTERS = WARPGROUPS > 1;
    static constexpr u32 THREADS = CONSUMERS + (TAKES_REGISTERS ? GROUP_THREADS : WARP);
    static constexpr u32 WEIGHT_BYTES = BLOCK_COLUMNS * WEIGHT_ROW;
    static constexpr u32 HALF_BYTES = ROWS * HALF * 2;
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + 2 * HALF_BYTES;
    static constexpr u32 OUT_PITCH = BLOCK_COLUMNS + 8; // bf16 elements; keeps eight rows on different banks
    static_assert(HALF_BYTES % 1024 == 0, "every tile begins on an atom of the swizzle");
    static_assert(ROWS * OUT_PITCH * 2 <= 2 * STAGE_BYTES, "the output tile fits over two stages");
    static_assert(CLUSTER == 1 || CLUSTER == 2, "a cluster shares the two halves of a block of A");
};

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
struct Ring {
    u32 stage = 0, parity = 0;

    DEVICE void advance(u32 stages)
    {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// ---- The copying thread ------------------------------------------------------------------------------

template <class S, u32 CLUSTER> DEVICE void produce(const Args &args, u32 shared)
{
    const u32 blocks = args.K / FP8_BLOCK;
    Ring ring;
    for (u32 block = 0; block < blocks; block++) {
        wait(empty_barrier(shared, ring.stage), ring.parity ^ 1); // the first round passes at once
        const u32 full = full_barrier(shared, ring.stage);
        const u32 weight = shared + HEADER + ring.stage * S::STAGE_BYTES, a = weight + S::WEIGHT_BYTES;
        mbarrier_arrive_expect(full, S::STAGE_BYTES);
        tma_load_2d(weight, args.weights, block * FP8_BLOCK, args.column0, full);
        if (CLUSTER == 1) {
            tma_load_2d(a, args.rows, block * FP8_BLOCK, args.row0, full);
            tma_load_2d(a + S::HALF_BYTES, args.rows, block * FP8_BLOCK + HALF, args.row0, full);
        } else {
            const u32 half = cluster_rank();
            tma_load_2d_multicast(a + half * S::HALF_BYTES, args.rows, block * FP8_BLOCK + half * HALF, args.row0,
                                  full, 3);
        }
        ring.advance(args.stages);
    }
}

// ---- The multiplying warpgroups ----------------------------------------------------------------------

// Codes in the upper byte of each half of `q` to bf16 bits of value * 2^-120.
DEVICE u32 place(u32 q, u32 magnitude)
{
    return (q & 0x80008000) | (magnitude >> 4);
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

// A fragments of one half of a K block: the weights of this lane's columns, `column` and column + 8, decoded.
DEVICE void decode(u32 (&a)[WINDOWS][4], const u8 *weight, u32 column, u32 first_window)
{
    u32 largest = 0;
#pragma unroll
    for (u32 window = 0; window < WINDOWS; window++)
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            const u32 chunk = (first_window + window) ^ (column % 8); // the copy engine's swizzle; 8 keeps it
            const u8 *at = weight + (column + 8 * i) * WEIGHT_ROW + chunk * 16 + threadIdx.x % 4 * 2;
            const u32 low = *reinterpret_cast<const u16 *>(at), high = *reinterpret_cast<const u16 *>(at + 8);
            const u32 q = __byte_perm(low, high, 0x1504), p = q << 8; // low's codes in q's upper bytes, high's in p's
            const u32 q_magnitude = q & 0x7f007f00, p_magnitude = p & 0x7f007f00;
            largest = u16x2_max(u16x2_max(largest, q_magnitude), p_magnitude);
            a[window][i] = bf16x2_mul(place(q, q_magnitude), BF16X2_2_POW_120);
            a[window][2 + i] = bf16x2_mul(place(p, p_magnitude), BF16X2_2_POW_120);
        }
    if ((largest & 0xffff) == 0x7f00 || (largest >> 16) == 0x7f00) {
#pragma unroll
        for (u32 window = 0; window < WINDOWS; window++)
#pragma unroll
            for (u32 i = 0; i < 4; i++)
                a[window][i] = without_nan(a[window][i]);
    }
    __syncwarp();
}

template <u32 ROWS> DEVICE void multiply(float (&inner)[ROWS / 2], const u32 (&a)[4], u64 b, u32 accumulate)
{
    if constexpr (ROWS == 16)
        wgmma_m64n16k16(inner, a, b, accumulate);
    else if constexpr (ROWS == 32)
        wgmma_m64n32k16(inner, a, b, accumulate);
    else if constexpr (ROWS == 64)
        wgmma_m64n64k16(inner, a, b, accumulate);
    else
        wgmma_m64n128k16(inner, a, b, accumulate);
}

// Four windows of one half of a K block, as one group.
template <u32 ROWS>
DEVICE void multiply_half(float (&inner)[ROWS / 2], const u32 (&a)[WINDOWS][4], u32 rows, bool first)
{
    wgmma_fence();
#pragma unroll
    for (u32 window = 0; window < WINDOWS; window++)
        multiply<ROWS>(inner, a[window], wgmma_operand_k128(rows) + window * (MMA_K * 2 >> 4), !first || window > 0);
    wgmma_commit();
}

// This warp no longer reads the stage: every block of the cluster that copies into it hears so.
template <u32 CLUSTER> DEVICE void release(u32 shared, u32 stage)
{
    const u32 lane = threadIdx.x % WARP; // lane i tells block i
    const u32 barrier = empty_barrier(shared, stage);
    if (CLUSTER == 1 && lane == 0)
        mbarrier_arrive(barrier);
    if (CLUSTER > 1 && lane < CLUSTER)
        mbarrier_arrive_cluster(cluster_address(barrier, lane));
}

template <u32 count> DEVICE void fold(float (&outer)[count], const float (&inner)[count], float scale)
{
#pragma unroll
    for (u32 i = 0; i < count; i++)
        outer[i] = __fadd_rn(outer[i], __fmul_rn(inner[i], scale));
}

// The block's outputs through shared memory, so that rows of C are written in long pieces.
template <class S, u32 ROWS> DEVICE void store(const Args &args, u8 *stages, const float (&outer)[ROWS / 2])
{
    bf16 *out = reinterpret_cast<bf16 *>(stages); // [ROWS][OUT_PITCH]
    const u32 lane = threadIdx.x % WARP, column = threadIdx.x / WARP * 16 + lane / 4;
    named_barrier(EPILOGUE_BARRIER, S::CONSUMERS); // every warpgroup is done with the stages
#pragma unroll
    for (u32 j = 0; j < ROWS / 8; j++)
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            out[(j * 8 + lane % 4 * 2 + i % 2) * S::OUT_PITCH + column + i / 2 * 8] = bf16_from_f32(outer[4 * j + i]);
    named_barrier(EPILOGUE_BARRIER, S::CONSUMERS);
    constexpr u32 PAIRS = S::BLOCK_COLUMNS / 2;
    for (u32 i = threadIdx.x; i < ROWS * PAIRS; i += S::CONSUMERS) {
        const u32 row = i / PAIRS, n = args.column0 + i % PAIRS * 2;
        const u32 pair = *reinterpret_cast<const u32 *>(out + row * S::OUT_PITCH + i % PAIRS * 2);
        if (args.row0 + row >= args.M || n >= args.N)
            continue;
        bf16 *at = args.C + static_cast<u64>(args.row0 + row) * args.ldc + n;
        if (args.ldc % 2 == 0 && n + 1 < args.N) {
            *reinterpret_cast<u32 *>(at) = pair;
        } else {
            at[0] = static_cast<bf16>(pair);
            if (n + 1 < args.N)
                at[1] = static_cast<bf16>(pair >> 16);
        }
    }
}

template <class S, u32 ROWS, u32 CLUSTER> DEVICE void consume(const Args &args, u32 shared, u8 *stages)
{
    const u32 group = threadIdx.x / GROUP_THREADS, warp = threadIdx.x % GROUP_THREADS / WARP;
    const u32 column = group * COLUMNS + warp * 16 + threadIdx.x % WARP / 4; // in the block's weight tile
    const u32 blocks = args.K / FP8_BLOCK;
    const u32 scale_row = min(args.column0 + group * COLUMNS, args.N - 1) / FP8_BLOCK;
    const float *scales = args.bs + static_cast<u64>(scale_row) * blocks;
    float outer[ROWS / 2] = {}, inner[ROWS / 2];
    u32 a[2][WINDOWS][4];
    float scale = 0.0f;
    Ring ring;
    u32 previous = 0;

    for (u32 block = 0; block < blocks; block++) {
        const float next_scale = scales[block];
        wait(full_barrier(shared, ring.stage), ring.parity);
        const u32 offset = ring.stage * S::STAGE_BYTES;
        const u32 rows = shared + HEADER + offset + S::WEIGHT_BYTES;
        wgmma_wait<1>(); // the registers of the first half are free
        decode(a[0], stages + offset, column, 0);
        wgmma_wait<0>();
        if (block > 0) {
            release<CLUSTER>(shared, previous);
            fold(outer, inner, scale);
        }
        multiply_half<ROWS>(inner, a[0], rows, true);
        decode(a[1], stages + offset, column, WINDOWS);
        multiply_half<ROWS>(inner, a[1], rows + S::HALF_BYTES, false);
        scale = next_scale;
        previous = ring.stage;
        ring.advance(args.stages);
    }
    wgmma_wait<0>();
    fold(outer, inner, scale);
    store<S, ROWS>(args, stages, outer);
}

// ---- The block ---------------------------------------------------------------------------------------

// Clusters in an order that keeps GROUP_ROWS row tiles together, so that a wave shares A and B in the cache.
template <class S, u32 ROWS, u32 CLUSTER> DEVICE void place_block(Args &args)
{
    const u32 clusters = gridDim.x / CLUSTER;
    const u32 id = blockIdx.y * clusters + blockIdx.x / CLUSTER;
    const u32 group = id / (GROUP_ROWS * clusters), in_group = id % (GROUP_ROWS * clusters);
    const u32 rows = min(GROUP_ROWS, gridDim.y - group * GROUP_ROWS);
    args.row0 = (group * GROUP_ROWS + in_group % rows) * ROWS;
    args.column0 = (in_group / rows * CLUSTER + blockIdx.x % CLUSTER) * S::BLOCK_COLUMNS;
}

template <u32 ROWS, u32 WARPGROUPS, u32 CLUSTER> DEVICE void run(Args args)
{
    using S = Shape<ROWS, WARPGROUPS, CLUSTER>;
    extern __shared__ __align__(1024) u8 memory[];
    const u32 shared = smem_address(memory);
    place_block<S, ROWS, CLUSTER>(args);
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < args.stages; stage++) {
            mbarrier_init(full_barrier(shared, stage), 1);
            mbarrier_init(empty_barrier(shared, stage), S::CONSUMERS / WARP * CLUSTER);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (CLUSTER > 1) { // the other block's copies and arrivals need these barriers
        cluster_arrive();
        cluster_wait();
    }
    if (threadIdx.x >= S::CONSUMERS) {
        if constexpr (S::TAKES_REGISTERS)
            registers_give<24>();
        if (threadIdx.x == S::CONSUMERS)
            produce<S, CLUSTER>(args, shared);
        __syncwarp();
    } else {
        if constexpr (S::TAKES_REGISTERS)
            registers_take<240>();
        consume<S, ROWS, CLUSTER>(args, shared, memory + HEADER);
    }
    if (CLUSTER > 1) { // the other block may still arrive at this one's barriers
        cluster_arrive();
        cluster_wait();
    }
}

#define W8A16_HOPPER(rows, warpgroups, cluster, blocks_per_sm)                                                      \
    extern "C" __global__ void __cluster_dims__(cluster, 1, 1)                                                      \
        __launch_bounds__(Shape<rows, warpgroups, cluster>::THREADS, blocks_per_sm)                                 \
            w8a16_gemm_hopper_m##rows(const __grid_constant__ tensor_map weights,                                   \
                                      const __grid_constant__ tensor_map a, const float *__restrict__ bs,           \
                                      bf16 *__restrict__ C, u32 M, u32 N, u32 K, u32 ldc, u32 stages)               \
    {                                                                                                               \
        using S = Shape<rows, warpgroups, cluster>;                                                                 \
        static_assert(S::THREADS == KPK_BLOCK_w8a16_gemm_hopper_m##rows, "the description gives this block");       \
        static_assert(HEADER + MAX_STAGES_##rows * S::STAGE_BYTES == KPK_SMEM_w8a16_gemm_hopper_m##rows,            \
                      "the description gives this size");                                                           \
        static_assert(MAX_STAGES_##rows <= MAX_STAGES, "the header has barriers for this many");                    \
        run<rows, warpgroups, cluster>({&weights, &a, bs, C, M, N, K, ldc, stages, 0, 0});                          \
    }

W8A16_HOPPER(16, 1, 1, 3)
W8A16_HOPPER(32, 1, 1, 3)
W8A16_HOPPER(64, 1, 2, 3)
W8A16_HOPPER(128, 2, 2, 1)
