#include "target/roots.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

const char *roots_find(const char *path, struct arena *arena, struct diags *diags,
                       const char **out_dir)
{
    char *dir = path_dir(arena, path);
    char *folder = path_real(arena, dir, diags);
    *out_dir = dir;
    if (!folder)
        return NULL;
    if (strcmp(path_base(folder), "targets") != 0)
        return folder;
    *out_dir =
        strcmp(path_base(dir), "targets") == 0 ? path_dir(arena, dir) : path_join(arena, dir, "..");
    return path_dir(arena, folder);
}

/* Fills `out`, when it is not NULL, with the folders that every module of `owner` has; returns how
 * many. */
static size_t default_folders(const struct description *owner, struct arena *arena,
                              const char **out)
{
    size_t count = 0;
    for (; owner; owner = owner->parent, count++)
        if (out)
            out[count] = arena_printf(arena, "kernels/%s/common", owner->name);
    if (out)
        out[count] = "kernels/common";
    return count + 1;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

const char *roots_nearest(const char *folder, const char *name, struct arena *arena)
{
    struct dirent **found = NULL;
    int count = scandir(folder, &found, NULL, by_bytes);
    if (count < 0)
        return NULL;
    const char **names = arena_alloc(arena, (size_t)count, sizeof *names);
    for (int i = 0; i < count; i++) {
        names[i] = arena_strdup(arena, found[i]->d_name);
        free(found[i]);
    }
    free(found);
    return str_nearest(name, names, (size_t)count);
}

/* An error that says where the source was looked for, and what stands there under a near name. */
static void no_source(const struct declared_module *module, const char *const *folders,
                      size_t count, const char *root, struct arena *arena, struct diags *diags)
{
    const char *name = path_base(module->source), *nearest = NULL;
    struct str tried = {0};
    for (size_t i = 0; i < count; i++) {
        str_addf(&tried, "%s'%s'", i ? ", " : "", folders[i]);
        if (!nearest)
            nearest = roots_nearest(path_join(arena, root, folders[i]), name, arena);
    }
    diag_error_at(diags, module->source_loc, "no source '%s' for module '%s' in %s%s%s%s", name,
                  module->name, str_text(&tried), nearest ? " (did you mean '" : "",
                  nearest ? nearest : "", nearest ? "'?)" : "");
    str_free(&tried);
}

const char *roots_source(const struct declared_module *module, const char *root,
                         struct arena *arena, struct diags *diags)
{
    bool bare = !strchr(module->source, '/');
    size_t count = bare ? default_folders(module->owner, arena, NULL) : 1;
    const char **folders = arena_alloc(arena, count, sizeof *folders);
    if (bare)
        default_folders(module->owner, arena, folders);
    else
        folders[0] = path_dir(arena, module->source);
    for (size_t i = 0; i < count; i++) {
        const char *found = path_join(arena, folders[i], path_base(module->source));
        const char *path = path_join(arena, root, found);
        if (access(path, F_OK) != 0)
            continue;
        if (file_is_regular(path))
            return found;
        diag_error_at(diags, module->source_loc, "source '%s' of module '%s' is no regular file",
                      found, module->name);
        return NULL;
    }
    no_source(module, folders, count, root, arena, diags);
    return NULL;
}

const char **roots_includes(const struct declared_module *module, const char *root,
                            struct arena *arena, struct diags *diags, size_t *out_count)
{
    const struct folders *const own[] = {&module->owner->includes, &module->includes};
    size_t defaults = default_folders(module->owner, arena, NULL), count = 0;
    const char **list = arena_alloc(arena, defaults + own[0]->count + own[1]->count, sizeof *list);
    default_folders(module->owner, arena, list);
    for (size_t i = 0; i < defaults; i++)
        if (file_is_dir(path_join(arena, root, list[i])))
            list[count++] = list[i];
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < own[i]->count; j++) {
            const struct folder *item = &own[i]->items[j];
            list[count++] = item->path;
            if (!file_is_dir(path_join(arena, root, item->path)))
                diag_error_at(diags, item->loc, "the include folder '%s' does not exist",
                              item->path);
        }
    }
    *out_count = count;
    return list;
}
