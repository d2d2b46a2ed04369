#include <stdio.h>

extern "C" __global__ void print_values(const int *values, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        printf("block %d thread %d: %d of %s, %f\n", blockIdx.x, threadIdx.x, values[i], "values",
               double(values[i]) / n);
}
