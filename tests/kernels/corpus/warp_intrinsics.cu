extern "C" __global__ void ballots(const int *x, unsigned *out)
{
    const int v = x[threadIdx.x];
    const unsigned mask = __ballot_sync(0xffffffffu, v > 0);
    unsigned same = __match_any_sync(0xffffffffu, v), bits = __reduce_add_sync(0xffffffffu, unsigned(v));
    bits ^= __shfl_xor_sync(0xffffffffu, same, 5) + __popc(mask) + __ffs(same) + __brev(mask) + __clz(v);
    bits += __activemask() + __any_sync(mask | 1u << (threadIdx.x & 31), v) + __funnelshift_l(bits, same, 7);
    __syncwarp();
    out[threadIdx.x] = bits + __byte_perm(bits, same, 0x3210) + __vabsdiffu4(bits, same);
}

extern "C" __global__ void dot_products(const int *a, const int *b, int *c)
{
    c[threadIdx.x] = __dp4a(a[threadIdx.x], b[threadIdx.x], __dp2a_lo(a[threadIdx.x], b[threadIdx.x], 1));
}

extern "C" __global__ void clocks(long long *out)
{
    const long long start = clock64();
    __nanosleep(100);
    __threadfence_system();
    out[threadIdx.x] = clock64() - start + __syncthreads_count(int(threadIdx.x) & 1);
}
