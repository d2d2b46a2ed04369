#include "image/groups.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "image/similar.h"

enum {
    LEVEL = 19, /* 22 takes a quarter longer and saves 0.05 % */
    MAX_THREADS = 64,
    BLOCK_ROOM = 16, /* bytes that a block of its own may cost more than compressBound allows */
};

/* What the plan sorts: a cluster of items, or an item of a group. */
struct part {
    uint64_t size;
    size_t index, group;
};

static int largest_first(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int by_group_smallest_first(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Clusters that leave room share a group, first fit of the largest. Returns the group of each. */
static size_t *fill_groups(const uint64_t *sizes, size_t count, size_t cap)
{
    struct part *parts = mem_alloc(count, sizeof *parts);
    for (size_t i = 0; i < count; i++)
        parts[i] = (struct part){sizes[i], i, 0};
    if (count)
        qsort(parts, count, sizeof *parts, largest_first);
    uint64_t *used = mem_alloc(count, sizeof *used);
    size_t *group_of = mem_alloc(count, sizeof *group_of), groups = 0;
    for (size_t i = 0; i < count; i++) {
        size_t g = 0;
        while (g < groups && used[g] + parts[i].size > cap)
            g++;
        groups += g == groups;
        used[g] += parts[i].size;
        group_of[parts[i].index] = g;
    }
    free(used);
    free(parts);
    return group_of;
}

void groups_plan(const struct group_item *items, size_t count, size_t cap,
                 struct grouping *out_grouping)
{
    *out_grouping = (struct grouping){
        .order = mem_alloc(count, sizeof *out_grouping->order),
        .groups = mem_alloc(count, sizeof *out_grouping->groups),
    };
    size_t *cluster_of = mem_alloc(count, sizeof *cluster_of);
    size_t clusters = similar_clusters(items, count, cap, cluster_of);
    uint64_t *sizes = mem_alloc(clusters, sizeof *sizes);
    for (size_t i = 0; i < count; i++)
        sizes[cluster_of[i]] += items[i].size;
    size_t *group_of = fill_groups(sizes, clusters, cap);

    struct part *parts = mem_alloc(count, sizeof *parts);
    for (size_t i = 0; i < count; i++)
        parts[i] = (struct part){items[i].size, i, group_of[cluster_of[i]]};
    if (count)
        qsort(parts, count, sizeof *parts, by_group_smallest_first);
    for (size_t i = 0; i < count; i++) {
        struct group *group = &out_grouping->groups[parts[i].group];
        if (!group->count++) {
            group->first = i;
            out_grouping->count++;
        }
        group->raw_size += parts[i].size;
        out_grouping->order[i] = parts[i].index;
    }
    free(parts);
    free(group_of);
    free(sizes);
    free(cluster_of);
}

struct packing {
    const struct group_item *items;
    struct grouping *grouping;
    atomic_size_t next;
    atomic_bool failed;
};

/* Each item ends a block, the unit of decoding: a reader that wants it decodes nothing behind it.
 * Measured (tests/bench/RESULTS.md): that costs a thousandth of the size. */
static bool pack_group(struct packing *packing, ZSTD_CCtx *context, struct group *group)
{
    ZSTD_outBuffer out = {.size = ZSTD_compressBound(group->raw_size) + BLOCK_ROOM * group->count};
    out.dst = group->packed = malloc(out.size);
    if (!group->packed || ZSTD_isError(ZSTD_CCtx_reset(context, ZSTD_reset_session_only)) ||
        ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(context, group->raw_size)))
        return false;
    for (size_t i = 0; i < group->count; i++) {
        const struct group_item *item = &packing->items[packing->grouping->order[group->first + i]];
        ZSTD_inBuffer in = {item->bytes, item->size, 0};
        ZSTD_EndDirective end = i + 1 < group->count ? ZSTD_e_flush : ZSTD_e_end;
        if (ZSTD_compressStream2(context, &out, &in, end) != 0)
            return false;
    }
    group->packed_size = out.pos;
    return true;
}

static void *pack_some(void *user)
{
    struct packing *packing = user;
    ZSTD_CCtx *context = ZSTD_createCCtx();
    bool ok = context &&
              !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL)) &&
              !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1));
    for (size_t i; ok && (i = atomic_fetch_add(&packing->next, 1)) < packing->grouping->count;)
        ok = pack_group(packing, context, &packing->grouping->groups[i]);
    if (!ok)
        atomic_store(&packing->failed, true);
    ZSTD_freeCCtx(context);
    return NULL;
}

bool groups_pack(const struct group_item *items, struct grouping *grouping, struct diags *diags)
{
    struct packing packing = {.items = items, .grouping = grouping};
    pthread_t threads[MAX_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = processors < 1             ? 1
                    : processors > MAX_THREADS ? MAX_THREADS
                                               : (size_t)processors;
    if (wanted > grouping->count)
        wanted = grouping->count;
    size_t started = 0;
    while (started + 1 < wanted &&
           pthread_create(&threads[started], NULL, pack_some, &packing) == 0)
        started++;
    if (wanted)
        pack_some(&packing);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (atomic_load(&packing.failed))
        return diag_error(diags, "zstd could not compress the cubins: out of memory");
    return true;
}

void groups_free(struct grouping *grouping)
{
    for (size_t i = 0; i < grouping->count; i++)
        free(grouping->groups[i].packed);
    free(grouping->groups);
    free(grouping->order);
    *grouping = (struct grouping){0};
}
