#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

namespace cg = cooperative_groups;

extern "C" __global__ void copy_through(const float *in, float *out, unsigned count)
{
    extern __shared__ float stage[];
    const auto block = cg::this_thread_block();
    cg::memcpy_async(block, stage, in + blockIdx.x * count, sizeof(float) * count);
    cg::wait(block);
    for (unsigned i = block.thread_rank(); i < count; i += block.size())
        out[blockIdx.x * count + i] = stage[count - 1 - i];
}
