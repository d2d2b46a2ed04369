#include "base/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/proc.h"

const char *run_find(struct arena *arena, const char *name)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t length = strcspn(path, ":");
        char *file = path_join(arena, arena_strndup(arena, path, length), name);
        if (length && access(file, X_OK) == 0 && file_is_regular(file))
            return file;
        path += length + (path[length] == ':');
    }
    return NULL;
}

/* Moves what one pipe holds into `out`; closes it at its end. */
static void drain(int *fd, struct str *out)
{
    char chunk[4096];
    ssize_t got = read(*fd, chunk, sizeof chunk);
    if (got > 0)
        str_add(out, chunk, (size_t)got);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
        close(*fd);
        *fd = -1;
    }
}

/* Whether a signal that ends us waits until whoever blocked it has cleaned up. */
static bool interrupted(void)
{
    sigset_t waiting;
    return sigpending(&waiting) == 0 &&
           (sigismember(&waiting, SIGINT) || sigismember(&waiting, SIGTERM) ||
            sigismember(&waiting, SIGHUP));
}

bool run_program(const char *const argv[], struct run_output *output)
{
    struct diags diags = {0};
    struct proc proc;
    str_clear(&output->out);
    str_clear(&output->error);
    if (!proc_start(argv, NULL, &proc, &diags)) {
        str_adds(&output->error, diags.items[0].message);
        diag_free(&diags);
        return false;
    }
    close(proc.in);
    proc.in = -1;
    while (proc.out >= 0 || proc.error >= 0) {
        struct pollfd fds[2] = {{proc.out, POLLIN, 0}, {proc.error, POLLIN, 0}};
        if (poll(fds, 2, 100) < 0 && errno != EINTR)
            break;
        if (interrupted())
            kill(proc.pid, SIGKILL);
        if (proc.out >= 0 && fds[0].revents)
            drain(&proc.out, &output->out);
        if (proc.error >= 0 && fds[1].revents)
            drain(&proc.error, &output->error);
    }
    int status = proc_wait(&proc);
    if (!output->error.len && status)
        proc_describe(status, &output->error);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void run_free(struct run_output *output)
{
    str_free(&output->out);
    str_free(&output->error);
}
