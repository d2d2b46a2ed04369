constexpr int TILE = 32;

extern "C" __global__ void __launch_bounds__(256) transpose(const float *in, float *out, int rows, int columns)
{
    __shared__ float tile[TILE][TILE + 1];
    const int x = blockIdx.x * TILE + threadIdx.x;
    for (int y = threadIdx.y; y < TILE; y += 8)
        if (x < columns && blockIdx.y * TILE + y < rows)
            tile[y][threadIdx.x] = in[(blockIdx.y * TILE + y) * columns + x];
    __syncthreads();
    const int out_x = blockIdx.y * TILE + threadIdx.x;
    for (int y = threadIdx.y; y < TILE; y += 8)
        if (out_x < rows && blockIdx.x * TILE + y < columns)
            out[(blockIdx.x * TILE + y) * rows + out_x] = tile[threadIdx.x][y];
}
