#include <cub/block/block_exchange.cuh>
#include <cub/block/block_shuffle.cuh>

extern "C" __global__ void __launch_bounds__(128) interleave(float *x)
{
    using exchange = cub::BlockExchange<float, 128, 4>;
    __shared__ typename exchange::TempStorage storage;
    float items[4];
    for (int i = 0; i < 4; i++)
        items[i] = x[blockIdx.x * 512 + i * 128 + threadIdx.x];
    exchange(storage).StripedToBlocked(items, items);
    for (int i = 0; i < 4; i++)
        x[blockIdx.x * 512 + threadIdx.x * 4 + i] = items[i];
}

extern "C" __global__ void __launch_bounds__(128) shift_by_one(int *x)
{
    using shuffle = cub::BlockShuffle<int, 128>;
    __shared__ typename shuffle::TempStorage storage;
    int value = x[threadIdx.x], before = 0;
    shuffle(storage).Offset(value, before, -1);
    x[threadIdx.x] = before;
}
