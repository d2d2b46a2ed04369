#include "cli/sizes.h"

#include <stdlib.h>
#include <string.h>

/* What is left to hand out. */
struct pool {
    uint64_t raw, packed;
};

/* A part of `raw` bytes with its share of the packed ones; what rounding leaves goes to later
 * parts. */
static struct pool take(struct pool *pool, uint64_t raw)
{
    struct pool part = {raw < pool->raw ? raw : pool->raw, 0};
    if (part.raw == pool->raw)
        part.packed = pool->packed;
    else
        part.packed =
            (uint64_t)((long double)pool->packed * (long double)part.raw / (long double)pool->raw);
    pool->raw -= part.raw;
    pool->packed -= part.packed;
    return part;
}

/* What each object takes, by its index. */
static struct pool *object_parts(const struct view *view, struct arena *arena)
{
    const kpk_image_info *info = &view->info;
    struct pool *blobs = arena_alloc(arena, info->blob_count, sizeof *blobs);
    struct pool *objects = arena_alloc(arena, info->object_count, sizeof *objects);
    uint32_t *users = arena_alloc(arena, info->blob_count, sizeof *users), blob;
    for (uint32_t i = 0; i < info->group_count; i++) {
        kpk_group_info group = view_group(view, i);
        struct pool pool = {group.raw_size, group.packed_size};
        for (uint32_t j = 0; j < group.blob_count; j++)
            blobs[group.first_blob + j] = take(&pool, view_blob(view, group.first_blob + j).size);
    }
    for (uint32_t i = 0; i < info->object_count; i++) {
        view_object_blob(view, i, &blob);
        users[blob]++;
    }
    for (uint32_t i = 0; i < info->object_count; i++) {
        view_object_blob(view, i, &blob);
        objects[i] = take(&blobs[blob], blobs[blob].raw / users[blob]);
        users[blob]--;
    }
    return objects;
}

static int largest_first(uint64_t a, uint64_t b, const char *name_a, const char *name_b)
{
    if (a != b)
        return a > b ? -1 : 1;
    return strcmp(name_a, name_b);
}

static int by_raw(const void *a, const void *b)
{
    const struct size_part *x = a, *y = b;
    return largest_first(x->raw, y->raw, x->name, y->name);
}

static int by_packed(const void *a, const void *b)
{
    const struct size_module *x = a, *y = b;
    return largest_first(x->all.packed, y->all.packed, x->all.name, y->all.name);
}

static struct size_module module_sizes(const struct view *view, uint32_t index,
                                       struct pool *objects, struct arena *arena)
{
    kpk_module_info info = view_module(view, index);
    struct size_module module = {.all = {.name = info.name, .index = index}};
    struct pool rest = {0};
    uint32_t *entries = arena_alloc(arena, info.object_count, sizeof *entries);
    module.parts = arena_alloc(arena, (size_t)info.entry_count + 1, sizeof *module.parts);
    for (uint32_t i = 0; i < info.object_count; i++) {
        module.all.raw += objects[info.first_object + i].raw;
        module.all.packed += objects[info.first_object + i].packed;
    }
    for (uint32_t i = 0; i < info.entry_count; i++)
        entries[view_entry(view, info.first_entry + i).object - info.first_object]++;
    for (uint32_t i = 0; i < info.entry_count; i++) {
        kpk_entry_info entry = view_entry(view, info.first_entry + i);
        struct pool *object = &objects[entry.object];
        bool alone = entries[entry.object - info.first_object] == 1;
        struct pool part = take(object, alone ? object->raw : entry.code_bytes);
        module.parts[module.part_count++] =
            (struct size_part){entry.name, info.first_entry + i, part.raw, part.packed};
    }
    qsort(module.parts, module.part_count, sizeof *module.parts, by_raw);
    for (uint32_t i = 0; i < info.object_count; i++) {
        rest.raw += objects[info.first_object + i].raw;
        rest.packed += objects[info.first_object + i].packed;
    }
    if (rest.raw)
        module.parts[module.part_count++] =
            (struct size_part){.raw = rest.raw, .packed = rest.packed};
    return module;
}

void sizes_of(const struct view *view, struct sizes *out_sizes)
{
    *out_sizes = (struct sizes){.count = view->info.module_count, .index = view->info.file_bytes};
    struct arena *arena = &out_sizes->arena;
    struct pool *objects = object_parts(view, arena);
    out_sizes->modules = arena_alloc(arena, out_sizes->count, sizeof *out_sizes->modules);
    for (uint32_t i = 0; i < out_sizes->count; i++)
        out_sizes->modules[i] = module_sizes(view, i, objects, arena);
    qsort(out_sizes->modules, out_sizes->count, sizeof *out_sizes->modules, by_packed);
    for (uint32_t i = 0; i < view->info.group_count; i++)
        out_sizes->index -= view_group(view, i).packed_size;
}

void sizes_free(struct sizes *sizes)
{
    arena_free(&sizes->arena);
    *sizes = (struct sizes){0};
}
