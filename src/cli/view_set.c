#include "cli/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/emit.h"
#include "cli/report.h"

static kpk_part_info part_of(const struct view *table, uint32_t index)
{
    kpk_part_info part;
    if (kpk_get_part(table->image, index, &part) != KPK_OK)
        BUG("a bundle without the part that it counts");
    return part;
}

static bool no_target(const struct view *table, const char *target)
{
    uint32_t count = kpk_part_count(table->image);
    struct str list = {0};
    for (uint32_t i = 0; i < count; i++)
        str_addf(&list, "%s'%s'", i ? ", " : "", part_of(table, i).target);
    if (!count)
        str_addf(&list, "'%s'", table->info.target);
    diag_error_at(&table->cli->diags, (struct loc){.file = table->file},
                  "has nothing for target '%s', only for %s", target, str_text(&list));
    str_free(&list);
    return false;
}

static bool open_parts(const struct view *table, const char *target, struct view_set *set)
{
    uint32_t count = kpk_part_count(table->image);
    set->bundle = !target;
    set->views = mem_alloc(count, sizeof *set->views);
    for (uint32_t i = 0; i < count; i++) {
        kpk_part_info part = part_of(table, i);
        set->file_bytes = part.offset + part.size;
        if (target && strcmp(target, part.target) != 0)
            continue;
        if (!view_open_file(table->cli, set->path, &part, &set->views[set->count]))
            return false;
        set->count++;
    }
    return set->count || no_target(table, target);
}

bool view_set_open(struct cli *cli, const char *path, const char *target, struct view_set *out_set)
{
    *out_set = (struct view_set){.path = path};
    struct view *first = mem_alloc(1, sizeof *first);
    bool ok = view_open_file(cli, path, NULL, first);
    if (ok && !first->info.target) {
        ok = open_parts(first, target, out_set);
        view_close(first);
    } else if (ok) {
        *out_set = (struct view_set){first, 1, false, path, first->info.file_bytes};
        ok = !target || strcmp(target, first->info.target) == 0 || no_target(first, target);
    }
    if (out_set->views != first)
        free(first);
    if (!ok)
        view_set_close(out_set);
    return ok;
}

void view_set_close(struct view_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        view_close(&set->views[i]);
    free(set->views);
    *set = (struct view_set){0};
}

struct view *view_set_find(const struct view_set *set, const char *target)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->views[i].info.target, target) == 0)
            return &set->views[i];
    return NULL;
}

size_t view_set_pairs(struct arena *arena, const struct view_set *before,
                      const struct view_set *after, struct view_pair **out_pairs)
{
    bool parts = before->bundle || after->bundle;
    size_t count = 0, i = 0, j = 0;
    *out_pairs = arena_alloc(arena, before->count + after->count, sizeof **out_pairs);
    while (i < before->count || j < after->count) {
        struct view *a = i < before->count ? &before->views[i] : NULL;
        struct view *b = j < after->count ? &after->views[j] : NULL;
        int order = !a ? 1 : !b ? -1 : parts ? strcmp(a->info.target, b->info.target) : 0;
        (*out_pairs)[count++] = (struct view_pair){order > 0 ? NULL : a, order < 0 ? NULL : b};
        i += order <= 0;
        j += order >= 0;
    }
    return count;
}

void view_set_head(const struct view_set *set)
{
    struct arena *arena = &set->views[0].cli->arena;
    struct str list = {0};
    if (!set->bundle)
        return;
    for (size_t i = 0; i < set->count; i++)
        str_addf(&list, "%s%s (%s)", i ? ", " : "", report_name(arena, set->views[i].info.target),
                 report_name(arena, set->views[i].info.arch));
    report_line(stdout, "%s: a bundle of %zu target%s: %s; %s on disk\n",
                report_name(arena, set->path), set->count, set->count == 1 ? "" : "s",
                str_text(&list), report_size(arena, set->file_bytes));
    str_free(&list);
}

json_t *view_set_json(const struct view_set *set, json_t *const *values)
{
    if (!set->bundle)
        return values[0];
    json_t *object = emit_object(), *parts = emit_object();
    for (size_t i = 0; i < set->count; i++)
        emit_set(parts, set->views[i].info.target, values[i]);
    emit_set(object, "parts", parts);
    return object;
}

void view_set_print_json(const struct view_set *set, json_t *(*value)(const struct view *view))
{
    json_t **values = mem_alloc(set->count, sizeof *values);
    for (size_t i = 0; i < set->count; i++)
        values[i] = value(&set->views[i]);
    emit_print(view_set_json(set, values));
    free(values);
}
