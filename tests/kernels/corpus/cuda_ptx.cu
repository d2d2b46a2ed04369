#include <cuda/ptx>

extern "C" __global__ void bulk_reduce(const int *in, int *out)
{
    namespace ptx = cuda::ptx;
    __shared__ alignas(16) int tile[128];
    tile[threadIdx.x] = in[threadIdx.x];
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, out, tile, sizeof tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
    out[128 + threadIdx.x] = int(ptx::get_sreg_laneid()) + int(ptx::get_sreg_smid());
}
