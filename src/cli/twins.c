#include "cli/twins.h"

#include <stdlib.h>
#include <string.h>

#include "cli/code.h"

/* An entry of an image, by its full name. */
struct shipped {
    const char *name;
    const char *twin_of; /* NULL: no twin */
    kpk_twin_bits bits;
    struct digest code;
};

struct image_entries {
    struct shipped *items; /* by name */
    size_t count;
};

/* A list of names to sort and to take the double ones from. */
struct names {
    struct arena *arena;
    const char **items;
    size_t count;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Structs that begin with their name. */
static const void *find(const void *items, size_t count, size_t size, const char *name)
{
    return count ? bsearch(&name, items, count, size, by_text) : NULL;
}

static const struct shipped *find_entry(const struct image_entries *image, const char *name)
{
    return find(image->items, image->count, sizeof *image->items, name);
}

static void sort_names(struct names *names)
{
    size_t kept = 0;
    if (names->count)
        qsort(names->items, names->count, sizeof *names->items, by_text);
    for (size_t i = 0; i < names->count; i++)
        if (!kept || strcmp(names->items[kept - 1], names->items[i]) != 0)
            names->items[kept++] = names->items[i];
    names->count = kept;
}

static bool read_entries(struct view *view, struct arena *arena, struct image_entries *out)
{
    uint32_t count = view->info.entry_count;
    struct digest *codes = arena_alloc(arena, count, sizeof *codes);
    out->items = arena_alloc(arena, count, sizeof *out->items);
    out->count = count;
    if (!code_digests(view, codes))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        kpk_entry_info entry = view_entry(view, i);
        out->items[i] = (struct shipped){
            .name = arena_printf(arena, "%s:%s", entry.module, entry.name),
            .twin_of = entry.bits == KPK_BITS_NONE ? NULL : entry.twin_of,
            .bits = entry.bits,
            .code = codes[i],
        };
    }
    if (count)
        qsort(out->items, count, sizeof *out->items, by_text);
    return true;
}

/* ---- Parents and twins ------------------------------------------------------------------------
 */

static struct names parent_names(const struct image_entries *images, size_t count,
                                 struct arena *arena)
{
    struct names names = {.arena = arena};
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        most += images[i].count;
    names.items = arena_alloc(arena, most, sizeof *names.items);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < images[i].count; j++) {
            const struct shipped *entry = &images[i].items[j];
            names.items[names.count++] = entry->twin_of ? entry->twin_of : entry->name;
        }
    sort_names(&names);
    return names;
}

struct pair {
    const char *parent, *twin;
};

static int by_pair(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int order = strcmp(x->parent, y->parent);
    return order ? order : strcmp(x->twin, y->twin);
}

/* Sorts, and keeps one of those that are equal. Returns how many are kept. */
static size_t sort_pairs(struct pair *pairs, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(pairs, count, sizeof *pairs, by_pair);
    for (size_t i = 0; i < count; i++)
        if (!kept || by_pair(&pairs[kept - 1], &pairs[i]) != 0)
            pairs[kept++] = pairs[i];
    return kept;
}

/* Every parent with each of its twins, once. */
static struct pair *twin_pairs(const struct image_entries *images, size_t count,
                               struct arena *arena, size_t *out_count)
{
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        most += images[i].count;
    struct pair *pairs = arena_alloc(arena, most, sizeof *pairs);
    most = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < images[i].count; j++)
            if (images[i].items[j].twin_of)
                pairs[most++] = (struct pair){images[i].items[j].twin_of, images[i].items[j].name};
    *out_count = sort_pairs(pairs, most);
    return pairs;
}

static struct twin twin_in(const struct image_entries *images, size_t count,
                           const struct pair *pair, struct twins *out)
{
    struct twin twin = {
        .name = pair->twin,
        .states = arena_alloc(&out->arena, count, sizeof *twin.states),
        .bits = arena_alloc(&out->arena, count, sizeof *twin.bits),
    };
    for (size_t i = 0; i < count; i++) {
        const struct shipped *entry = find_entry(&images[i], pair->twin);
        const struct shipped *parent = find_entry(&images[i], pair->parent);
        if (!entry || !entry->twin_of || strcmp(entry->twin_of, pair->parent) != 0)
            continue;
        bool same = parent && memcmp(&parent->code, &entry->code, sizeof entry->code) == 0;
        twin.states[i] = same ? TWIN_POINTLESS : TWIN_SHIPPED;
        twin.bits[i] = entry->bits;
        out->pointless += same;
    }
    return twin;
}

static void join_parents(const struct image_entries *images, size_t count, struct twins *out)
{
    size_t pair_count, at = 0;
    struct names names = parent_names(images, count, &out->arena);
    struct pair *pairs = twin_pairs(images, count, &out->arena, &pair_count);
    out->parents = arena_alloc(&out->arena, names.count, sizeof *out->parents);
    out->parent_count = names.count;
    for (size_t i = 0; i < names.count; i++) {
        struct twin_parent *parent = &out->parents[i];
        size_t end = at;
        while (end < pair_count && strcmp(pairs[end].parent, names.items[i]) == 0)
            end++;
        parent->name = names.items[i];
        parent->shipped = arena_alloc(&out->arena, count, sizeof *parent->shipped);
        parent->twins = arena_alloc(&out->arena, end - at, sizeof *parent->twins);
        for (size_t j = 0; j < count; j++)
            parent->shipped[j] = find_entry(&images[j], parent->name) != NULL;
        for (; at < end; at++)
            parent->twins[parent->twin_count++] = twin_in(images, count, &pairs[at], out);
    }
}

/* ---- Constants --------------------------------------------------------------------------------
 */

static struct pair *constant_pairs(const struct view *views, size_t count, struct arena *arena,
                                   size_t *out_count)
{
    size_t most = 0;
    int64_t value;
    for (size_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < views[i].info.module_count; j++)
            most += view_module(&views[i], j).constant_count;
    struct pair *pairs = arena_alloc(arena, most, sizeof *pairs);
    most = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < views[i].info.module_count; j++) {
            kpk_module_info module = view_module(&views[i], j);
            for (uint32_t k = 0; k < module.constant_count; k++)
                pairs[most++] = (struct pair){module.name, view_constant(&views[i], j, k, &value)};
        }
    *out_count = sort_pairs(pairs, most);
    return pairs;
}

/* Whether images that have the module do not agree; one that lacks the constant disagrees. */
static bool constant_differs(const struct view *views, size_t count, struct twin_constant *constant)
{
    bool differs = false;
    size_t first = count;
    for (size_t i = 0; i < count; i++) {
        if (!kpk_has_module(views[i].image, constant->module))
            continue;
        constant->present[i] = kpk_constant(views[i].image, constant->module, constant->name,
                                            &constant->values[i]) == KPK_OK;
        first = first == count ? i : first;
        differs = differs || constant->present[i] != constant->present[first] ||
                  constant->values[i] != constant->values[first];
    }
    return differs;
}

static void join_constants(const struct view *views, size_t count, struct twins *out)
{
    size_t pair_count;
    struct pair *pairs = constant_pairs(views, count, &out->arena, &pair_count);
    out->constants = arena_alloc(&out->arena, pair_count, sizeof *out->constants);
    for (size_t i = 0; i < pair_count; i++) {
        struct twin_constant constant = {
            .module = pairs[i].parent,
            .name = pairs[i].twin,
            .present = arena_alloc(&out->arena, count, sizeof *constant.present),
            .values = arena_alloc(&out->arena, count, sizeof *constant.values),
        };
        if (constant_differs(views, count, &constant))
            out->constants[out->constant_count++] = constant;
    }
}

bool twins_of(struct view *views, size_t count, struct twins *out_twins)
{
    *out_twins = (struct twins){0};
    struct image_entries *images = arena_alloc(&out_twins->arena, count, sizeof *images);
    bool ok = true;
    for (size_t i = 0; i < count; i++)
        ok = read_entries(&views[i], &out_twins->arena, &images[i]) && ok;
    if (ok) {
        join_parents(images, count, out_twins);
        join_constants(views, count, out_twins);
    }
    return ok;
}

void twins_free(struct twins *twins)
{
    arena_free(&twins->arena);
    *twins = (struct twins){0};
}
