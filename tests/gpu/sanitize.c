/* Runs every W8A16 launcher on small shapes, for compute-sanitizer: sanitize LIBKPK LIBKPK_OPS
 * IMAGE
 *
 * The outputs lie in exact allocations, so that a write past an end is one outside an allocation;
 * the inputs are written and the outputs are not, so that initcheck sees a read of what nobody
 * wrote. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/w8a16.h"

static struct {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuCtxSynchronize)(void);
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
    int (*cuMemFree_v2)(uint64_t);
    int (*cuMemcpyHtoD_v2)(uint64_t, const void *, size_t);
    kpk_status (*kpk_open)(const char *, const kpk_open_desc *, kpk_image **);
    void (*kpk_close)(kpk_image *);
    kpk_status (*kpk_bind)(kpk_image *, int);
    kpk_status (*w8a16_bind)(kpk_image *, const struct w8a16_desc *, struct w8a16 *);
    __typeof__(&w8a16_gemm_pipelined) w8a16_gemm_pipelined, w8a16_gemm_pipelined_by_m;
    __typeof__(&w8a16_gemm_pipelined_m32_strided) w8a16_gemm_pipelined_m32_strided,
        w8a16_gemm_pipelined_m64_strided, w8a16_tc_rows_launch;
} fn;

static unsigned runs;

static void must(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s: status %d\n", what, status);
        exit(1);
    }
}

static void say(void *user, kpk_severity severity, const char *text)
{
    (void)user, (void)severity;
    fprintf(stderr, "%s\n", text);
}

static uint64_t upload(size_t size, unsigned char seed)
{
    uint64_t address;
    unsigned char *bytes = malloc(size);

    if (bytes == NULL)
        must(1, "malloc");
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)((i * 37 + seed) & 0x3f);
    must(fn.cuMemAlloc_v2(&address, size), "cuMemAlloc");
    must(fn.cuMemcpyHtoD_v2(address, bytes, size), "cuMemcpyHtoD");
    free(bytes);
    return address;
}

/* The twin that is shipped alone in `ops`. */
static void run_twin(const struct w8a16 *ops, uint32_t m, uint32_t n, uint32_t k)
{
    const uint32_t ldc = n + 1;
    uint64_t a = upload((size_t)m * k * 2, 1), b = upload((size_t)n * k, 2), c;
    uint64_t scale = upload((size_t)((n + 127) / 128) * (k / 128) * 4, 3);

    must(fn.cuMemAlloc_v2(&c, ((size_t)(m - 1) * ldc + n) * 2), "cuMemAlloc");
    must((int)fn.w8a16_gemm_pipelined_m32_strided(ops, a, b, scale, c, m, n, k, k, ldc, NULL, NULL),
         "a twin");
    must(fn.cuCtxSynchronize(), "cuCtxSynchronize");
    runs++;
    must(fn.cuMemFree_v2(a) | fn.cuMemFree_v2(b) | fn.cuMemFree_v2(scale) | fn.cuMemFree_v2(c),
         "cuMemFree");
}

static void run_shape(const struct w8a16 *ops, uint32_t m, uint32_t n, uint32_t k)
{
    const uint32_t lda = k + 8, ldc = n + 1, scale_rows = (n + 127) / 128;
    uint64_t a = upload(((size_t)(m - 1) * lda + k) * 2, 1), b = upload((size_t)n * k, 2), c;
    uint64_t scale = upload((size_t)scale_rows * (k / 128) * 4, 3);
    struct w8a16_route route;

    must(fn.cuMemAlloc_v2(&c, ((size_t)(m - 1) * ldc + n) * 2), "cuMemAlloc");
    must((int)fn.w8a16_gemm_pipelined(ops, a, b, scale, c, m, n, k, NULL, &route), "pipelined");
    must((int)fn.w8a16_gemm_pipelined_by_m(ops, a, b, scale, c, m, n, k, NULL, &route), "by_m");
    must((int)fn.w8a16_gemm_pipelined_m32_strided(ops, a, b, scale, c, m, n, k, lda, ldc, NULL,
                                                  &route),
         "m32");
    must((int)fn.w8a16_gemm_pipelined_m64_strided(ops, a, b, scale, c, m, n, k, lda, ldc, NULL,
                                                  &route),
         "m64");
    must((int)fn.w8a16_tc_rows_launch(ops, a, b, scale, c, m, n, k, lda, ldc, NULL, &route),
         "rows");
    must(fn.cuCtxSynchronize(), "cuCtxSynchronize");
    runs++;
    must(fn.cuMemFree_v2(a) | fn.cuMemFree_v2(b) | fn.cuMemFree_v2(scale) | fn.cuMemFree_v2(c),
         "cuMemFree");
}

int main(int argc, char **argv)
{
    static const uint32_t shapes[][3] = {{1, 128, 128},  {16, 160, 256}, {17, 40, 384},
                                         {33, 256, 256}, {64, 128, 640}, {130, 160, 256},
                                         {257, 128, 256}};
    void *context, *libraries[3];
    kpk_image *image;

    if (argc != 4)
        return 2;
    libraries[0] = dlopen("libcuda.so.1", RTLD_NOW);
    libraries[1] = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    libraries[2] = dlopen(argv[2], RTLD_NOW);
#define LOAD(library, name)                                                                        \
    *(void **)&fn.name = libraries[library] ? dlsym(libraries[library], #name) : NULL;             \
    must(fn.name == NULL, #name);
    LOAD(0, cuInit)
    LOAD(0, cuDevicePrimaryCtxRetain)
    LOAD(0, cuCtxSetCurrent)
    LOAD(0, cuCtxSynchronize)
    LOAD(0, cuMemAlloc_v2)
    LOAD(0, cuMemFree_v2)
    LOAD(0, cuMemcpyHtoD_v2)
    LOAD(1, kpk_open)
    LOAD(1, kpk_close)
    LOAD(1, kpk_bind)
    LOAD(2, w8a16_bind)
    LOAD(2, w8a16_gemm_pipelined)
    LOAD(2, w8a16_gemm_pipelined_by_m)
    LOAD(2, w8a16_gemm_pipelined_m32_strided)
    LOAD(2, w8a16_gemm_pipelined_m64_strided)
    LOAD(2, w8a16_tc_rows_launch)
    must(fn.cuInit(0), "cuInit");
    must(fn.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(fn.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    kpk_open_desc desc = {.message = say};
    must((int)fn.kpk_open(argv[3], &desc, &image), "kpk_open");
    must((int)fn.kpk_bind(image, 0), "kpk_bind");
    for (int no_twins = 0; no_twins < 2; no_twins++) {
        struct w8a16 ops;
        struct w8a16_desc ask = {.message = say, .canonical = false, .no_twins = no_twins == 1};
        must((int)fn.w8a16_bind(image, &ask, &ops), "w8a16_bind");
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            run_shape(&ops, shapes[i][0], shapes[i][1], shapes[i][2]);
        for (int twin = 0; twin < W8A16_TWIN_COUNT && no_twins == 0; twin++) {
            struct w8a16 alone = ops;
            memset(alone.hopper, 0, sizeof alone.hopper);
            alone.hopper[twin] = ops.hopper[twin];
            run_twin(&alone, 70, 288, 640);
            run_twin(&alone, 5, 40, 128);
        }
        ops.policy = W8A16_POLICY_CANONICAL; /* the rows kernels */
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            run_shape(&ops, shapes[i][0], shapes[i][1], shapes[i][2]);
    }
    fn.kpk_close(image);
    printf("%u shapes ran\n", runs);
    return 0;
}
