#include "base/jobserver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

/* The value of the last option of that name, up to the next blank; NULL: none. */
static const char *last_option(const char *flags, const char *name)
{
    const char *found = NULL;
    size_t length = strlen(name);
    for (const char *at = flags; (at = strstr(at, name)); at += length)
        if (at == flags || at[-1] == ' ')
            found = at + length;
    return found;
}

/* A description of our own of an inherited pipe: whether it blocks is nobody else's matter. */
static int reopen(int fd, int flags)
{
    char path[64];
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_NONBLOCK | O_CLOEXEC);
}

static void open_named(struct jobserver *jobs, const char *value)
{
    size_t length = strcspn(value, " ");
    char *path = mem_alloc(length + 1, 1);
    struct stat info;
    memcpy(path, value, length);
    if (stat(path, &info) == 0 && S_ISFIFO(info.st_mode)) {
        jobs->in = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        jobs->out = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    }
    free(path);
}

bool jobserver_open(struct jobserver *jobs, const char *makeflags)
{
    static const char named[] = "fifo:";
    *jobs = (struct jobserver){.in = -1, .out = -1};
    const char *value = makeflags ? last_option(makeflags, "--jobserver-auth=") : NULL;
    if (makeflags && !value)
        value = last_option(makeflags, "--jobserver-fds=");
    int in, out;
    if (!value)
        return true;
    if (str_starts(value, named)) {
        open_named(jobs, value + strlen(named));
    } else if (sscanf(value, "%d,%d", &in, &out) == 2 && in > 2 && out > 2) {
        jobs->in = reopen(in, O_RDONLY);
        jobs->out = reopen(out, O_WRONLY);
    }
    if (jobs->in >= 0 && jobs->out >= 0)
        return true;
    jobserver_close(jobs);
    return false;
}

void jobserver_close(struct jobserver *jobs)
{
    while (jobs->count)
        jobserver_give(jobs);
    if (jobs->in >= 0)
        close(jobs->in);
    if (jobs->out >= 0)
        close(jobs->out);
    free(jobs->tokens);
    *jobs = (struct jobserver){.in = -1, .out = -1};
}

bool jobserver_take(struct jobserver *jobs)
{
    char token;
    ssize_t got;
    if (jobs->in < 0)
        return true;
    while ((got = read(jobs->in, &token, 1)) < 0 && errno == EINTR)
        ;
    if (got != 1)
        return false;
    if (jobs->count == jobs->cap) {
        jobs->cap = jobs->cap ? jobs->cap * 2 : 16;
        jobs->tokens = mem_resize(jobs->tokens, jobs->cap, 1);
    }
    jobs->tokens[jobs->count++] = token;
    return true;
}

void jobserver_give(struct jobserver *jobs)
{
    if (!jobs->count)
        return;
    jobs->count--;
    while (write(jobs->out, &jobs->tokens[jobs->count], 1) < 0 && errno == EINTR)
        ;
}
