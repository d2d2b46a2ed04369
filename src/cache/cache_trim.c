#include "cache/cache.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cache/cache_entry.h"

/* A file that is being written belongs to a build that runs, unless it is this old. */
#define LEFTOVER_SECONDS 3600

const char cache_letters[] = {'r', 'n', 'l', 'b'};

static const char *const texts[] = {"results", "lists of names", "last compiles", "builds"};

const char *cache_kind_text(enum cache_kind kind)
{
    return texts[kind];
}

struct found {
    const char *path;
    int kind; /* CACHE_KINDS: a leftover */
    uint64_t size;
    struct timespec used;
};

struct scan {
    struct arena arena;
    struct found *items; /* owned */
    size_t count, cap;
};

static bool is_hex(const char *text, size_t count)
{
    return strspn(text, "0123456789abcdef") >= count;
}

/* The kind of an entry by its name, CACHE_KINDS for one that is being written, -1 for a name that
 * is not ours. */
static int kind_of(const char *name)
{
    enum {
        DIGITS = 2 * DIGEST_SIZE - 2
    };
    if (str_starts(name, CACHE_ASIDE))
        return CACHE_KINDS;
    if (!is_hex(name, DIGITS) || name[DIGITS] != '-' || !name[DIGITS + 1] || name[DIGITS + 2])
        return -1;
    const char *letter = memchr(cache_letters, name[DIGITS + 1], sizeof cache_letters);
    return letter ? (int)(letter - cache_letters) : -1;
}

static void add_file(struct scan *scan, const char *folder, const char *name)
{
    struct stat info;
    int kind = kind_of(name);
    const char *path = kind < 0 ? NULL : path_join(&scan->arena, folder, name);
    if (!path || lstat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return;
    if (scan->count == scan->cap) {
        scan->cap = scan->cap ? scan->cap * 2 : 256;
        scan->items = mem_resize(scan->items, scan->cap, sizeof *scan->items);
    }
    scan->items[scan->count++] = (struct found){path, kind, (uint64_t)info.st_size, info.st_mtim};
}

/* What is ours in the cache. One that does not exist is empty. */
static bool scan_cache(const struct cache *cache, struct scan *out, struct diags *diags)
{
    *out = (struct scan){0};
    DIR *top = opendir(cache->folder);
    if (!top && errno == ENOENT)
        return true;
    if (!top)
        return diag_error(diags, "cannot read the cache '%s': %s", cache->folder, strerror(errno));
    for (struct dirent *item; (item = readdir(top));) {
        if (strlen(item->d_name) != 2 || !is_hex(item->d_name, 2))
            continue;
        const char *folder = path_join(&out->arena, cache->folder, item->d_name);
        DIR *dir = opendir(folder);
        for (struct dirent *file; dir && (file = readdir(dir));)
            add_file(out, folder, file->d_name);
        if (dir)
            closedir(dir);
    }
    closedir(top);
    return true;
}

static void scan_free(struct scan *scan)
{
    free(scan->items);
    arena_free(&scan->arena);
}

static void count(const struct found *found, struct cache_stats *stats)
{
    if (found->kind == CACHE_KINDS) {
        stats->leftovers++;
        stats->leftover_bytes += found->size;
    } else {
        stats->entries[found->kind]++;
        stats->bytes[found->kind] += found->size;
    }
}

bool cache_stats(const struct cache *cache, struct cache_stats *out, struct diags *diags)
{
    struct scan scan;
    *out = (struct cache_stats){0};
    bool ok = scan_cache(cache, &scan, diags);
    for (size_t i = 0; i < scan.count; i++)
        count(&scan.items[i], out);
    scan_free(&scan);
    return ok;
}

static int by_use(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* One that another process has removed meanwhile is gone all the same. */
static bool drop(const struct found *found, struct cache_stats *stats, struct diags *diags)
{
    if (unlink(found->path) != 0 && errno != ENOENT)
        return diag_error(diags, "cannot remove '%s': %s", found->path, strerror(errno));
    count(found, stats);
    return true;
}

bool cache_trim(struct cache *cache, uint64_t most, struct cache_stats *out_removed,
                struct diags *diags)
{
    struct scan scan;
    uint64_t left = 0;
    time_t now = time(NULL);
    *out_removed = (struct cache_stats){0};
    bool ok = scan_cache(cache, &scan, diags);
    if (scan.count)
        qsort(scan.items, scan.count, sizeof *scan.items, by_use);
    for (size_t i = 0; i < scan.count; i++)
        left += scan.items[i].kind < CACHE_KINDS ? scan.items[i].size : 0;
    for (size_t i = 0; i < scan.count && ok; i++) {
        const struct found *found = &scan.items[i];
        bool leftover = found->kind == CACHE_KINDS;
        if (leftover ? now - found->used.tv_sec < LEFTOVER_SECONDS : left <= most)
            continue;
        ok = drop(found, out_removed, diags);
        left -= leftover ? 0 : found->size;
    }
    scan_free(&scan);
    return ok;
}
