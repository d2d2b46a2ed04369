/* What the runtime costs on a device, beside the bare driver:
 *
 *   device_cost LIBKPK IMAGE PEERS
 *
 * launch     kpk_launch against cuLaunchKernel of the same function, per launch
 * first use  of every module of the image, and of one: raw cubins and size-mode fatbins (files of
 *            PEERS, listed in PEERS/modules: read, cuLibraryLoadData, cuLibraryGetKernel,
 *            cuKernelGetFunction) against kpk_resolve and kpk_function of an open image
 *
 * Opens libcuda.so.1 and LIBKPK at run time. Medians of interleaved rounds.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/kpk.h"

enum {
    ROUNDS = 41,
    LAUNCHES = 200,
    MAX_MODULES = 64
};

#define DRIVER(X)                                                                                  \
    X(cuInit, (unsigned))                                                                          \
    X(cuDeviceGet, (int *, int))                                                                   \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                    \
    X(cuCtxSetCurrent, (void *))                                                                   \
    X(cuCtxSynchronize, (void))                                                                    \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                         \
    X(cuMemsetD8_v2, (uint64_t, unsigned char, size_t))                                            \
    X(cuLibraryLoadData,                                                                           \
      (void **, const void *, void *, void **, unsigned, void *, void **, unsigned))               \
    X(cuLibraryGetKernel, (void **, void *, const char *))                                         \
    X(cuKernelGetFunction, (void **, void *))                                                      \
    X(cuLibraryUnload, (void *))                                                                   \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                       unsigned, void *, void **, void **))

#define RUNTIME(X)                                                                                 \
    X(kpk_open, kpk_status, (const char *, const kpk_open_desc *, kpk_image **))                   \
    X(kpk_close, void, (kpk_image *))                                                              \
    X(kpk_bind, kpk_status, (kpk_image *, int))                                                    \
    X(kpk_resolve, kpk_kernel, (kpk_image *, const char *, const char *))                          \
    X(kpk_function, kpk_status, (kpk_image *, kpk_kernel, void **))                                \
    X(kpk_launch, kpk_status,                                                                      \
      (kpk_image *, kpk_kernel, kpk_grid, uint32_t, struct CUstream_st *, void **))

static struct {
#define DRIVER_FIELD(name, arguments) int(*name) arguments;
    DRIVER(DRIVER_FIELD)
#define RUNTIME_FIELD(name, result, arguments) result(*name) arguments;
    RUNTIME(RUNTIME_FIELD)
} fn;

struct module {
    char name[128], entry[128];
};

static struct module modules[MAX_MODULES];
static size_t module_count;

static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void must(int status, const char *what)
{
    if (status != 0)
        fail("%s: status %d", what, status);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static void load_symbols(const char *libkpk)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *runtime = dlopen(libkpk, RTLD_NOW);

    if (driver == NULL || runtime == NULL)
        fail("%s", dlerror());
#define LOAD(library, name)                                                                        \
    *(void **)&fn.name = dlsym(library, #name);                                                    \
    if (fn.name == NULL)                                                                           \
        fail("no %s", #name);
#define LOAD_DRIVER(name, arguments) LOAD(driver, name)
#define LOAD_RUNTIME(name, result, arguments) LOAD(runtime, name)
    DRIVER(LOAD_DRIVER)
    RUNTIME(LOAD_RUNTIME)
}

static void read_list(const char *peers)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/modules", peers);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail("cannot read %s", path);
    while (module_count < MAX_MODULES && fscanf(file, "%127s %127s", modules[module_count].name,
                                                modules[module_count].entry) == 2)
        module_count++;
    fclose(file);
}

static void *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");

    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail("cannot read %s", path);
    long size = ftell(file);
    void *bytes = malloc((size_t)size);
    rewind(file);
    if (bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size)
        fail("cannot read %s", path);
    fclose(file);
    return bytes;
}

/* First use of modules first..first+count from files PEERS/NAME.SUFFIX, in ns. */
static double first_use_files(const char *peers, const char *suffix, size_t first, size_t count)
{
    void *libraries[MAX_MODULES], *images[MAX_MODULES], *kernel, *function;
    double start = now();

    for (size_t i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s.%s", peers, modules[first + i].name, suffix);
        images[i] = read_file(path);
        must(fn.cuLibraryLoadData(&libraries[i], images[i], NULL, NULL, 0, NULL, NULL, 0), path);
        must(fn.cuLibraryGetKernel(&kernel, libraries[i], modules[first + i].entry), path);
        must(fn.cuKernelGetFunction(&function, kernel), path);
    }
    double spent = now() - start;
    for (size_t i = 0; i < count; i++) {
        fn.cuLibraryUnload(libraries[i]);
        free(images[i]);
    }
    return spent;
}

static double open_cost[ROUNDS];

/* The same from the image; opening and binding it are measured apart. */
static double first_use_image(const char *path, size_t first, size_t count, int round)
{
    kpk_image *image;
    void *function;
    double start = now();

    must((int)fn.kpk_open(path, NULL, &image), "kpk_open");
    must((int)fn.kpk_bind(image, 0), "kpk_bind");
    double opened = now();
    for (size_t i = 0; i < count; i++) {
        kpk_kernel kernel =
            fn.kpk_resolve(image, modules[first + i].name, modules[first + i].entry);
        must((int)fn.kpk_function(image, kernel, &function), modules[first + i].name);
    }
    double spent = now() - opened;
    open_cost[round] = opened - start;
    fn.kpk_close(image);
    return spent;
}

static void first_use(const char *image, const char *peers, size_t first, size_t count,
                      const char *what)
{
    double cubin[ROUNDS], fatbin[ROUNDS], kpk[ROUNDS];

    for (int round = -2; round < ROUNDS; round++) {
        int at = round < 0 ? 0 : round;
        cubin[at] = first_use_files(peers, "cubin", first, count);
        fatbin[at] = first_use_files(peers, "fatbin", first, count);
        kpk[at] = first_use_image(image, first, count, at);
    }
    double c = median(cubin, ROUNDS), f = median(fatbin, ROUNDS), k = median(kpk, ROUNDS);
    printf("first use of %s: raw cubin %.0f us, size-mode fatbin %.0f us, image %.0f us; image / "
           "cubin %.2f, image / fatbin %.2f (kpk_open and kpk_bind: %.0f us)\n",
           what, c / 1e3, f / 1e3, k / 1e3, k / c, k / f, median(open_cost, ROUNDS) / 1e3);
}

static void launch_cost(const char *path)
{
    double bare[ROUNDS], kpk[ROUNDS];
    kpk_image *image;
    uint64_t memory;
    void *function;

    must((int)fn.kpk_open(path, NULL, &image), "kpk_open");
    must((int)fn.kpk_bind(image, 0), "kpk_bind");
    kpk_kernel kernel = fn.kpk_resolve(image, "w8a16_gemm_pipelined", "w8a16_gemm_pipelined");
    must((int)fn.kpk_function(image, kernel, &function), "kpk_function");
    must(fn.cuMemAlloc_v2(&memory, 65536), "cuMemAlloc");
    must(fn.cuMemsetD8_v2(memory, 0, 65536), "cuMemsetD8");
    uint64_t b = memory + 16384, scale = memory + 32768, c = memory + 49152;
    uint32_t m = 1, n = 32, k = 128;
    void *args[] = {&memory, &b, &scale, &c, &m, &n, &k};

    for (int round = -2; round < ROUNDS; round++) {
        int at = round < 0 ? 0 : round;
        double start = now();
        for (int i = 0; i < LAUNCHES; i++)
            must(fn.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, NULL, args, NULL), "launch");
        bare[at] = (now() - start) / LAUNCHES;
        must(fn.cuCtxSynchronize(), "cuCtxSynchronize");
        start = now();
        for (int i = 0; i < LAUNCHES; i++)
            must((int)fn.kpk_launch(image, kernel, (kpk_grid){1, 1, 1}, 0, NULL, args), "launch");
        kpk[at] = (now() - start) / LAUNCHES;
        must(fn.cuCtxSynchronize(), "cuCtxSynchronize");
    }
    double x = median(bare, ROUNDS), y = median(kpk, ROUNDS);
    printf("launch: bare cuLaunchKernel %.0f ns, kpk_launch %.0f ns; %+.0f ns\n", x, y, y - x);
    fn.kpk_close(image);
}

int main(int argc, char **argv)
{
    void *context;
    int device;

    if (argc != 4)
        fail("usage: device_cost LIBKPK IMAGE PEERS");
    load_symbols(argv[1]);
    read_list(argv[3]);
    must(fn.cuInit(0), "cuInit");
    must(fn.cuDeviceGet(&device, 0), "cuDeviceGet");
    must(fn.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(fn.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    launch_cost(argv[2]);
    first_use(argv[2], argv[3], 0, module_count, "every module");
    for (size_t i = 0; i < module_count; i++)
        first_use(argv[2], argv[3], i, 1, modules[i].name);
    return 0;
}
