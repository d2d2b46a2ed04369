#include <cuda/std/array>
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/optional>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>

using pair = cuda::std::tuple<int, float>;

static __device__ cuda::std::optional<pair> find(const cuda::std::array<float, 8> &values, float least)
{
    for (int i = 0; i < 8; i++)
        if (values[i] >= least)
            return cuda::std::make_tuple(i, values[i]);
    return cuda::std::nullopt;
}

extern "C" __global__ void first_above(const cuda::std::array<float, 8> *rows, float least, int *index, float *value)
{
    const auto found = find(rows[threadIdx.x], least);
    const auto [i, v] = found.value_or(pair(-1, cuda::std::numeric_limits<float>::lowest()));
    static_assert(cuda::std::is_same_v<cuda::std::remove_const_t<decltype(i)>, int>);
    index[threadIdx.x] = i;
    value[threadIdx.x] = v;
}
