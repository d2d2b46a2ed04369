#include <cub/block/block_scan.cuh>

extern "C" __global__ void __launch_bounds__(256) exclusive_sum(int *x)
{
    using scan = cub::BlockScan<int, 256>;
    __shared__ typename scan::TempStorage storage;
    int items[4];
    for (int i = 0; i < 4; i++)
        items[i] = x[(blockIdx.x * 256 + threadIdx.x) * 4 + i];
    scan(storage).ExclusiveSum(items, items);
    for (int i = 0; i < 4; i++)
        x[(blockIdx.x * 256 + threadIdx.x) * 4 + i] = items[i];
}

struct affine {
    float scale, shift;
};

struct compose {
    __device__ affine operator()(const affine &a, const affine &b) const
    {
        return {a.scale * b.scale, a.shift * b.scale + b.shift};
    }
};

extern "C" __global__ void __launch_bounds__(128) linear_recurrence(const float2 *in, float *out)
{
    using scan = cub::BlockScan<affine, 128>;
    __shared__ typename scan::TempStorage storage;
    const float2 v = in[blockIdx.x * 128 + threadIdx.x];
    affine step{v.x, v.y}, prefix;
    scan(storage).InclusiveScan(step, prefix, compose());
    out[blockIdx.x * 128 + threadIdx.x] = prefix.shift;
}
