#include <cuda/latch>
#include <cuda/semaphore>

extern "C" __global__ void guarded_add(cuda::binary_semaphore<cuda::thread_scope_device> *lock, volatile int *sum)
{
    if (threadIdx.x == 0) {
        lock->acquire();
        *sum = *sum + 1;
        __threadfence();
        lock->release();
    }
}

extern "C" __global__ void meet(cuda::latch<cuda::thread_scope_device> *latch, int *out)
{
    latch->arrive_and_wait();
    out[blockIdx.x * blockDim.x + threadIdx.x] = latch->try_wait();
}
