#include <stdint.h>

extern "C" __global__ void axpy(float a, const float *x, float *y, uint32_t n)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

extern "C" __global__ void axpy4(float a, const float4 *x, float4 *y, uint64_t n)
{
    const uint64_t step = uint64_t(gridDim.x) * blockDim.x;
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
        const float4 v = x[i];
        float4 w = y[i];
        w.x += a * v.x, w.y += a * v.y, w.z += a * v.z, w.w += a * v.w;
        y[i] = w;
    }
}
