#include <cuda/std/mdspan>
#include <cuda/std/span>

namespace std_ = cuda::std;

extern "C" __global__ void matvec(const float *matrix, const float *in, float *out, int rows, int columns)
{
    const std_::mdspan<const float, std_::dextents<int, 2>> a(matrix, rows, columns);
    const std_::span<const float> x(in, std_::size_t(columns));
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= a.extent(0))
        return;
    float sum = 0;
    for (int i = 0; i < a.extent(1); i++)
        sum += a(row, i) * x[i];
    out[row] = sum;
}
