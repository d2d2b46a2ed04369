// What the W8A16 tiles share: C[r][n] = sum over k of A[r][k] * E4M3(B[n][k]) * bs[n/128][k/128].
//
// The "tile" contract fixes every bit of C. For each output:
//   outer = 0
//   for each 128-wide K block:  inner = 0; eight MMAs over 16-wide windows in ascending order into inner;
//                               outer = outer + (inner * scale)      two roundings, no FMA
//   C = bf16(outer), round to nearest even
// Rows of A at and past M and rows of B at and past N are zeros. Nothing past K in a row is read.
#ifndef KERNELS_GB10_COMMON_W8A16_CUH
#define KERNELS_GB10_COMMON_W8A16_CUH

#include "e4m3.cuh"
#include "mma.cuh"

static_assert(FP8_BLOCK == 128, "one scale per 128 x 128 block of the weight is the checkpoint's format");

constexpr u32 MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr u32 CHUNK_BYTES = 16; // one cp.async

// outer += inner * scale, then inner = 0.
template <u32 count> DEVICE void fold(float (&outer)[count], float (&inner)[count], float scale)
{
#pragma unroll
    for (u32 i = 0; i < count; i++) {
        outer[i] = __fadd_rn(outer[i], __fmul_rn(inner[i], scale));
        inner[i] = 0.0f;
    }
}

// Columns n and n + 1 of one row of C; n is even.
DEVICE void store_pair(bf16 *C, u32 row, u32 n, u32 N, u32 ldc, float first, float second)
{
    bf16 *at = C + static_cast<u64>(row) * ldc + n;
    if (ldc % 2 == 0 && n + 1 < N) {
        *reinterpret_cast<u32 *>(at) = bf16x2_from_f32(first, second);
        return;
    }
    if (n < N)
        at[0] = bf16_from_f32(first);
    if (n + 1 < N)
        at[1] = bf16_from_f32(second);
}

#endif
