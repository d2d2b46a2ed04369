#include <cuda/functional>
#include <cuda/std/bit>
#include <cuda/std/functional>
#include <cuda/std/numeric>

extern "C" __global__ void popcounts(const unsigned *x, int *out, float *as_float)
{
    const unsigned v = x[threadIdx.x];
    out[threadIdx.x] = cuda::std::popcount(v) + cuda::std::countl_zero(v) + cuda::std::plus<>{}(1, 2);
    as_float[threadIdx.x] = cuda::std::bit_cast<float>(cuda::std::rotl(v, 3)) +
                            float(cuda::maximum<unsigned>{}(v, 7)) + float(cuda::std::gcd(v, 12u));
}
