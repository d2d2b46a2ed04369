#include <curand_kernel.h>

extern "C" __global__ void sample_uniform(float *out, unsigned long long seed, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, 0, &state);
    if (i * 4 < n)
        reinterpret_cast<float4 *>(out)[i] = curand_uniform4(&state);
}

extern "C" __global__ void gumbel(const float *logits, float *out, unsigned long long seed)
{
    curandStatePhilox4_32_10_t state;
    curand_init(seed, threadIdx.x, 0, &state);
    out[threadIdx.x] = logits[threadIdx.x] - logf(-logf(curand_uniform(&state)));
}
