struct params {
    float scale;
    int offsets[16];
};

extern "C" __global__ void __launch_bounds__(128, 2) grid_constant(const __grid_constant__ params p, float *x)
{
    x[threadIdx.x] = x[threadIdx.x + p.offsets[threadIdx.x & 15]] * p.scale;
}

extern "C" __global__ void __maxnreg__(40) few_registers(const float *__restrict__ in, float *__restrict__ out)
{
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = __ldg(&in[threadIdx.x * 8 + i]);
#pragma unroll
    for (int i = 0; i < 8; i++)
        out[threadIdx.x * 8 + i] = v[7 - i];
}

__global__ void mangled(int *x)
{
    x[threadIdx.x] = 2;
}
