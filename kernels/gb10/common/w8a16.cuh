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

// Where a lane stands in a fragment: the row (A, C) or the column (B) it holds, and the first of its pair.
DEVICE u32 lane_group()
{
    return threadIdx.x % WARP / 4;
}

DEVICE u32 lane_pair()
{
    return threadIdx.x % 4 * 2;
}

// The B fragment of eight weight rows and one window, decoded; `offset` is that of the window's 16 bytes in the
// row of this lane's group.
DEVICE void load_weight_fragment(u32 (&b)[2], const u8 *tile, u32 offset)
{
    const u8 *at = tile + offset + lane_pair();
    b[0] = e4m3x2_to_bf16x2(*reinterpret_cast<const u16 *>(at));
    b[1] = e4m3x2_to_bf16x2(*reinterpret_cast<const u16 *>(at + 8));
}

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

// A 16 x 8 fragment of C whose first element is (row, column).
DEVICE void store_fragment(bf16 *C, u32 row, u32 column, u32 M, u32 N, u32 ldc, const float (&value)[4])
{
    row += lane_group();
    column += lane_pair();
    if (row < M)
        store_pair(C, row, column, N, ldc, value[0], value[1]);
    if (row + 8 < M)
        store_pair(C, row + 8, column, N, ldc, value[2], value[3]);
}

#endif
