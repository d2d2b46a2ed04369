#include <stdint.h>

static __device__ __forceinline__ uint32_t shared_address(const void *pointer)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

extern "C" __global__ void __launch_bounds__(32) mma_m16n8k16(const uint4 *a, const uint2 *b, float4 *c)
{
    __shared__ alignas(16) uint4 tile[32];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncwarp();
    uint32_t r0, r1, r2, r3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(shared_address(&tile[threadIdx.x])));
    const uint2 rb = b[threadIdx.x];
    float4 d = c[threadIdx.x];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d.x), "+f"(d.y), "+f"(d.z), "+f"(d.w)
                 : "r"(r0), "r"(r1), "r"(r2), "r"(r3), "r"(rb.x), "r"(rb.y));
    c[threadIdx.x] = d;
}

extern "C" __global__ void copy_async(const uint4 *in, uint4 *out)
{
    __shared__ uint4 stage[128];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&stage[threadIdx.x])),
                 "l"(in + threadIdx.x));
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = stage[threadIdx.x ^ 1];
}
