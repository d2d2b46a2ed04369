#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_store.cuh>

extern "C" __global__ void __launch_bounds__(128) sort_tokens(float *keys, int *values)
{
    using load = cub::BlockLoad<float, 128, 8, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using load_values = cub::BlockLoad<int, 128, 8, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using sort = cub::BlockRadixSort<float, 128, 8, int>;
    __shared__ union {
        typename load::TempStorage load;
        typename load_values::TempStorage load_values;
        typename sort::TempStorage sort;
    } storage;
    float key[8];
    int value[8];
    load(storage.load).Load(keys + blockIdx.x * 1024, key);
    __syncthreads();
    load_values(storage.load_values).Load(values + blockIdx.x * 1024, value);
    __syncthreads();
    sort(storage.sort).SortDescendingBlockedToStriped(key, value);
    cub::StoreDirectStriped<128>(threadIdx.x, keys + blockIdx.x * 1024, key);
    cub::StoreDirectStriped<128>(threadIdx.x, values + blockIdx.x * 1024, value);
}
