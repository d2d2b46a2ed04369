#include <cuda_fp16.h>

extern "C" __global__ void rms_norm(half2 *x, const half2 *weight, int columns)
{
    __shared__ float total;
    half2 *row = x + blockIdx.x * columns;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        const float2 v = __half22float2(row[i]);
        sum += v.x * v.x + v.y * v.y;
    }
    atomicAdd(&total, sum);
    __syncthreads();
    const half2 scale = __float2half2_rn(rsqrtf(total / (2 * columns) + 1e-6f));
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        row[i] = __hmul2(__hmul2(row[i], scale), weight[i]);
}

extern "C" __global__ void half_functions(half *x)
{
    const half v = x[threadIdx.x];
    x[threadIdx.x] = hexp(v) + hsqrt(__habs(v)) * half(0.5f) - (v > half(1) ? htanh(v) : __hneg(v));
}
