/* What the loader does on a real device, each line PASS or FAIL:
 *
 *   loader CORPUS FIX HOPPER GB10
 *
 * CORPUS and FIX are the images of tests/bench/load_corpus.py, whose kernels leave their module's
 * number behind their output. The status is 1 when a line is FAIL.
 */
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bench/driver.h"
#include "runtime/kpk.h"

enum {
    THREADS = 16,
    SET = 24,
    LAUNCHES = 50,
    MAX_ARGS = 32,
    NONBLOCKING = 1, /* CU_STREAM_NON_BLOCKING */
};

static struct bench_driver driver;
static void *context;
static unsigned failures;
static char message[1024];

static void keep(void *user, kpk_severity severity, const char *text)
{
    (void)user;
    (void)severity;
    snprintf(message, sizeof message, "%s", text);
}

static void check(bool held, const char *what, const char *note)
{
    printf("%s %s%s%s\n", held ? "PASS" : "FAIL", what, note[0] != '\0' ? ": " : "", note);
    failures += !held;
}

static kpk_image *open_image(const char *path)
{
    kpk_open_desc desc = {.message = keep};
    kpk_image *image = NULL;
    message[0] = '\0';
    if (kpk_open(path, &desc, &image) != KPK_OK || kpk_bind(image, 0) != KPK_OK)
        bench_fail("%s: %s", path, message);
    return image;
}

/* ---- One kernel of the corpus, its output and its stream ---- */

struct run {
    kpk_kernel kernel;
    float number; /* what it must leave */
    uint64_t out;
    void *stream;
    void *args[3];
};

static kpk_kernel nth(kpk_image *image, uint32_t module, float *out_number)
{
    kpk_module_info info;
    int64_t number = -1;
    bench_must((int)kpk_get_module(image, module, &info), "kpk_get_module");
    bench_must((int)kpk_constant(image, info.name, "NUMBER", &number), "kpk_constant");
    *out_number = (float)number;
    return kpk_resolve(image, info.name, "run");
}

static void start_run(struct run *run)
{
    static int none = 0;
    bench_must(driver.cuStreamCreate(&run->stream, NONBLOCKING), "cuStreamCreate");
    bench_must(driver.cuMemAlloc_v2(&run->out, 64), "cuMemAlloc");
    bench_must(driver.cuMemsetD8_v2(run->out, 0xff, 64), "cuMemsetD8");
    bench_must(driver.cuCtxSynchronize(), "cuCtxSynchronize");
    run->args[0] = run->args[1] = &run->out;
    run->args[2] = &none;
}

static kpk_status launch(kpk_image *image, struct run *run)
{
    return kpk_launch(image, run->kernel, (kpk_grid){1, 1, 1}, 0, run->stream, run->args);
}

/* Waits, and says whether the kernel was there. */
static bool ran(const struct run *run)
{
    float found = -1;
    return driver.cuStreamSynchronize(run->stream) == 0 &&
           driver.cuMemcpyDtoH_v2(&found, run->out, sizeof found) == 0 && found == run->number;
}

static void end_run(struct run *run)
{
    driver.cuStreamDestroy_v2(run->stream);
    driver.cuMemFree_v2(run->out);
}

static bool replay(void *graph, struct run *run)
{
    void *exec = NULL;
    bool ok = driver.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0 &&
              driver.cuGraphLaunch(exec, run->stream) == 0 && ran(run);
    if (exec != NULL)
        driver.cuGraphExecDestroy(exec);
    return ok;
}

/* ---- Captures ----------------------------------------------------------------------------------
 */

static const char *const modes[] = {"global", "thread-local", "relaxed"};

/* A first use while its stream is captured: it works, or it names the remedy and does no harm. */
static void first_use_in_capture(kpk_image *image, int mode, uint32_t module)
{
    char what[128];
    void *graph = NULL;
    struct run run = {0};
    snprintf(what, sizeof what, "first use into a stream under %s capture", modes[mode]);
    run.kernel = nth(image, module, &run.number);
    start_run(&run);
    message[0] = '\0';
    bench_must(driver.cuStreamBeginCapture_v2(run.stream, mode), "cuStreamBeginCapture");
    kpk_status status = launch(image, &run);
    int end = driver.cuStreamEndCapture(run.stream, &graph);
    if (status == KPK_OK)
        check(end == 0 && replay(graph, &run), what,
              end == 0 ? "works, and the graph runs it" : "launches, but the capture is invalid");
    else
        check(status == KPK_ERR_CAPTURE && strstr(message, "kpk_preload") != NULL &&
                  launch(image, &run) == KPK_OK && ran(&run),
              what, message);
    if (graph != NULL)
        driver.cuGraphDestroy(graph);
    end_run(&run);
}

/* The same on a stream beside one that is captured. */
static void first_use_beside_capture(kpk_image *image, int mode, uint32_t module)
{
    char what[128];
    void *graph = NULL;
    struct run other = {0}, run = {0};
    snprintf(what, sizeof what, "first use beside a stream under %s capture", modes[mode]);
    run.kernel = nth(image, module, &run.number);
    start_run(&run);
    start_run(&other);
    message[0] = '\0';
    bench_must(driver.cuStreamBeginCapture_v2(other.stream, mode), "cuStreamBeginCapture");
    kpk_status status = launch(image, &run);
    int end = driver.cuStreamEndCapture(other.stream, &graph);
    bool named = status == KPK_ERR_CAPTURE && strstr(message, "kpk_preload") != NULL;
    if (named)
        check(launch(image, &run) == KPK_OK && ran(&run), what, message);
    else
        check(status == KPK_OK && ran(&run) && end == 0, what,
              status != KPK_OK ? message
              : end != 0       ? "works, but the capture is invalidated"
                               : "works, and the capture goes on");
    if (graph != NULL)
        driver.cuGraphDestroy(graph);
    end_run(&other);
    end_run(&run);
}

/* Every kernel of an image, its shared memory opted in to during the capture; not replayed. Two
 * blocks: a kernel whose clusters have two refuses one. */
static void every_first_use_in_capture(const char *path)
{
    static alignas(128) char zero[MAX_ARGS][4096];
    void *args[MAX_ARGS], *stream;
    kpk_image *image = open_image(path);
    kpk_image_info info;
    unsigned works = 0, named = 0, broken = 0;
    for (int i = 0; i < MAX_ARGS; i++)
        args[i] = zero[i];
    bench_must((int)kpk_get_image(image, &info), "kpk_get_image");
    for (uint32_t i = 0; i < info.entry_count; i++) {
        kpk_entry_info entry;
        void *graph = NULL;
        bench_must((int)kpk_get_entry(image, i, &entry), "kpk_get_entry");
        bench_must(driver.cuStreamCreate(&stream, NONBLOCKING), "cuStreamCreate");
        bench_must(driver.cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
        kpk_status status = kpk_launch(image, entry.kernel, (kpk_grid){2, 1, 1}, 0, stream, args);
        int end = driver.cuStreamEndCapture(stream, &graph);
        if (status == KPK_OK && end == 0)
            works++;
        else if (status == KPK_ERR_CAPTURE && strstr(message, "kpk_preload") != NULL)
            named++;
        else
            broken++;
        if (graph != NULL)
            driver.cuGraphDestroy(graph);
        driver.cuStreamDestroy_v2(stream);
    }
    char note[1200];
    snprintf(note, sizeof note, "%u work, %u name kpk_preload, %u neither; %s", works, named,
             broken, message);
    check(broken == 0, "first use of each kernel of hopper.kpk into a capture", note);
    kpk_close(image);
}

static void preload_then_capture(kpk_image *image, uint32_t first)
{
    static struct run runs[SET];
    kpk_kernel set[SET];
    void *graph = NULL;
    bool ok = true;
    for (uint32_t i = 0; i < SET; i++) {
        runs[i].kernel = set[i] = nth(image, first + i, &runs[i].number);
        start_run(&runs[i]);
    }
    ok = !kpk_resident(image, set, SET) && kpk_preload(image, set, SET) == KPK_OK &&
         kpk_resident(image, set, SET);
    bench_must(driver.cuStreamBeginCapture_v2(runs[0].stream, 0), "cuStreamBeginCapture");
    for (uint32_t i = 0; i < SET; i++)
        ok = kpk_launch(image, set[i], (kpk_grid){1, 1, 1}, 0, runs[0].stream, runs[i].args) ==
                 KPK_OK &&
             ok;
    ok = driver.cuStreamEndCapture(runs[0].stream, &graph) == 0 && ok && replay(graph, &runs[0]);
    for (uint32_t i = 0; i < SET; i++)
        ok = ran(&runs[i]) && ok;
    check(ok, "a set that is preloaded is captured whole and runs", ok ? "" : message);
    if (graph != NULL)
        driver.cuGraphDestroy(graph);
    for (uint32_t i = 0; i < SET; i++)
        end_run(&runs[i]);
}

/* ---- Threads and contexts ----------------------------------------------------------------------
 */

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    kpk_image *image;
    uint32_t first;
    unsigned index;
    bool ok;
};

static void *use_image(void *user)
{
    struct worker *worker = user;
    struct run run = {0};
    worker->ok = driver.cuCtxSetCurrent(context) == 0;
    start_run(&run);
    /* All at once the same one first, then each in an order of its own. */
    for (uint32_t i = 0; i < SET; i++) {
        uint32_t at = i == 0 ? 0 : (i * (2 * worker->index + 1) + worker->index) % SET;
        run.kernel = nth(worker->image, worker->first + at, &run.number);
        if (i == 0)
            pthread_barrier_wait(worker->barrier);
        for (int n = 0; n < LAUNCHES; n++)
            worker->ok = launch(worker->image, &run) == KPK_OK && worker->ok;
        worker->ok = ran(&run) && worker->ok;
    }
    end_run(&run);
    return NULL;
}

static void many_threads(kpk_image *image, uint32_t first)
{
    struct worker workers[THREADS];
    pthread_barrier_t barrier;
    bool ok = true;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] =
            (struct worker){.barrier = &barrier, .image = image, .first = first, .index = i};
        if (pthread_create(&workers[i].thread, NULL, use_image, &workers[i]) != 0)
            bench_fail("pthread_create");
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        ok = workers[i].ok && ok;
    }
    pthread_barrier_destroy(&barrier);
    check(ok, "first uses and launches from 16 threads, a stream each", ok ? "" : message);
}

/* One handle in two contexts of the device. */
static void second_context(kpk_image *image, uint32_t module)
{
    struct run here = {0}, there = {0};
    void *second = NULL;
    int device;
    here.kernel = there.kernel = nth(image, module, &here.number);
    there.number = here.number;
    start_run(&here);
    bool ok = launch(image, &here) == KPK_OK && ran(&here);
    bench_must(driver.cuDeviceGet(&device, 0), "cuDeviceGet");
    bench_must(driver.cuCtxCreate_v2(&second, 0, device), "cuCtxCreate"); /* current from now on */
    start_run(&there);
    ok = kpk_preload(image, &there.kernel, 1) == KPK_OK && launch(image, &there) == KPK_OK &&
         ran(&there) && ok;
    end_run(&there);
    bench_must(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    ok = launch(image, &here) == KPK_OK && ran(&here) && ok;
    bench_must(driver.cuCtxDestroy_v2(second), "cuCtxDestroy");
    ok = launch(image, &here) == KPK_OK && ran(&here) && ok;
    end_run(&here);
    check(ok, "one handle in two contexts, and after one of them is gone", ok ? "" : message);
}

/* ---- Overlays, memory, devices -----------------------------------------------------------------
 */

static void hot_fix(const char *corpus, const char *fix)
{
    kpk_image *base = open_image(corpus), *front = open_image(fix), *overlay = NULL;
    kpk_module_info module;
    struct run fixed = {0}, old = {0}, rest = {0};
    bool ok = kpk_overlay(base, front, &overlay) == KPK_OK && kpk_bind(overlay, 0) == KPK_OK;
    bench_must((int)kpk_get_module(front, 0, &module), "kpk_get_module");
    uint32_t same = 0;
    bench_must((int)kpk_find_module(base, module.name, &same), "kpk_find_module");
    old.kernel = nth(base, same, &old.number);
    rest.kernel = nth(base, same == 0 ? 1 : 0, &rest.number);
    fixed.number = 1000;
    fixed.kernel = ok ? kpk_resolve(overlay, module.name, "run") : old.kernel;
    start_run(&fixed);
    start_run(&old);
    start_run(&rest);
    ok = ok && launch(overlay, &fixed) == KPK_OK && ran(&fixed) && launch(base, &old) == KPK_OK &&
         ran(&old);
    kpk_close(base);
    kpk_close(front);
    ok = ok && launch(overlay, &rest) == KPK_OK && ran(&rest) &&
         launch(overlay, &fixed) == KPK_OK && ran(&fixed);
    check(ok, "a fix in front of the corpus: its kernel, the base's own, and what falls through",
          ok ? "" : message);
    kpk_close(overlay);
    end_run(&fixed);
    end_run(&old);
    end_run(&rest);
}

static void from_memory(const char *corpus)
{
    kpk_open_desc desc = {.message = keep};
    kpk_image *image = NULL;
    struct run run = {0};
    size_t size;
    void *bytes = bench_read(corpus, &size);
    bool ok = kpk_open_memory(bytes, size, &desc, &image) == KPK_OK && kpk_bind(image, 0) == KPK_OK;
    if (ok) {
        run.kernel = nth(image, 5, &run.number);
        start_run(&run);
        ok = launch(image, &run) == KPK_OK && ran(&run);
        end_run(&run);
    }
    check(ok, "an image in memory", ok ? "" : message);
    kpk_close(image);
    free(bytes);
}

static void wrong_device(const char *path)
{
    kpk_open_desc desc = {.message = keep};
    kpk_image *image = NULL;
    bench_must((int)kpk_open(path, &desc, &image), path);
    kpk_status status = kpk_bind(image, 0);
    check(status == KPK_ERR_WRONG_DEVICE && strstr(message, "sm_121a") != NULL &&
              strstr(message, "9.0") != NULL,
          "an image for another device names both sides", message);
    kpk_close(image);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        bench_fail("usage: loader CORPUS FIX HOPPER GB10");
    driver = bench_driver();
    int device;
    bench_must(driver.cuDeviceGet(&device, 0), "cuDeviceGet");
    bench_must(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    kpk_image *image = open_image(argv[1]);
    for (int mode = 0; mode < 3; mode++)
        first_use_in_capture(image, mode, 300 + (uint32_t)mode);
    for (int mode = 0; mode < 3; mode++)
        first_use_beside_capture(image, mode, 310 + (uint32_t)mode);
    every_first_use_in_capture(argv[3]);
    preload_then_capture(image, 200);
    many_threads(image, 100);
    second_context(image, 50);
    kpk_close(image);
    hot_fix(argv[1], argv[2]);
    from_memory(argv[1]);
    wrong_device(argv[4]);
    bench_must(driver.cuCtxSynchronize(), "cuCtxSynchronize");
    return failures != 0;
}
