// w8a16_gemm_hopper_64x64, _64x128, _128x128 (rows x columns of C per tile): the "tile" contract on sm_90a with wgmma.
//
// COLUMN_GROUPS x SPLIT warpgroups multiply: each owns 64 columns and every SPLIT-th K block; the first of a column
// group adds the products of the others, handed over through shared memory. A cluster's blocks share rows of A: each
// fetches one half of a K block for both. Arguments and grid: w8a16_hopper.cuh.
#include "w8a16_hopper.cuh"

constexpr u32 GROUP_THREADS = 128; // of a warpgroup
constexpr u32 GROUP_COLUMNS = 64;  // wgmma's M
constexpr u32 MAX_PRODUCTS = 3; // product buffers of a block

// Named barriers; 0 is __syncthreads'. A product buffer is full when its owner has come to FULL + its number, empty when
// the adding warpgroup has come to EMPTY + its number.
enum : u32 { STORE_BARRIER = 1, FULL = 2, EMPTY = FULL + MAX_PRODUCTS };

// Comes to barrier `base` + `product` and waits for the other warpgroup, or does not wait.
template <u32 base, bool waits> DEVICE void meet(u32 product)
{
    constexpr u32 BOTH = 2 * GROUP_THREADS;
    if (product == 0)
        waits ? fixed_barrier_wait<base, BOTH>() : fixed_barrier_arrive<base, BOTH>();
    else if (product == 1)
        waits ? fixed_barrier_wait<base + 1, BOTH>() : fixed_barrier_arrive<base + 1, BOTH>();
    else
        waits ? fixed_barrier_wait<base + 2, BOTH>() : fixed_barrier_arrive<base + 2, BOTH>();
}

// `adding` and `handing` are the registers per thread of the warpgroups that add and that hand products over, and
// `halves` the halves of a K block that they hold decoded, 1 or 2.
template <u32 rows, u32 column_groups, u32 split, u32 cluster, u32 stages, u32 adding, u32 handing, u32 halves>
struct Shape {
    static constexpr u32 ROWS = rows, COLUMN_GROUPS = column_groups, SPLIT = split, CLUSTER = cluster;
    static constexpr u32 STAGES = stages, HALVES = halves;
    static constexpr u32 COLUMNS = GROUP_COLUMNS * column_groups;
    static constexpr u32 FLOATS = rows / 2; // of a warpgroup's 64 x rows accumulator, per thread
    static constexpr u32 CONSUMERS = GROUP_THREADS * column_groups * split;
    static constexpr u32 THREADS = CONSUMERS + GROUP_THREADS; // one copies: the others take its warpgroup's registers
    static constexpr u32 ADDING_REGISTERS = adding, HANDING_REGISTERS = handing, COPYING_REGISTERS = 24;

    static constexpr u32 WEIGHT_BYTES = COLUMNS * WEIGHT_ROW;
    static constexpr u32 HALF_BYTES = rows * HALF * 2;
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + 2 * HALF_BYTES;
    static constexpr u32 PRODUCT_BYTES = GROUP_THREADS * FLOATS * 4;
    static constexpr u32 OUT_PITCH = COLUMNS + 8; // bf16 elements
    static constexpr u32 PRODUCTS = HEADER + stages * STAGE_BYTES;
    static constexpr u32 OUT = PRODUCTS + column_groups * (split - 1) * PRODUCT_BYTES;
    static constexpr u32 BYTES = OUT + rows * OUT_PITCH * 2;

    static_assert(HALF_BYTES % 1024 == 0 && WEIGHT_BYTES % 1024 == 0, "every tile begins on an atom of the swizzle");
    static_assert(cluster == 1 || cluster == 2, "a cluster shares the two halves of a block of A");
    static_assert(column_groups * (split - 1) <= MAX_PRODUCTS, "there are named barriers for this many products");
    static_assert(stages > split, "a warpgroup holds one stage while it waits for its next");
    static_assert(stages <= MAX_STAGES, "the header has barriers for this many");
};

// ---- The multiplying warpgroups ----------------------------------------------------------------------

// A fragments of one half of a K block; `address` is that of this lane's weights in window 0 of the block.
DEVICE void decode(u32 (&a)[WINDOWS][4], u32 address, u32 first_window)
{
    u32 largest = 0;
#pragma unroll
    for (u32 window = 0; window < WINDOWS; window++)
        decode_window(a[window], window_of(address, first_window + window), largest);
    if (has_nan(largest)) {
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
    if constexpr (ROWS == 64)
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

// One warpgroup's part in the sums of its column group: it adds, or hands its products over. A thread reads what the
// thread of its place in another warpgroup wrote.
template <class S, bool ADDS> struct Sum {
    u8 *products; // [SPLIT - 1] of the column group
    u32 first;    // its first product buffer in the block
    u32 split;    // 0 for the warpgroup that adds

    DEVICE float4 *buffer(u32 of) const
    {
        return reinterpret_cast<float4 *>(products + (of - 1) * S::PRODUCT_BYTES) + threadIdx.x % GROUP_THREADS;
    }

    // Before the first product: all buffers are empty.
    DEVICE void open() const
    {
        if constexpr (ADDS)
#pragma unroll
            for (u32 of = 1; of < S::SPLIT; of++)
                meet<EMPTY, false>(first + of - 1);
    }

    // After the last: leaves no barrier half full.
    DEVICE void close() const
    {
        if constexpr (!ADDS)
            meet<EMPTY, true>(first + split - 1);
    }

    // Takes this warpgroup's own product: into outer, or into its buffer.
    DEVICE void take(float (&outer)[S::FLOATS], const float (&inner)[S::FLOATS], float scale) const
    {
        if constexpr (ADDS) {
#pragma unroll
            for (u32 i = 0; i < S::FLOATS; i++)
                outer[i] = __fadd_rn(outer[i], __fmul_rn(inner[i], scale));
        } else {
            float4 *to = buffer(split);
            meet<EMPTY, true>(first + split - 1);
#pragma unroll
            for (u32 i = 0; i < S::FLOATS; i += 4)
                to[i / 4 * GROUP_THREADS] = make_float4(__fmul_rn(inner[i], scale), __fmul_rn(inner[i + 1], scale),
                                                        __fmul_rn(inner[i + 2], scale), __fmul_rn(inner[i + 3], scale));
            meet<FULL, false>(first + split - 1);
        }
    }

    // Adds the products of the `others` K blocks after this warpgroup's last that other warpgroups computed: all, or
    // fewer at the end of K.
    DEVICE void gather(float (&outer)[S::FLOATS], u32 others) const
    {
        if constexpr (ADDS) {
#pragma unroll
            for (u32 of = 1; of < S::SPLIT; of++) {
                if (of > others)
                    return;
                const float4 *from = buffer(of);
                meet<FULL, true>(first + of - 1);
#pragma unroll
                for (u32 i = 0; i < S::FLOATS; i += 4) {
                    const float4 product = from[i / 4 * GROUP_THREADS];
                    outer[i] = __fadd_rn(outer[i], product.x);
                    outer[i + 1] = __fadd_rn(outer[i + 1], product.y);
                    outer[i + 2] = __fadd_rn(outer[i + 2], product.z);
                    outer[i + 3] = __fadd_rn(outer[i + 3], product.w);
                }
                meet<EMPTY, false>(first + of - 1);
            }
        }
    }
};

// A tile of C through shared memory, so that its rows are written in long pieces; by the adding warpgroups.
template <class S> DEVICE void store(const Args &args, Place tile, u8 *memory, u32 group, const float (&outer)[S::FLOATS])
{
    constexpr u32 THREADS = S::COLUMN_GROUPS * GROUP_THREADS;
    bf16 *out = reinterpret_cast<bf16 *>(memory + S::OUT); // [ROWS][OUT_PITCH]
    const u32 lane = threadIdx.x % WARP, thread = group * GROUP_THREADS + threadIdx.x % GROUP_THREADS;
    const u32 column = thread / WARP * 16 + lane / 4;
    named_barrier(STORE_BARRIER, THREADS); // the last tile has been read out
#pragma unroll
    for (u32 j = 0; j < S::ROWS / 8; j++)
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            out[(j * 8 + lane % 4 * 2 + i % 2) * S::OUT_PITCH + column + i / 2 * 8] = bf16_from_f32(outer[4 * j + i]);
    named_barrier(STORE_BARRIER, THREADS);
    write_rows<S>(args, tile, out, thread, THREADS);
}

template <class S, bool ADDS> DEVICE void consume(const Args &args, u32 shared, u8 *memory, u32 group, u32 split)
{
    const u32 blocks = args.K / FP8_BLOCK, thread = threadIdx.x % GROUP_THREADS;
    const u32 weights = shared + HEADER + weight_offset(group * GROUP_COLUMNS + thread / WARP * 16 + thread % WARP / 4);
    const u32 products = group * (S::SPLIT - 1);
    const Sum<S, ADDS> sum = {memory + S::PRODUCTS + products * S::PRODUCT_BYTES, products, split};
    float outer[S::FLOATS], inner[S::FLOATS];
    u32 a[S::HALVES][WINDOWS][4];
    u32 blocks_before = 0; // this block's tiles so far

    sum.open();
    for (u32 tile = blockIdx.x / S::CLUSTER; tile < tile_count<S>(args); tile += gridDim.x / S::CLUSTER) {
        const Place at = place<S>(args, tile);
        const u32 scale_row = min(at.column + group * GROUP_COLUMNS, args.N - 1) / FP8_BLOCK;
        const u32 scale0 = scale_row * blocks; // there are fewer than 2^32 scales
        Ring<S::STAGES> ring(blocks_before + split);
#pragma unroll
        for (u32 i = 0; i < S::FLOATS; i++)
            outer[i] = 0.0f;

        for (u32 block = split; block < blocks; block += S::SPLIT) {
            const float scale = block >= S::SPLIT ? args.bs[scale0 + block - S::SPLIT] : 0.0f; // of the last product
            const u32 offset = ring.stage * S::STAGE_BYTES, rows = shared + HEADER + offset + S::WEIGHT_BYTES;
            wait(full_barrier(shared, ring.stage), ring.parity);
            wgmma_wait<S::HALVES - 1>(); // the registers of the first half are free
            decode(a[0], weights + offset, 0);
            wgmma_wait<0>();
            if (block >= S::SPLIT) {
                release<S>(shared, ring.before(S::SPLIT));
                sum.take(outer, inner, scale);
            }
            multiply_half<S::ROWS>(inner, a[0], rows, true);
            wgmma_wait<S::HALVES - 1>(); // and those of the second
            decode(a[S::HALVES - 1], weights + offset, WINDOWS);
            multiply_half<S::ROWS>(inner, a[S::HALVES - 1], rows + S::HALF_BYTES, false);
            if (block >= S::SPLIT)
                sum.gather(outer, S::SPLIT - 1);
            ring.advance(S::SPLIT);
        }
        wgmma_wait<0>();
        if (split < blocks) {
            release<S>(shared, ring.before(S::SPLIT));
            sum.take(outer, inner, args.bs[scale0 + (blocks - 1 - split) / S::SPLIT * S::SPLIT + split]);
            sum.gather(outer, (blocks - 1) % S::SPLIT);
        }
        if constexpr (ADDS)
            store<S>(args, at, memory, group, outer);
        blocks_before += blocks;
    }
    sum.close();
}

// ---- The block ---------------------------------------------------------------------------------------

template <class S> DEVICE void run(const Args &args)
{
    extern __shared__ __align__(1024) u8 memory[];
    const u32 shared = smem_address(memory);
    if (threadIdx.x == 0) {
        for (u32 stage = 0; stage < S::STAGES; stage++) {
            mbarrier_init(full_barrier(shared, stage), 1);
            mbarrier_init(empty_barrier(shared, stage), S::COLUMN_GROUPS * GROUP_THREADS / WARP * S::CLUSTER);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if constexpr (S::CLUSTER > 1) { // the other block's copies and arrivals need these barriers
        cluster_arrive();
        cluster_wait();
    }
    const u32 warpgroup = __shfl_sync(~0u, threadIdx.x / GROUP_THREADS, 0); // uniform, and known to be
    const u32 group = warpgroup % S::COLUMN_GROUPS, split = warpgroup / S::COLUMN_GROUPS;
    if (split >= S::SPLIT) {
        registers_give<S::COPYING_REGISTERS>();
        if (threadIdx.x == S::CONSUMERS)
            produce<S>(args, shared);
        __syncwarp();
    } else if (split == 0) {
        registers_take<S::ADDING_REGISTERS>();
        consume<S, true>(args, shared, memory, group, split);
    } else {
        registers_take<S::HANDING_REGISTERS>();
        consume<S, false>(args, shared, memory, group, split);
    }
    if constexpr (S::CLUSTER > 1) { // the other block may still arrive at this one's barriers
        cluster_arrive();
        cluster_wait();
    }
}

#define W8A16_HOPPER(tile, rows, column_groups, split, cluster, adding, handing, halves)                            \
    using Shape_##tile = Shape<rows, column_groups, split, cluster, STAGES_##tile, adding, handing, halves>;        \
    static_assert(Shape_##tile::THREADS == KPK_BLOCK_w8a16_gemm_hopper_##tile, "the description gives this block"); \
    static_assert(Shape_##tile::BYTES == KPK_SMEM_w8a16_gemm_hopper_##tile, "the description gives this size");     \
    extern "C" __global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(Shape_##tile::THREADS, 1)          \
        w8a16_gemm_hopper_##tile(const __grid_constant__ tensor_map weights,                                        \
                                 const __grid_constant__ tensor_map a, const float *__restrict__ bs,                \
                                 bf16 *__restrict__ C, u32 M, u32 N, u32 K, u32 ldc)                                \
    {                                                                                                               \
        run<Shape_##tile>({&weights, &a, bs, C, M, N, K, ldc});                                                     \
    }

W8A16_HOPPER(64x64, 64, 1, 4, 1, 144, 104, 2)
W8A16_HOPPER(64x128, 64, 2, 2, 1, 120, 104, 1)
W8A16_HOPPER(128x128, 128, 2, 1, 2, 240, 240, 2)
