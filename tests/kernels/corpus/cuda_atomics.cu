#include <cuda/atomic>

extern "C" __global__ void count_and_max(const int *x, unsigned *count, int *best, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*count);
    cuda::atomic_ref<int, cuda::thread_scope_device> most(*best);
    if (x[i] > 0)
        counter.fetch_add(1, cuda::memory_order_relaxed);
    most.fetch_max(x[i], cuda::memory_order_relaxed);
}

extern "C" __global__ void last_block(cuda::atomic<unsigned, cuda::thread_scope_system> *ticket, int *flag)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
        last = ticket->fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        *flag = 1;
        ticket->store(0, cuda::std::memory_order_release);
    }
}
