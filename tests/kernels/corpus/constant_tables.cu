#include <cstdint>

__constant__ float weights[9];
__constant__ std::int8_t e2m1[8] = {0, 1, 2, 3, 4, 6, 8, 12};
__device__ const unsigned primes[4] = {2, 3, 5, 7};

extern "C" __global__ void convolve3(const float *in, float *out, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < 1 || x >= width - 1 || y < 1 || y >= height - 1)
        return;
    float sum = 0;
    for (int j = -1; j <= 1; j++)
        for (int i = -1; i <= 1; i++)
            sum += weights[(j + 1) * 3 + i + 1] * in[(y + j) * width + x + i];
    out[y * width + x] = sum;
}

extern "C" __global__ void unpack_e2m1(const std::uint8_t *packed, float *out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const std::uint8_t byte = packed[i];
    const int low = byte & 15, high = byte >> 4;
    out[2 * i] = (low & 8 ? -0.5f : 0.5f) * e2m1[low & 7];
    out[2 * i + 1] = (high & 8 ? -0.5f : 0.5f) * e2m1[high & 7] * primes[i & 3];
}
