#include "base/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The coarsest clock of a file system in use: FAT's. */
#define CLOCK_STEP_NS 2000000000

static struct watch *active;

void watch_init(struct watch *watch)
{
    struct timespec now;
    /* The clock that the kernel stamps files with. */
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    *watch = (struct watch){.since_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
}

void watch_free(struct watch *watch)
{
    free(watch->items);
    arena_free(&watch->arena);
    map_free(&watch->known);
    *watch = (struct watch){0};
}

void watch_start(struct watch *watch)
{
    active = watch;
}

void watch_stop(void)
{
    active = NULL;
}

static char *item_key(struct watch *watch, enum watch_kind kind, const char *path)
{
    return arena_printf(&watch->arena, "%c%s", 'a' + (char)kind, path);
}

struct watch_item *watch_find(struct watch *watch, enum watch_kind kind, const char *path)
{
    uintptr_t found = (uintptr_t)map_find(&watch->known, item_key(watch, kind, path));
    return found ? &watch->items[found - 1] : NULL;
}

struct watch_item *watch_add(struct watch *watch, enum watch_kind kind, const char *path,
                             bool *out_new)
{
    char *key = item_key(watch, kind, path);
    void **slot = map_at(&watch->known, key);
    *out_new = !*slot;
    if (*slot)
        return &watch->items[(uintptr_t)*slot - 1];
    if (watch->count == watch->cap) {
        watch->cap = watch->cap ? watch->cap * 2 : 64;
        watch->items = mem_resize(watch->items, watch->cap, sizeof *watch->items);
    }
    struct watch_item *item = &watch->items[watch->count++];
    *item = (struct watch_item){.kind = kind, .path = key + 1, .text = ""};
    *slot = (void *)(uintptr_t)watch->count;
    return item;
}

/* ---- Asking -----------------------------------------------------------------------------------
 */

struct watch_stamp watch_stamp_of(const struct stat *info)
{
    return (struct watch_stamp){
        .dev = info->st_dev,
        .ino = info->st_ino,
        .size = (uint64_t)info->st_size,
        .mtime_ns = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec,
        .ctime_ns = (int64_t)info->st_ctim.tv_sec * 1000000000 + info->st_ctim.tv_nsec,
    };
}

const char *watch_type_of(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR ? "nothing" : "other";
    return S_ISREG(info.st_mode) ? "file" : S_ISDIR(info.st_mode) ? "folder" : "other";
}

/* False when the path is no readable regular file. */
static bool read_bytes(const char *path, struct watch_stamp *out_stamp, struct digest *out_digest)
{
    struct stat info;
    char chunk[64 * 1024];
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        struct digest_state state;
        digest_start(&state);
        while ((got = read(fd, chunk, sizeof chunk)) > 0 || (got < 0 && errno == EINTR))
            digest_add(&state, chunk, got > 0 ? (size_t)got : 0);
        *out_stamp = watch_stamp_of(&info);
        *out_digest = digest_finish(&state);
    }
    if (fd >= 0)
        close(fd);
    return got == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool read_names(const char *path, struct watch_stamp *out_stamp, struct digest *out_digest)
{
    struct stat info;
    struct dirent **found = NULL;
    if (stat(path, &info) != 0)
        return false;
    int count = scandir(path, &found, NULL, by_name);
    struct digest_state state;
    digest_start(&state);
    for (int i = 0; i < count; i++) {
        digest_add(&state, found[i]->d_name, strlen(found[i]->d_name) + 1);
        free(found[i]);
    }
    free(found);
    *out_stamp = watch_stamp_of(&info);
    *out_digest = digest_finish(&state);
    return count >= 0;
}

static bool same_stamp(const struct watch_stamp *a, const struct watch_stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

static bool is_old(const struct watch_stamp *stamp, int64_t since_ns)
{
    return stamp->mtime_ns < since_ns - CLOCK_STEP_NS && stamp->ctime_ns < since_ns - CLOCK_STEP_NS;
}

/* ---- Noting -----------------------------------------------------------------------------------
 */

/* The item that a note is to fill, NULL when nothing is watched or it was noted before. */
static struct watch_item *note(enum watch_kind kind, const char *path)
{
    bool is_new = false;
    struct watch_item *item = active ? watch_add(active, kind, path, &is_new) : NULL;
    return is_new ? item : NULL;
}

void watch_type(struct watch *watch, const char *path)
{
    bool is_new;
    struct watch_item *item = watch_add(watch, WATCH_TYPE, path, &is_new);
    if (is_new)
        item->text = watch_type_of(path);
}

void watch_path(struct watch *watch, const char *path)
{
    struct watch_stamp stamp;
    struct digest digest;
    bool is_new;
    if (!read_bytes(path, &stamp, &digest)) {
        watch_type(watch, path);
        return;
    }
    struct watch_item *item = watch_add(watch, WATCH_BYTES, path, &is_new);
    item->stamp = stamp;
    item->digest = digest;
}

void watch_written(struct watch *watch, const char *path, const struct digest *digest)
{
    struct stat info = {0};
    bool is_new;
    struct watch_item *item = watch_add(watch, WATCH_BYTES, path, &is_new);
    if (stat(path, &info) == 0)
        item->stamp = watch_stamp_of(&info);
    item->digest = *digest;
}

void watch_note_bytes(const char *path, const struct stat *info, const void *bytes, size_t size)
{
    struct watch_item *item = note(WATCH_BYTES, path);
    if (!item)
        return;
    item->stamp = watch_stamp_of(info);
    item->digest = digest_bytes(bytes, size);
}

void watch_note_stamp(const char *path, const struct stat *info)
{
    struct watch_item *item = note(WATCH_STAMP, path);
    if (item)
        item->stamp = watch_stamp_of(info);
}

void watch_note_names(const char *folder)
{
    struct watch_stamp stamp;
    struct digest digest;
    if (!active)
        return;
    if (!read_names(folder, &stamp, &digest)) {
        watch_type(active, folder);
        return;
    }
    struct watch_item *item = note(WATCH_NAMES, folder);
    if (item) {
        item->stamp = stamp;
        item->digest = digest;
    }
}

void watch_note_type(const char *path)
{
    if (active)
        watch_type(active, path);
}

void watch_note_link(const char *path, const char *real)
{
    struct watch_item *item = note(WATCH_LINK, path);
    if (item)
        item->text = arena_strdup(&active->arena, real);
}

bool watch_settle(struct watch *watch)
{
    for (size_t i = 0; i < watch->count; i++) {
        struct watch_item *item = &watch->items[i];
        struct watch_stamp stamp;
        if (item->kind != WATCH_STAMP || is_old(&item->stamp, watch->since_ns))
            continue;
        if (!read_bytes(item->path, &stamp, &item->digest) || !same_stamp(&stamp, &item->stamp))
            return false;
        item->kind = WATCH_BYTES;
    }
    return true;
}

/* ---- Asking again -----------------------------------------------------------------------------
 */

static enum watch_verdict check_content(struct watch_item *item, int64_t since_ns)
{
    struct stat info;
    if (stat(item->path, &info) != 0)
        return WATCH_DIFFERENT;
    struct watch_stamp stamp = watch_stamp_of(&info);
    if (same_stamp(&stamp, &item->stamp) && is_old(&stamp, since_ns))
        return WATCH_SAME;
    struct digest digest;
    bool names = item->kind == WATCH_NAMES;
    if (item->kind == WATCH_STAMP || (!names && stamp.size != item->stamp.size) ||
        !(names ? read_names : read_bytes)(item->path, &item->stamp, &digest) ||
        memcmp(&digest, &item->digest, sizeof digest) != 0)
        return WATCH_DIFFERENT;
    return WATCH_SAME_BYTES;
}

enum watch_verdict watch_check(struct watch_item *item, int64_t since_ns)
{
    if (item->kind == WATCH_TYPE)
        return strcmp(watch_type_of(item->path), item->text) == 0 ? WATCH_SAME : WATCH_DIFFERENT;
    if (item->kind != WATCH_LINK)
        return check_content(item, since_ns);
    char *real = realpath(item->path, NULL);
    bool same = real && strcmp(real, item->text) == 0;
    free(real);
    return same ? WATCH_SAME : WATCH_DIFFERENT;
}
