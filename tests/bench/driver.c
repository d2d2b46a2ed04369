#include "driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void bench_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void bench_must(int error, const char *what)
{
    if (error != 0)
        bench_fail("%s: error %d", what, error);
}

struct bench_driver bench_driver(void)
{
    struct bench_driver driver;
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *address, *context;
    if (library == NULL)
        bench_fail("%s", dlerror());
#define BENCH_FIND(name, arguments)                                                                \
    address = dlsym(library, #name);                                                               \
    if (address == NULL)                                                                           \
        bench_fail("the driver has no %s", #name);                                                 \
    memcpy(&driver.name, &address, sizeof address);
    BENCH_DRIVER(BENCH_FIND)
#undef BENCH_FIND
    int device, version;
    char name[128] = "";
    bench_must(driver.cuInit(0), "cuInit");
    bench_must(driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
    bench_must(driver.cuDeviceGet(&device, 0), "cuDeviceGet");
    bench_must(driver.cuDeviceGetName(name, (int)sizeof name - 1, device), "cuDeviceGetName");
    bench_must(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    bench_must(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    const char *loading = getenv("CUDA_MODULE_LOADING");
    printf("%s, driver for CUDA %d.%d, module loading %s\n", name, version / 1000,
           version % 1000 / 10, loading != NULL ? loading : "by default");
    return driver;
}

double bench_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *values, size_t count, double at)
{
    qsort(values, count, sizeof *values, by_value);
    return values[(size_t)((double)(count - 1) * at + 0.5)];
}

double bench_median(double *values, size_t count)
{
    return bench_quantile(values, count, 0.5);
}

size_t bench_list(const char *folder, struct bench_module *modules, size_t room)
{
    char path[1024];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/modules", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        bench_fail("cannot read %s", path);
    while (count < room &&
           fscanf(file, "%127s %127s", modules[count].name, modules[count].entry) == 2)
        count++;
    fclose(file);
    return count;
}

void *bench_read(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        bench_fail("cannot read %s", path);
    long size = ftell(file);
    void *bytes = malloc((size_t)size);
    rewind(file);
    if (bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size)
        bench_fail("cannot read %s", path);
    fclose(file);
    *out_size = (size_t)size;
    return bytes;
}
