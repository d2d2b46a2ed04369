#include "compile/file_layer.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/embed.h"

/* NVRTC compiles on a thread of its own, so the state is the process's and under a lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct layer_log *active; /* NULL: every call goes straight to libc */
static const char *const *cuda_folders;
static size_t cuda_folder_count;

/* What a file held. Headers of CUDA are read by unit after unit: what has not changed for a while
 * is kept for the life of the worker, and taken again when the file is still the same one. */
struct layer_content {
    struct layer_content *next; /* of `kept` */
    bool shared;                /* in `kept`; otherwise of one log */
    struct stat info;
    struct digest digest; /* of the whole file */
    struct str bytes;     /* without a byte order mark */
};

enum {
    KEPT_BYTES_MAX = 64 << 20,
    SETTLED_SECONDS = 2, /* more than any file system's clock tick: git's racy rule */
};

static struct layer_content *kept;
static size_t kept_bytes;

struct source {
    int fd;                         /* -1: not a file of the disk */
    const struct embed_file *embed; /* NULL: not built in */
    struct stat info;
};

void layer_set_cuda(const char *const *folders, size_t count)
{
    cuda_folders = folders;
    cuda_folder_count = count;
}

static const char *below(const char *name, const char *root)
{
    size_t length = strlen(root);
    if (strncmp(name, root, length) != 0 || (name[length] && name[length] != '/'))
        return NULL;
    name += length;
    while (*name == '/')
        name++;
    return name;
}

/* The name as it is recorded: without "./" in front and without the virtual current folder. */
static const char *plain_name(const char *name)
{
    const char *rest = below(name, COMPILE_CWD);
    if (rest)
        name = *rest ? rest : ".";
    while (name[0] == '.' && name[1] == '/') {
        name += 2;
        while (*name == '/')
            name++;
    }
    return *name ? name : ".";
}

static int open_file(const char *name, struct stat *out_info)
{
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    int fd = openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, out_info) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool find_embedded(const char *name, struct source *out)
{
    for (const struct embed_file *file = embed_headers; file->name; file++)
        if (strcmp(file->name, name) == 0) {
            out->embed = file;
            out->info.st_mode = S_IFREG | 0444;
            out->info.st_size = (off_t)file->size;
            out->info.st_ino = (ino_t)(file - embed_headers) + 1;
            out->info.st_nlink = 1;
            return true;
        }
    errno = ENOENT;
    return false;
}

/* Finds what a name stands for; false with errno when nothing does. */
static bool open_source(const char *name, struct source *out)
{
    *out = (struct source){.fd = -1};
    const char *rest;
    if ((rest = below(name, COMPILE_HEADERS_ROOT)))
        return find_embedded(rest, out);
    if (!(rest = below(name, COMPILE_CUDA_ROOT))) {
        out->fd = open_file(name, &out->info);
        return out->fd >= 0;
    }
    char path[PATH_MAX];
    for (size_t i = 0; i < cuda_folder_count; i++) {
        if ((size_t)snprintf(path, sizeof path, "%s/%s", cuda_folders[i], rest) >= sizeof path)
            continue;
        out->fd = open_file(path, &out->info);
        if (out->fd >= 0)
            return true;
    }
    errno = ENOENT;
    return false;
}

static void keep_name(struct layer_log *log, const char ***list, size_t *count, size_t *cap,
                      const char *name)
{
    if (*count == *cap) {
        *cap = *cap ? *cap * 2 : 64;
        *list = mem_resize(*list, *cap, sizeof **list);
    }
    (*list)[(*count)++] = arena_strdup(&log->arena, name);
}

static void keep_missed(const char *name)
{
    keep_name(active, &active->missed, &active->missed_count, &active->missed_cap, name);
}

static void keep_refused(const char *name)
{
    keep_name(active, &active->refused, &active->refused_count, &active->refused_cap, name);
}

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static const struct str *find_opened(const char *name)
{
    for (size_t i = 0; i < active->opened_count; i++)
        if (strcmp(active->opened[i].name, name) == 0)
            return &active->contents[i]->bytes;
    return NULL;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           nanoseconds(a->st_mtim) == nanoseconds(b->st_mtim) &&
           nanoseconds(a->st_ctim) == nanoseconds(b->st_ctim);
}

static struct layer_content *find_kept(const struct stat *info)
{
    for (struct layer_content *content = kept; content; content = content->next)
        if (same_file(&content->info, info))
            return content;
    return NULL;
}

/* Takes the bytes of a whole file. */
static struct layer_content *new_content(const struct stat *info, struct str bytes)
{
    struct layer_content *content = mem_alloc(1, sizeof *content);
    struct digest_state state;
    digest_start(&state);
    digest_add(&state, bytes.data, bytes.len);
    content->digest = digest_finish(&state);
    static const char mark[3] = "\xef\xbb\xbf";
    if (bytes.len >= sizeof mark && memcmp(bytes.data, mark, sizeof mark) == 0) {
        memmove(bytes.data, bytes.data + sizeof mark, bytes.len - sizeof mark + 1);
        bytes.len -= sizeof mark;
    }
    content->info = *info;
    content->bytes = bytes;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time_t settled = now.tv_sec - SETTLED_SECONDS;
    content->shared = info->st_dev && info->st_mtim.tv_sec < settled &&
                      info->st_ctim.tv_sec < settled && bytes.len <= KEPT_BYTES_MAX - kept_bytes;
    if (content->shared) {
        kept_bytes += bytes.len;
        content->next = kept;
        kept = content;
    }
    return content;
}

static const struct str *keep_opened(const char *name, struct layer_content *content)
{
    struct layer_log *log = active;
    const struct stat *info = &content->info;
    if (log->opened_count == log->opened_cap) {
        log->opened_cap = log->opened_cap ? log->opened_cap * 2 : 64;
        log->opened = mem_resize(log->opened, log->opened_cap, sizeof *log->opened);
        log->contents = mem_resize(log->contents, log->opened_cap, sizeof(struct layer_content *));
    }
    log->contents[log->opened_count] = content;
    log->opened[log->opened_count++] = (struct compile_input){
        .name = arena_strdup(&log->arena, name),
        .digest = content->digest,
        .dev = info->st_dev,
        .ino = info->st_dev ? info->st_ino : 0,
        .size = (uint64_t)info->st_size,
        .mtime_ns = nanoseconds(info->st_mtim),
        .ctime_ns = nanoseconds(info->st_ctim),
    };
    return &content->bytes;
}

static bool read_all(int fd, struct str *out)
{
    char chunk[64 * 1024];
    for (ssize_t got; (got = read(fd, chunk, sizeof chunk)) != 0;) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        str_add(out, chunk, (size_t)got);
    }
    return true;
}

/* Under the lock, with a log. The bytes of a file, the same ones whenever the name is asked for
 * again: what is recorded is what was compiled even when the file changes meanwhile. */
static int read_source(const char *given, const struct str **out)
{
    const char *name = plain_name(given);
    struct source source;
    if ((*out = find_opened(name)))
        return 0;
    if (!open_source(name, &source)) {
        int error = errno;
        keep_missed(name);
        if (error != ENOENT && error != ENOTDIR)
            keep_refused(name);
        return error;
    }
    int error = 0;
    bool regular = S_ISREG(source.info.st_mode);
    struct layer_content *content = regular && !source.embed ? find_kept(&source.info) : NULL;
    struct str bytes = {0};
    str_add(&bytes, "", 0);
    if (!regular)
        error = S_ISDIR(source.info.st_mode) ? EISDIR : EINVAL;
    else if (source.embed)
        str_add(&bytes, source.embed->data, source.embed->size);
    else if (!content && !read_all(source.fd, &bytes))
        error = errno;
    if (source.fd >= 0)
        close(source.fd);
    if (!error) {
        if (!content)
            content = new_content(&source.info, bytes);
        else
            str_free(&bytes);
        *out = keep_opened(name, content);
        return 0;
    }
    /* A readable file in its place would count. */
    keep_missed(name);
    keep_refused(name);
    str_free(&bytes);
    return error;
}

int layer_read(const char *name, const struct str **out)
{
    pthread_mutex_lock(&lock);
    int error = read_source(name, out);
    pthread_mutex_unlock(&lock);
    return error;
}

void layer_start(struct layer_log *log)
{
    *log = (struct layer_log){0};
    pthread_mutex_lock(&lock);
    active = log;
    pthread_mutex_unlock(&lock);
}

void layer_stop(void)
{
    const struct str *bytes;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < active->seen_count; i++)
        read_source(active->seen[i], &bytes);
    active = NULL;
    pthread_mutex_unlock(&lock);
}

void layer_free(struct layer_log *log)
{
    for (size_t i = 0; i < log->opened_count; i++)
        if (!log->contents[i]->shared) {
            str_free(&log->contents[i]->bytes);
            free(log->contents[i]);
        }
    free(log->opened);
    free(log->contents);
    free(log->seen);
    free(log->missed);
    free(log->refused);
    arena_free(&log->arena);
    *log = (struct layer_log){0};
}

/* Under the lock, with a log. */
static FILE *open_stream(const char *name, const char *mode)
{
    if (strchr(mode, 'w') || strchr(mode, 'a') || strchr(mode, '+')) {
        keep_refused(name);
        errno = EACCES;
        return NULL;
    }
    const struct str *bytes = NULL;
    int error = read_source(name, &bytes);
    FILE *stream = error ? NULL : fmemopen(bytes->data, bytes->len, "r");
    if (!stream)
        errno = error ? error : EIO;
    return stream;
}

static int find_info(const char *given, struct stat *out)
{
    const char *name = plain_name(given);
    struct source source;
    if (!open_source(name, &source)) {
        int error = errno;
        keep_missed(name);
        if (error != ENOENT && error != ENOTDIR)
            keep_refused(name);
        errno = error;
        return -1;
    }
    if (source.fd >= 0)
        close(source.fd);
    if (!S_ISREG(source.info.st_mode) && !S_ISDIR(source.info.st_mode)) {
        keep_missed(name);
        keep_refused(name);
        errno = ENOENT;
        return -1;
    }
    if (S_ISREG(source.info.st_mode))
        keep_name(active, &active->seen, &active->seen_count, &active->seen_cap, name);
    static const struct timespec never;
    source.info.st_atim = source.info.st_mtim = source.info.st_ctim = never;
    *out = source.info;
    return 0;
}

/* ---- What NVRTC's calls reach ---------------------------------------------------------------- */

#define NEXT(name)                                                                                 \
    static __typeof__(name) *next;                                                                 \
    if (!next) {                                                                                   \
        void *address = dlsym(RTLD_NEXT, #name);                                                   \
        memcpy(&next, &address, sizeof next);                                                      \
    }

static bool is_layered(void)
{
    pthread_mutex_lock(&lock);
    bool layered = active != NULL;
    pthread_mutex_unlock(&lock);
    return layered;
}

FILE *fopen(const char *name, const char *mode)
{
    NEXT(fopen)
    pthread_mutex_lock(&lock);
    bool layered = active != NULL;
    FILE *stream = layered ? open_stream(name, mode) : NULL;
    pthread_mutex_unlock(&lock);
    return layered ? stream : next(name, mode);
}

FILE *fopen64(const char *name, const char *mode)
{
    return fopen(name, mode);
}

/* glibc 2.33 and newer export these for old binaries and no longer declare them. */
int __xstat(int version, const char *name, struct stat *out);
int __lxstat(int version, const char *name, struct stat *out);

int __xstat(int version, const char *name, struct stat *out)
{
    (void)version;
    pthread_mutex_lock(&lock);
    bool layered = active != NULL;
    if (layered)
        active->calls++;
    int result = layered ? find_info(name, out) : 0;
    pthread_mutex_unlock(&lock);
    return layered ? result : fstatat(AT_FDCWD, name, out, 0);
}

int __lxstat(int version, const char *name, struct stat *out)
{
    return __xstat(version, name, out);
}

int access(const char *name, int mode)
{
    struct stat info;
    if (!is_layered())
        return faccessat(AT_FDCWD, name, mode, 0);
    if (mode & W_OK) {
        errno = EACCES;
        return -1;
    }
    return __xstat(1, name, &info);
}

/* NVRTC reads sources with fopen; this is what its reports of time and the like are written with.
 */
int open(const char *name, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (!is_layered())
        return openat(AT_FDCWD, name, flags, mode);
    errno = EACCES;
    return -1;
}

char *getcwd(char *buffer, size_t size)
{
    NEXT(getcwd)
    if (!is_layered())
        return next(buffer, size);
    if (!buffer)
        return strdup(COMPILE_CWD);
    if (size <= strlen(COMPILE_CWD)) {
        errno = ERANGE;
        return NULL;
    }
    return strcpy(buffer, COMPILE_CWD);
}

/* The clock behind __DATE__ and __TIME__. */
time_t time(time_t *out)
{
    struct timespec now = {0};
    if (!is_layered())
        clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
