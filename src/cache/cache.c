#include "cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "cache/cache_entry.h"

/* Times of use are written this seldom: enough for an order by use, and no write per hit. */
#define TOUCH_SECONDS 3600

struct header {
    char magic[8];
    uint64_t size;
    struct digest digest; /* of kind, key and the bytes */
};

static const char magic[8] = "kpkcach\1"; /* the last byte is the version */

static struct digest entry_digest(enum cache_kind kind, const struct digest *key, const void *bytes,
                                  size_t size)
{
    struct digest_state state;
    char letter = cache_letters[kind];
    digest_start(&state);
    digest_add(&state, &letter, 1);
    digest_add(&state, key->bytes, sizeof key->bytes);
    digest_add(&state, bytes, size);
    return digest_finish(&state);
}

/* FOLDER/ab/cdef...-KIND; the folder's part of it ends at `out_folder`. */
static void entry_path(const struct cache *cache, enum cache_kind kind, const struct digest *key,
                       struct str *out, size_t *out_folder)
{
    struct str hex = {0};
    digest_hex(key, &hex);
    str_addf(out, "%s/%.2s", cache->folder, hex.data);
    *out_folder = out->len;
    str_addf(out, "/%s-%c", hex.data + 2, cache_letters[kind]);
    str_free(&hex);
}

void cache_open(struct cache *cache, const char *folder, struct diags *diags)
{
    struct diags problem = {0};
    *cache = (struct cache){0};
    if (file_make_dirs(folder, &problem))
        cache->folder = mem_strdup(folder);
    else
        diag_warning(diags, "there is no cache: %s", problem.items[0].message);
    diag_free(&problem);
}

void cache_close(struct cache *cache)
{
    free((char *)cache->folder);
    *cache = (struct cache){0};
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

/* Whether the time of use was old and is new. */
static bool touch(const char *path)
{
    struct stat info;
    struct timespec now;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool due = fd >= 0 && fstat(fd, &info) == 0;
    clock_gettime(CLOCK_REALTIME, &now);
    due = due && (now.tv_sec - info.st_mtime > TOUCH_SECONDS || info.st_mtime > now.tv_sec);
    if (due)
        futimens(fd, NULL);
    if (fd >= 0)
        close(fd);
    return due;
}

static bool is_whole(enum cache_kind kind, const struct digest *key, const struct str *bytes)
{
    struct header header;
    if (bytes->len < sizeof header)
        return false;
    memcpy(&header, bytes->data, sizeof header);
    if (memcmp(header.magic, magic, sizeof magic) != 0 || header.size != bytes->len - sizeof header)
        return false;
    struct digest digest =
        entry_digest(kind, key, bytes->data + sizeof header, (size_t)header.size);
    return memcmp(&digest, &header.digest, sizeof digest) == 0;
}

bool cache_get(struct cache *cache, enum cache_kind kind, const struct digest *key, struct str *out)
{
    str_clear(out);
    if (!cache->folder)
        return false;
    struct str path = {0};
    struct diags ignored = {0};
    size_t folder;
    cache->renewed = false;
    entry_path(cache, kind, key, &path, &folder);
    bool there = file_read(path.data, out, &ignored), ok = there && is_whole(kind, key, out);
    if (ok) {
        size_t size = out->len - sizeof(struct header);
        memmove(out->data, out->data + sizeof(struct header), size + 1);
        out->len = size;
        cache->renewed = touch(path.data);
    } else {
        str_clear(out);
        if (there)
            unlink(path.data);
    }
    str_free(&path);
    diag_free(&ignored);
    return ok;
}

void cache_use(struct cache *cache, const struct cache_name *names, size_t count)
{
    struct str path = {0};
    size_t folder;
    for (size_t i = 0; i < count && cache->folder; i++) {
        str_clear(&path);
        entry_path(cache, names[i].kind, &names[i].key, &path, &folder);
        touch(path.data);
    }
    str_free(&path);
}

/* ---- Writing ----------------------------------------------------------------------------------
 */

static bool write_all(int fd, const void *bytes, size_t size)
{
    for (const char *at = bytes; size;) {
        ssize_t done = write(fd, at, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        at += done;
        size -= (size_t)done;
    }
    return true;
}

static bool put(char *path, size_t folder, const struct header *header, const struct str *bytes)
{
    struct str aside = {0};
    str_addf(&aside, "%.*s/" CACHE_ASIDE "XXXXXX", (int)folder, path);
    int fd = mkostemp(aside.data, O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        path[folder] = '\0';
        if (mkdir(path, 0777) == 0 || errno == EEXIST) {
            strcpy(aside.data + aside.len - 6, "XXXXXX");
            fd = mkostemp(aside.data, O_CLOEXEC);
        }
        path[folder] = '/';
    }
    mode_t mask = umask(0);
    umask(mask);
    bool ok = fd >= 0 && fchmod(fd, 0666 & ~mask) == 0 && write_all(fd, header, sizeof *header) &&
              write_all(fd, bytes->data, bytes->len);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        error = errno;
        ok = false;
    }
    /* One that is gone was removed with the whole cache: that is no fault of the folder. */
    if (ok && rename(aside.data, path) != 0 && errno != ENOENT) {
        error = errno;
        ok = false;
    }
    if (!ok && fd >= 0)
        unlink(aside.data);
    str_free(&aside);
    errno = error;
    return ok;
}

void cache_put(struct cache *cache, enum cache_kind kind, const struct digest *key,
               const struct str *bytes, struct diags *diags)
{
    if (!cache->folder || cache->read_only)
        return;
    struct str path = {0};
    struct header header = {.size = bytes->len};
    size_t folder;
    memcpy(header.magic, magic, sizeof magic);
    header.digest = entry_digest(kind, key, bytes->data, bytes->len);
    entry_path(cache, kind, key, &path, &folder);
    if (!put(path.data, folder, &header, bytes)) {
        cache->read_only = true;
        diag_warning(diags, "cannot write into the cache '%s': %s; new results are not kept",
                     cache->folder, strerror(errno));
    }
    str_free(&path);
}
