#include <assert.h>
#include <stdint.h>

struct view {
    float *data;
    uint32_t size;

    __device__ float &operator[](uint32_t i) const
    {
        assert(i < size && "index past the end");
        return data[i];
    }
};

extern "C" __global__ void gather(view out, view in, const uint32_t *indices)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[indices[i]];
}
