// Families of kernels as inference engines have them, for measuring how well an image packs: each
// FAMILY is compiled for several types (TYPE) and tiles (TILE, ITEMS). They are compiled, never run.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cub/cub.cuh>

#ifndef TYPE
#define TYPE float
#endif
#ifndef TILE
#define TILE 128
#endif
#ifndef ITEMS
#define ITEMS 4
#endif

using T = TYPE;

template <class V> __device__ float load(V v) { return static_cast<float>(v); }
template <class V> __device__ V store(float v) { return static_cast<V>(v); }

#if FAMILY == 0 // normalisation: rms, layer, softmax over rows
template <int OP> __device__ void normalise(const T *x, const T *w, T *y, int n, float eps)
{
    using Reduce = cub::BlockReduce<float, TILE>;
    __shared__ typename Reduce::TempStorage temp;
    __shared__ float mean, scale;
    float v[ITEMS], sum = 0, extra = OP == 2 ? -3e38f : 0;
    const T *row = x + size_t(blockIdx.x) * n;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = threadIdx.x + i * TILE;
        v[i] = at < n ? load(row[at]) : (OP == 2 ? -3e38f : 0);
        sum += OP == 0 ? v[i] * v[i] : v[i];
        extra = OP == 2 ? fmaxf(extra, v[i]) : extra + v[i] * v[i];
    }
    if (OP == 2) {
        extra = Reduce(temp).Reduce(extra, [](float a, float b) { return fmaxf(a, b); });
        if (threadIdx.x == 0)
            mean = extra;
        __syncthreads();
        sum = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            sum += v[i] = __expf(v[i] - mean);
    }
    sum = Reduce(temp).Sum(sum);
    __syncthreads();
    if (OP == 1)
        extra = Reduce(temp).Sum(extra);
    if (threadIdx.x == 0) {
        mean = OP == 1 ? sum / n : 0;
        scale = OP == 2 ? 1 / sum : rsqrtf((OP == 0 ? sum : extra) / n - mean * mean + eps);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = threadIdx.x + i * TILE;
        if (at < n)
            y[size_t(blockIdx.x) * n + at] = store<T>((v[i] - mean) * scale * load(w[at]));
    }
}
extern "C" __global__ void rms_norm(const T *x, const T *w, T *y, int n, float e)
{
    normalise<0>(x, w, y, n, e);
}
extern "C" __global__ void layer_norm(const T *x, const T *w, T *y, int n, float e)
{
    normalise<1>(x, w, y, n, e);
}
extern "C" __global__ void softmax(const T *x, const T *w, T *y, int n, float e)
{
    normalise<2>(x, w, y, n, e);
}

#elif FAMILY == 1 // sorting and selection
extern "C" __global__ void sort_rows(T *keys, int *values)
{
    using Sort = cub::BlockRadixSort<T, TILE, ITEMS, int>;
    __shared__ typename Sort::TempStorage temp;
    T k[ITEMS];
    int v[ITEMS];
    size_t base = size_t(blockIdx.x) * TILE * ITEMS;
    cub::LoadDirectBlocked(threadIdx.x, keys + base, k);
    cub::LoadDirectBlocked(threadIdx.x, values + base, v);
    Sort(temp).SortDescendingBlockedToStriped(k, v);
    cub::StoreDirectStriped<TILE>(threadIdx.x, keys + base, k);
    cub::StoreDirectStriped<TILE>(threadIdx.x, values + base, v);
}
extern "C" __global__ void top_p(const float *p, float *sums, int *counts, float limit)
{
    using Scan = cub::BlockScan<float, TILE>;
    __shared__ typename Scan::TempStorage temp;
    float v[ITEMS], total;
    cub::LoadDirectBlocked(threadIdx.x, p + size_t(blockIdx.x) * TILE * ITEMS, v);
    Scan(temp).InclusiveSum(v, v, total);
    int n = 0;
    for (int i = 0; i < ITEMS; i++)
        n += v[i] < limit * total;
    cub::StoreDirectBlocked(threadIdx.x, sums + size_t(blockIdx.x) * TILE * ITEMS, v);
    atomicAdd(counts + blockIdx.x, n);
}

#elif FAMILY == 2 // GEMM with tensor cores, a tile per block
using namespace nvcuda;
template <bool RELU, bool BIAS>
__device__ void gemm(const T *a, const T *b, const float *bias, float *c, int m, int n, int k)
{
    constexpr int MT = TILE / 16, NT = ITEMS;
    extern __shared__ char raw[];
    T *sa = reinterpret_cast<T *>(raw), *sb = sa + TILE * 40;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[NT];
    for (int j = 0; j < NT; j++)
        wmma::fill_fragment(acc[j], 0.f);
    int warp = threadIdx.x / 32;
    for (int k0 = 0; k0 < k; k0 += 32) {
        for (int i = threadIdx.x; i < TILE * 4; i += blockDim.x)
            *reinterpret_cast<uint4 *>(sa + i / 4 * 40 + i % 4 * 8) =
                *reinterpret_cast<const uint4 *>(
                    a + size_t(blockIdx.x * TILE + i / 4) * k + k0 + i % 4 * 8);
        for (int i = threadIdx.x; i < NT * 16 * 4; i += blockDim.x)
            *reinterpret_cast<uint4 *>(sb + i / 4 * 40 + i % 4 * 8) =
                *reinterpret_cast<const uint4 *>(
                    b + size_t(blockIdx.y * NT * 16 + i / 4) * k + k0 + i % 4 * 8);
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 2; kk++) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
            wmma::load_matrix_sync(fa, sa + warp % MT * 16 * 40 + kk * 16, 40);
#pragma unroll
            for (int j = 0; j < NT; j++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fb;
                wmma::load_matrix_sync(fb, sb + j * 16 * 40 + kk * 16, 40);
                wmma::mma_sync(acc[j], fa, fb, acc[j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < NT; j++) {
        for (int i = 0; i < acc[j].num_elements; i++) {
            float v = acc[j].x[i] + (BIAS ? bias[blockIdx.y * NT * 16 + j] : 0);
            acc[j].x[i] = RELU ? fmaxf(v, 0) : v;
        }
        wmma::store_matrix_sync(c + size_t(blockIdx.x * TILE + warp % MT * 16) * n +
                                    blockIdx.y * NT * 16 + j * 16,
                                acc[j], n, wmma::mem_row_major);
    }
}
extern "C" __global__ void gemm_plain(const T *a, const T *b, const float *s, float *c, int m, int n,
                                      int k)
{
    gemm<false, false>(a, b, s, c, m, n, k);
}
extern "C" __global__ void gemm_bias_relu(const T *a, const T *b, const float *s, float *c, int m,
                                          int n, int k)
{
    gemm<true, true>(a, b, s, c, m, n, k);
}

#elif FAMILY == 3 // attention, one query row per warp
extern "C" __global__ void attend(const T *q, const T *k, const T *v, T *o, const int *lens,
                                  float scale, int heads)
{
    constexpr int D = TILE, PER = D / 32;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    size_t row = size_t(blockIdx.x) * ITEMS + warp;
    float qv[PER], acc[PER] = {}, top = -3e38f, sum = 0;
#pragma unroll
    for (int i = 0; i < PER; i++)
        qv[i] = load(q[row * D + lane + 32 * i]) * scale;
    for (int t = 0; t < lens[blockIdx.y]; t++) {
        float s = 0;
#pragma unroll
        for (int i = 0; i < PER; i++)
            s += qv[i] * load(k[(size_t(t) * heads + blockIdx.y) * D + lane + 32 * i]);
        for (int j = 16; j; j /= 2)
            s += __shfl_xor_sync(~0u, s, j);
        float next = fmaxf(top, s), keep = __expf(top - next), p = __expf(s - next);
        sum = sum * keep + p;
        top = next;
#pragma unroll
        for (int i = 0; i < PER; i++)
            acc[i] = acc[i] * keep +
                     p * load(v[(size_t(t) * heads + blockIdx.y) * D + lane + 32 * i]);
    }
#pragma unroll
    for (int i = 0; i < PER; i++)
        o[row * D + lane + 32 * i] = store<T>(acc[i] / sum);
}

#elif FAMILY == 4 // elementwise: rotary, gates, quantisation
extern "C" __global__ void rotary(T *x, const float *cosines, const float *sines, int n)
{
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = (blockIdx.x * TILE + threadIdx.x) * ITEMS + i;
        if (at >= n)
            return;
        float a = load(x[2 * at]), b = load(x[2 * at + 1]), c = cosines[at], s = sines[at];
        x[2 * at] = store<T>(a * c - b * s);
        x[2 * at + 1] = store<T>(a * s + b * c);
    }
}
extern "C" __global__ void swiglu(const T *gate, const T *up, T *y, int n)
{
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = blockIdx.x * TILE * ITEMS + threadIdx.x + i * TILE;
        if (at < n) {
            float g = load(gate[at]);
            y[at] = store<T>(g / (1 + expf(-g)) * load(up[at]));
        }
    }
}
extern "C" __global__ void gelu(const T *x, T *y, int n)
{
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = blockIdx.x * TILE * ITEMS + threadIdx.x + i * TILE;
        if (at < n) {
            float v = load(x[at]);
            y[at] = store<T>(0.5f * v * (1 + erff(v * 0.70710678f)));
        }
    }
}
extern "C" __global__ void quantise(const T *x, signed char *y, float *scales, int n)
{
    using Reduce = cub::BlockReduce<float, TILE>;
    __shared__ typename Reduce::TempStorage temp;
    __shared__ float scale;
    float v[ITEMS], top = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = threadIdx.x + i * TILE;
        v[i] = at < n ? load(x[size_t(blockIdx.x) * n + at]) : 0;
        top = fmaxf(top, fabsf(v[i]));
    }
    top = Reduce(temp).Reduce(top, [](float a, float b) { return fmaxf(a, b); });
    if (threadIdx.x == 0)
        scales[blockIdx.x] = scale = top / 127;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        int at = threadIdx.x + i * TILE;
        if (at < n)
            y[size_t(blockIdx.x) * n + at] = static_cast<signed char>(rintf(v[i] / scale));
    }
}
#endif
