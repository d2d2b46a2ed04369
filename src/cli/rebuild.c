#include "cli/rebuild.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/build.h"

static bool make_folder(struct cli *cli, struct rebuild *rebuild)
{
    const char *top = getenv("TMPDIR");
    char *folder = path_join(&cli->arena, top && top[0] ? top : "/tmp", "kpack-rebuild-XXXXXX");
    if (!mkdtemp(folder))
        return diag_error(&cli->diags,
                          "cannot make the folder '%s': %s; TMPDIR names another place", folder,
                          strerror(errno));
    rebuild->folder = folder;
    rebuild->path = path_join(&cli->arena, folder, "rebuild.kpk");
    return true;
}

static bool build(struct view *view, const char *target, const struct rebuild *rebuild)
{
    const char *values[BUILD_OPTIONS] = {
        [BUILD_FILE] = rebuild->path,
        [BUILD_QUIET] = "",
        [BUILD_NO_CACHE] = "",
    };
    struct cli_args args = {.values = values, .words = &target, .word_count = 1};
    const char *stamp = view->info.stamp[0] ? view->info.stamp : NULL;
    return build_run(view->cli, &args, stamp) == CLI_DONE;
}

static bool same_bytes(struct cli *cli, const char *path, const char *other, bool *out_same)
{
    struct str a = {0}, b = {0};
    bool ok = file_read(path, &a, &cli->diags) && file_read(other, &b, &cli->diags);
    *out_same = ok && a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    str_free(&a);
    str_free(&b);
    return ok;
}

bool rebuild_compare(struct view *view, const char *target, struct rebuild *out_rebuild)
{
    struct cli *cli = view->cli;
    *out_rebuild = (struct rebuild){0};
    if (!make_folder(cli, out_rebuild) || !build(view, target, out_rebuild) ||
        !same_bytes(cli, view->path, out_rebuild->path, &out_rebuild->same))
        return false;
    return out_rebuild->same ||
           (view_open(cli, out_rebuild->path, &out_rebuild->fresh) &&
            compare_images(view, &out_rebuild->fresh, &out_rebuild->comparison));
}

void rebuild_end(struct rebuild *rebuild)
{
    struct arena arena = {0};
    compare_free(&rebuild->comparison);
    if (rebuild->fresh.image)
        view_close(&rebuild->fresh);
    if (rebuild->folder) {
        unlink(rebuild->path);
        unlink(arena_printf(&arena, "%s.json", rebuild->path));
        rmdir(rebuild->folder);
    }
    arena_free(&arena);
}
