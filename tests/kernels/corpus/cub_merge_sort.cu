#include <cub/block/block_merge_sort.cuh>
#include <cub/warp/warp_merge_sort.cuh>

struct less {
    __device__ bool operator()(const double &a, const double &b) const
    {
        return a < b;
    }
};

extern "C" __global__ void __launch_bounds__(64) block_merge(double *x)
{
    using sort = cub::BlockMergeSort<double, 64, 2>;
    __shared__ typename sort::TempStorage storage;
    double items[2] = {x[threadIdx.x * 2], x[threadIdx.x * 2 + 1]};
    sort(storage).Sort(items, less());
    x[threadIdx.x * 2] = items[0], x[threadIdx.x * 2 + 1] = items[1];
}

extern "C" __global__ void __launch_bounds__(32) warp_merge(double *x)
{
    using sort = cub::WarpMergeSort<double, 2, 32>;
    __shared__ typename sort::TempStorage storage;
    double items[2] = {x[threadIdx.x * 2], x[threadIdx.x * 2 + 1]};
    sort(storage).Sort(items, less());
    x[threadIdx.x * 2] = items[0], x[threadIdx.x * 2 + 1] = items[1];
}
