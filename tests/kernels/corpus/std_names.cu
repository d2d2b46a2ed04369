#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

template <class T>
static __device__ std::enable_if_t<std::is_floating_point<T>::value, T> cube(T x)
{
    return x * x * x;
}

extern "C" __global__ void standard(float *x, std::size_t n)
{
    const std::array<float, 2> pair = {1.0f, 2.0f};
    float a = x[threadIdx.x], b = cube(a);
    const std::pair<float, float> swapped(std::move(b), std::forward<float &>(a));
    if (a < b)
        a = swapped.first, b = swapped.second;
    x[threadIdx.x] = std::max(a, pair[0]) + std::sqrt(std::abs(b)) + std::min(std::size_t(4), n) + std::fma(a, b, a);
}
