// Fragments of m16n8k16 out of swizzled shared-memory tiles.
#ifndef KERNELS_COMMON_MMA_CUH
#define KERNELS_COMMON_MMA_CUH

#include "ptx.cuh"

// A tile of rows of `row_bytes` (32, 64 or 128) in 16-byte chunks. Chunk c of row r lies at chunk
//   128-byte rows:  c ^ (r % 8)      64-byte rows:  c ^ (r / 2 % 4)      32-byte rows:  c ^ (r / 4 % 2)
// of its row, so that eight rows of one chunk column cover all 32 banks.
template <u32 row_bytes> DEVICE u32 swizzled(u32 row, u32 chunk)
{
    static_assert(row_bytes == 32 || row_bytes == 64 || row_bytes == 128, "the rows the swizzle is drawn for");
    const u32 twist = row / (128 / row_bytes) % (row_bytes / 16);
    return row * row_bytes + ((chunk ^ twist) << 4);
}

// The 16 x 16 A fragment of rows row..row+15 and the 16-wide K window `window` (32 bytes, two chunks).
template <u32 row_bytes> DEVICE void load_fragment_a(u32 (&a)[4], u32 tile, u32 row, u32 window)
{
    const u32 lane = threadIdx.x % WARP;
    ldmatrix_x4(a, tile + swizzled<row_bytes>(row + lane % 16, 2 * window + lane / 16));
}

#endif
