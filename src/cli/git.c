#include "cli/git.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"

static const char *find_git(struct arena *arena)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t length = strcspn(path, ":");
        char *file = path_join(arena, arena_strndup(arena, path, length), "git");
        if (length && access(file, X_OK) == 0 && file_is_regular(file))
            return file;
        path += length + (path[length] == ':');
    }
    return NULL;
}

/* Moves what one pipe holds into `out` (NULL: drops it); closes it at its end. */
static void drain(int *fd, struct str *out)
{
    char chunk[4096];
    ssize_t got = read(*fd, chunk, sizeof chunk);
    if (got > 0 && out)
        str_add(out, chunk, (size_t)got);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
        close(*fd);
        *fd = -1;
    }
}

/* Runs a command; its standard output goes to `out`. Whether it exited with status 0. */
static bool run(const char *const argv[], struct str *out)
{
    struct diags ignored = {0};
    struct proc proc;
    str_clear(out);
    bool ok = proc_start(argv, NULL, &proc, &ignored);
    diag_free(&ignored);
    if (!ok)
        return false;
    close(proc.in);
    proc.in = -1;
    while (proc.out >= 0 || proc.error >= 0) {
        struct pollfd fds[2] = {{proc.out, POLLIN, 0}, {proc.error, POLLIN, 0}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (proc.out >= 0 && fds[0].revents)
            drain(&proc.out, out);
        if (proc.error >= 0 && fds[1].revents)
            drain(&proc.error, NULL);
    }
    int status = proc_wait(&proc);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct git_state git_query(const char *root, const char *const *used, size_t used_count,
                           struct arena *arena)
{
    struct git_state state = {0};
    struct str out = {0};
    const char *git = find_git(arena);
    const char *head[] = {git, "-C", root, "rev-parse", "--verify", "-q", "HEAD", NULL};
    const char *status[] = {git,           "--no-optional-locks",  "-C", root, "status",
                            "--porcelain", "--untracked-files=no", NULL};
    if (!git || !run(head, &out) || !out.len) {
        str_free(&out);
        return state;
    }
    state.commit = arena_strndup(arena, out.data, strcspn(out.data, "\n"));
    state.dirty = !run(status, &out) || out.len;
    if (!state.dirty && used_count) {
        const char *fixed[] = {
            git, "-C", root, "--literal-pathspecs", "ls-files", "--error-unmatch", "--"};
        size_t count = sizeof fixed / sizeof *fixed;
        const char **tracked = arena_alloc(arena, count + used_count + 1, sizeof *tracked);
        memcpy(tracked, fixed, sizeof fixed);
        memcpy(tracked + count, used, used_count * sizeof *used);
        state.dirty = !run(tracked, &out);
    }
    str_free(&out);
    return state;
}
