#include "cli/fatbin.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/run.h"
#include "cli/scratch.h"
#include "compile/cuda.h"

/* In a toolkit, and in NVIDIA's wheel of nvcc. */
static const char *const folders[] = {"bin", "nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "."};

static const char *tool_in(struct arena *arena, const char *dir)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = path_join(arena, path_join(arena, dir, folders[i]), "fatbinary");
        if (file_is_regular(path) && access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}

/* Where a build would find CUDA, then PATH. */
static const char *find_tool(struct cli *cli, const char *dir)
{
    struct cuda cuda = {0};
    struct diags quiet = {0};
    char *root = getcwd(NULL, 0);
    const char *tool = dir ? tool_in(&cli->arena, dir) : NULL;
    bool found = !dir && cuda_find(NULL, root ? root : ".", &cli->arena, &cuda, &quiet);
    if (found)
        tool = tool_in(&cli->arena, cuda.dir);
    if (!tool && !dir)
        tool = run_find(&cli->arena, "fatbinary");
    free(root);
    diag_free(&quiet);
    if (tool)
        return tool;
    const char *looked = dir ? dir : found ? cuda.dir : NULL;
    diag_error(&cli->diags,
               "no program 'fatbinary' in %s%s%s%s: a fatbin is made by the CUDA toolkit's own (or "
               "that of NVIDIA's wheel nvidia-cuda-nvcc); name its folder with --cuda",
               looked ? "'" : "", looked ? looked : "", looked ? "'" : "",
               dir      ? ""
               : looked ? " or on PATH"
                        : "PATH, and no CUDA found");
    return NULL;
}

/* It becomes a word of fatbinary's, in which a comma begins another; an image may say anything. */
static bool is_arch(const char *text)
{
    if (!str_starts(text, "sm_"))
        return false;
    size_t digits = strspn(text + strlen("sm_"), "0123456789");
    const char *rest = text + strlen("sm_") + digits;
    return digits && (!*rest || (strchr("af", *rest) && !rest[1]));
}

static bool check_archs(struct cli *cli, const struct fatbin_member *members, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_arch(members[i].arch))
            return diag_error_at(&cli->diags, (struct loc){.file = members[i].path},
                                 "is for '%s', which is no architecture that a fatbin can have, "
                                 "such as sm_90a: build it again",
                                 members[i].arch);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(members[i].arch, members[j].arch) == 0)
                return diag_error(&cli->diags,
                                  "'%s' and '%s' both have it for %s: a fatbin holds one of them",
                                  members[j].path, members[i].path, members[i].arch);
    return true;
}

/* fatbinary takes a member as words joined by commas. */
static bool check_folder(struct cli *cli, const char *folder)
{
    return !strchr(folder, ',') ||
           diag_error(&cli->diags,
                      "fatbinary takes no file whose name has a comma, as '%s' has: set TMPDIR",
                      folder);
}

static bool run_tool(struct cli *cli, const char *tool, const char *folder,
                     const struct fatbin_member *members, size_t count, struct str *out)
{
    struct arena *arena = &cli->arena;
    const char *result = path_join(arena, folder, "all.fatbin");
    const char **argv = arena_alloc(arena, count + 4, sizeof *argv);
    struct run_output output = {0};
    argv[0] = tool;
    argv[1] = "-64";
    argv[2] = arena_printf(arena, "--create=%s", result);
    for (size_t i = 0; i < count; i++) {
        char *path = path_join(arena, folder, arena_printf(arena, "%zu.cubin", i));
        if (!file_publish(path, members[i].cubin, members[i].size, &cli->diags))
            return false;
        argv[3 + i] = arena_printf(arena, "--image3=kind=elf,sm=%s,file=%s",
                                   members[i].arch + strlen("sm_"), path);
    }
    bool ok = run_program(argv, &output);
    const char *said = str_text(&output.error);
    said += strspn(said, "\n"); /* it begins some of its errors with an empty line */
    if (!ok)
        diag_error(&cli->diags, "'%s' failed: %.*s", tool, (int)strcspn(said, "\n"), said);
    run_free(&output);
    return ok && file_read(result, out, &cli->diags);
}

/* What would end us waits until the folder is removed; what is ignored stays so. */
static void hold_signals(sigset_t *out_before)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&held, signals[i]);
    sigprocmask(SIG_BLOCK, &held, out_before);
}

bool fatbin_make(struct cli *cli, const char *cuda_dir, const struct fatbin_member *members,
                 size_t count, struct str *out)
{
    if (!check_archs(cli, members, count))
        return false;
    const char *tool = find_tool(cli, cuda_dir);
    if (!tool)
        return false;
    sigset_t before;
    hold_signals(&before);
    const char *folder = scratch_make(cli, "fatbin");
    bool ok =
        folder && check_folder(cli, folder) && run_tool(cli, tool, folder, members, count, out);
    if (folder)
        scratch_remove(folder);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ok;
}
