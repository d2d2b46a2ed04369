#include "cli/rebuild.h"

#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/build.h"
#include "cli/scratch.h"

static bool make_folder(struct cli *cli, struct rebuild *rebuild)
{
    rebuild->folder = scratch_make(cli, "rebuild");
    if (rebuild->folder)
        rebuild->path = path_join(&cli->arena, rebuild->folder, "rebuild.kpk");
    return rebuild->folder;
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

static bool same_bytes(const struct view *view, const char *other, bool *out_same)
{
    struct str a = {0}, b = {0};
    bool ok = view_bytes(view, &a) && file_read(other, &b, &view->cli->diags);
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
        !same_bytes(view, out_rebuild->path, &out_rebuild->same))
        return false;
    return out_rebuild->same ||
           (view_open(cli, out_rebuild->path, &out_rebuild->fresh) &&
            compare_images(view, &out_rebuild->fresh, &out_rebuild->comparison));
}

void rebuild_end(struct rebuild *rebuild)
{
    compare_free(&rebuild->comparison);
    if (rebuild->fresh.image)
        view_close(&rebuild->fresh);
    if (rebuild->folder)
        scratch_remove(rebuild->folder);
}
