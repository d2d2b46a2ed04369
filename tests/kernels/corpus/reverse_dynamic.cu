#include <stddef.h>

extern __shared__ unsigned char bytes[];

extern "C" __global__ void reverse(float *x, size_t n)
{
    float *values = reinterpret_cast<float *>(bytes);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        values[i] = x[i];
    __syncthreads();
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        x[i] = values[n - 1 - i];
}

extern "C" __global__ void reverse_aligned(int4 *x, int n)
{
    extern __shared__ __align__(128) int4 rows[];
    rows[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = rows[n - 1 - threadIdx.x];
}
