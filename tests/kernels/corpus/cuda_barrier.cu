#include <cuda/barrier>
#include <cuda/std/utility>

extern "C" __global__ void produce_consume(const float *in, float *out, int tiles)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(barrier) unsigned char storage[2][sizeof(barrier)];
    barrier *full = reinterpret_cast<barrier *>(storage[0]), *empty = reinterpret_cast<barrier *>(storage[1]);
    __shared__ float tile[64];
    if (threadIdx.x == 0) {
        init(full, blockDim.x);
        init(empty, blockDim.x);
    }
    __syncthreads();
    for (int t = 0; t < tiles; t++) {
        if (threadIdx.x < 64)
            tile[threadIdx.x] = in[t * 64 + threadIdx.x];
        full->arrive_and_wait();
        if (threadIdx.x >= 64)
            out[t * 64 + threadIdx.x - 64] = tile[threadIdx.x - 64] * 2;
        auto token = empty->arrive();
        empty->wait(cuda::std::move(token));
    }
}

extern "C" __global__ void bulk_copy(const int4 *in, int4 *out)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(128) int4 rows[64];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier ready;
    if (threadIdx.x == 0)
        init(&ready, blockDim.x);
    __syncthreads();
    cuda::barrier<cuda::thread_scope_block>::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::memcpy_async(rows, in + blockIdx.x * 64, cuda::aligned_size_t<16>(sizeof rows), ready);
    }
    token = ready.arrive();
    ready.wait(cuda::std::move(token));
    out[blockIdx.x * 64 + threadIdx.x] = rows[threadIdx.x];
}
