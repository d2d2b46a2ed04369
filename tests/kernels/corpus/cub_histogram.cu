#include <cub/block/block_histogram.cuh>

extern "C" __global__ void __launch_bounds__(256) expert_counts(const unsigned char *experts, unsigned *counts)
{
    using histogram = cub::BlockHistogram<unsigned char, 256, 4, 64, cub::BLOCK_HISTO_ATOMIC>;
    __shared__ typename histogram::TempStorage storage;
    __shared__ unsigned bins[64];
    unsigned char samples[4];
    for (int i = 0; i < 4; i++)
        samples[i] = experts[blockIdx.x * 1024 + i * 256 + threadIdx.x] & 63;
    histogram(storage).Histogram(samples, bins);
    __syncthreads();
    if (threadIdx.x < 64)
        atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}
