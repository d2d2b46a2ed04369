// gdn_spine_hopper.cuh: what the two spines of Hopper share: a block's place in a head, tiles in rows of 128 bytes, and
// how a warp says that it is done.
#ifndef GDN_SPINE_HOPPER_CUH
#define GDN_SPINE_HOPPER_CUH

#include "gdn.cuh"

// Pieces of 16 bytes of a tile of 64 columns, under the copy engine's swizzle of 128 bytes.
struct gdn_wide_tile {
    static DEVICE u32 at(int row, int chunk)
    {
        return swizzled<128>((u32)row, (u32)chunk);
    }
};

struct gdn_head_part {
    gdn_sequence sequence;
    u32 nv, vh, first; // first: of the block's columns

    DEVICE u64 block(u32 c) const
    {
        return (sequence.chunk + c) * nv + vh;
    }
};

// A warp is done with what the barrier guards.
DEVICE void gdn_warp_release(const u64 &barrier, int lane)
{
    __syncwarp();
    if (lane == 0)
        mbarrier_arrive(smem_address(&barrier));
}

#endif
