#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_run_length_decode.cuh>

struct differ {
    __device__ bool operator()(int a, int b) const
    {
        return a != b;
    }
};

extern "C" __global__ void __launch_bounds__(128) run_heads(const int *keys, int *heads)
{
    using discontinuity = cub::BlockDiscontinuity<int, 128>;
    __shared__ typename discontinuity::TempStorage storage;
    int items[2], flags[2];
    for (int i = 0; i < 2; i++)
        items[i] = keys[threadIdx.x * 2 + i];
    discontinuity(storage).FlagHeads(flags, items, differ());
    for (int i = 0; i < 2; i++)
        heads[threadIdx.x * 2 + i] = flags[i];
}

extern "C" __global__ void __launch_bounds__(64) expand_runs(const int *values, const unsigned *lengths, int *out)
{
    using decode = cub::BlockRunLengthDecode<int, 64, 1, 4>;
    __shared__ typename decode::TempStorage storage;
    int item[1] = {values[threadIdx.x]}, decoded[4];
    unsigned length[1] = {lengths[threadIdx.x]}, total;
    decode block(storage, item, length, total);
    for (unsigned from = 0; from < total; from += 64 * 4) {
        block.RunLengthDecode(decoded, from);
        for (unsigned i = 0; i < 4; i++)
            if (from + threadIdx.x * 4 + i < total)
                out[from + threadIdx.x * 4 + i] = decoded[i];
        __syncthreads();
    }
}
