#include "target/roots.h"

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

/* The i-th default folder of what `owner` declares, NULL past the last. */
static const char *default_folder(const struct description *owner, size_t i, struct arena *arena)
{
    for (; owner; owner = owner->parent)
        if (i-- == 0)
            return arena_printf(arena, "kernels/%s/common", owner->name);
    return i == 0 ? "kernels/common" : NULL;
}

static const char *found_at(const char *root, const char *relative, struct arena *arena)
{
    return access(path_join(arena, root, relative), F_OK) == 0 ? relative : NULL;
}

const char *roots_source(const struct declared_module *module, const char *root,
                         struct arena *arena, struct diags *diags)
{
    const char *found = NULL, *folder;
    struct str tried = {0};
    if (strchr(module->source, '/')) {
        found = found_at(root, module->source, arena);
        str_addf(&tried, "%s/%s", root, module->source);
    }
    for (size_t i = 0; !strchr(module->source, '/') && !found &&
                       (folder = default_folder(module->owner, i, arena));
         i++) {
        found = found_at(root, path_join(arena, folder, module->source), arena);
        str_addf(&tried, "%s%s/", i ? ", " : "", folder);
    }
    if (!found)
        diag_error_at(diags, module->source_loc,
                      "source '%s' of module '%s' does not exist: looked for in %s", module->source,
                      module->name, str_text(&tried));
    str_free(&tried);
    if (found && !file_is_regular(path_join(arena, root, found))) {
        diag_error_at(diags, module->source_loc, "source '%s' of module '%s' is no regular file",
                      found, module->name);
        return NULL;
    }
    return found;
}

const char **roots_includes(const struct declared_module *module, const char *root,
                            struct arena *arena, struct diags *diags, size_t *out_count)
{
    const struct folders *const own[] = {&module->owner->includes, &module->includes};
    const char *folder;
    size_t most = own[0]->count + own[1]->count, count = 0;
    for (size_t i = 0; default_folder(module->owner, i, arena); i++)
        most++;
    const char **list = arena_alloc(arena, most, sizeof *list);
    for (size_t i = 0; (folder = default_folder(module->owner, i, arena)); i++)
        if (file_is_dir(path_join(arena, root, folder)))
            list[count++] = folder;
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < own[i]->count; j++) {
            const struct folder *item = &own[i]->items[j];
            list[count++] = item->path;
            if (!file_is_dir(path_join(arena, root, item->path)))
                diag_error_at(diags, item->loc, "include folder '%s' does not exist in '%s'",
                              item->path, root);
        }
    }
    *out_count = count;
    return list;
}
