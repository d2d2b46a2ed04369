#include "image/similar.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Two cubins resemble each other as far as they hold the same runs of two aligned 8-byte words (an
 * instruction is two such words). Of all runs, those whose hash falls into one residue class stand
 * for the rest. Clusters merge while that fits the cap, the pair with the most shared runs per pair
 * of members first: measured against the other linkages and against the order of names, this packs
 * best (tests/bench/RESULTS.md). */

enum {
    SAMPLE = 8,       /* one run in so many is looked at */
    WINDOW = 4096,    /* items compared with one another: their table is quadratic */
    COMMON_RUN = 512, /* items that may hold a run before it says nothing about them */
};

struct run {
    uint64_t hash;
    uint32_t item;
};

struct runs {
    struct run *list; /* owned */
    size_t count, cap;
};

static uint64_t mix(uint64_t hash)
{
    hash *= 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 31);
}

static void add_runs(struct runs *runs, const struct group_item *item, uint32_t index)
{
    uint64_t before = 0;
    for (size_t at = 0; at + 8 <= item->size; at += 8) {
        uint64_t word;
        memcpy(&word, (const char *)item->bytes + at, 8);
        uint64_t hash = mix(mix(before) ^ word);
        before = word;
        if (at == 0 || (hash >> 40) % SAMPLE != 0)
            continue;
        if (runs->count == runs->cap) {
            runs->cap = runs->cap ? runs->cap * 2 : 4096;
            runs->list = mem_resize(runs->list, runs->cap, sizeof *runs->list);
        }
        runs->list[runs->count++] = (struct run){hash, index};
    }
}

static int by_hash(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* shared[i * count + j]: distinct runs that both items hold. */
static uint64_t *count_shared(const struct group_item *items, size_t count)
{
    struct runs runs = {0};
    for (size_t i = 0; i < count; i++)
        add_runs(&runs, &items[i], (uint32_t)i);
    if (runs.count)
        qsort(runs.list, runs.count, sizeof *runs.list, by_hash);
    uint64_t *shared = mem_alloc(count * count, sizeof *shared);
    uint32_t *holders = mem_alloc(count, sizeof *holders);
    for (size_t start = 0, end; start < runs.count; start = end) {
        size_t held = 0;
        for (end = start; end < runs.count && runs.list[end].hash == runs.list[start].hash; end++)
            if (!held || holders[held - 1] != runs.list[end].item)
                holders[held++] = runs.list[end].item;
        for (size_t i = 0; held <= COMMON_RUN && i < held; i++)
            for (size_t j = i + 1; j < held; j++) {
                shared[holders[i] * count + holders[j]]++;
                shared[holders[j] * count + holders[i]]++;
            }
    }
    free(holders);
    free(runs.list);
    return shared;
}

struct cluster {
    bool alive;
    uint64_t size, members;
    size_t nearest; /* SIZE_MAX: none that fits and shares anything */
};

struct clustering {
    struct cluster *clusters;
    uint64_t *shared; /* between clusters: the sum over pairs of their members */
    size_t count, cap;
};

/* Whether a is nearer to `to` than b is. Equal counts as no, so the lower index stays. */
static bool nearer(const struct clustering *all, size_t to, size_t a, size_t b)
{
    const uint64_t *row = all->shared + to * all->count;
    return row[a] * all->clusters[b].members > row[b] * all->clusters[a].members;
}

static void find_nearest(struct clustering *all, size_t of)
{
    struct cluster *cluster = &all->clusters[of];
    cluster->nearest = SIZE_MAX;
    for (size_t i = 0; i < all->count; i++) {
        const struct cluster *other = &all->clusters[i];
        if (i == of || !other->alive || !all->shared[of * all->count + i] ||
            cluster->size + other->size > all->cap)
            continue;
        if (cluster->nearest == SIZE_MAX || nearer(all, of, i, cluster->nearest))
            cluster->nearest = i;
    }
}

/* The cluster whose nearest is nearest of all, SIZE_MAX when none has one. */
static size_t find_pair(const struct clustering *all)
{
    size_t best = SIZE_MAX;
    uint64_t best_shared = 0, best_pairs = 1;
    for (size_t i = 0; i < all->count; i++) {
        const struct cluster *cluster = &all->clusters[i];
        if (!cluster->alive || cluster->nearest == SIZE_MAX)
            continue;
        uint64_t shared = all->shared[i * all->count + cluster->nearest];
        uint64_t pairs = cluster->members * all->clusters[cluster->nearest].members;
        if (best == SIZE_MAX || shared * best_pairs > best_shared * pairs) {
            best = i;
            best_shared = shared;
            best_pairs = pairs;
        }
    }
    return best;
}

static void merge(struct clustering *all, size_t into, size_t from)
{
    struct cluster *kept = &all->clusters[into], *gone = &all->clusters[from];
    kept->size += gone->size;
    kept->members += gone->members;
    gone->alive = false;
    for (size_t i = 0; i < all->count; i++) {
        all->shared[into * all->count + i] += all->shared[from * all->count + i];
        all->shared[i * all->count + into] = all->shared[into * all->count + i];
    }
    /* An average never passes the greater of its parts, so no other nearest can change. */
    for (size_t i = 0; i < all->count; i++) {
        const struct cluster *cluster = &all->clusters[i];
        if (cluster->alive && (i == into || cluster->nearest == into || cluster->nearest == from))
            find_nearest(all, i);
    }
}

static size_t cluster_window(const struct group_item *items, size_t count, size_t cap, size_t first,
                             size_t *out_cluster)
{
    struct clustering all = {
        .clusters = mem_alloc(count, sizeof *all.clusters),
        .shared = count_shared(items, count),
        .count = count,
        .cap = cap,
    };
    for (size_t i = 0; i < count; i++) {
        all.clusters[i] = (struct cluster){true, items[i].size, 1, SIZE_MAX};
        out_cluster[i] = i;
    }
    for (size_t i = 0; i < count; i++)
        find_nearest(&all, i);
    for (size_t a; (a = find_pair(&all)) != SIZE_MAX;) {
        size_t b = all.clusters[a].nearest;
        size_t into = a < b ? a : b, from = a < b ? b : a;
        merge(&all, into, from);
        for (size_t i = 0; i < count; i++)
            if (out_cluster[i] == from)
                out_cluster[i] = into;
    }
    size_t *number = mem_alloc(count, sizeof *number), next = first;
    for (size_t i = 0; i < count; i++)
        if (all.clusters[i].alive)
            number[i] = next++;
    for (size_t i = 0; i < count; i++)
        out_cluster[i] = number[out_cluster[i]];
    free(number);
    free(all.shared);
    free(all.clusters);
    return next;
}

size_t similar_clusters(const struct group_item *items, size_t count, size_t cap,
                        size_t *out_cluster)
{
    size_t clusters = 0;
    for (size_t at = 0; at < count; at += WINDOW) {
        size_t size = count - at < WINDOW ? count - at : WINDOW;
        clusters = cluster_window(items + at, size, cap, clusters, out_cluster + at);
    }
    return clusters;
}
