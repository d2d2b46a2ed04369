#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

extern "C" __global__ void __launch_bounds__(128) warp_dot(const float *a, const float *b, float *out, int n)
{
    using reduce = cub::WarpReduce<float>;
    __shared__ typename reduce::TempStorage storage[4];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 4 + warp;
    float sum = 0;
    for (int i = lane; i < n; i += 32)
        sum += a[row * n + i] * b[i];
    sum = reduce(storage[warp]).Sum(sum);
    if (lane == 0)
        out[row] = sum;
}

extern "C" __global__ void __launch_bounds__(128) warp_offsets(int *x)
{
    using scan = cub::WarpScan<int, 16>;
    __shared__ typename scan::TempStorage storage[8];
    int value = x[blockIdx.x * 128 + threadIdx.x], total;
    scan(storage[threadIdx.x / 16]).ExclusiveSum(value, value, total);
    x[blockIdx.x * 128 + threadIdx.x] = value + total;
}
