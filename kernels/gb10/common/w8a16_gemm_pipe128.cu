// w8a16_gemm_pipe128: the 128 x 128 tile of the "tile" contract (w8a16.cuh), for very many rows.
//
// A [M][K] bf16, B [N][K] E4M3, bs [N/128][K/128] f32, C [M][N] bf16; N and K multiples of 128; A and B 16-byte
// aligned, C 4-byte. Grid (N/128, ceil(M/128)), block 256, KPK_SMEM_w8a16_gemm_pipe128 bytes.
//
// Eight warps of 64 x 32. A and the weight's bytes arrive by cp.async in a ring; while a step is multiplied, the
// next step's weights are decoded into the other of two bf16 tiles, so one barrier per step is enough.
#include "w8a16.cuh"

constexpr u32 WARPS_M = 2, WARPS_N = 4;
constexpr u32 THREADS = WARPS_M * WARPS_N * WARP;
constexpr u32 WARP_M = M_TILE / WARPS_M, WARP_N = N_TILE / WARPS_N;
constexpr u32 FRAGMENTS_M = WARP_M / MMA_M, FRAGMENTS_N = WARP_N / MMA_N;
constexpr u32 ROW_BYTES = K_STEP * 2; // of a bf16 tile
constexpr u32 CHUNKS = ROW_BYTES / CHUNK_BYTES, RAW_CHUNKS = K_STEP / CHUNK_BYTES;
constexpr u32 STEPS_PER_BLOCK = FP8_BLOCK / K_STEP;

struct Shared {
    alignas(128) u8 a[STAGES][M_TILE * ROW_BYTES];  // bf16 [128][32], swizzled
    alignas(128) u8 raw[STAGES][N_TILE * K_STEP];   // E4M3 [128][32]
    alignas(128) u8 b[2][N_TILE * ROW_BYTES];       // bf16 [128][32], swizzled
    float scale[SCALES];                            // of the current SCALES K blocks
};

static_assert(THREADS == KPK_BLOCK_w8a16_gemm_pipe128, "the description gives this block");
static_assert(sizeof(Shared) == KPK_SMEM_w8a16_gemm_pipe128, "the description gives this size");
static_assert(N_TILE == FP8_BLOCK, "a tile's columns are one row of scales");
static_assert(N_TILE * RAW_CHUNKS == THREADS, "each thread decodes one chunk per step, the one it copied");
static_assert(FRAGMENTS_N % 2 == 0, "B fragments are loaded in pairs");
static_assert(STEPS_PER_BLOCK >= 2, "scales are written one step at least before the fold reads them");
static_assert(STAGES >= 3, "a slot is refilled one step after its last reader");

struct Problem {
    const bf16 *A;
    const u8 *B;
    u32 M, K, row0, column0;
};

DEVICE void fetch(const Problem &p, Shared &shared, u32 slot, u32 step)
{
    const u32 k = step * K_STEP, a = smem_address(shared.a[slot]);
#pragma unroll
    for (u32 i = threadIdx.x; i < M_TILE * CHUNKS; i += THREADS) {
        const u32 row = i / CHUNKS, chunk = i % CHUNKS;
        const bool inside = p.row0 + row < p.M;
        const bf16 *from = p.A + static_cast<u64>(inside ? p.row0 + row : 0) * p.K + k + chunk * 8;
        cp_async_16_or_zero(a + swizzled<ROW_BYTES>(row, chunk), from, inside ? CHUNK_BYTES : 0);
    }
    const u32 row = threadIdx.x / RAW_CHUNKS, byte = threadIdx.x % RAW_CHUNKS * CHUNK_BYTES;
    cp_async_16(smem_address(shared.raw[slot]) + threadIdx.x * CHUNK_BYTES,
                p.B + static_cast<u64>(p.column0 + row) * p.K + k + byte);
}

// Raw bytes of `slot` to bf16 tile `to`; each thread decodes the chunk that it copied itself.
DEVICE void decode(Shared &shared, u32 slot, u32 to)
{
    const u32 row = threadIdx.x / RAW_CHUNKS, raw_chunk = threadIdx.x % RAW_CHUNKS;
    const uint4 codes = *reinterpret_cast<const uint4 *>(shared.raw[slot] + threadIdx.x * CHUNK_BYTES);
    uint4 low, high;
    low.x = e4m3x2_to_bf16x2(codes.x);
    low.y = e4m3x2_to_bf16x2(codes.x >> 16);
    low.z = e4m3x2_to_bf16x2(codes.y);
    low.w = e4m3x2_to_bf16x2(codes.y >> 16);
    high.x = e4m3x2_to_bf16x2(codes.z);
    high.y = e4m3x2_to_bf16x2(codes.z >> 16);
    high.z = e4m3x2_to_bf16x2(codes.w);
    high.w = e4m3x2_to_bf16x2(codes.w >> 16);
    *reinterpret_cast<uint4 *>(shared.b[to] + swizzled<ROW_BYTES>(row, 2 * raw_chunk)) = low;
    *reinterpret_cast<uint4 *>(shared.b[to] + swizzled<ROW_BYTES>(row, 2 * raw_chunk + 1)) = high;
}

DEVICE void multiply(float (&inner)[FRAGMENTS_M][FRAGMENTS_N][4], u32 a_tile, u32 b_tile, u32 warp_row, u32 warp_column)
{
    const u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (u32 window = 0; window < K_STEP / MMA_K; window++) {
        u32 a[FRAGMENTS_M][4], b[FRAGMENTS_N][2];
#pragma unroll
        for (u32 i = 0; i < FRAGMENTS_M; i++)
            load_fragment_a<ROW_BYTES>(a[i], a_tile, warp_row + i * MMA_M, window);
#pragma unroll
        for (u32 j = 0; j < FRAGMENTS_N; j += 2) {
            // Lanes 0-7 and 8-15 name the two chunks of the first eight columns, 16-31 those of the next eight.
            u32 pair[4];
            ldmatrix_x4(pair, b_tile + swizzled<ROW_BYTES>(warp_column + j * MMA_N + lane / 16 * 8 + lane % 8,
                                                           2 * window + lane / 8 % 2));
            b[j][0] = pair[0], b[j][1] = pair[1];
            b[j + 1][0] = pair[2], b[j + 1][1] = pair[3];
        }
#pragma unroll
        for (u32 i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
            for (u32 j = 0; j < FRAGMENTS_N; j++)
                mma_m16n8k16(inner[i][j], a[i], b[j]);
    }
}

// Blocks in an order that keeps GROUP_ROWS row tiles together, so that a wave shares A and B in the cache.
DEVICE void grouped_tile(u32 &row0, u32 &column0)
{
    const u32 id = blockIdx.y * gridDim.x + blockIdx.x;
    const u32 group = id / (GROUP_ROWS * gridDim.x), in_group = id % (GROUP_ROWS * gridDim.x);
    const u32 rows = min(GROUP_ROWS, gridDim.y - group * GROUP_ROWS);
    row0 = (group * GROUP_ROWS + in_group % rows) * M_TILE;
    column0 = in_group / rows * N_TILE;
}

DEVICE u32 next_of(u32 slot)
{
    return slot + 1 == STAGES ? 0 : slot + 1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    w8a16_gemm_pipe128(const bf16 *__restrict__ A, const u8 *__restrict__ B, const float *__restrict__ bs,
                       bf16 *__restrict__ C, u32 M, u32 N, u32 K)
{
    extern __shared__ __align__(128) u8 bytes[];
    Shared &shared = *reinterpret_cast<Shared *>(bytes);
    Problem p = {A, B, M, K, 0, 0};
    grouped_tile(p.row0, p.column0);
    const u32 warp = threadIdx.x / WARP;
    const u32 warp_row = warp % WARPS_M * WARP_M, warp_column = warp / WARPS_M * WARP_N;
    const u32 blocks = K / FP8_BLOCK, steps = K / K_STEP;
    const float *scales = bs + static_cast<u64>(p.column0 / FP8_BLOCK) * blocks;
    float outer[FRAGMENTS_M][FRAGMENTS_N][4] = {}, inner[FRAGMENTS_M][FRAGMENTS_N][4] = {};

#pragma unroll
    for (u32 stage = 0; stage + 1 < STAGES; stage++) { // K has at least four steps
        fetch(p, shared, stage, stage);
        cp_async_commit();
    }
    cp_async_wait<STAGES - 2>();
    decode(shared, 0, 0);
    u32 slot = 0, refill = STAGES - 1;
    for (u32 step = 0; step < steps; step++) {
        cp_async_wait<STAGES - 3>();
        // A of this step has arrived, its decoded weights are written, and nobody reads the slot and the bf16
        // tile that are written next. The next step's raw chunk is this thread's own copy: no barrier for it.
        __syncthreads();
        if (step + STAGES - 1 < steps)
            fetch(p, shared, refill, step + STAGES - 1);
        cp_async_commit();
        const u32 block = step / STEPS_PER_BLOCK;
        if (step % (SCALES * STEPS_PER_BLOCK) == 0)
            for (u32 i = threadIdx.x; i < SCALES && block + i < blocks; i += THREADS)
                shared.scale[i] = scales[block + i];
        if (step + 1 < steps)
            decode(shared, next_of(slot), (step + 1) % 2);

        multiply(inner, smem_address(shared.a[slot]), smem_address(shared.b[step % 2]), warp_row, warp_column);
        if (step % STEPS_PER_BLOCK == STEPS_PER_BLOCK - 1) {
            const float scale = shared.scale[block % SCALES]; // written a barrier ago at least
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
            store_fragment(C, p.row0 + warp_row + i * MMA_M, p.column0 + warp_column + j * MMA_N, M, N, N, outer[i][j]);
}
