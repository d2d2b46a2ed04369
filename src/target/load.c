#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "target/check.h"
#include "target/inherit.h"
#include "target/language.h"
#include "target/roots.h"
#include "target/target.h"

/* The files being read, from the target to its parents. */
struct chain {
    const char *path, *name;
    const struct chain *child;
};

static bool in_chain(const struct chain *chain, const char *path, struct str *out)
{
    if (!chain)
        return false;
    bool found = strcmp(chain->path, path) == 0 || in_chain(chain->child, path, out);
    if (found)
        str_addf(out, "%s -> ", chain->name);
    return found;
}

/* By line within a file; those of `path` first, then file by file as they came. */
static bool after(const struct diag *a, const struct diag *b, const char *path)
{
    bool a_other = !a->loc.file || strcmp(a->loc.file, path) != 0;
    bool b_other = !b->loc.file || strcmp(b->loc.file, path) != 0;
    if (a_other || b_other)
        return a_other && !b_other;
    return a->loc.line != b->loc.line ? a->loc.line > b->loc.line : a->loc.col > b->loc.col;
}

/* Stable, so that errors of one place keep their order. */
static void sort_diags(struct diags *diags, size_t first, const char *path)
{
    for (size_t i = first + 1; i < diags->count; i++) {
        struct diag item = diags->items[i];
        size_t at = i;
        for (; at > first && after(&diags->items[at - 1], &item, path); at--)
            diags->items[at] = diags->items[at - 1];
        diags->items[at] = item;
    }
}

/* Reads one description and, first, those it inherits from. NULL when any of them has a mistake
 * that leaves nothing to check. */
static struct description *load(const char *path, const char *root, const char *dir,
                                const struct chain *child, struct arena *arena,
                                struct diags *diags);

static void no_parent(const struct description *description, const char *folder, const char *path,
                      struct arena *arena, struct diags *diags)
{
    const char *nearest = roots_nearest(folder, path_base(path), arena);
    bool near = nearest && str_ends(nearest, ".lua");
    diag_error_at(diags, description->inherits_loc,
                  "the parent target '%s' does not exist: expected the file '%s'%s%s%s",
                  description->inherits, path, near ? " (did you mean '" : "",
                  near ? path_stem(arena, nearest) : "", near ? "'?)" : "");
}

static bool load_parent(struct description *description, const char *root, const char *dir,
                        const struct chain *here, struct arena *arena, struct diags *diags)
{
    const char *folder = path_dir(arena, description->path);
    const char *path =
        path_join(arena, folder, arena_printf(arena, "%s.lua", description->inherits));
    struct str cycle = {0};
    bool ok = false;
    if (in_chain(here, path, &cycle))
        diag_error_at(diags, description->inherits_loc, "targets inherit in a cycle: %s%s",
                      str_text(&cycle), description->inherits);
    else if (!file_is_regular(path))
        no_parent(description, folder, path, arena, diags);
    else
        ok = (description->parent = load(path, root, dir, here, arena, diags)) != NULL;
    str_free(&cycle);
    return ok;
}

static struct description *load(const char *path, const char *root, const char *dir,
                                const struct chain *child, struct arena *arena, struct diags *diags)
{
    struct sandbox sandbox;
    struct description *description = arena_alloc(arena, 1, sizeof *description);
    struct chain here = {path, path_stem(arena, path), child};
    size_t errors = diags->errors, first = diags->count;
    description->path = path;
    bool ok = sandbox_open(&sandbox, arena, diags, root, dir) && language_open(&sandbox) &&
              language_run(&sandbox, path, description);
    sandbox_close(&sandbox);
    if (ok && description->inherits)
        ok = load_parent(description, root, dir, &here, arena, diags);
    if (ok && description->name)
        roots_resolve(description, root, arena, diags);
    if (ok && diags->errors == errors) {
        struct merged merged;
        inherit_merge(description, arena, diags, &merged);
        check_merged(description, &merged, arena, diags);
    }
    sort_diags(diags, first, path);
    return ok && diags->errors == errors ? description : NULL;
}

/* ---- The result --------------------------------------------------------------------------------
 */

static void join_flags(const struct declared_module *module, struct arena *arena,
                       struct target_module *out)
{
    const struct description *owner = module->owner;
    size_t count = owner->flag_count + module->flag_count;
    out->flags = arena_alloc(arena, count, sizeof *out->flags);
    out->flag_locs = arena_alloc(arena, count, sizeof *out->flag_locs);
    out->flag_count = count;
    for (size_t i = 0; i < count; i++) {
        bool own = i >= owner->flag_count;
        out->flags[i] = own ? module->flags[i - owner->flag_count] : owner->flags[i];
        out->flag_locs[i] = own ? module->flags_loc : owner->flags_loc;
    }
}

static void fill_module(const struct declared_module *declared, struct arena *arena,
                        struct target_module *out)
{
    *out = (struct target_module){
        .name = declared->name,
        .origin = declared->owner->name,
        .source = declared->path,
        .loc = declared->loc,
        .every = declared->every,
        .split = declared->split,
        .lto = declared->lto,
        .strict = declared->strict,
        .entries = arena_alloc(arena, declared->entry_count, sizeof *out->entries),
        .entry_count = declared->entry_count,
        .constants = declared->constants,
        .constant_count = declared->constant_count,
        .includes = declared->include_paths,
        .include_count = declared->include_path_count,
    };
    for (size_t i = 0; i < declared->entry_count; i++)
        out->entries[i] = declared->entries[i].entry;
    join_flags(declared, arena, out);
}

static struct target *fill(const struct description *description, const char *root,
                           struct arena *arena, struct diags *diags)
{
    struct merged merged;
    inherit_merge(description, arena, diags, &merged);
    struct target *target = arena_alloc(arena, 1, sizeof *target);
    *target = (struct target){
        .path = description->path,
        .root = root,
        .name = description->name,
        .arch = description->arch,
        .arch_loc = description->arch_loc,
        .inherits = description->inherits,
        .compute_major = description->compute_major,
        .compute_minor = description->compute_minor,
        .sm_count = description->sm_count,
        .smem_optin = description->smem_optin,
        .modules = arena_alloc(arena, merged.module_count, sizeof *target->modules),
        .module_count = merged.module_count,
        .levers = arena_alloc(arena, merged.lever_count, sizeof *target->levers),
        .lever_count = merged.lever_count,
        .absents = arena_alloc(arena, merged.absent_count, sizeof *target->absents),
        .absent_count = merged.absent_count,
    };
    for (size_t i = 0; i < merged.module_count; i++)
        fill_module(merged.modules[i], arena, &target->modules[i]);
    for (size_t i = 0; i < merged.lever_count; i++)
        target->levers[i] = merged.levers[i]->lever;
    for (size_t i = 0; i < merged.absent_count; i++)
        target->absents[i] = merged.absents[i]->absent;
    return target;
}

struct target *target_load(const char *path, struct arena *arena, struct diags *diags)
{
    const char *dir;
    size_t errors = diags->errors;
    path = arena_strdup(arena, path);
    const char *root = roots_find(path, arena, diags, &dir);
    const struct description *description = root ? load(path, root, dir, NULL, arena, diags) : NULL;
    struct target *target = description ? fill(description, root, arena, diags) : NULL;
    return diags->errors == errors ? target : NULL;
}
