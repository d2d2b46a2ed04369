#include <cooperative_groups.h>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

extern "C" __global__ void __launch_bounds__(128) staged_sum(const float *in, float *out, int batches)
{
    constexpr int stages = 2;
    __shared__ float buffer[stages][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    auto pipeline = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int fetch = 0, compute = 0; compute < batches; compute++) {
        for (; fetch < batches && fetch < compute + stages; fetch++) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, buffer[fetch % stages], in + fetch * 128, sizeof(float) * 128, pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        sum += buffer[compute % stages][threadIdx.x];
        pipeline.consumer_release();
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void thread_pipeline(const int4 *in, int4 *out)
{
    __shared__ int4 buffer[128];
    auto pipeline = cuda::make_pipeline();
    pipeline.producer_acquire();
    cuda::memcpy_async(&buffer[threadIdx.x], &in[threadIdx.x], cuda::aligned_size_t<16>(16), pipeline);
    pipeline.producer_commit();
    pipeline.consumer_wait();
    out[threadIdx.x] = buffer[threadIdx.x];
    pipeline.consumer_release();
}
