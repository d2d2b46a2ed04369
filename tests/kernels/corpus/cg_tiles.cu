#include <cooperative_groups.h>

namespace cg = cooperative_groups;

template <unsigned WIDTH, class Parent>
static __device__ int tile_sum(const cg::thread_block_tile<WIDTH, Parent> &tile, int value)
{
    for (int offset = WIDTH / 2; offset > 0; offset /= 2)
        value += tile.shfl_down(value, offset);
    return value;
}

extern "C" __global__ void tile_sums(const int *x, int *out)
{
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int sum = tile_sum(tile, x[block.thread_rank()]);
    if (tile.thread_rank() == 0)
        out[tile.meta_group_rank()] = sum;
    block.sync();
}

extern "C" __global__ void compact(const int *x, int *out, int *count)
{
    if (x[threadIdx.x] <= 0)
        return;
    const auto active = cg::coalesced_threads();
    int base = 0;
    if (active.thread_rank() == 0)
        base = atomicAdd(count, int(active.size()));
    out[active.shfl(base, 0) + active.thread_rank()] = x[threadIdx.x];
}
