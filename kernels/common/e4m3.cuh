// E4M3 (4 exponent bits, bias 7, 3 mantissa bits, no infinity) to bf16, exact for every finite code.
#ifndef KERNELS_COMMON_E4M3_CUH
#define KERNELS_COMMON_E4M3_CUH

#include "ptx.cuh"

// E4M3   s eeee mmm                  E4M3's fields dropped into bf16's give the value times
// bf16   s 0000eeee mmm0000          2^(7 - 127); the product with 2^120 is exact, subnormals too.
constexpr u32 BF16X2_2_POW_120 = 0x7b807b80;

// Codes in bytes 1 and 3 of `spread` (bytes 0 and 2 are zero) to a bf16 pair. The NaN codes, 0x7f and
// 0xff, become +0 and -0.
DEVICE u32 e4m3_spread_to_bf16x2(u32 spread)
{
    u32 magnitude = (spread >> 4) & 0x07f007f0;
    const u32 nan = (magnitude + 0x00100010) & 0x08000800; // bit 11 of a half whose code is NaN
    if (nan)
        magnitude &= ~(nan - (nan >> 7));
    return bf16x2_mul((spread & 0x80008000) | magnitude, BF16X2_2_POW_120);
}

// Codes in bytes 0 and 1 of `codes` to a bf16 pair, byte 0 to the lower half.
DEVICE u32 e4m3x2_to_bf16x2(u32 codes)
{
    return e4m3_spread_to_bf16x2(__byte_perm(codes, 0, 0x1404));
}

#endif
