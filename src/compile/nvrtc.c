#include "compile/nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static bool find_functions(const char *path, struct nvrtc *nvrtc, struct diags *diags)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
#define X(name, arguments) {"nvrtc" #name, &nvrtc->name},
        NVRTC_FUNCTIONS(X)
#undef X
            {"nvrtcGetErrorString", &nvrtc->GetErrorString},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *address = dlsym(nvrtc->handle, wanted[i].name);
        if (!address)
            return diag_error(diags, "'%s' is not a usable NVRTC: it has no function '%s'", path,
                              wanted[i].name);
        memcpy(wanted[i].slot, &address, sizeof address);
    }
    return true;
}

/* NVRTC opens its builtins by bare name at the first compile, and has no run path that would find
 * them: opening them here by path is what makes any folder work, and says early what is missing. */
static bool open_builtins(const char *path, const struct nvrtc_info *info, struct diags *diags)
{
    struct arena arena = {0};
    char *name = arena_printf(&arena, "libnvrtc-builtins.so.%d.%d", info->major, info->minor);
    char *real = realpath(path, NULL);
    char *beside = path_join(&arena, path_dir(&arena, real ? real : path), name);
    free(real);
    bool ok = dlopen(beside, RTLD_NOW | RTLD_LOCAL) != NULL;
    if (!ok && file_is_regular(beside))
        diag_error(diags, "cannot open '%s': %s", beside, dlerror());
    else if (!ok)
        diag_error(diags,
                   "'%s' needs its builtins library, expected at '%s': install the whole package",
                   path, beside);
    arena_free(&arena);
    return ok;
}

bool nvrtc_at_least(const struct nvrtc_info *info, int major, int minor)
{
    return info->major > major || (info->major == major && info->minor >= minor);
}

static bool ask(const char *path, struct nvrtc *nvrtc, struct diags *diags)
{
    struct nvrtc_info *info = &nvrtc->info;
    if (nvrtc->Version(&info->major, &info->minor) != NVRTC_OK)
        return diag_error(diags, "'%s' does not say its version", path);
    if (!nvrtc_at_least(info, NVRTC_LEAST_MAJOR, NVRTC_LEAST_MINOR))
        return diag_error(diags, "'%s' is NVRTC %d.%d, expected %d.%d or newer", path, info->major,
                          info->minor, NVRTC_LEAST_MAJOR, NVRTC_LEAST_MINOR);
    int count = 0;
    if (nvrtc->GetNumSupportedArchs(&count) != NVRTC_OK || count < 1 || count > 4096)
        return diag_error(diags, "'%s' does not say which archs it knows", path);
    int *archs = mem_alloc((size_t)count, sizeof *archs);
    bool ok = nvrtc->GetSupportedArchs(archs) == NVRTC_OK;
    size_t room = sizeof info->archs / sizeof *info->archs;
    info->arch_count = (size_t)count < room ? (size_t)count : room;
    memcpy(info->archs, archs, info->arch_count * sizeof *archs);
    free(archs);
    return ok || diag_error(diags, "'%s' does not say which archs it knows", path);
}

bool nvrtc_open(const char *path, struct nvrtc *out_nvrtc, struct diags *diags)
{
    *out_nvrtc = (struct nvrtc){.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!out_nvrtc->handle)
        return diag_error(diags, "cannot open NVRTC: %s", dlerror());
    return find_functions(path, out_nvrtc, diags) && ask(path, out_nvrtc, diags) &&
           open_builtins(path, &out_nvrtc->info, diags);
}

bool nvrtc_query(const char *path, struct nvrtc_info *out_info, struct diags *diags)
{
    struct nvrtc nvrtc;
    bool ok = nvrtc_open(path, &nvrtc, diags);
    *out_info = nvrtc.info;
    return ok;
}

/* The suffixes that an arch may have; 12.9 brought that of families. */
static const char *arch_suffixes(const struct nvrtc_info *info, int arch)
{
    if (arch < 90)
        return "";
    return arch >= 100 && nvrtc_at_least(info, 12, 9) ? "[af]" : "[a]";
}

void nvrtc_add_archs(const struct nvrtc_info *info, const char *separator, struct str *out)
{
    for (size_t i = 0; i < info->arch_count; i++)
        str_addf(out, "%ssm_%d%s", i ? separator : "", info->archs[i],
                 arch_suffixes(info, info->archs[i]));
}
