#include "target/roots.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* kernels/<target>/common of a description and its parents, then kernels/common. */
static const char **default_folders(const struct description *owner, struct arena *arena,
                                    size_t *out_count)
{
    size_t count = 1;
    for (const struct description *at = owner; at; at = at->parent)
        count++;
    const char **list = arena_alloc(arena, count, sizeof *list), **next = list;
    for (; owner; owner = owner->parent)
        *next++ = arena_printf(arena, "kernels/%s/common", owner->name);
    *next = "kernels/common";
    *out_count = count;
    return list;
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
    diag_error_at(diags, module->source_loc, "no source '%s' for module '%s' in %s%s%s%s; %s", name,
                  module->name, str_text(&tried), nearest ? " (did you mean '" : "",
                  nearest ? nearest : "", nearest ? "'?)" : "",
                  strchr(module->source, '/')
                      ? "a name with a '/' starts at the project root"
                      : "write './NAME' or 'FOLDER/NAME' for one that starts at the project root");
    str_free(&tried);
}

/* The source in the first of `folders` that has it, NULL without a message when none does. */
static const char *find_source(const struct declared_module *module, const char *const *folders,
                               size_t count, const char *root, struct arena *arena,
                               struct diags *diags)
{
    for (size_t i = 0; i < count; i++) {
        const char *found = path_join(arena, folders[i], path_base(module->source));
        const char *path = path_join(arena, root, found);
        if (file_is_regular(path))
            return found;
        if (file_exists(path)) {
            diag_error_at(diags, module->source_loc,
                          "source '%s' of module '%s' is no regular file", found, module->name);
            return found;
        }
    }
    return NULL;
}

static size_t add_folders(const struct folders *folders, const char **list, size_t count)
{
    for (size_t i = 0; i < folders->count; i++)
        list[count++] = folders->items[i].path;
    return count;
}

static void check_folders(const struct folders *folders, const char *root, struct arena *arena,
                          struct diags *diags)
{
    for (size_t i = 0; i < folders->count; i++)
        if (!file_is_dir(path_join(arena, root, folders->items[i].path)))
            diag_error_at(diags, folders->items[i].loc, "the include folder '%s' does not exist",
                          folders->items[i].path);
}

/* Where a bare source name is looked for, and which of these folders exist. */
struct lookup {
    const char *const *folders;
    size_t folder_count;
    const char *const *existing;
    size_t existing_count;
};

static void resolve_source(struct declared_module *module, const struct lookup *lookup,
                           const char *root, struct arena *arena, struct diags *diags)
{
    if (!module->source)
        return;
    const char *dir = path_dir(arena, module->source);
    bool bare = !strchr(module->source, '/');
    module->path = find_source(module, bare ? lookup->existing : &dir,
                               bare ? lookup->existing_count : 1, root, arena, diags);
    if (!module->path)
        no_source(module, bare ? lookup->folders : &dir, bare ? lookup->folder_count : 1, root,
                  arena, diags);
}

void roots_resolve(struct description *description, const char *root, struct arena *arena,
                   struct diags *diags)
{
    size_t folder_count, common = 0, existing;
    const char **folders = default_folders(description, arena, &folder_count);
    const char **shared =
        arena_alloc(arena, folder_count + description->includes.count, sizeof *shared);
    for (size_t i = 0; i < folder_count; i++)
        if (file_is_dir(path_join(arena, root, folders[i])))
            shared[common++] = folders[i];
    existing = common;
    common = add_folders(&description->includes, shared, common);
    check_folders(&description->includes, root, arena, diags);
    for (size_t i = 0; i < description->module_count; i++) {
        struct declared_module *module = &description->modules[i];
        resolve_source(module, &(struct lookup){folders, folder_count, shared, existing}, root,
                       arena, diags);
        module->include_paths = shared;
        module->include_path_count = common;
        if (!module->includes.count)
            continue;
        module->include_paths =
            arena_alloc(arena, common + module->includes.count, sizeof *module->include_paths);
        memcpy(module->include_paths, shared, common * sizeof *shared);
        module->include_path_count = add_folders(&module->includes, module->include_paths, common);
        check_folders(&module->includes, root, arena, diags);
    }
}
