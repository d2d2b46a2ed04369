// The few names that every kernel uses. No CUDA header is needed: bf16 travels as its bits.
#ifndef KERNELS_COMMON_TYPES_CUH
#define KERNELS_COMMON_TYPES_CUH

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u16 bf16; // the bits of a bfloat16

#define DEVICE __device__ __forceinline__

constexpr u32 WARP = 32;

__host__ __device__ constexpr u32 ceil_div(u32 a, u32 b)
{
    return (a + b - 1) / b;
}

DEVICE float f32_from_bf16(bf16 bits)
{
    return __uint_as_float(static_cast<u32>(bits) << 16);
}

// The halves of a pair, the lower address first.
DEVICE float f32_from_bf16_low(u32 pair)
{
    return __uint_as_float(pair << 16);
}

DEVICE float f32_from_bf16_high(u32 pair)
{
    return __uint_as_float(pair & 0xFFFF0000u);
}

#endif
