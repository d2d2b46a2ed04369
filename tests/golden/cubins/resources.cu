// What the cubins beside this file were made from; the unit test of the cubin reader knows each figure.
extern "C" __global__ void plain(float *x) { x[threadIdx.x] *= 2.0f; }

extern "C" __global__ void static_smem(float *x)
{
    __shared__ float s[300];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[299 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(256, 2) stack(float *x, int n)
{
    extern __shared__ float d[];
    float a[64];
    for (int i = 0; i < 64; i++)
        a[i] = x[i];
    for (int i = 0; i < n; i++)
        a[(i * 7) & 63] += a[i & 63];
    x[0] = a[n & 63] + d[0];
}

template <int N> __global__ void templated(float *x) { x[N] = 1; }
template __global__ void templated<3>(float *);
