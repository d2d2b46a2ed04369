// w8a16_gemm_hopper_ROWSxCOLUMNS (of C per tile): the "tile" contract on sm_90a with wgmma, rows of A on its M side.
//
// Warpgroups decode K blocks into shared memory, each weight once, as wgmma's N side, which may have any multiple of
// eight columns: a tile is as wide as gives every multiprocessor one. They take turns with whole blocks, so that one may
// wait while the other decodes, or, where there is no room for a third buffer, share each. Another warpgroup multiplies
// the block before, and adds the one before that. Arguments and grid: w8a16_hopper.cuh.
#include "w8a16_hopper.cuh"

constexpr u32 GROUP_THREADS = 128; // of a warpgroup
constexpr u32 GROUP_WARPS = GROUP_THREADS / WARP;
constexpr u32 MULTIPLYING = 1; // of named_barrier: the threads that multiply; 0 is __syncthreads'
constexpr u32 MAX_BUFFERS = 4; // of decoded weights

// `groups` decoding warpgroups, all at one K block or, with as many `turns`, each at its own.
template <u32 columns, u32 groups, u32 turns, u32 buffers, u32 stages, u32 registers> struct Shape {
    static constexpr u32 ROWS = 64, COLUMNS = columns, CLUSTER = 1, STAGES = stages;
    static constexpr u32 FLOATS = columns / 2; // of a warpgroup's 64 x columns product, per thread
    static constexpr u32 DECODERS = groups * GROUP_THREADS, BUFFERS = buffers;
    static constexpr u32 TURNS = turns, AT_A_BLOCK = DECODERS / turns; // threads
    static constexpr u32 THREADS = DECODERS + 2 * GROUP_THREADS; // and a warpgroup that multiplies, and one that copies
    static constexpr u32 REGISTERS = registers, DECODING_REGISTERS = groups == 2 ? 104 : 72, COPYING_REGISTERS = 24;

    static constexpr u32 WEIGHT_BYTES = columns * WEIGHT_ROW;
    static constexpr u32 HALF_BYTES = ROWS * HALF * 2;
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + 2 * HALF_BYTES;
    static constexpr u32 DECODED_HALF = columns * HALF * 2, DECODED_BYTES = 2 * DECODED_HALF;
    static constexpr u32 DECODED = HEADER + stages * STAGE_BYTES;
    static constexpr u32 BYTES = DECODED + buffers * DECODED_BYTES;

    static_assert(turns == 1 || turns == groups, "a warpgroup decodes with all or alone");
    static_assert(WEIGHT_BYTES % 1024 == 0 && HALF_BYTES % 1024 == 0, "every tile begins on an atom of the swizzle");
    static_assert(registers * GROUP_THREADS + DECODING_REGISTERS * DECODERS + COPYING_REGISTERS * GROUP_THREADS <=
                      65536 / THREADS / 8 * 8 * THREADS,
                  "there are as many registers as the warpgroups take, or they would wait for ever");
    static_assert(stages <= MAX_STAGES && buffers <= MAX_BUFFERS && 2 * (MAX_STAGES + MAX_BUFFERS) * 8 <= HEADER,
                  "the header holds the barriers");
};

// The header's mbarriers after the ring's: a decoded K block is there; it has been multiplied.
DEVICE u32 ready_barrier(u32 shared, u32 buffer)
{
    return shared + (2 * MAX_STAGES + buffer) * 8;
}

DEVICE u32 free_barrier(u32 shared, u32 buffer)
{
    return shared + (2 * MAX_STAGES + MAX_BUFFERS + buffer) * 8;
}

// ---- The decoding warpgroups --------------------------------------------------------------------------

// Whether either of two f16 is NaN.
DEVICE bool f16x2_has_nan(u32 pair)
{
    return (((pair & 0x7fff7fff) + 0x03ff03ff) & 0x80008000) != 0;
}

// Sixteen codes to 32 bytes; returns a NaN in either half when one of them is NaN. The second 16 bytes lie beside the
// first, where the swizzle puts them.
template <bool exact> DEVICE u32 decode_chunk(u32 to, const u32 (&codes)[4])
{
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        u32 pairs[4];
#pragma unroll
        for (u32 j = 0; j < 2; j++) {
            const u32 four = exact ? without_nan(codes[2 * i + j]) : codes[2 * i + j];
            const u32 low = f16x2_from_e4m3(four), high = f16x2_from_e4m3_upper(four);
            pairs[2 * j] = bf16x2_from_f16x2(low);
            pairs[2 * j + 1] = bf16x2_from_f16x2(high);
            if constexpr (!exact)
                sum = f16x2_add(sum, f16x2_add(low, high));
        }
        shared_store_u32x4(to ^ i << 4, pairs);
    }
    return sum;
}

template <class S> DEVICE void decode(const Args &args, u32 shared, u32 decoder)
{
    // Eight lanes have a chunk of 16 codes in each of eight columns: all banks, in both swizzles.
    constexpr u32 AT_ONCE = S::AT_A_BLOCK / 8, ROUNDS = (S::COLUMNS + AT_ONCE - 1) / AT_ONCE; // columns
    const u32 thread = decoder % S::AT_A_BLOCK, turn = decoder / S::AT_A_BLOCK;
    const u32 column = thread / 64 * 8 + thread % 8, chunk = thread / 8 % 8;
    const u32 from = shared + HEADER + column * WEIGHT_ROW + ((chunk ^ column % 8) << 4);
    const u32 to = shared + S::DECODED + chunk / 4 * S::DECODED_HALF + column * HALF * 2 +
                   ((chunk % 4 * 2 ^ column % 8) << 4);
    const bool in_last = S::COLUMNS % AT_ONCE == 0 || column + (ROUNDS - 1) * AT_ONCE < S::COLUMNS;
    const u32 tiles = tile_count<S>(args), own = tiles <= blockIdx.x ? 0 : (tiles - 1 - blockIdx.x) / gridDim.x + 1;
    const u32 blocks = own * (args.K / FP8_BLOCK); // of all this block's tiles
    Ring<S::STAGES> ring(turn);
    Ring<S::BUFFERS> buffers(turn);

    for (u32 block = turn; block < blocks; block += S::TURNS) {
        u32 codes[ROUNDS][4] = {}, sum = 0;
        wait(full_barrier(shared, ring.stage), ring.parity);
#pragma unroll
        for (u32 i = 0; i < ROUNDS; i++)
            if (i + 1 < ROUNDS || in_last)
                shared_load_u32x4(codes[i], from + ring.stage * S::STAGE_BYTES + i * AT_ONCE * WEIGHT_ROW);
        wait(free_barrier(shared, buffers.stage), buffers.parity ^ 1); // the first round passes at once
        const u32 out = to + buffers.stage * S::DECODED_BYTES;
#pragma unroll
        for (u32 i = 0; i < ROUNDS; i++)
            if (i + 1 < ROUNDS || in_last)
                sum = f16x2_add(sum, decode_chunk<false>(out + i * AT_ONCE * HALF * 2, codes[i]));
        if (f16x2_has_nan(sum)) {
#pragma unroll
            for (u32 i = 0; i < ROUNDS; i++)
                if (i + 1 < ROUNDS || in_last)
                    decode_chunk<true>(out + i * AT_ONCE * HALF * 2, codes[i]);
        }
        fence_async_shared();
        __syncwarp();
        if (thread % WARP == 0)
            mbarrier_arrive(ready_barrier(shared, buffers.stage));
        release<S>(shared, ring.stage);
        ring.advance(S::TURNS);
        buffers.advance(S::TURNS);
    }
}

// ---- The multiplying warpgroup ------------------------------------------------------------------------

template <u32 columns> DEVICE void multiply_window(float (&d)[columns / 2], u64 a, u64 b, u32 accumulate)
{
    if constexpr (columns == 64)
        wgmma_m64n64k16(d, a, b, accumulate);
    else if constexpr (columns == 96)
        wgmma_m64n96k16(d, a, b, accumulate);
    else
        wgmma_m64n136k16(d, a, b, accumulate);
}

// inner = one K block's product, as one group.
template <class S> DEVICE void multiply(float (&inner)[S::FLOATS], u32 rows, u32 weights)
{
    const u64 a = wgmma_operand_k128(rows), b = wgmma_operand_k128(weights);
    wgmma_fence();
#pragma unroll
    for (u32 window = 0; window < 2 * WINDOWS; window++) {
        const u32 half = window / WINDOWS, at = window % WINDOWS * MMA_K * 2;
        multiply_window<S::COLUMNS>(inner, a + (half * S::HALF_BYTES + at >> 4),
                                    b + (half * S::DECODED_HALF + at >> 4), window > 0);
    }
    wgmma_commit();
}

// The two scales that a tile's columns may have in one K block, and how many eights of columns have the first.
struct Scales {
    const float *first, *second;
    u32 eights;

    DEVICE Scales(const Args &args, u32 column)
    {
        const u32 blocks = args.K / FP8_BLOCK, last = (args.N - 1) / FP8_BLOCK; // there are fewer than 2^32 scales
        first = args.bs + min(column / FP8_BLOCK, last) * blocks;
        second = args.bs + min(column / FP8_BLOCK + 1, last) * blocks;
        eights = (FP8_BLOCK - column % FP8_BLOCK) / 8;
    }
};

template <class S> struct Product {
    float inner[S::FLOATS];
    float first, second; // scales
};

template <class S>
DEVICE void add(float (&outer)[S::FLOATS], const Product<S> &product, u32 eights)
{
#pragma unroll
    for (u32 j = 0; j < S::FLOATS / 4; j++) {
        const float scale = FP8_BLOCK % S::COLUMNS == 0 || j < eights ? product.first : product.second;
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            outer[4 * j + i] = __fadd_rn(outer[4 * j + i], __fmul_rn(product.inner[4 * j + i], scale));
    }
}

template <class S> struct Multiplier {
    const Args &args;
    u32 shared;
    Ring<S::STAGES> ring;
    Ring<S::BUFFERS> buffers;

    // Starts a block's product.
    DEVICE void begin(Product<S> &product, const Scales &scales, u32 block)
    {
        const u32 rows = shared + HEADER + ring.stage * S::STAGE_BYTES + S::WEIGHT_BYTES;
        product.first = scales.first[block];
        if (FP8_BLOCK % S::COLUMNS != 0)
            product.second = scales.second[block];
        wait(full_barrier(shared, ring.stage), ring.parity);
        wait(ready_barrier(shared, buffers.stage), buffers.parity);
        multiply<S>(product.inner, rows, shared + S::DECODED + buffers.stage * S::DECODED_BYTES);
        ring.advance(1);
        buffers.advance(1);
    }

    // Adds a block's product when it is there; `younger` have been begun since. The last one's buffer is kept for C.
    template <int younger> DEVICE void end(float (&outer)[S::FLOATS], const Product<S> &product, const Scales &scales)
    {
        wgmma_wait<younger>();
        release<S>(shared, ring.before(younger + 1));
        if (younger > 0)
            free_buffer(younger + 1);
        add<S>(outer, product, scales.eights);
    }

    DEVICE void free_buffer(u32 ago)
    {
        if (threadIdx.x % WARP == 0)
            mbarrier_arrive(free_barrier(shared, buffers.before(ago)));
    }
};

// The tile of C through a buffer of decoded weights, where rows are padded: those of a fragment lie in different banks.
template <class S>
DEVICE void store(const Args &args, Place at, u8 *memory, u32 thread, const float (&outer)[S::FLOATS])
{
    using Layout = PaddedRows<S::COLUMNS>;
    static_assert(S::ROWS * Layout::PITCH * 2 <= S::DECODED_BYTES, "it fits");
    bf16 *out = reinterpret_cast<bf16 *>(memory);
    const u32 row = thread / WARP * 16 + thread % WARP / 4, column = thread % 4 * 2;
    named_barrier(MULTIPLYING, GROUP_THREADS); // every warp's wgmma has read the buffer
#pragma unroll
    for (u32 j = 0; j < S::COLUMNS / 8; j++)
#pragma unroll
        for (u32 i = 0; i < 2; i++)
            *reinterpret_cast<u32 *>(out + Layout::at(row + 8 * i, 8 * j + column)) =
                bf16x2_from_f32(outer[4 * j + 2 * i], outer[4 * j + 2 * i + 1]);
    named_barrier(MULTIPLYING, GROUP_THREADS);
    write_rows<S::ROWS, Layout>(args, at, out, thread, GROUP_THREADS);
}

template <class S> DEVICE void consume(const Args &args, u32 shared, u8 *memory, u32 thread)
{
    const u32 blocks = args.K / FP8_BLOCK, tiles = tile_count<S>(args);
    Multiplier<S> multiplier = {args, shared, Ring<S::STAGES>(0), Ring<S::BUFFERS>(0)};
    Product<S> even, odd;
    float outer[S::FLOATS];

    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Place at = place<S>(args, tile);
        const Scales scales(args, at.column);
#pragma unroll
        for (u32 i = 0; i < S::FLOATS; i++)
            outer[i] = 0.0f;
        multiplier.begin(even, scales, 0);
        u32 block = 1;
        for (; block + 1 < blocks; block += 2) {
            multiplier.begin(odd, scales, block);
            multiplier.template end<1>(outer, even, scales);
            multiplier.begin(even, scales, block + 1);
            multiplier.template end<1>(outer, odd, scales);
        }
        if (block < blocks) {
            multiplier.begin(odd, scales, block);
            multiplier.template end<1>(outer, even, scales);
            multiplier.template end<0>(outer, odd, scales);
        } else {
            multiplier.template end<0>(outer, even, scales);
        }
        store<S>(args, at, memory + S::DECODED + multiplier.buffers.before(1) * S::DECODED_BYTES, thread, outer);
        __syncwarp();
        multiplier.free_buffer(1);
    }
}

// ---- The block ---------------------------------------------------------------------------------------

template <class S> DEVICE void run(const Args &args)
{
    extern __shared__ __align__(1024) u8 memory[];
    const u32 shared = smem_address(memory);
    const u32 warpgroup = __shfl_sync(~0u, threadIdx.x / GROUP_THREADS, 0); // uniform, and known to be
    const u32 copier = threadIdx.x - (S::THREADS - GROUP_THREADS); // number 0 copies
    if (copier == 0) {
#pragma unroll
        for (u32 i = 0; i < S::BUFFERS; i++) {
            mbarrier_init(ready_barrier(shared, i), S::AT_A_BLOCK / WARP);
            mbarrier_init(free_barrier(shared, i), GROUP_WARPS);
        }
        make_barriers<S>(args, shared, S::AT_A_BLOCK / WARP + GROUP_WARPS); // that decode a block, and that multiply it
    }
    barriers_made<S>(copier < WARP);
    if (warpgroup == 0) {
        registers_take<S::REGISTERS>();
        consume<S>(args, shared, memory, threadIdx.x);
    } else if (warpgroup <= S::DECODERS / GROUP_THREADS) {
        registers_give<S::DECODING_REGISTERS>();
        decode<S>(args, shared, threadIdx.x - GROUP_THREADS);
    } else {
        registers_give<S::COPYING_REGISTERS>();
        if (copier == 0)
            produce<S, ALL>(args, shared);
        __syncwarp();
    }
}

#define W8A16_HOPPER_DECODED(tile, columns, decoding_groups, turns, buffers, registers)                             \
    using Shape_##tile = Shape<columns, decoding_groups, turns, buffers, STAGES_##tile, registers>;                 \
    W8A16_HOPPER_ENTRY(tile, )

W8A16_HOPPER_DECODED(64x64, 64, 3, 3, 3, 200)
W8A16_HOPPER_DECODED(64x96, 96, 3, 3, 3, 216)
W8A16_HOPPER_DECODED(64x136, 136, 2, 1, 2, 240)
