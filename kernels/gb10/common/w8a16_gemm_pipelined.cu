// w8a16_gemm_pipelined: the 128 x 32 tile of the "tile" contract (w8a16.cuh), for many rows.
//
// A [M][K] bf16, B [N][K] E4M3, bs [ceil(N/128)][K/128] f32, C [M][N] bf16; K a multiple of 128; A, B and C
// 16-byte aligned. Grid (ceil(N/32), ceil(M/128)), block 256.
#include "w8a16.cuh"

namespace
{

constexpr u32 THREADS = KPK_BLOCK_w8a16_gemm_pipelined;
constexpr u32 WARPS_M = 4, WARPS_N = 2;
constexpr u32 WARP_M = M_TILE / WARPS_M; // 32 rows
constexpr u32 WARP_N = N_TILE / WARPS_N; // 16 columns
constexpr u32 FRAGMENTS_M = WARP_M / MMA_M, FRAGMENTS_N = WARP_N / MMA_N;
constexpr u32 A_ROW_BYTES = K_STEP * 2;
constexpr u32 B_ROW_BYTES = K_STEP;
constexpr u32 STEPS_PER_BLOCK = FP8_BLOCK / K_STEP;

struct Shared {
    alignas(128) u8 a[STAGES][M_TILE * A_ROW_BYTES]; // bf16 [128][32], swizzled
    alignas(128) u8 b[STAGES][N_TILE * B_ROW_BYTES]; // E4M3 [32][32], swizzled by b_offset
    float scale[SCALES];                             // of the current SCALES K blocks
};

static_assert(THREADS == WARPS_M * WARPS_N * WARP, "one warp per part of the tile");
static_assert(sizeof(Shared) == KPK_STATIC_SMEM_w8a16_gemm_pipelined, "the description gives this size");
static_assert(STEPS_PER_BLOCK >= 2, "scales are written one step at least before the fold reads them");
static_assert(K_STEP == 32, "two 16-byte chunks of a weight row per step");
static_assert(FP8_BLOCK % N_TILE == 0, "a tile's columns share one row of scales");
static_assert(SCALES <= THREADS && FRAGMENTS_M * WARPS_M * MMA_M == M_TILE);
static_assert(FRAGMENTS_N * WARPS_N * MMA_N == N_TILE && STAGES >= 2);

// Byte `byte` of row `row`: the two chunks of rows 4..7 are exchanged, so that eight rows cover all banks.
DEVICE u32 b_offset(u32 row, u32 byte)
{
    return row * B_ROW_BYTES + (byte ^ (row / 4 % 2 * CHUNK_BYTES));
}

struct Problem {
    const bf16 *A;
    const u8 *B;
    u32 M, N, K;
    u32 row0, column0; // of this block's tile
};

// Starts the copies of K step `step` into slot `slot`.
DEVICE void fetch(const Problem &p, Shared &shared, u32 slot, u32 step)
{
    constexpr u32 A_CHUNKS = A_ROW_BYTES / CHUNK_BYTES;
    constexpr u32 B_CHUNKS = B_ROW_BYTES / CHUNK_BYTES;
    const u32 k = step * K_STEP;
    const u32 a = smem_address(shared.a[slot]), b = smem_address(shared.b[slot]);
#pragma unroll
    for (u32 i = threadIdx.x; i < M_TILE * A_CHUNKS; i += THREADS) {
        const u32 row = i / A_CHUNKS, chunk = i % A_CHUNKS;
        const bool inside = p.row0 + row < p.M;
        const bf16 *from = p.A + static_cast<u64>(inside ? p.row0 + row : 0) * p.K + k + chunk * 8;
        cp_async_16_or_zero(a + swizzled<A_ROW_BYTES>(row, chunk), from, inside ? CHUNK_BYTES : 0);
    }
    if (threadIdx.x < N_TILE * B_CHUNKS) {
        const u32 row = threadIdx.x / B_CHUNKS, byte = threadIdx.x % B_CHUNKS * CHUNK_BYTES;
        const bool inside = p.column0 + row < p.N;
        const u8 *from = p.B + static_cast<u64>(inside ? p.column0 + row : 0) * p.K + k + byte;
        cp_async_16_or_zero(b + b_offset(row, byte), from, inside ? CHUNK_BYTES : 0);
    }
}

DEVICE u32 next_of(u32 slot)
{
    return slot + 1 == STAGES ? 0 : slot + 1;
}

// The B fragment of eight weight rows and one window, decoded from the raw bytes.
DEVICE void load_fragment_b(u32 (&b)[2], const u8 *tile, u32 row, u32 window)
{
    const u32 lane = threadIdx.x % WARP;
    const u8 *at = tile + b_offset(row + lane / 4, window * MMA_K);
    const u32 pair = lane % 4 * 2;
    b[0] = e4m3x2_to_bf16x2(*reinterpret_cast<const u16 *>(at + pair));
    b[1] = e4m3x2_to_bf16x2(*reinterpret_cast<const u16 *>(at + pair + 8));
}

} // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    w8a16_gemm_pipelined(const bf16 *__restrict__ A, const u8 *__restrict__ B, const float *__restrict__ bs,
                         bf16 *__restrict__ C, u32 M, u32 N, u32 K)
{
    __shared__ Shared shared;
    const Problem p = {A, B, M, N, K, blockIdx.y * M_TILE, blockIdx.x * N_TILE};
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const u32 warp_row = warp % WARPS_M * WARP_M, warp_column = warp / WARPS_M * WARP_N;
    const u32 blocks = K / FP8_BLOCK, steps = K / K_STEP;
    const float *scales = bs + static_cast<u64>(p.column0 / FP8_BLOCK) * blocks;

    float outer[FRAGMENTS_M][FRAGMENTS_N][4] = {}, inner[FRAGMENTS_M][FRAGMENTS_N][4] = {};

#pragma unroll
    for (u32 stage = 0; stage + 1 < STAGES; stage++) {
        if (stage < steps)
            fetch(p, shared, stage, stage);
        cp_async_commit();
    }
    u32 slot = 0, next_slot = STAGES - 1;
    for (u32 step = 0; step < steps; step++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads(); // this slot has arrived, and nobody reads the slot that is refilled now
        if (step + STAGES - 1 < steps)
            fetch(p, shared, next_slot, step + STAGES - 1);
        cp_async_commit();
        const u32 block = step / STEPS_PER_BLOCK;
        if (step % (SCALES * STEPS_PER_BLOCK) == 0 && threadIdx.x < SCALES && block + threadIdx.x < blocks)
            shared.scale[threadIdx.x] = scales[block + threadIdx.x];

        const u32 a_tile = smem_address(shared.a[slot]);
#pragma unroll
        for (u32 window = 0; window < K_STEP / MMA_K; window++) {
            u32 a[FRAGMENTS_M][4], b[FRAGMENTS_N][2];
#pragma unroll
            for (u32 i = 0; i < FRAGMENTS_M; i++)
                load_fragment_a<A_ROW_BYTES>(a[i], a_tile, warp_row + i * MMA_M, window);
#pragma unroll
            for (u32 j = 0; j < FRAGMENTS_N; j++)
                load_fragment_b(b[j], shared.b[slot], warp_column + j * MMA_N, window);
#pragma unroll
            for (u32 i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
                for (u32 j = 0; j < FRAGMENTS_N; j++)
                    mma_m16n8k16(inner[i][j], a[i], b[j]);
        }
        if (step % STEPS_PER_BLOCK == STEPS_PER_BLOCK - 1) {
            // The scales were written at least one barrier ago: a block has several steps.
            const float scale = shared.scale[block % SCALES];
#pragma unroll
            for (u32 i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
                for (u32 j = 0; j < FRAGMENTS_N; j++)
                    fold(outer[i][j], inner[i][j], scale);
        }
        slot = next_of(slot);
        next_slot = next_of(next_slot);
    }

#pragma unroll
    for (u32 i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (u32 j = 0; j < FRAGMENTS_N; j++) {
            const u32 row = p.row0 + warp_row + i * MMA_M + lane / 4;
            const u32 n = p.column0 + warp_column + j * MMA_N + lane % 4 * 2;
            if (row < M)
                store_pair(C, row, n, N, N, outer[i][j][0], outer[i][j][1]);
            if (row + 8 < M)
                store_pair(C, row + 8, n, N, N, outer[i][j][2], outer[i][j][3]);
        }
}
