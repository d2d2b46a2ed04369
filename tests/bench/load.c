/* What the runtime costs on a device, beside the bare driver, in one table:
 *
 *   load IMAGE PEERS [ROUNDS]
 *
 * PEERS is what tests/bench/peers.py makes of IMAGE: its cubins and their size-mode fatbins, a file
 * each, and their list. Measured, in medians of interleaved rounds:
 *
 * size       the image, less 4 KiB, against the sum of the fatbins
 * first use  of every module, and of each alone: raw cubins and fatbins (read, cuLibraryLoadData,
 *            cuLibraryGetKernel) against kpk_resolve and kpk_function of an image that is open and
 *            bound, then cuKernelGetFunction for all three; kpk_open and kpk_bind apart; and
 *            kpk_preload of all
 * launch     kpk_launch, also through an overlay, against cuLaunchKernel of the same function
 * memory     heap bytes after open, after bind, after the use of every module
 */
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "runtime/kpk.h"

enum {
    LAUNCHES = 200,
    MAX_MODULES = 512,
    MAX_ROUNDS = 101,
};

static struct bench_driver driver;
static struct bench_module modules[MAX_MODULES];
static size_t module_count;
static int rounds = 31;
static const char *image_path, *peers_path;

/* Of a first use, in ns: up to a CUkernel, which a launch takes, and on to a CUfunction, with which
 * the driver puts the code into the context. */
struct cost {
    double kernel, function;
};

enum way {
    CUBIN,
    FATBIN,
    IMAGE,
    WAYS,
};

static const char *peer_path(const char *suffix, size_t index)
{
    static char path[1024];
    int size = snprintf(path, sizeof path, "%s/%s.%s", peers_path, modules[index].name, suffix);
    if (size < 0 || (size_t)size >= sizeof path)
        bench_fail("%s: too long a path", peers_path);
    return path;
}

static void *kernels[MAX_MODULES];

static void get_functions(size_t count)
{
    void *function;
    for (size_t i = 0; i < count; i++)
        bench_must(driver.cuKernelGetFunction(&function, kernels[i]), "cuKernelGetFunction");
}

static struct cost from_files(const char *suffix, size_t first, size_t count)
{
    static void *libraries[MAX_MODULES], *images[MAX_MODULES];
    size_t size;
    double start = bench_now();
    for (size_t i = 0; i < count; i++) {
        const char *path = peer_path(suffix, first + i);
        images[i] = bench_read(path, &size);
        bench_must(driver.cuLibraryLoadData(&libraries[i], images[i], NULL, NULL, 0, NULL, NULL, 0),
                   path);
        bench_must(driver.cuLibraryGetKernel(&kernels[i], libraries[i], modules[first + i].entry),
                   path);
    }
    double loaded = bench_now();
    get_functions(count);
    struct cost cost = {loaded - start, bench_now() - start};
    for (size_t i = 0; i < count; i++) {
        driver.cuLibraryUnload(libraries[i]);
        free(images[i]);
    }
    return cost;
}

/* kpk_open and kpk_bind are measured apart. */
static struct cost from_image(size_t first, size_t count, double *out_open)
{
    kpk_image *image;
    double start = bench_now();
    bench_must((int)kpk_open(image_path, NULL, &image), "kpk_open");
    bench_must((int)kpk_bind(image, 0), "kpk_bind");
    double opened = bench_now();
    for (size_t i = 0; i < count; i++) {
        const struct bench_module *module = &modules[first + i];
        kpk_kernel kernel = kpk_resolve(image, module->name, module->entry);
        bench_must((int)kpk_function(image, kernel, &kernels[i]), module->name);
    }
    double loaded = bench_now();
    get_functions(count);
    struct cost cost = {loaded - opened, bench_now() - opened};
    *out_open = opened - start;
    kpk_close(image);
    return cost;
}

/* Medians of rounds in turns. */
static void first_use(size_t first, size_t count, int most, struct cost out_costs[WAYS],
                      double *out_open)
{
    static double kernel[WAYS][MAX_ROUNDS], function[WAYS][MAX_ROUNDS], open[MAX_ROUNDS];
    int taken = rounds < most ? rounds : most;
    for (int round = -1; round < taken; round++) {
        int at = round < 0 ? 0 : round;
        struct cost costs[WAYS] = {
            [CUBIN] = from_files("cubin", first, count),
            [FATBIN] = from_files("fatbin", first, count),
            [IMAGE] = from_image(first, count, &open[at]),
        };
        for (int way = 0; way < WAYS; way++) {
            kernel[way][at] = costs[way].kernel;
            function[way][at] = costs[way].function;
        }
    }
    for (int way = 0; way < WAYS; way++)
        out_costs[way] = (struct cost){bench_median(kernel[way], (size_t)taken),
                                       bench_median(function[way], (size_t)taken)};
    *out_open = bench_median(open, (size_t)taken);
}

static double preload_cost(void)
{
    static double spent[MAX_ROUNDS];
    for (int round = 0; round < rounds; round++) {
        kpk_image *image;
        bench_must((int)kpk_open(image_path, NULL, &image), "kpk_open");
        bench_must((int)kpk_bind(image, 0), "kpk_bind");
        double start = bench_now();
        bench_must((int)kpk_preload(image, NULL, 0), "kpk_preload");
        spent[round] = bench_now() - start;
        kpk_close(image);
    }
    return bench_median(spent, (size_t)rounds);
}

/* ---- Launching ------------------------------------------------------------------------------ */

/* A kernel of the image that takes n = 0 or m = 0 and then does nothing worth a time: the first
 * one of W8A16 or of the generated images. */
static kpk_kernel a_kernel(kpk_image *image, void **args)
{
    static uint64_t memory, zero[2];
    static uint32_t m = 1, n = 32, k = 128, none = 0;
    bench_must(driver.cuMemAlloc_v2(&memory, 65536), "cuMemAlloc");
    bench_must(driver.cuMemsetD8_v2(memory, 0, 65536), "cuMemsetD8");
    zero[0] = memory + 16384;
    zero[1] = memory + 32768;
    kpk_kernel kernel = kpk_resolve(image, "w8a16_gemm_pipelined", "w8a16_gemm_pipelined");
    args[0] = &memory;
    args[1] = &zero[0];
    args[2] = &zero[1];
    if (kernel.id != 0) {
        static uint64_t output;
        output = memory + 49152;
        args[3] = &output;
        args[4] = &m;
        args[5] = &n;
        args[6] = &k;
        return kernel;
    }
    args[2] = &none;
    return kpk_resolve(image, modules[0].name, modules[0].entry);
}

struct launches {
    double bare, image, overlay; /* ns each */
};

static double launch_round(kpk_image *image, kpk_kernel kernel, void **args)
{
    double start = bench_now();
    for (int i = 0; i < LAUNCHES; i++)
        bench_must((int)kpk_launch(image, kernel, (kpk_grid){1, 1, 1}, 0, NULL, args), "launch");
    double spent = (bench_now() - start) / LAUNCHES;
    bench_must(driver.cuCtxSynchronize(), "cuCtxSynchronize");
    return spent;
}

static struct launches launch_cost(void)
{
    static double bare[MAX_ROUNDS], ours[MAX_ROUNDS], through[MAX_ROUNDS];
    kpk_image *image, *overlay;
    kpk_entry_info info;
    void *function, *args[7];
    bench_must((int)kpk_open(image_path, NULL, &image), "kpk_open");
    bench_must((int)kpk_bind(image, 0), "kpk_bind");
    bench_must((int)kpk_overlay(image, image, &overlay), "kpk_overlay");
    kpk_kernel kernel = a_kernel(image, args);
    bench_must((int)kpk_get_kernel(image, kernel, &info), "kpk_get_kernel");
    bench_must((int)kpk_function(image, kernel, &function), "kpk_function");
    for (int round = -2; round < MAX_ROUNDS; round++) {
        int at = round < 0 ? 0 : round;
        double start = bench_now();
        for (int i = 0; i < LAUNCHES; i++)
            bench_must(driver.cuLaunchKernel(function, 1, 1, 1, info.block.x, info.block.y,
                                             info.block.z, info.dynamic_smem, NULL, args, NULL),
                       "launch");
        bare[at] = (bench_now() - start) / LAUNCHES;
        bench_must(driver.cuCtxSynchronize(), "cuCtxSynchronize");
        ours[at] = launch_round(image, kernel, args);
        through[at] = launch_round(overlay, kernel, args);
    }
    kpk_close(overlay);
    kpk_close(image);
    return (struct launches){bench_median(bare, MAX_ROUNDS), bench_median(ours, MAX_ROUNDS),
                             bench_median(through, MAX_ROUNDS)};
}

/* ---- Memory -----------------------------------------------------------------------------------
 */

static double heap(void)
{
    struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd) / 1024;
}

/* The driver allocates in the same heap, so that after a use its part is in the figure too. */
static void memory_cost(void)
{
    kpk_image *image;
    kpk_image_info info;
    double before = heap();
    bench_must((int)kpk_open(image_path, NULL, &image), "kpk_open");
    double opened = heap();
    bench_must((int)kpk_bind(image, 0), "kpk_bind");
    double bound = heap();
    bench_must((int)kpk_preload(image, NULL, 0), "kpk_preload");
    double used = heap();
    bench_must((int)kpk_get_image(image, &info), "kpk_get_image");
    printf("  memory, KiB: after open %.0f, after bind %.0f more, after preload %.0f more (the "
           "driver's own included); the image has %.0f, its cubins %.0f\n",
           opened - before, bound - opened, used - bound, (double)info.file_bytes / 1024,
           (double)info.raw_bytes / 1024);
    kpk_close(image);
}

static double file_bytes(const char *suffix)
{
    double sum = 0;
    for (size_t i = 0; i < module_count; i++) {
        size_t size;
        free(bench_read(peer_path(suffix, i), &size));
        sum += (double)size;
    }
    return sum;
}

static void each_alone(void)
{
    static double by_cubin[MAX_MODULES], by_fatbin[MAX_MODULES];
    bool few = module_count <= 64;
    for (size_t i = 0; i < module_count; i++) {
        struct cost costs[WAYS];
        double open;
        first_use(i, 1, few ? MAX_ROUNDS : 5, costs, &open);
        by_cubin[i] = costs[IMAGE].function / costs[CUBIN].function;
        by_fatbin[i] = costs[IMAGE].function / costs[FATBIN].function;
        if (few)
            printf("%-34s cubin %6.0f us, fatbin %6.0f, image %6.0f: %.2f, %.2f\n", modules[i].name,
                   costs[CUBIN].function / 1e3, costs[FATBIN].function / 1e3,
                   costs[IMAGE].function / 1e3, by_cubin[i], by_fatbin[i]);
    }
    printf("  first use of one module alone, of %zu: image / cubin median %.2f, nine tenths %.2f; "
           "image / fatbin median %.2f, nine tenths %.2f\n",
           module_count, bench_median(by_cubin, module_count),
           bench_quantile(by_cubin, module_count, 0.9), bench_median(by_fatbin, module_count),
           bench_quantile(by_fatbin, module_count, 0.9));
}

static void print_all(const char *what, double cubin, double fatbin, double image)
{
    printf("  first use of all, %s: cubins %.0f us, fatbins %.0f, image %.0f: %.2f of cubins, %.2f "
           "of fatbins\n",
           what, cubin / 1e3, fatbin / 1e3, image / 1e3, image / cubin, image / fatbin);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4)
        bench_fail("usage: load IMAGE PEERS [ROUNDS]");
    image_path = argv[1];
    peers_path = argv[2];
    if (argc == 4)
        rounds = atoi(argv[3]);
    if (rounds < 1 || rounds > MAX_ROUNDS)
        bench_fail("'%s' rounds, expected 1 to %d", argv[3], MAX_ROUNDS);
    module_count = bench_list(peers_path, modules, MAX_MODULES);
    driver = bench_driver();
    kpk_image *image;
    kpk_image_info info;
    bench_must((int)kpk_open(image_path, NULL, &image), "kpk_open");
    bench_must((int)kpk_get_image(image, &info), "kpk_get_image");
    struct launches launches = launch_cost();
    struct cost costs[WAYS];
    double open;
    first_use(0, module_count, MAX_ROUNDS, costs, &open);
    double preload = preload_cost(), fatbins = file_bytes("fatbin");
    printf("%s, %u modules, %u entries:\n", info.target, info.module_count, info.entry_count);
    each_alone();
    memory_cost();
    printf("  size: image %llu bytes, fatbins %.0f: %.3f of them\n",
           (unsigned long long)info.file_bytes, fatbins,
           ((double)info.file_bytes - 4096) / fatbins);
    print_all("to the CUkernel", costs[CUBIN].kernel, costs[FATBIN].kernel, costs[IMAGE].kernel);
    print_all("to the CUfunction", costs[CUBIN].function, costs[FATBIN].function,
              costs[IMAGE].function);
    printf("  open + bind %.0f us; preload of all %.0f us\n", open / 1e3, preload / 1e3);
    printf("  launch: cuLaunchKernel %.0f ns, kpk_launch %+.0f ns, through an overlay %+.0f ns\n",
           launches.bare, launches.image - launches.bare, launches.overlay - launches.bare);
    kpk_close(image);
    return 0;
}
