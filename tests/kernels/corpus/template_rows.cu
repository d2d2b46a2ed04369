#include <cub/block/block_reduce.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
static __device__ float widen(T x)
{
    return float(x);
}

template <typename T, int THREADS, bool MEAN>
__global__ void __launch_bounds__(THREADS) row_sum(const T *x, float *out, int columns)
{
    using reduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename reduce::TempStorage storage;
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += THREADS)
        sum += widen(x[blockIdx.x * columns + i]);
    sum = reduce(storage).Sum(sum);
    if (threadIdx.x == 0)
        out[blockIdx.x] = MEAN ? sum / columns : sum;
}
