// w8a16_gemm_pipelined_m32: the 32 x 32 tile of the "tile" contract (w8a16.cuh), with row pitches, and a skinny
// body for few rows.
//
// A [M][lda] bf16, B [N][K] E4M3, bs [ceil(N/128)][K/128] f32, C [M][ldc] bf16; K a multiple of 128, lda of 8;
// A and B 16-byte aligned, C 4-byte.
//   tile:   grid (ceil(N/32), ceil(M/32)), block 256, KPK_SMEM_w8a16_gemm_pipelined_m32 bytes
//   skinny: M <= SKINNY_MAX_M and K <= SKINNY_MAX_K: grid (ceil(N/8), 1), block 256, 8 * (K + 16) bytes.
//           A block owns 8 columns; its warps compute the products of the K blocks in parallel, which are
//           then added in order: each is rounded before the sum, so the bits are the tile's.
#include "types.cuh"

constexpr u32 WARPS_M = 2, WARPS_N = 4;

#include "w8a16_tile.cuh"

constexpr u32 SKINNY_PAD = 16; // bytes between weight rows, so that eight rows cover all banks
constexpr u32 SKINNY_WARPS = THREADS / WARP;
constexpr u32 SKINNY_BLOCKS_PER_WARP = ceil_div(SKINNY_MAX_K / FP8_BLOCK, SKINNY_WARPS);
constexpr u32 PRODUCT_BYTES = WARP * 16; // one K block: f32 [16][8] as fragments, 16 bytes per lane

static_assert(THREADS == KPK_BLOCK_w8a16_gemm_pipelined_m32, "the description gives this block");
static_assert(sizeof(Tile) == KPK_SMEM_w8a16_gemm_pipelined_m32, "the description gives this size");
static_assert(SKINNY_N_TILE == MMA_N && SKINNY_N_TILE == SKINNY_WARPS, "a warp copies one of the columns' rows");
static_assert(SKINNY_MAX_M == MMA_M, "one fragment holds all rows");
static_assert(PRODUCT_BYTES <= SKINNY_N_TILE * FP8_BLOCK, "products fit over the weights they came from");
static_assert(SKINNY_N_TILE * (SKINNY_MAX_K + SKINNY_PAD) <= sizeof(Tile), "the declared size is the larger one");

// The A fragment of all rows and window k..k+15, straight from global memory.
DEVICE void load_skinny_a(u32 (&a)[4], const Problem &p, u32 k)
{
    const u32 row = lane_group(), column = k + lane_pair();
    const bf16 *at = p.A + static_cast<u64>(row) * p.lda + column, *below = at + 8ull * p.lda;
    a[0] = row < p.M ? *reinterpret_cast<const u32 *>(at) : 0;
    a[1] = row + 8 < p.M ? *reinterpret_cast<const u32 *>(below) : 0;
    a[2] = row < p.M ? *reinterpret_cast<const u32 *>(at + 8) : 0;
    a[3] = row + 8 < p.M ? *reinterpret_cast<const u32 *>(below + 8) : 0;
}

DEVICE void run_skinny(const Problem &p, u8 *shared)
{
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const u32 blocks = p.K / FP8_BLOCK, pitch = p.K + SKINNY_PAD;
    const float *scales = p.bs + static_cast<u64>(p.column0 / FP8_BLOCK) * blocks;
    const u32 column = p.column0 + warp;
    const u8 *from = p.B + static_cast<u64>(column < p.N ? column : 0) * p.K;
    for (u32 byte = lane * CHUNK_BYTES; byte < p.K; byte += WARP * CHUNK_BYTES)
        cp_async_16_or_zero(smem_address(shared + warp * pitch + byte), from + byte, column < p.N ? CHUNK_BYTES : 0);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();

    const u32 per_warp = ceil_div(blocks, SKINNY_WARPS), first = warp * per_warp;
    float product[SKINNY_BLOCKS_PER_WARP][4];
#pragma unroll
    for (u32 i = 0; i < SKINNY_BLOCKS_PER_WARP; i++) {
        const u32 block = first + i;
        if (i >= per_warp || block >= blocks)
            break;
        float inner[4] = {};
#pragma unroll
        for (u32 window = 0; window < FP8_BLOCK / MMA_K; window++) {
            const u32 k = block * FP8_BLOCK + window * MMA_K;
            u32 a[4], b[2];
            load_skinny_a(a, p, k);
            load_weight_fragment(b, shared, lane_group() * pitch + k);
            mma_m16n8k16(inner, a, b);
        }
        const float scale = scales[block];
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            product[i][j] = __fmul_rn(inner[j], scale);
    }
    __syncthreads(); // every warp is done with the weights that the products overwrite
#pragma unroll
    for (u32 i = 0; i < SKINNY_BLOCKS_PER_WARP; i++)
        if (i < per_warp && first + i < blocks)
            *reinterpret_cast<float4 *>(shared + (first + i) * PRODUCT_BYTES + lane * 16) =
                make_float4(product[i][0], product[i][1], product[i][2], product[i][3]);
    __syncthreads();
    if (warp > 0)
        return;
    float outer[4] = {};
    for (u32 block = 0; block < blocks; block++) {
        const float4 term = *reinterpret_cast<const float4 *>(shared + block * PRODUCT_BYTES + lane * 16);
        outer[0] = __fadd_rn(outer[0], term.x);
        outer[1] = __fadd_rn(outer[1], term.y);
        outer[2] = __fadd_rn(outer[2], term.z);
        outer[3] = __fadd_rn(outer[3], term.w);
    }
    store_fragment(p.C, 0, p.column0, p.M, p.N, p.ldc, outer);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    w8a16_gemm_pipelined_m32(const bf16 *__restrict__ A, const u8 *__restrict__ B, const float *__restrict__ bs,
                             bf16 *__restrict__ C, u32 M, u32 N, u32 K, u32 lda, u32 ldc)
{
    extern __shared__ __align__(128) u8 shared[];
    if (M <= SKINNY_MAX_M && K <= SKINNY_MAX_K)
        run_skinny({A, B, bs, C, M, N, K, lda, ldc, 0, blockIdx.x * SKINNY_N_TILE}, shared);
    else
        run_tile({A, B, bs, C, M, N, K, lda, ldc, blockIdx.y * M_TILE, blockIdx.x * N_TILE},
                 *reinterpret_cast<Tile *>(shared));
}
