// w8a16_gemm_pipelined: the 128 x 32 tile of the "tile" contract (w8a16.cuh), for many rows.
//
// A [M][K] bf16, B [N][K] E4M3, bs [ceil(N/128)][K/128] f32, C [M][N] bf16; K a multiple of 128; A and B
// 16-byte aligned, C 4-byte. Grid (ceil(N/32), ceil(M/128)), block 256.
#include "types.cuh"

constexpr u32 WARPS_M = 4, WARPS_N = 2;

#include "w8a16_tile.cuh"

static_assert(THREADS == KPK_BLOCK_w8a16_gemm_pipelined, "the description gives this block");
static_assert(sizeof(Tile) == KPK_STATIC_SMEM_w8a16_gemm_pipelined, "the description gives this size");

extern "C" __global__ void __launch_bounds__(THREADS)
    w8a16_gemm_pipelined(const bf16 *__restrict__ A, const u8 *__restrict__ B, const float *__restrict__ bs,
                         bf16 *__restrict__ C, u32 M, u32 N, u32 K)
{
    __shared__ Tile tile;
    run_tile({A, B, bs, C, M, N, K, K, N, blockIdx.y * M_TILE, blockIdx.x * N_TILE}, tile);
}
