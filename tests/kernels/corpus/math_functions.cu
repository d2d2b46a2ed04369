#include <math.h>

extern "C" __global__ void gelu(float *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float v = x[i];
    x[i] = 0.5f * v * (1.0f + erff(v * float(M_SQRT1_2)));
}

extern "C" __global__ void rope(float2 *x, int half, float base)
{
    const int i = threadIdx.x, position = blockIdx.x;
    const float angle = position * powf(base, -float(i) / half);
    float s, c;
    sincosf(angle, &s, &c);
    const float2 v = x[position * half + i];
    x[position * half + i] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
}

extern "C" __global__ void clamp_special(double *x)
{
    double v = x[threadIdx.x];
    if (isnan(v) || isinf(v))
        v = INFINITY;
    x[threadIdx.x] = fmin(fma(v, M_PI, hypot(v, 1.0)), HUGE_VAL) + log1p(fabs(v)) + fmod(v, 3.0);
}
