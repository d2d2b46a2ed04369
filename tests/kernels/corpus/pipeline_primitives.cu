#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline.h>

extern "C" __global__ void stage_rows(const int4 *in, int4 *out)
{
    __shared__ int4 rows[2][64];
    __pipeline_memcpy_async(&rows[0][threadIdx.x], &in[threadIdx.x], sizeof(int4));
    __pipeline_commit();
    __pipeline_memcpy_async(&rows[1][threadIdx.x], &in[64 + threadIdx.x], sizeof(int4));
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    out[threadIdx.x] = rows[0][63 - threadIdx.x];
    __pipeline_wait_prior(0);
    __syncthreads();
    out[64 + threadIdx.x] = rows[1][63 - threadIdx.x];
}

extern "C" __global__ void split_arrive(int *x)
{
    __shared__ __mbarrier_t barrier;
    if (threadIdx.x == 0)
        __mbarrier_init(&barrier, blockDim.x);
    __syncthreads();
    const __mbarrier_token_t token = __mbarrier_arrive(&barrier);
    const int v = x[threadIdx.x];
    while (!__mbarrier_test_wait(&barrier, token))
        ;
    x[threadIdx.x] = v + 1;
}
