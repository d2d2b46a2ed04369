// w8a16_gemm_hopper_ROWSxCOLUMNS (of C per tile): the "tile" contract on sm_90a with wgmma.
//
// COLUMN_GROUPS x SPLIT warpgroups multiply: each owns 64 columns and every SPLIT-th K block. Where two share out K,
// each adds both products, in order, for its half of the rows: they hand each other the other half through shared
// memory. A cluster's blocks share rows of A: each fetches one half of a K block for both. Arguments and grid:
// w8a16_hopper.cuh.
#include "w8a16_hopper.cuh"

constexpr u32 GROUP_THREADS = 128; // of a warpgroup
constexpr u32 GROUP_COLUMNS = 64;  // wgmma's M
constexpr u32 MAX_GROUPS = 4;      // column groups, and warpgroups that multiply

// Named barriers; 0 is __syncthreads'.
enum : u32 { EXCHANGE = 1 /* + column group */, STORE = EXCHANGE + MAX_GROUPS /* + warpgroup */ };

// `registers` per thread of the warpgroups that multiply.
template <u32 rows, u32 column_groups, u32 split, u32 cluster, u32 stages, u32 registers> struct Shape {
    static constexpr u32 ROWS = rows, COLUMN_GROUPS = column_groups, SPLIT = split, CLUSTER = cluster;
    static constexpr u32 STAGES = stages;
    static constexpr u32 COLUMNS = GROUP_COLUMNS * column_groups;
    static constexpr u32 FLOATS = rows / 2;         // of a warpgroup's 64 x rows product, per thread
    static constexpr u32 OUTPUTS = FLOATS / split;  // of those, what a party adds
    static constexpr u32 PART_ROWS = rows / split;  // the rows that these are
    static constexpr u32 CONSUMERS = GROUP_THREADS * column_groups * split;
    static constexpr u32 THREADS = CONSUMERS + GROUP_THREADS; // one copies: the others take its warpgroup's registers
    static constexpr u32 REGISTERS = registers, COPYING_REGISTERS = 24;
    static constexpr u32 LAUNCHED_REGISTERS = 65536 / THREADS / 8 * 8; // at most 255

    static constexpr u32 WEIGHT_BYTES = COLUMNS * WEIGHT_ROW;
    static constexpr u32 HALF_BYTES = rows * HALF * 2;
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + 2 * HALF_BYTES;
    static constexpr u32 PRODUCT_BYTES = GROUP_THREADS * OUTPUTS * 4; // handed over by one party
    static constexpr u32 BUFFERS = 2;
    static constexpr u32 OUT_BYTES = PART_ROWS * GROUP_COLUMNS * 2; // of a warpgroup
    static constexpr u32 PRODUCTS = HEADER + stages * STAGE_BYTES;
    static constexpr u32 OUT = PRODUCTS + (split == 1 ? 0 : BUFFERS * column_groups * split * PRODUCT_BYTES);
    static constexpr u32 BYTES = OUT + column_groups * split * OUT_BYTES;

    static_assert(HALF_BYTES % 1024 == 0 && WEIGHT_BYTES % 1024 == 0, "every tile begins on an atom of the swizzle");
    static_assert(cluster == 1 || cluster == 2, "a cluster shares the two halves of a block of A");
    static_assert(split == 1 || split == 2, "each party adds for its half of the rows");
    static_assert(column_groups * split <= MAX_GROUPS, "there are named barriers for this many warpgroups");
    static_assert(CONSUMERS * REGISTERS + GROUP_THREADS * COPYING_REGISTERS <=
                      THREADS * (LAUNCHED_REGISTERS < 255 ? LAUNCHED_REGISTERS : 248),
                  "there are as many registers as the warpgroups take, or they would wait for ever");
    static_assert(stages > split, "a warpgroup holds one stage while it waits for its next");
    static_assert(stages <= MAX_STAGES, "the header has barriers for this many");
};

// ---- The multiplying warpgroups ----------------------------------------------------------------------

// Where this lane's weights of window 0 lie in a weight tile, for the column that is its row of the MMA: the copy
// engine puts 16-byte chunk c of row r at chunk c ^ (r % 8). wgmma reads A in its order of K: a lane loads pairs.
DEVICE u32 pair_offset(u32 column)
{
    return column * WEIGHT_ROW + (column % 8 << 4) + threadIdx.x % 4 * 2;
}

// The A fragment of one window; `address` is that of this lane's weights in window 0 of the block. A NaN code gives a
// NaN, or with `exact` a zero.
template <bool exact> DEVICE void decode_window(u32 (&a)[4], u32 address, u32 window)
{
    const u32 at = address ^ window << 4;
    u32 codes[4] = {shared_load_u16<0>(at), shared_load_u16<8 * WEIGHT_ROW>(at), shared_load_u16<8>(at),
                    shared_load_u16<8 * WEIGHT_ROW + 8>(at)};
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        if constexpr (exact)
            codes[i] = without_nan(codes[i]);
        a[i] = bf16x2_from_f16x2(f16x2_from_e4m3(codes[i]));
    }
}

// Those of one half of a K block.
DEVICE void decode(u32 (&a)[WINDOWS][4], u32 address, u32 first_window)
{
#pragma unroll
    for (u32 window = 0; window < WINDOWS; window++)
        decode_window<false>(a[window], address, first_window + window);
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

// inner once more, where a weight of this warp's 16 columns is NaN: by the warp's own MMA, which gives wgmma's bits and
// its layout, so that the other warps of the warpgroup need not know.
template <class S> DEVICE void multiply_again(float (&inner)[S::FLOATS], u32 weights, u32 rows)
{
    const u32 lane = threadIdx.x % WARP, row = lane % 8, chunk = lane / 8 % 2; // for ldmatrix: half the lanes
#pragma unroll 1
    for (u32 window = 0; window < 2 * WINDOWS; window++) {
        const u32 at = rows + window / WINDOWS * S::HALF_BYTES + row * HALF * 2 +
                       ((window % WINDOWS * 2 + chunk ^ row) << 4);
        u32 a[4], b[2];
        decode_window<true>(a, weights, window);
#pragma unroll
        for (u32 j = 0; j < S::ROWS / 8; j++) {
            float d[4] = {};
#pragma unroll
            for (u32 i = 0; i < 4; i++)
                d[i] = window == 0 ? 0.0f : inner[4 * j + i];
            ldmatrix_x2(b, at + j * 8 * HALF * 2);
            mma_m16n8k16(d, a, b);
#pragma unroll
            for (u32 i = 0; i < 4; i++)
                inner[4 * j + i] = d[i];
        }
    }
}

// One warpgroup's part in the sums of its column group. A thread reads what the thread of its place in the other party
// wrote. `party` 0 has the earlier K block of a turn, and the lower rows.
template <class S, u32 party> struct Sum {
    u8 *products; // of the column group: [BUFFERS][SPLIT], by the party that reads
    u32 barrier;  // the column group's named barrier
    u32 turn;
    float outer[S::OUTPUTS], mine[S::SPLIT == 1 ? 1 : S::OUTPUTS];

    DEVICE float4 *buffer(u32 reader) const
    {
        u8 *at = products + (turn % S::BUFFERS * S::SPLIT + reader) * S::PRODUCT_BYTES;
        return reinterpret_cast<float4 *>(at) + threadIdx.x % GROUP_THREADS;
    }

    DEVICE void clear()
    {
#pragma unroll
        for (u32 i = 0; i < S::OUTPUTS; i++)
            outer[i] = 0.0f;
    }

    // Takes this party's product, so that inner is free.
    DEVICE void take(const float (&inner)[S::FLOATS], float scale)
    {
        if constexpr (S::SPLIT == 1) {
#pragma unroll
            for (u32 i = 0; i < S::FLOATS; i++)
                outer[i] = __fadd_rn(outer[i], __fmul_rn(inner[i], scale));
        } else {
            constexpr u32 MINE = party * S::OUTPUTS, OTHERS = (1 - party) * S::OUTPUTS;
            float4 *to = buffer(1 - party);
#pragma unroll
            for (u32 i = 0; i < S::OUTPUTS; i += 4)
                to[i / 4 * GROUP_THREADS] =
                    make_float4(__fmul_rn(inner[OTHERS + i], scale), __fmul_rn(inner[OTHERS + i + 1], scale),
                                __fmul_rn(inner[OTHERS + i + 2], scale), __fmul_rn(inner[OTHERS + i + 3], scale));
#pragma unroll
            for (u32 i = 0; i < S::OUTPUTS; i++)
                mine[i] = __fmul_rn(inner[MINE + i], scale);
        }
    }

    // Adds a turn's products; at the end of K the second party may have none.
    DEVICE void gather(bool both)
    {
        if constexpr (S::SPLIT == 2) {
            named_barrier(barrier, 2 * GROUP_THREADS);
            const float4 *from = buffer(party);
#pragma unroll
            for (u32 i = 0; i < S::OUTPUTS; i += 4) {
                const float4 v = party == 1 || both ? from[i / 4 * GROUP_THREADS] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                const float product[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                for (u32 j = 0; j < 4; j++) {
                    const float earlier = party == 0 ? mine[i + j] : product[j];
                    const float later = party == 0 ? product[j] : mine[i + j];
                    outer[i + j] = __fadd_rn(outer[i + j], earlier);
                    if (both)
                        outer[i + j] = __fadd_rn(outer[i + j], later);
                }
            }
            turn++;
        }
    }
};

// A warpgroup's part of a tile of C, through shared memory so that its rows are written in long pieces.
template <class S>
DEVICE void store(const Args &args, Place at, u8 *memory, u32 warpgroup, const float (&outer)[S::OUTPUTS])
{
    bf16 *out = reinterpret_cast<bf16 *>(memory + S::OUT + warpgroup * S::OUT_BYTES); // [PART_ROWS][GROUP_COLUMNS]
    const u32 thread = threadIdx.x % GROUP_THREADS, lane = thread % WARP, column = thread / WARP * 16 + lane / 4;
    named_barrier(STORE + warpgroup, GROUP_THREADS); // the last tile has been read out
#pragma unroll
    for (u32 j = 0; j < S::PART_ROWS / 8; j++)
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            out[out_place<GROUP_COLUMNS>(j * 8 + lane % 4 * 2 + i % 2, column + i / 2 * 8)] =
                bf16_from_f32(outer[4 * j + i]);
    named_barrier(STORE + warpgroup, GROUP_THREADS);
    write_rows<S::PART_ROWS, GROUP_COLUMNS>(args, at, out, thread, GROUP_THREADS);
}

// A product is there: checks it, hands its stage back and takes it into the sums.
template <class S, class Sums>
DEVICE void finish(float (&inner)[S::FLOATS], Sums &sum, float scale, u32 shared, u32 weights, u32 stage)
{
    const u32 offset = stage * S::STAGE_BYTES;
    if (has_nan(inner[0], inner[2]))
        multiply_again<S>(inner, weights + offset, shared + HEADER + offset + S::WEIGHT_BYTES);
    release<S>(shared, stage);
    sum.take(inner, scale);
}

template <class S, u32 party> DEVICE void consume(const Args &args, u32 shared, u8 *memory, u32 group)
{
    const u32 blocks = args.K / FP8_BLOCK, thread = threadIdx.x % GROUP_THREADS;
    const u32 weights = shared + HEADER + pair_offset(group * GROUP_COLUMNS + thread / WARP * 16 + thread % WARP / 4);
    Sum<S, party> sum;
    sum.products = memory + S::PRODUCTS + group * S::BUFFERS * S::SPLIT * S::PRODUCT_BYTES;
    sum.barrier = EXCHANGE + group, sum.turn = 0;
    float inner[S::FLOATS];
    u32 a[2][WINDOWS][4]; // of each half of a K block
    u32 blocks_before = 0; // this block's tiles so far

    for (u32 tile = blockIdx.x / S::CLUSTER; tile < tile_count<S>(args); tile += gridDim.x / S::CLUSTER) {
        Place at = place<S>(args, tile);
        at.column += group * GROUP_COLUMNS, at.row += party * S::PART_ROWS;
        const u32 scale0 = min(at.column, args.N - 1) / FP8_BLOCK * blocks; // there are fewer than 2^32 scales
        Ring<S::STAGES> ring(blocks_before + party);
        float scale = 0.0f; // of the last product
        sum.clear();

        for (u32 block = party; block < blocks; block += S::SPLIT) {
            const u32 offset = ring.stage * S::STAGE_BYTES, rows = shared + HEADER + offset + S::WEIGHT_BYTES;
            wait(full_barrier(shared, ring.stage), ring.parity);
            wgmma_wait<1>(); // the registers of the first half are free
            decode(a[0], weights + offset, 0);
            wgmma_wait<0>();
            if (block >= S::SPLIT)
                finish<S>(inner, sum, scale, shared, weights, ring.before(S::SPLIT));
            scale = args.bs[scale0 + block]; // here, so that it has come when its product is there
            multiply_half<S::ROWS>(inner, a[0], rows, true);
            wgmma_wait<1>(); // and those of the second
            decode(a[1], weights + offset, WINDOWS);
            multiply_half<S::ROWS>(inner, a[1], rows + S::HALF_BYTES, false);
            if (block >= S::SPLIT)
                sum.gather(true);
            ring.advance(S::SPLIT);
        }
        wgmma_wait<0>();
        if (party < blocks)
            finish<S>(inner, sum, scale, shared, weights, ring.before(S::SPLIT));
        // A party with one block fewer has come to one turn fewer.
        if (party < blocks && (party == 0 || blocks % S::SPLIT == 0))
            sum.gather(blocks % S::SPLIT == 0);
        else if (S::SPLIT == 2) {
            if (party < blocks)
                sum.gather(true);
            sum.gather(false);
        }
        store<S>(args, at, memory, group * S::SPLIT + party, sum.outer);
        blocks_before += blocks;
    }
}

// ---- The block ---------------------------------------------------------------------------------------

template <class S> DEVICE void run(const Args &args)
{
    extern __shared__ __align__(1024) u8 memory[];
    const u32 shared = smem_address(memory);
    if (threadIdx.x == S::CONSUMERS)
        start<S>(args, shared, S::COLUMN_GROUPS * GROUP_THREADS / WARP);
    __syncthreads();
    if constexpr (S::CLUSTER > 1) { // the other block's copies and arrivals need these barriers
        cluster_arrive();
        cluster_wait();
    }
    const u32 warpgroup = __shfl_sync(~0u, threadIdx.x / GROUP_THREADS, 0); // uniform, and known to be
    const u32 group = warpgroup % S::COLUMN_GROUPS, party = warpgroup / S::COLUMN_GROUPS;
    if (party >= S::SPLIT) {
        registers_give<S::COPYING_REGISTERS>();
        if (threadIdx.x == S::CONSUMERS)
            produce<S>(args, shared);
        __syncwarp();
    } else if (party == 0) {
        registers_take<S::REGISTERS>();
        consume<S, 0>(args, shared, memory, group);
    } else if constexpr (S::SPLIT > 1) {
        registers_take<S::REGISTERS>();
        consume<S, 1>(args, shared, memory, group);
    }
    if constexpr (S::CLUSTER > 1) { // the other block may still arrive at this one's barriers
        cluster_arrive();
        cluster_wait();
    }
}

#define W8A16_HOPPER(tile, rows, column_groups, split, cluster, registers)                                          \
    using Shape_##tile = Shape<rows, column_groups, split, cluster, STAGES_##tile, registers>;                      \
    static_assert(Shape_##tile::THREADS == KPK_BLOCK_w8a16_gemm_hopper_##tile, "the description gives this block"); \
    static_assert(Shape_##tile::BYTES == KPK_SMEM_w8a16_gemm_hopper_##tile, "the description gives this size");     \
    extern "C" __global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(Shape_##tile::THREADS, 1)          \
        w8a16_gemm_hopper_##tile(const __grid_constant__ tensor_map weights,                                        \
                                 const __grid_constant__ tensor_map a, const float *__restrict__ bs,                \
                                 bf16 *__restrict__ C, u32 M, u32 N, u32 K, u32 ldc)                                \
    {                                                                                                               \
        run<Shape_##tile>({&weights, &a, bs, C, M, N, K, ldc});                                                     \
    }

W8A16_HOPPER(64x64, 64, 1, 2, 1, 208)
W8A16_HOPPER(64x128, 64, 2, 1, 1, 208)
W8A16_HOPPER(64x192, 64, 3, 1, 1, 152)
W8A16_HOPPER(128x64, 128, 1, 1, 1, 240)
W8A16_HOPPER(128x128, 128, 2, 1, 2, 240)
