// What a split module must keep: constants, tables, shared memory of both kinds, names that contain one another, instances.
__constant__ float weights[8] = { 0.5f, 1.25f, -2.0f, 3.0f, 0.125f, -0.75f, 7.0f, 1.0f };
__device__ const int permutation[16] = { 3, 1, 4, 15, 9, 2, 6, 5, 0, 8, 7, 10, 14, 13, 12, 11 };

__device__ __noinline__ float twisted(float x, int i) { return x * weights[i & 7] + weights[(i + 3) & 7]; }

extern "C" __global__ void axpy(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] * 1.5f + out[i];
}

extern "C" __global__ void axpy_strided(float *out, const float *in, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = twisted(in[i], i) / (1.0f + fabsf(out[i]));
}

extern "C" __global__ void permute(float *out, const float *in, int n)
{
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    tile[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (i < n)
        out[i] = tile[(threadIdx.x & ~15) | permutation[threadIdx.x & 15]] + sqrtf(fabsf(in[i]));
}

extern "C" __global__ void total(float *out, const float *in, int n)
{
    extern __shared__ float parts[];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += in[i] * weights[i & 7];
    for (int i = 0; i < 64; i++)
        parts[threadIdx.x + i * 256] = i == 0 ? sum : 0.0f;
    for (int width = 128; width; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width)
            parts[threadIdx.x] += parts[threadIdx.x + width];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = parts[0];
}

template <int FACTOR> __global__ void scaled(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = twisted(in[i], FACTOR + i) * FACTOR;
}
