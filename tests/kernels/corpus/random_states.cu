#include <curand_kernel.h>

extern "C" __global__ void seed_states(curandState *states, unsigned long long seed)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(seed, i, 0, &states[i]);
}

extern "C" __global__ void draw(curandState *states, float *normals, double *uniforms, unsigned *poisson)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandState state = states[i];
    normals[i] = curand_normal(&state) + curand_log_normal(&state, 0.0f, 1.0f);
    uniforms[i] = curand_uniform_double(&state);
    poisson[i] = curand_poisson(&state, 4.0);
    states[i] = state;
}

extern "C" __global__ void draw_mrg(curandStateMRG32k3a *states, float *out)
{
    out[threadIdx.x] = curand_uniform(&states[threadIdx.x]);
}
