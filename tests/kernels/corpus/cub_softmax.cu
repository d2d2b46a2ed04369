#include <cub/block/block_reduce.cuh>
#include <cuda/functional>

extern "C" __global__ void __launch_bounds__(256) softmax_rows(float *x, int columns)
{
    using reduce = cub::BlockReduce<float, 256>;
    __shared__ typename reduce::TempStorage storage;
    __shared__ float shared;
    float *row = x + blockIdx.x * columns;
    float best = -3.0e38f;
    for (int i = threadIdx.x; i < columns; i += 256)
        best = fmaxf(best, row[i]);
    best = reduce(storage).Reduce(best, cuda::maximum<>{});
    if (threadIdx.x == 0)
        shared = best;
    __syncthreads();
    best = shared;
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += 256)
        sum += row[i] = __expf(row[i] - best);
    __syncthreads();
    sum = reduce(storage).Sum(sum);
    if (threadIdx.x == 0)
        shared = 1 / sum;
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += 256)
        row[i] *= shared;
}
