#include "cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The driver's own names for its functions; they are not declared anywhere here. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

struct kernel {
    struct kernel *next;
    char name[FAKE_NAME];
    int smem[FAKE_DEVICES]; /* opted in to */
};

struct library {
    char *text; /* owned; NULL: an ELF */
    struct kernel *kernels;
};

static struct fake_cuda state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void defaults(void)
{
    memset(&state, 0, sizeof(state));
    state.version = 13000;
    state.device_count = 1;
    for (int i = 0; i < FAKE_DEVICES; i++)
        state.devices[i] = (struct fake_device){9, 0, 49152, 232448, "NVIDIA H200"};
    state.context = &state;
}

struct fake_cuda *fake_cuda_state(void)
{
    pthread_once(&once, defaults);
    return &state;
}

void fake_cuda_reset(void)
{
    fake_cuda_state();
    defaults();
}

unsigned long fake_cuda_calls(void)
{
    unsigned long sum = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FAKE_FUNCTION_COUNT; i++) {
        if (i != FAKE_cuGetErrorName && i != FAKE_cuGetErrorString)
            sum += state.calls[i];
    }
    pthread_mutex_unlock(&lock);
    return sum;
}

/* Programs that cannot reach the state leave their calls in this file, one line each. */
static void append_log(const char *line)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    if (file == NULL)
        return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

/* Takes the lock, counts the call and says which error it must return. */
static int enter(enum fake_function function, const char *name)
{
    fake_cuda_state();
    pthread_mutex_lock(&lock);
    append_log(name);
    unsigned long call = ++state.calls[function];
    if (state.fail_call[function] != 0 && state.fail_call[function] != call)
        return 0;
    return state.fail_with[function];
}

static int leave(int error)
{
    pthread_mutex_unlock(&lock);
    return error;
}

#define ENTER(name)                                                                                \
    int error = enter(FAKE_##name, #name);                                                         \
    if (error != 0)                                                                                \
    return leave(error)

int cuDriverGetVersion(int *version)
{
    ENTER(cuDriverGetVersion);
    *version = state.version;
    return leave(0);
}

int cuInit(unsigned flags)
{
    ENTER(cuInit);
    return leave(flags == 0 ? 0 : 1);
}

int cuDeviceGet(int *device, int ordinal)
{
    ENTER(cuDeviceGet);
    if (ordinal < 0 || ordinal >= state.device_count)
        return leave(101);
    *device = ordinal + 10; /* a handle is not an ordinal */
    return leave(0);
}

int cuDeviceGetName(char *name, int size, int device)
{
    ENTER(cuDeviceGetName);
    snprintf(name, (size_t)size, "%s", state.devices[device - 10].name);
    return leave(0);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    ENTER(cuDeviceGetAttribute);
    const struct fake_device *info = &state.devices[device - 10];
    switch (attribute) {
    case 8:
        *value = info->max_smem;
        return leave(0);
    case 75:
        *value = info->major;
        return leave(0);
    case 76:
        *value = info->minor;
        return leave(0);
    case 97:
        *value = info->max_smem_optin;
        return leave(0);
    default:
        return leave(1);
    }
}

int cuGetErrorName(int number, const char **text)
{
    ENTER(cuGetErrorName);
    *text = number == 209   ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
            : number == 900 ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
                            : "CUDA_ERROR_FAKE";
    return leave(0);
}

int cuGetErrorString(int number, const char **text)
{
    ENTER(cuGetErrorString);
    *text = number == 209   ? "no kernel image is available"
            : number == 900 ? "operation not permitted when stream is capturing"
                            : "the fake driver was told to fail";
    return leave(0);
}

int cuCtxGetCurrent(void **context)
{
    ENTER(cuCtxGetCurrent);
    *context = state.context;
    return leave(0);
}

int cuLibraryLoadData(struct library **library, const void *code, int *jit_options,
                      void **jit_values, unsigned jit_count, int *library_options,
                      void **library_values, unsigned library_count)
{
    ENTER(cuLibraryLoadData);
    if (jit_options != NULL || jit_values != NULL || jit_count != 0 || library_options != NULL ||
        library_values != NULL || library_count != 0 || (uintptr_t)code % 8 != 0)
        return leave(1);
    bool text = memcmp(code, "FAKE", 4) == 0;
    if (!text && memcmp(code,
                        "\x7f"
                        "ELF",
                        4) != 0)
        return leave(200);
    struct library *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return leave(2);
    if (text) {
        made->text = strdup(code);
        snprintf(state.loaded_text, sizeof(state.loaded_text), "%s", made->text);
    }
    state.libraries++;
    *library = made;
    return leave(0);
}

int cuLibraryUnload(struct library *library)
{
    /* Unloads even when it reports an error: nobody could try again. */
    int error = enter(FAKE_cuLibraryUnload, "cuLibraryUnload");
    while (library->kernels != NULL) {
        struct kernel *kernel = library->kernels;
        library->kernels = kernel->next;
        free(kernel);
    }
    free(library->text);
    free(library);
    state.libraries--;
    return leave(error);
}

static bool has_entry(const char *text, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = strchr(text, ' '); at != NULL; at = strchr(at + 1, ' ')) {
        if (strncmp(at + 1, name, size) == 0 && (at[1 + size] == ' ' || at[1 + size] == '\0'))
            return true;
    }
    return false;
}

int cuLibraryGetKernel(struct kernel **kernel, struct library *library, const char *name)
{
    ENTER(cuLibraryGetKernel);
    if (library->text != NULL && !has_entry(library->text, name))
        return leave(500);
    struct kernel *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return leave(2);
    snprintf(made->name, sizeof(made->name), "%s", name);
    made->next = library->kernels;
    library->kernels = made;
    *kernel = made;
    return leave(0);
}

int cuKernelSetAttribute(int attribute, int value, struct kernel *kernel, int device)
{
    ENTER(cuKernelSetAttribute);
    if (attribute != 8 || kernel == NULL || value > state.devices[device - 10].max_smem_optin)
        return leave(1);
    kernel->smem[device - 10] = value;
    state.attributes++;
    state.attribute_value = value;
    state.attribute_device = device - 10;
    return leave(0);
}

int cuKernelGetFunction(void **function, struct kernel *kernel)
{
    ENTER(cuKernelGetFunction);
    *function = kernel;
    return leave(0);
}

int cuFuncLoad(void *function)
{
    ENTER(cuFuncLoad);
    return leave(function != NULL ? 0 : 1);
}

/* CUlaunchConfig and CUlaunchAttribute. */
struct launch_attribute {
    int id, pad, value[16];
};

struct launch_config {
    unsigned grid[3], block[3], smem;
    void *stream;
    const struct launch_attribute *attributes;
    unsigned attribute_count;
};

static int launch(const struct kernel *kernel, const struct launch_config *config, void **args,
                  void **extra)
{
    int here = state.context_device;
    if (extra != NULL || (config->smem > (unsigned)state.devices[here].max_smem &&
                          config->smem > (unsigned)kernel->smem[here]))
        return 1;
    state.launches_on[here]++;
    if (state.launches < FAKE_LAUNCHES) {
        struct fake_launch *seen = &state.launch[state.launches];
        *seen = (struct fake_launch){.smem = config->smem, .stream = config->stream, .args = args};
        memcpy(seen->entry, kernel->name, sizeof(seen->entry));
        memcpy(seen->grid, config->grid, sizeof(seen->grid));
        memcpy(seen->block, config->block, sizeof(seen->block));
        for (unsigned i = 0; i < config->attribute_count; i++)
            seen->overlapped |=
                config->attributes[i].id == 6 && config->attributes[i].value[0] == 1;
    }
    state.launches++;
    return 0;
}

int cuLaunchKernel(struct kernel *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned smem,
                   void *stream, void **args, void **extra)
{
    ENTER(cuLaunchKernel);
    const struct launch_config config = {.grid = {grid_x, grid_y, grid_z},
                                         .block = {block_x, block_y, block_z},
                                         .smem = smem,
                                         .stream = stream};
    return leave(launch(kernel, &config, args, extra));
}

int cuLaunchKernelEx(const struct launch_config *config, struct kernel *kernel, void **args,
                     void **extra)
{
    ENTER(cuLaunchKernelEx);
    return leave(launch(kernel, config, args, extra));
}

void *fake_cuda_symbol(void *user, const char *name)
{
    (void)user;
    fake_cuda_state();
#define FAKE_FIND(function)                                                                        \
    if (strcmp(name, #function) == 0) {                                                            \
        void (*address)(void) = (void (*)(void))function;                                          \
        void *pointer = NULL;                                                                      \
        memcpy(&pointer, &address, sizeof(pointer));                                               \
        return state.hidden[FAKE_##function] ? NULL : pointer;                                     \
    }
    FAKE_CUDA_FUNCTIONS(FAKE_FIND)
#undef FAKE_FIND
    return NULL;
}
