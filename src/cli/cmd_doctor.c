#include "cli/cli.h"

#include <dlfcn.h>
#include <lua.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/str.h"
#include "cli/machine.h"
#include "cli/report.h"
#include "compile/cuda.h"
#include "runtime/kpk_format.h"

static void say(const char *what, const char *value)
{
    report_line(stdout, "%-12s %s", what, value);
}

static void say_tool(struct arena *arena)
{
    uint64_t memory;
    say("kpack", arena_printf(arena, "%s, image format %d, %s, zstd %s", KPACK_VERSION,
                              KPK_FORMAT_VERSION, LUA_RELEASE, ZSTD_versionString()));
    if (!machine_memory(&memory))
        say("memory", "KPACK_MEM is no size (such as 8G)");
    else
        say("memory", memory ? report_size(arena, memory) : "unknown");
    say("cores", arena_printf(arena, "%u", machine_cores()));
}

static void say_driver(struct arena *arena)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*version)(int *) = NULL;
    int value = 0;
    if (library) {
        void *symbol = dlsym(library, "cuDriverGetVersion");
        memcpy(&version, &symbol, sizeof version);
    }
    if (!library)
        say("driver", "none here; builds need none");
    else if (version && version(&value) == 0)
        say("driver", arena_printf(arena, "libcuda.so.1 %d.%d", value / 1000, value % 1000 / 10));
    else
        say("driver", "libcuda.so.1 does not say its version");
    if (library)
        dlclose(library);
}

static bool say_nvrtc(struct cli *cli, const struct cuda *cuda)
{
    struct nvrtc_info info;
    struct str archs = {0};
    bool ok = nvrtc_query(cuda->nvrtc, &info, &cli->diags);
    if (ok) {
        say("NVRTC", arena_printf(&cli->arena, "%d.%d, %s", info.major, info.minor,
                                  report_name(&cli->arena, cuda->nvrtc)));
        nvrtc_add_archs(&info, " ", &archs);
        say("archs", str_text(&archs));
    }
    str_free(&archs);
    return ok;
}

static bool say_cuda(struct cli *cli, const struct cuda *cuda)
{
    say("CUDA", arena_printf(&cli->arena, "%s, found by %s", report_name(&cli->arena, cuda->dir),
                             cuda->found_by));
    bool ok = say_nvrtc(cli, cuda);
    say("nvJitLink",
        cuda->nvjitlink ? report_name(&cli->arena, cuda->nvjitlink) : "none (optional)");
    for (size_t i = 0; i < cuda->include_count; i++)
        say(i ? "" : "headers", report_name(&cli->arena, cuda->includes[i]));
    if (!cuda->include_count)
        say("headers", "none: kernels that include CUDA's headers will not compile");
    return ok;
}

/* NVIDIA's wheels need no rights and no toolkit; a build finds them in out/cuda. */
static void say_missing(void)
{
    say("missing",
        "NVRTC and CUDA's headers; this line puts them where a build from here finds them:");
    puts("  python3 -m pip install --target out/cuda nvidia-cuda-nvrtc==13.0.* "
         "nvidia-nvjitlink==13.0.* \\\n"
         "      nvidia-cuda-runtime==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-cccl==13.0.*");
}

enum cli_exit cmd_doctor(struct cli *cli, const struct cli_args *args)
{
    struct cuda cuda;
    char *root = getcwd(NULL, 0);
    bool found =
        cuda_find(args->values[DOCTOR_CUDA], root ? root : ".", &cli->arena, &cuda, &cli->diags);
    free(root);
    say_tool(&cli->arena);
    say_driver(&cli->arena);
    for (size_t i = 0; i < cuda.tried_count; i++)
        say(i ? "" : "looked in", report_name(&cli->arena, cuda.tried[i]));
    bool ok = found && say_cuda(cli, &cuda);
    if (!found && !args->values[DOCTOR_CUDA])
        say_missing();
    printf("\na build would %swork here\n", ok ? "" : "not ");
    return ok ? CLI_DONE : CLI_FAILED;
}
