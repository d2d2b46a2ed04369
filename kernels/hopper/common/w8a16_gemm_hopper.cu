// w8a16_gemm_hopper_ROWSxCOLUMNS (of C per tile): the "tile" contract on sm_90a with wgmma.
//
// A warpgroup owns 64 columns: their weights go from shared memory through the conversions into the MMA's registers. A
// cluster's blocks share rows of A: each fetches one half of a K block for both. Arguments and grid: w8a16_hopper.cuh.
#include "w8a16_hopper.cuh"

constexpr u32 GROUP_THREADS = 128; // of a warpgroup
constexpr u32 GROUP_COLUMNS = 64;  // wgmma's M
constexpr u32 MAX_GROUPS = 4;
constexpr u32 STORE = 1;           // of named_barrier: one per column group; 0 is __syncthreads'

// `registers` per thread of the warpgroups that multiply.
template <u32 rows, u32 column_groups, u32 cluster, u32 stages, u32 registers> struct Shape {
    static constexpr u32 ROWS = rows, COLUMN_GROUPS = column_groups, CLUSTER = cluster;
    static constexpr u32 STAGES = stages;
    static constexpr u32 COLUMNS = GROUP_COLUMNS * column_groups;
    static constexpr u32 FLOATS = rows / 2;         // of a warpgroup's 64 x rows product, per thread
    static constexpr u32 CONSUMERS = GROUP_THREADS * column_groups;
    static constexpr u32 THREADS = CONSUMERS + GROUP_THREADS; // one copies: the others take its warpgroup's registers
    static constexpr u32 REGISTERS = registers, COPYING_REGISTERS = 24;
    static constexpr u32 LAUNCHED_REGISTERS = 65536 / THREADS / 8 * 8; // at most 255

    static constexpr u32 WEIGHT_BYTES = COLUMNS * WEIGHT_ROW;
    static constexpr u32 HALF_BYTES = rows * HALF * 2;
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + 2 * HALF_BYTES;
    static constexpr u32 OUT_BYTES = rows * GROUP_COLUMNS * 2; // of a warpgroup
    static constexpr u32 OUT = HEADER + stages * STAGE_BYTES;
    static constexpr u32 BYTES = OUT + column_groups * OUT_BYTES;

    static_assert(HALF_BYTES % 1024 == 0 && WEIGHT_BYTES % 1024 == 0, "every tile begins on an atom of the swizzle");
    static_assert(cluster == 1 || cluster == 2, "a cluster shares the two halves of a block of A");
    static_assert(column_groups <= MAX_GROUPS, "there are named barriers for this many warpgroups");
    static_assert(CONSUMERS * REGISTERS + GROUP_THREADS * COPYING_REGISTERS <=
                      THREADS * (LAUNCHED_REGISTERS < 255 ? LAUNCHED_REGISTERS : 248),
                  "there are as many registers as the warpgroups take, or they would wait for ever");
    static_assert(stages > 1, "a warpgroup holds one stage while it waits for its next");
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

// Four windows of one half of a K block, as one group.
DEVICE void multiply_half(float (&inner)[64], const u32 (&a)[WINDOWS][4], u32 rows, bool first)
{
    wgmma_fence();
#pragma unroll
    for (u32 window = 0; window < WINDOWS; window++)
        wgmma_m64n128k16(inner, a[window], wgmma_operand_k128(rows) + window * (MMA_K * 2 >> 4), !first || window > 0);
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

// A warpgroup's part of a tile of C, through shared memory so that its rows are written in long pieces.
template <class S>
DEVICE void store(const Args &args, Place at, u8 *memory, u32 warpgroup, const float (&outer)[S::FLOATS])
{
    bf16 *out = reinterpret_cast<bf16 *>(memory + S::OUT + warpgroup * S::OUT_BYTES); // [ROWS][GROUP_COLUMNS]
    const u32 thread = threadIdx.x % GROUP_THREADS, lane = thread % WARP, column = thread / WARP * 16 + lane / 4;
    named_barrier(STORE + warpgroup, GROUP_THREADS); // the last tile has been read out
#pragma unroll
    for (u32 j = 0; j < S::ROWS / 8; j++)
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            out[SwizzledRows<GROUP_COLUMNS>::at(j * 8 + lane % 4 * 2 + i % 2, column + i / 2 * 8)] =
                bf16_from_f32(outer[4 * j + i]);
    named_barrier(STORE + warpgroup, GROUP_THREADS);
    write_rows<S::ROWS, SwizzledRows<GROUP_COLUMNS>>(args, at, out, thread, GROUP_THREADS);
}

// A product is there: checks it, hands its stage back and adds it.
template <class S>
DEVICE void finish(float (&outer)[S::FLOATS], float (&inner)[S::FLOATS], float scale, u32 shared, u32 weights, u32 stage)
{
    const u32 offset = stage * S::STAGE_BYTES;
    if (has_nan(inner[0], inner[2]))
        multiply_again<S>(inner, weights + offset, shared + HEADER + offset + S::WEIGHT_BYTES);
    release<S>(shared, stage);
#pragma unroll
    for (u32 i = 0; i < S::FLOATS; i++)
        outer[i] = __fadd_rn(outer[i], __fmul_rn(inner[i], scale));
}

template <class S> DEVICE void consume(const Args &args, u32 shared, u8 *memory, u32 group)
{
    const u32 blocks = args.K / FP8_BLOCK, thread = threadIdx.x % GROUP_THREADS;
    const u32 weights = shared + HEADER + pair_offset(group * GROUP_COLUMNS + thread / WARP * 16 + thread % WARP / 4);
    float inner[S::FLOATS], outer[S::FLOATS];
    u32 a[2][WINDOWS][4]; // of each half of a K block
    Ring<S::STAGES> ring(0);

    for (u32 tile = blockIdx.x / S::CLUSTER; tile < tile_count<S>(args); tile += gridDim.x / S::CLUSTER) {
        Place at = place<S>(args, tile);
        at.column += group * GROUP_COLUMNS;
        const float *scales = args.bs + min(at.column, args.N - 1) / FP8_BLOCK * blocks; // there are fewer than 2^32
        float scale = 0.0f; // of the last product
#pragma unroll
        for (u32 i = 0; i < S::FLOATS; i++)
            outer[i] = 0.0f;

        for (u32 block = 0; block < blocks; block++) {
            const u32 offset = ring.stage * S::STAGE_BYTES, rows = shared + HEADER + offset + S::WEIGHT_BYTES;
            wait(full_barrier(shared, ring.stage), ring.parity);
            wgmma_wait<1>(); // the registers of the first half are free
            decode(a[0], weights + offset, 0);
            wgmma_wait<0>();
            if (block > 0)
                finish<S>(outer, inner, scale, shared, weights, ring.before(1));
            scale = scales[block]; // here, so that it has come when its product is there
            multiply_half(inner, a[0], rows, true);
            wgmma_wait<1>(); // and those of the second
            decode(a[1], weights + offset, WINDOWS);
            multiply_half(inner, a[1], rows + S::HALF_BYTES, false);
            ring.advance(1);
        }
        wgmma_wait<0>();
        finish<S>(outer, inner, scale, shared, weights, ring.before(1));
        store<S>(args, at, memory, group, outer);
    }
}

// ---- The block ---------------------------------------------------------------------------------------

template <class S> DEVICE void run(const Args &args)
{
    extern __shared__ __align__(1024) u8 memory[];
    const u32 shared = smem_address(memory);
    const u32 warpgroup = __shfl_sync(~0u, threadIdx.x / GROUP_THREADS, 0); // uniform, and known to be
    const u32 copier = threadIdx.x - S::CONSUMERS; // number 0 copies
    if (copier == 0)
        make_barriers<S>(args, shared, S::CONSUMERS / WARP);
    if constexpr (S::CLUSTER > 1) { // the other block's copies and arrivals need these barriers
        __syncthreads();
        cluster_arrive();
        cluster_wait();
    } else {
        barriers_made<S>(copier < WARP);
    }
    if (warpgroup == S::COLUMN_GROUPS) {
        registers_give<S::COPYING_REGISTERS>();
        if (copier == 0)
            produce<S, ALL>(args, shared);
        __syncwarp();
    } else {
        registers_take<S::REGISTERS>();
        consume<S>(args, shared, memory, warpgroup);
    }
    if constexpr (S::CLUSTER > 1) { // the other block may still arrive at this one's barriers
        cluster_arrive();
        cluster_wait();
    }
}

#define W8A16_HOPPER(tile, rows, column_groups, cluster, registers)                                                 \
    using Shape_##tile = Shape<rows, column_groups, cluster, STAGES_##tile, registers>;                             \
    W8A16_HOPPER_ENTRY(tile, __cluster_dims__(cluster, 1, 1))

W8A16_HOPPER(128x64, 128, 1, 1, 240)
W8A16_HOPPER(128x128, 128, 2, 2, 240)
