#include <cuda_bf16.h>
#include <mma.h>
#include <stdint.h>

using namespace nvcuda;

extern "C" __global__ void gemm_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c)
{
    wmma::fragment<wmma::matrix_a, 32, 8, 16, __nv_bfloat16, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, __nv_bfloat16, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 32, 8, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 8);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++)
        fc.x[i] *= 2;
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}

extern "C" __global__ void gemm_int8(const int8_t *a, const int8_t *b, int32_t *c)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, int8_t, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, int8_t, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int32_t> fc;
    wmma::fill_fragment(fc, 0);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
