// w8a16_tc_rows_16, _32, _64: few rows under the "rows" contract: other bits than the tiles', the same for every
// number of rows and over the three entries.
//
// A [M][lda] bf16, B [N][K] E4M3, bs [N/128][K/128] f32, C [M][ldc] bf16; N and K multiples of 128, lda of 8; A
// and B 16-byte aligned, C 4-byte. Grid N/64, block 128; a warp owns 16 columns and all rows.
//
// The contract: the weight is the MMA's A operand, the rows its N side. Bytes of the weight stand for
// bf16(sign | low7 << 4), the code's value times 2^-120 (NaN codes count as 480); activations are multiplied by
// 2^60. For each 128-wide K block, inner starts at 0 and takes eight MMAs: for each 64-wide half, MMA j = 0..3 has
// in its slots 2t, 2t+1, 2t+8, 2t+9 the elements 16t + 4j + 0..3 of the half. Then
//   outer = outer + inner * (scale * 2^60)        each operation rounded
#include "w8a16.cuh"

constexpr u32 THREADS = 128, WARPS = THREADS / WARP;
constexpr u32 HALF = 64;            // K that one 16-byte load per lane covers
constexpr u32 BF16X2_2_POW_60 = 0x5d805d80;
constexpr float F32_2_POW_60 = 1152921504606846976.0f;

static_assert(WARPS * MMA_M == N_TILE, "each warp owns 16 of the block's columns");

// `rows` activations of K_CHUNK elements, scaled; 16-byte chunk c of row r lies at chunk c ^ (r % 2).
template <u32 rows, u32 k_chunk, u32 bytes> struct Rows {
    static constexpr u32 ROWS = rows, K_CHUNK = k_chunk, PITCH = k_chunk * 2;
    static constexpr u32 SCALES = (bytes - rows * PITCH) / 4;
    alignas(128) u8 a[rows * PITCH];
    float scale[SCALES]; // of the current SCALES K blocks, times 2^60
};

DEVICE u32 chunk_offset(u32 pitch, u32 row, u32 chunk)
{
    return row * pitch + ((chunk ^ row % 2) << 4);
}

// Rows of A from column k on, times 2^60, to shared memory; rows at and past M are zeros.
template <class Shared> DEVICE void stage(Shared &shared, const bf16 *A, u32 M, u32 lda, u32 k, u32 width)
{
    const u32 chunks = width / 8;
    for (u32 i = threadIdx.x; i < Shared::ROWS * chunks; i += THREADS) {
        const u32 row = i / chunks, chunk = i % chunks;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (row < M)
            v = *reinterpret_cast<const uint4 *>(A + static_cast<u64>(row) * lda + k + chunk * 8);
        v.x = bf16x2_mul(v.x, BF16X2_2_POW_60);
        v.y = bf16x2_mul(v.y, BF16X2_2_POW_60);
        v.z = bf16x2_mul(v.z, BF16X2_2_POW_60);
        v.w = bf16x2_mul(v.w, BF16X2_2_POW_60);
        *reinterpret_cast<uint4 *>(shared.a + chunk_offset(Shared::PITCH, row, chunk)) = v;
    }
}

// Two codes, in bytes 0 and 1 (`upper` false) or 2 and 3 of `codes`, to bf16 bits of value * 2^-120.
template <bool upper> DEVICE u32 spread(u32 codes)
{
    const u32 wide = __byte_perm(codes, 0, upper ? 0x3424 : 0x1404);
    return (wide & 0x80008000) | ((wide >> 4) & 0x07f007f0);
}

// The weights of this lane's two columns, one K block: [half][column g, column g + 8].
struct Weights {
    uint4 part[2][2];
};

DEVICE Weights load_weights(const u8 *first, const u8 *second, u32 block)
{
    Weights w;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        w.part[half][0] = *reinterpret_cast<const uint4 *>(first + block * FP8_BLOCK + half * HALF);
        w.part[half][1] = *reinterpret_cast<const uint4 *>(second + block * FP8_BLOCK + half * HALF);
    }
    return w;
}

// inner += one K block; `k` is its first element's place in the staged chunk.
template <class Shared> DEVICE void multiply(float (&inner)[Shared::ROWS / MMA_N][4], const Shared &shared, const Weights &w, u32 k)
{
    const u32 t = threadIdx.x % 4;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        const u32 first[4] = {w.part[half][0].x, w.part[half][0].y, w.part[half][0].z, w.part[half][0].w};
        const u32 second[4] = {w.part[half][1].x, w.part[half][1].y, w.part[half][1].z, w.part[half][1].w};
#pragma unroll
        for (u32 pair = 0; pair < 2; pair++) {
            u32 a[2][4];
#pragma unroll
            for (u32 j = 0; j < 2; j++) {
                a[j][0] = spread<false>(first[2 * pair + j]);
                a[j][1] = spread<false>(second[2 * pair + j]);
                a[j][2] = spread<true>(first[2 * pair + j]);
                a[j][3] = spread<true>(second[2 * pair + j]);
            }
#pragma unroll
            for (u32 i = 0; i < Shared::ROWS / MMA_N; i++) {
                // Elements 16t + 8 * pair + 0..7 of the half: those of MMAs 2 * pair and 2 * pair + 1.
                const u32 chunk = (k + half * HALF) / 8 + 2 * t + pair;
                const uint4 v = *reinterpret_cast<const uint4 *>(
                    shared.a + chunk_offset(Shared::PITCH, i * MMA_N + lane_group(), chunk));
                const u32 b0[2] = {v.x, v.y}, b1[2] = {v.z, v.w};
                mma_m16n8k16(inner[i], a[0], b0);
                mma_m16n8k16(inner[i], a[1], b1);
            }
        }
    }
}

template <class Shared>
DEVICE void run(Shared &shared, const bf16 *A, const u8 *B, const float *bs, bf16 *C, u32 M, u32 K, u32 lda, u32 ldc)
{
    constexpr u32 FRAGMENTS = Shared::ROWS / MMA_N, AHEAD = 2;
    constexpr u32 BLOCKS_PER_CHUNK = Shared::K_CHUNK / FP8_BLOCK;
    const u32 warp = threadIdx.x / WARP;
    const u32 column = blockIdx.x * N_TILE + warp * MMA_M + lane_group(); // and column + 8
    const u32 blocks = K / FP8_BLOCK;
    const float *scales = bs + static_cast<u64>(blockIdx.x * N_TILE / FP8_BLOCK) * blocks;
    const u8 *first = B + static_cast<u64>(column) * K + threadIdx.x % 4 * 16;
    const u8 *second = first + 8ull * K;
    float outer[FRAGMENTS][4] = {};

    Weights ahead[AHEAD];
#pragma unroll
    for (u32 i = 0; i < AHEAD; i++)
        ahead[i] = load_weights(first, second, min(i, blocks - 1));
    for (u32 begin = 0; begin < blocks; begin += AHEAD) {
        if (begin % BLOCKS_PER_CHUNK == 0) {
            __syncthreads(); // nobody reads the chunk and the scales that are replaced
            stage(shared, A, M, lda, begin * FP8_BLOCK, min(Shared::K_CHUNK, K - begin * FP8_BLOCK));
            if (begin % Shared::SCALES == 0)
                for (u32 i = threadIdx.x; i < Shared::SCALES && begin + i < blocks; i += THREADS)
                    shared.scale[i] = __fmul_rn(scales[begin + i], F32_2_POW_60);
            __syncthreads();
        }
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            const u32 block = begin + i;
            if (block < blocks) { // K may hold an odd number of blocks
                const Weights now = ahead[i];
                if (block + AHEAD < blocks)
                    ahead[i] = load_weights(first, second, block + AHEAD);
                float inner[FRAGMENTS][4] = {};
                multiply(inner, shared, now, block % BLOCKS_PER_CHUNK * FP8_BLOCK);
#pragma unroll
                for (u32 f = 0; f < FRAGMENTS; f++)
                    fold(outer[f], inner[f], shared.scale[block % Shared::SCALES]);
            }
        }
    }
    // A fragment holds columns of C as its rows: g and g + 8; and rows of C as its columns.
#pragma unroll
    for (u32 f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const u32 row = f * MMA_N + lane_pair() + i % 2;
            if (row < M)
                C[static_cast<u64>(row) * ldc + column + i / 2 * 8] = bf16_from_f32(outer[f][i]);
        }
    static_assert(BLOCKS_PER_CHUNK % AHEAD == 0 && Shared::SCALES % BLOCKS_PER_CHUNK == 0, "chunks begin on whole turns");
}

// blocks_per_sm gives the registers that the weights in flight need.
#define W8A16_TC_ROWS(rows, k_chunk, blocks_per_sm)                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks_per_sm)                                          \
        w8a16_tc_rows_##rows(const bf16 *__restrict__ A, const u8 *__restrict__ B, const float *__restrict__ bs,  \
                             bf16 *__restrict__ C, u32 M, u32 N, u32 K, u32 lda, u32 ldc)                         \
    {                                                                                                             \
        using Shared = Rows<rows, k_chunk, KPK_STATIC_SMEM_w8a16_tc_rows_##rows>;                                 \
        static_assert(sizeof(Shared) == KPK_STATIC_SMEM_w8a16_tc_rows_##rows, "the description gives this size"); \
        static_assert(THREADS == KPK_BLOCK_w8a16_tc_rows_##rows, "the description gives this block");             \
        __shared__ Shared shared;                                                                                 \
        run(shared, A, B, bs, C, M, K, lda, ldc);                                                                 \
    }

W8A16_TC_ROWS(16, 512, 3)
W8A16_TC_ROWS(32, 256, 3)
W8A16_TC_ROWS(64, 256, 2)
