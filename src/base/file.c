#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/watch.h"

/* What was written aside this long ago is of a build that was killed, if nobody holds its lock. */
#define STALE_SECONDS 3600

bool file_exists(const char *path)
{
    watch_note_type(path);
    return access(path, F_OK) == 0;
}

bool file_is_regular(const char *path)
{
    struct stat info;
    watch_note_type(path);
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool file_is_dir(const char *path)
{
    struct stat info;
    watch_note_type(path);
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool file_read(const char *path, struct str *out, struct diags *diags)
{
    str_clear(out);
    struct stat info;
    /* O_NONBLOCK: a FIFO must not hang us before fstat can refuse it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return diag_error(diags, "cannot read '%s': %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return diag_error(diags, "cannot read '%s': %s, expected a regular file", path,
                          S_ISDIR(info.st_mode) ? "it is a directory" : "it is a special file");
    }
    char chunk[64 * 1024];
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int error = errno;
            close(fd);
            return diag_error(diags, "cannot read '%s': %s", path, strerror(error));
        }
        str_add(out, chunk, (size_t)got);
    }
    close(fd);
    if (!out->data)
        str_add(out, "", 0);
    watch_note_bytes(path, &info, out->data, out->len);
    return true;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        bytes += done;
        size -= (size_t)done;
    }
    return true;
}

/* The folder's own entry must reach the disk too; a file system that cannot flush folders says
 * EINVAL, which loses nothing that we promised. */
static bool flush_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = fsync(fd) == 0 || errno == EINVAL;
    int error = errno;
    close(fd);
    errno = error;
    return ok;
}

/* Where a file goes that is published as `path`: a link stays a link, and what is no regular file,
 * a device perhaps, stays what it is. NULL with an error in the latter case. */
static const char *publish_place(struct arena *arena, const char *path, struct diags *diags)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return path;
    if (!S_ISREG(info.st_mode)) {
        diag_error(diags, "cannot write '%s': it is %s", path,
                   S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
        return NULL;
    }
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode) ? path_real(arena, path, diags) : path;
}

/* What a build that was killed left beside the file. Whoever still writes one holds its lock; its
 * age counts too, as a lock may not reach from machine to machine. */
static void remove_stale(struct arena *arena, const char *dir, const char *prefix)
{
    DIR *folder = opendir(dir);
    for (struct dirent *item; folder && (item = readdir(folder));) {
        struct stat held, named;
        if (!str_starts(item->d_name, prefix) || strlen(item->d_name) != strlen(prefix) + 6)
            continue;
        const char *path = path_join(arena, dir, item->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        if (fd >= 0 && fstat(fd, &held) == 0 && S_ISREG(held.st_mode) && held.st_uid == geteuid() &&
            time(NULL) - held.st_mtime > STALE_SECONDS && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
            lstat(path, &named) == 0 && named.st_ino == held.st_ino && named.st_dev == held.st_dev)
            unlink(path);
        if (fd >= 0)
            close(fd);
    }
    if (folder)
        closedir(folder);
}

/* A new file for us alone: until we hold its lock, another process may take it for a stale one.
 * Where there are no locks, nothing is stale. */
static int open_aside(char *aside)
{
    struct stat info;
    size_t suffix = strlen(aside) - 6;
    for (int i = 0; i < 100; i++) {
        strcpy(aside + suffix, "XXXXXX");
        int fd = mkostemp(aside, O_CLOEXEC);
        bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (locked ? fstat(fd, &info) == 0 && info.st_nlink : fd < 0 || errno != EWOULDBLOCK)
            return fd;
        close(fd);
        errno = EAGAIN;
    }
    return -1;
}

/* `shown` is the name in messages. */
static bool publish(const char *path, const char *shown, const void *bytes, size_t size,
                    struct arena *arena, struct diags *diags)
{
    char *dir = path_dir(arena, path);
    char *prefix = arena_printf(arena, ".%s.kpack-new-", path_base(path));
    char *aside = arena_printf(arena, "%s/%sXXXXXX", dir, prefix);
    remove_stale(arena, dir, prefix);
    const char *step = "create a file beside";
    int fd = open_aside(aside);
    bool made = fd >= 0, ok = made;
    if (ok) {
        mode_t mask = umask(0);
        umask(mask);
        step = "write";
        ok = fchmod(fd, 0666 & ~mask) == 0 && write_all(fd, bytes, size) && fsync(fd) == 0;
    }
    if (ok) {
        step = "put in place";
        ok = rename(aside, path) == 0 && flush_dir(dir);
    }
    int error = errno;
    if (!ok && made)
        unlink(aside);
    if (made)
        close(fd);
    return ok || diag_error(diags, "cannot %s '%s': %s", step, shown, strerror(error));
}

bool file_publish(const char *path, const void *bytes, size_t size, struct diags *diags)
{
    struct arena arena = {0};
    const char *place = publish_place(&arena, path, diags);
    bool ok = place && publish(place, path, bytes, size, &arena, diags);
    arena_free(&arena);
    return ok;
}

static bool holds(const char *path, const void *bytes, size_t size)
{
    struct diags ignored = {0}; /* unreadable counts as different */
    struct str old = {0};
    bool same = file_is_regular(path) && file_read(path, &old, &ignored) && old.len == size &&
                memcmp(old.data, bytes, size) == 0;
    str_free(&old);
    diag_free(&ignored);
    return same;
}

bool file_update(const char *path, const void *bytes, size_t size, bool *out_written,
                 struct diags *diags)
{
    *out_written = !holds(path, bytes, size);
    return !*out_written || file_publish(path, bytes, size, diags);
}

bool file_make_dirs(const char *path, struct diags *diags)
{
    struct arena arena = {0};
    char *copy = arena_strdup(&arena, path);
    bool ok = true;
    for (char *at = copy + 1; ok; at++) {
        char end = *at;
        if (end != '/' && end != '\0')
            continue;
        *at = '\0';
        if (mkdir(copy, 0777) != 0 && !file_is_dir(copy))
            ok =
                diag_error(diags, "cannot make the folder '%s': %s", copy,
                           errno == EEXIST ? "a file of that name is in the way" : strerror(errno));
        *at = end;
        if (!end)
            break;
    }
    arena_free(&arena);
    return ok;
}

char *path_join(struct arena *arena, const char *folder, const char *name)
{
    if (name[0] == '/' || strcmp(folder, ".") == 0 || !folder[0])
        return arena_strdup(arena, name);
    return arena_printf(arena, "%s%s%s", folder, str_ends(folder, "/") ? "" : "/", name);
}

char *path_dir(struct arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return arena_strdup(arena, ".");
    return arena_strndup(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *path_stem(struct arena *arena, const char *path)
{
    const char *base = path_base(path), *dot = strrchr(base, '.');
    return arena_strndup(arena, base, dot && dot != base ? (size_t)(dot - base) : strlen(base));
}

char *path_real(struct arena *arena, const char *path, struct diags *diags)
{
    char *real = realpath(path, NULL);
    if (!real) {
        diag_error(diags, "cannot find '%s': %s", path, strerror(errno));
        return NULL;
    }
    char *copy = arena_strdup(arena, real);
    watch_note_link(path, real);
    free(real);
    return copy;
}
