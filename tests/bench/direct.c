/* Why workers are processes: compiles sources by NVRTC's C interface alone, in N threads of one
 * process or in N processes, and prints the wall time.
 *
 *     direct threads|processes N NVRTC ARCH SOURCE...   (in the sources' root)
 *     direct spin N                                     what N processes that only count take
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WORKERS_MAX = 256
};

struct shared {
    atomic_int next, failed;
};

static struct shared *shared;
static char **sources;
static int source_count;
static const char *nvrtc_path, *arch;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    if (!file || !text || !fread(text, 1, (1 << 20) - 1, file))
        return NULL;
    fclose(file);
    return text;
}

static bool compile(void *handle, const char *path)
{
    int (*create)(void **, const char *, const char *, int, const char **, const char **);
    int (*run)(void *, int, const char *const *), (*size_of)(void *, size_t *),
        (*get)(void *, char *), (*destroy)(void **);
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {{"nvrtcCreateProgram", &create},
                  {"nvrtcCompileProgram", &run},
                  {"nvrtcGetCUBINSize", &size_of},
                  {"nvrtcGetCUBIN", &get},
                  {"nvrtcDestroyProgram", &destroy}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *address = dlsym(handle, wanted[i].name);
        if (!address)
            return false;
        memcpy(wanted[i].slot, &address, sizeof address);
    }
    const char *options[] = {arch, "--ptxas-options=-v", "-no-cache"};
    void *program;
    size_t size = 0;
    char *text = read_file(path), *cubin = NULL;
    bool ok = text && create(&program, text, path, 0, NULL, NULL) == 0;
    if (ok) {
        ok = run(program, 3, options) == 0 && size_of(program, &size) == 0 &&
             (cubin = malloc(size)) && get(program, cubin) == 0;
        destroy(&program);
    }
    free(cubin);
    free(text);
    return ok;
}

static void *work(void *unused)
{
    (void)unused;
    void *handle = dlopen(nvrtc_path, RTLD_NOW | RTLD_LOCAL);
    int at;
    while ((at = atomic_fetch_add(&shared->next, 1)) < source_count)
        if (!handle || !compile(handle, sources[at]))
            atomic_fetch_add(&shared->failed, 1);
    return NULL;
}

static void *spin(void *unused)
{
    (void)unused;
    for (volatile long i = 0; i < 1000000000L; i++)
        ;
    return NULL;
}

static void in_threads(void *(*body)(void *), int count)
{
    pthread_t threads[WORKERS_MAX];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, body, NULL) != 0)
            abort();
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void in_processes(void *(*body)(void *), int count)
{
    for (int i = 0; i < count; i++)
        if (fork() == 0) {
            body(NULL);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
}

int main(int argc, char **argv)
{
    bool spins = argc == 3 && strcmp(argv[1], "spin") == 0;
    int count = argc > 2 ? atoi(argv[2]) : 0;
    if ((argc < 6 && !spins) || count < 1 || count > WORKERS_MAX)
        return 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || setenv("CUDA_CACHE_DISABLE", "1", 1) != 0)
        return 1;
    if (!spins) {
        static char text[64];
        snprintf(text, sizeof text, "--gpu-architecture=%s", argv[4]);
        nvrtc_path = argv[3];
        arch = text;
        sources = argv + 5;
        source_count = argc - 5;
    }
    double start = now();
    (strcmp(argv[1], "threads") == 0 ? in_threads : in_processes)(spins ? spin : work, count);
    printf("%.3f\n", now() - start);
    return atomic_load(&shared->failed) != 0;
}
