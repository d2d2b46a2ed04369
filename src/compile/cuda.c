#include "compile/cuda.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc.h"
#include "base/watch.h"
#include "compile/nvrtc.h"

enum {
    MAX_TRIED = 64,
    MAX_INCLUDES = 16
};

#define NVRTC_PREFIX "libnvrtc.so."

struct search {
    struct arena *arena;
    struct cuda *cuda;
    const char *found; /* in the last place looked at */
};

/* As realpath; a watch that is on notes the answer. */
static char *real_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (real)
        watch_note_link(path, real);
    else
        watch_note_type(path);
    return real;
}

/* Keeps what a place turned out to hold; returns false. */
static bool tried(struct search *search, const char *place, const char *found)
{
    search->found = found;
    if (search->cuda->tried_count < MAX_TRIED)
        search->cuda->tried[search->cuda->tried_count++] =
            arena_printf(search->arena, "%s: %s", place, found);
    return false;
}

/* The number behind PREFIX in "libnvrtc.so.13" or "libnvrtc.so.11.8.89", -1 when it is none. */
static long library_number(const char *name, const char *prefix)
{
    if (!str_starts(name, prefix))
        return -1;
    const char *digits = name + strlen(prefix);
    if (!*digits || strspn(digits, "0123456789.") != strlen(digits))
        return -1;
    return strtol(digits, NULL, 10);
}

/* The file PREFIX.N of the folder with the greatest N, the shortest name of several; NULL when
 * there is none. */
static const char *newest_library(struct search *search, const char *folder, const char *prefix)
{
    watch_note_names(folder);
    DIR *dir = opendir(folder);
    if (!dir)
        return NULL;
    const char *best = NULL;
    long best_number = -1;
    for (struct dirent *item; (item = readdir(dir));) {
        long number = library_number(item->d_name, prefix);
        if (number < 0 || number < best_number ||
            (number == best_number && strlen(item->d_name) >= strlen(path_base(best))))
            continue;
        char *path = path_join(search->arena, folder, item->d_name);
        if (!file_is_regular(path))
            continue;
        best = path;
        best_number = number;
    }
    closedir(dir);
    return best;
}

/* Library folders inside one CUDA: of a toolkit, of Debian's packages, of CUDA 13 wheels, of CUDA
 * 12 wheels (one folder per package). Header folders follow the same plan. */
static const char *const library_folders[] = {
    "lib64",
    "lib",
    "targets/x86_64-linux/lib",
    "targets/sbsa-linux/lib",
    "nvidia/cu14/lib",
    "nvidia/cu13/lib",
    "nvidia/cuda_nvrtc/lib",
    "nvidia/nvjitlink/lib",
    "cuda_nvrtc/lib",
    "nvjitlink/lib",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "",
};
static const char *const header_folders[] = {
    "include",
    "targets/x86_64-linux/include",
    "targets/sbsa-linux/include",
    "nvidia/cu14/include",
    "nvidia/cu13/include",
    "nvidia/cuda_runtime/include",
    "nvidia/cuda_nvcc/include",
    "nvidia/cuda_cccl/include",
    "nvidia/curand/include",
    "cuda_runtime/include",
    "cuda_nvcc/include",
    "cuda_cccl/include",
    "curand/include",
    "../include",
};

static const char *find_library(struct search *search, const char *dir, const char *prefix)
{
    for (size_t i = 0; i < sizeof library_folders / sizeof *library_folders; i++) {
        const char *folder = library_folders[i];
        if (*folder)
            folder = path_join(search->arena, dir, folder);
        const char *found = newest_library(search, *folder ? folder : dir, prefix);
        if (found)
            return found;
    }
    return NULL;
}

static void find_headers(struct search *search, const char *dir)
{
    struct cuda *cuda = search->cuda;
    for (size_t i = 0; i < sizeof header_folders / sizeof *header_folders; i++) {
        char *real = real_path(path_join(search->arena, dir, header_folders[i]));
        bool wanted = real && file_is_dir(real) && cuda->include_count < MAX_INCLUDES;
        for (size_t j = 0; wanted && j < cuda->include_count; j++)
            wanted = strcmp(cuda->includes[j], real) != 0;
        /* "../include" serves a --cuda that names the library folder itself. */
        if (wanted && str_starts(header_folders[i], ".."))
            wanted =
                !cuda->include_count && file_is_regular(path_join(search->arena, real, "cuda.h"));
        if (wanted)
            cuda->includes[cuda->include_count++] = arena_strdup(search->arena, real);
        free(real);
    }
}

/* Workers change to the project's root before they open a library. */
static const char *absolute(struct arena *arena, const char *dir)
{
    char *real = *dir == '/' ? NULL : real_path(dir);
    const char *result = real ? arena_strdup(arena, real) : dir;
    free(real);
    return result;
}

static bool try_dir(struct search *search, const char *dir, const char *found_by)
{
    if (!file_is_dir(dir))
        return tried(search, dir, "no such folder");
    const char *at = absolute(search->arena, dir);
    const char *nvrtc = find_library(search, at, NVRTC_PREFIX);
    if (!nvrtc)
        return tried(search, dir, "no libnvrtc.so.N");
    /* What is newer says its version only once it is opened. */
    if (library_number(path_base(nvrtc), NVRTC_PREFIX) < NVRTC_LEAST_MAJOR)
        return tried(search, dir,
                     arena_printf(search->arena, "%s is older than 12.4", path_base(nvrtc)));
    struct cuda *cuda = search->cuda;
    char *real = real_path(dir);
    cuda->dir = arena_strdup(search->arena, dir);
    cuda->found_by = found_by;
    cuda->nvrtc = nvrtc;
    cuda->nvjitlink = find_library(search, at, "libnvJitLink.so.");
    find_headers(search, real ? real : dir);
    free(real);
    tried(search, dir, nvrtc);
    return true;
}

static bool try_named(struct search *search, const char *dir, const char *found_by,
                      struct diags *diags)
{
    return try_dir(search, dir, found_by) ||
           diag_error(diags,
                      "no usable NVRTC in '%s', which %s names: %s; expected a CUDA toolkit or "
                      "unpacked NVIDIA wheels, 12.4 or newer; 'kpack doctor' says what is "
                      "looked at",
                      dir, found_by, search->found);
}

static int by_version_down(const void *a, const void *b)
{
    return strverscmp(*(const char *const *)b, *(const char *const *)a);
}

/* PARENT/cuda-N, newest first. */
static bool try_versions(struct search *search, const char *parent)
{
    const char *names[MAX_TRIED];
    size_t count = 0;
    watch_note_names(parent);
    DIR *dir = opendir(parent);
    if (!dir)
        return false;
    for (struct dirent *item; count < MAX_TRIED && (item = readdir(dir));)
        if (str_starts(item->d_name, "cuda-"))
            names[count++] = path_join(search->arena, parent, item->d_name);
    closedir(dir);
    qsort(names, count, sizeof *names, by_version_down);
    for (size_t i = 0; i < count; i++)
        if (try_dir(search, names[i], "the usual folders"))
            return true;
    return false;
}

static bool try_out(struct search *search, const char *root)
{
    char *self = proc_self(search->arena);
    char *beside = path_join(search->arena, path_dir(search->arena, self), "../cuda");
    char *below = path_join(search->arena, root ? root : ".", "out/cuda");
    return try_dir(search, below, "out/cuda") || try_dir(search, beside, "out/cuda");
}

bool cuda_find(const char *explicit_dir, const char *root, struct arena *arena,
               struct cuda *out_cuda, struct diags *diags)
{
    *out_cuda = (struct cuda){
        .tried = arena_alloc(arena, MAX_TRIED, sizeof *out_cuda->tried),
        .includes = arena_alloc(arena, MAX_INCLUDES, sizeof *out_cuda->includes),
    };
    struct search search = {.arena = arena, .cuda = out_cuda};
    if (explicit_dir)
        return try_named(&search, explicit_dir, "--cuda", diags);
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    for (size_t i = 0; i < 2; i++) {
        const char *value = getenv(variables[i]);
        if (value && *value)
            return try_named(&search, value, variables[i], diags);
    }
    static const char *const usual[] = {"/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda"};
    if (try_dir(&search, usual[0], "the usual folders") || try_versions(&search, "/usr/local"))
        return true;
    for (size_t i = 1; i < 3; i++)
        if (try_dir(&search, usual[i], "the usual folders"))
            return true;
    if (try_out(&search, root))
        return true;
    return diag_error(
        diags,
        "no CUDA found: install the CUDA toolkit, 12.4 or newer, or run 'make cuda', which puts "
        "NVIDIA's wheels into out/cuda, or name a folder with --cuda, CUDA_HOME or CUDA_PATH");
}
