#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

extern "C" __global__ void reduce_tiles(const float *x, float *out)
{
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    const float sum = cg::reduce(tile, x[threadIdx.x], cg::plus<float>());
    const int most = cg::reduce(tile, int(x[threadIdx.x]), cg::greater<int>());
    if (tile.thread_rank() == 0)
        out[tile.meta_group_rank()] = sum + most;
}

extern "C" __global__ void scan_tiles(int *x)
{
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    x[threadIdx.x] = cg::exclusive_scan(tile, x[threadIdx.x], cg::plus<int>());
}
