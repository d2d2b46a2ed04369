#include <cuda/std/complex>

extern "C" __global__ void rotate(cuda::std::complex<float> *x, float angle)
{
    x[threadIdx.x] *= cuda::std::polar(1.0f, angle) + cuda::std::exp(cuda::std::complex<float>(0, angle));
}

#include <cuComplex.h>

extern "C" __global__ void multiply(const cuFloatComplex *a, const cuFloatComplex *b, cuFloatComplex *out)
{
    out[threadIdx.x] = cuCaddf(cuCmulf(a[threadIdx.x], b[threadIdx.x]), cuConjf(a[threadIdx.x]));
}
