#include <cub/block/block_reduce.cuh>

extern "C" __global__ void __launch_bounds__(256) row_norm(const float *x, float *norms, int columns)
{
    using reduce = cub::BlockReduce<float, 256>;
    __shared__ typename reduce::TempStorage storage;
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += 256)
        sum += x[blockIdx.x * columns + i] * x[blockIdx.x * columns + i];
    const float total = reduce(storage).Sum(sum);
    if (threadIdx.x == 0)
        norms[blockIdx.x] = sqrtf(total);
}

struct larger {
    __device__ float operator()(float a, float b) const
    {
        return a > b ? a : b;
    }
};

extern "C" __global__ void __launch_bounds__(128) row_max(const float *x, float *out, int columns)
{
    using reduce = cub::BlockReduce<float, 128, cub::BLOCK_REDUCE_RAKING>;
    __shared__ typename reduce::TempStorage storage;
    float best = -__int_as_float(0x7f800000);
    for (int i = threadIdx.x; i < columns; i += 128)
        best = larger()(best, x[blockIdx.x * columns + i]);
    best = reduce(storage).Reduce(best, larger());
    if (threadIdx.x == 0)
        out[blockIdx.x] = best;
}
