// The body of the M_TILE x 32 tiles; the file that includes it says how warps divide the tile, WARPS_M x WARPS_N. K in steps of K_STEP through a ring of
// STAGES slots filled by cp.async; A through ldmatrix, the weight's bytes decoded in registers.
// One barrier per step: it says both that a slot has arrived and that the slot refilled next is no longer read.
#ifndef KERNELS_GB10_COMMON_W8A16_TILE_CUH
#define KERNELS_GB10_COMMON_W8A16_TILE_CUH

#include "w8a16.cuh"

constexpr u32 THREADS = WARPS_M * WARPS_N * WARP;
constexpr u32 WARP_M = M_TILE / WARPS_M, WARP_N = N_TILE / WARPS_N;
constexpr u32 FRAGMENTS_M = WARP_M / MMA_M, FRAGMENTS_N = WARP_N / MMA_N;
constexpr u32 A_ROW_BYTES = K_STEP * 2, B_ROW_BYTES = K_STEP;
constexpr u32 STEPS_PER_BLOCK = FP8_BLOCK / K_STEP;

struct Tile {
    alignas(128) u8 a[STAGES][M_TILE * A_ROW_BYTES]; // bf16 [M_TILE][K_STEP], swizzled
    alignas(128) u8 b[STAGES][N_TILE * B_ROW_BYTES]; // E4M3 [N_TILE][K_STEP], swizzled
    float scale[SCALES];                             // of the current SCALES K blocks
};

static_assert(FRAGMENTS_M * WARPS_M * MMA_M == M_TILE && FRAGMENTS_N * WARPS_N * MMA_N == N_TILE,
              "warps and fragments cover the tile exactly");
static_assert(FP8_BLOCK % N_TILE == 0, "a tile's columns share one row of scales");
static_assert(STEPS_PER_BLOCK >= 2, "scales are written one step at least before the fold reads them");
static_assert(STAGES >= 2, "one slot is filled while another is read");

struct Problem {
    const bf16 *A;
    const u8 *B;
    const float *bs;
    bf16 *C;
    u32 M, N, K, lda, ldc;
    u32 row0, column0; // of this block's tile
};

// Starts the copies of K step `step` into slot `slot`.
DEVICE void fetch(const Problem &p, Tile &tile, u32 slot, u32 step)
{
    constexpr u32 A_CHUNKS = A_ROW_BYTES / CHUNK_BYTES, B_CHUNKS = B_ROW_BYTES / CHUNK_BYTES;
    const u32 k = step * K_STEP;
    const u32 a = smem_address(tile.a[slot]), b = smem_address(tile.b[slot]);
#pragma unroll
    for (u32 i = threadIdx.x; i < M_TILE * A_CHUNKS; i += THREADS) {
        const u32 row = i / A_CHUNKS, chunk = i % A_CHUNKS;
        const bool inside = p.row0 + row < p.M;
        const bf16 *from = p.A + static_cast<u64>(inside ? p.row0 + row : 0) * p.lda + k + chunk * 8;
        cp_async_16_or_zero(a + swizzled<A_ROW_BYTES>(row, chunk), from, inside ? CHUNK_BYTES : 0);
    }
#pragma unroll
    for (u32 i = threadIdx.x; i < N_TILE * B_CHUNKS; i += THREADS) {
        const u32 row = i / B_CHUNKS, chunk = i % B_CHUNKS;
        const bool inside = p.column0 + row < p.N;
        const u8 *from = p.B + static_cast<u64>(inside ? p.column0 + row : 0) * p.K + k + chunk * CHUNK_BYTES;
        cp_async_16_or_zero(b + swizzled<B_ROW_BYTES>(row, chunk), from, inside ? CHUNK_BYTES : 0);
    }
}

DEVICE u32 next_of(u32 slot)
{
    return slot + 1 == STAGES ? 0 : slot + 1;
}

// inner += the slot's A rows times its weights, for this warp's part of the tile.
DEVICE void multiply(float (&inner)[FRAGMENTS_M][FRAGMENTS_N][4], const Tile &tile, u32 slot, u32 warp_row,
                     u32 warp_column)
{
    const u32 a_tile = smem_address(tile.a[slot]);
#pragma unroll
    for (u32 window = 0; window < K_STEP / MMA_K; window++) {
        u32 a[FRAGMENTS_M][4], b[FRAGMENTS_N][2];
#pragma unroll
        for (u32 i = 0; i < FRAGMENTS_M; i++)
            load_fragment_a<A_ROW_BYTES>(a[i], a_tile, warp_row + i * MMA_M, window);
#pragma unroll
        for (u32 j = 0; j < FRAGMENTS_N; j++)
            load_weight_fragment(b[j], tile.b[slot], swizzled<B_ROW_BYTES>(warp_column + j * MMA_N + lane_group(), window));
#pragma unroll
        for (u32 i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
            for (u32 j = 0; j < FRAGMENTS_N; j++)
                mma_m16n8k16(inner[i][j], a[i], b[j]);
    }
}

DEVICE void run_tile(const Problem &p, Tile &tile)
{
    const u32 warp = threadIdx.x / WARP;
    const u32 warp_row = warp % WARPS_M * WARP_M, warp_column = warp / WARPS_M * WARP_N;
    const u32 blocks = p.K / FP8_BLOCK, steps = p.K / K_STEP;
    const float *scales = p.bs + static_cast<u64>(p.column0 / FP8_BLOCK) * blocks;
    float outer[FRAGMENTS_M][FRAGMENTS_N][4] = {}, inner[FRAGMENTS_M][FRAGMENTS_N][4] = {};

#pragma unroll
    for (u32 stage = 0; stage + 1 < STAGES; stage++) {
        if (stage < steps)
            fetch(p, tile, stage, stage);
        cp_async_commit();
    }
    u32 slot = 0, refill = STAGES - 1;
    for (u32 step = 0; step < steps; step++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads(); // this slot has arrived, and nobody reads the slot that is refilled now
        if (step + STAGES - 1 < steps)
            fetch(p, tile, refill, step + STAGES - 1);
        cp_async_commit();
        const u32 block = step / STEPS_PER_BLOCK;
        if (step % (SCALES * STEPS_PER_BLOCK) == 0)
            for (u32 i = threadIdx.x; i < SCALES && block + i < blocks; i += THREADS)
                tile.scale[i] = scales[block + i];

        multiply(inner, tile, slot, warp_row, warp_column);
        if (step % STEPS_PER_BLOCK == STEPS_PER_BLOCK - 1) {
            const float scale = tile.scale[block % SCALES]; // written a barrier ago at least
#pragma unroll
            for (u32 i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
                for (u32 j = 0; j < FRAGMENTS_N; j++)
                    fold(outer[i][j], inner[i][j], scale);
        }
        slot = next_of(slot);
        refill = next_of(refill);
    }

#pragma unroll
    for (u32 i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (u32 j = 0; j < FRAGMENTS_N; j++)
            store_fragment(p.C, p.row0 + warp_row + i * MMA_M, p.column0 + warp_column + j * MMA_N, p.M, p.N,
                           p.ldc, outer[i][j]);
}

#endif
