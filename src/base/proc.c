#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    ENDS = 8 /* four pipes: in, out, error, and the child's errno; read end first */
};

static void close_all(int fds[ENDS])
{
    for (int i = 0; i < ENDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static bool open_pipes(int fds[ENDS])
{
    for (int i = 0; i < ENDS; i++)
        fds[i] = -1;
    for (int i = 0; i < ENDS; i += 2)
        if (pipe2(fds + i, O_CLOEXEC) != 0)
            return false;
    return true;
}

/* In the child: tells the parent why it does not run. */
static _Noreturn void fail_child(int report)
{
    int error = errno;
    ssize_t done = write(report, &error, sizeof error);
    (void)done;
    _exit(127);
}

/* In the child after fork: only async-signal-safe calls. */
static _Noreturn void run_child(const char *const argv[], char **environment, int fds[ENDS],
                                pid_t parent)
{
    int report = fcntl(fds[7], F_DUPFD_CLOEXEC, 10);
    if (report < 0)
        fail_child(fds[7]);
    const int wanted[3] = {fds[0], fds[3], fds[5]};
    /* A pipe end may itself be 0, 1 or 2 when the caller runs with closed streams: lift all first.
     */
    int high[3];
    for (int i = 0; i < 3; i++)
        if ((high[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, 10)) < 0)
            fail_child(report);
    for (int i = 0; i < 3; i++)
        if (dup2(high[i], i) < 0)
            fail_child(report);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Ignored signals stay ignored across exec; the tool ignores this one while it compiles. */
    signal(SIGPIPE, SIG_DFL);
    execve(argv[0], (char *const *)argv, environment);
    fail_child(report);
}

/* The errno of a child that could not run its program; 0 when it runs, which closes the pipe. */
static int child_error(int report)
{
    int error = 0;
    ssize_t got;
    while ((got = read(report, &error, sizeof error)) < 0 && errno == EINTR)
        ;
    return got == (ssize_t)sizeof error ? error : 0;
}

static char **merged_environment(const char *const extra[])
{
    size_t ours = 0, more = 0, used = 0;
    while (environ[ours])
        ours++;
    while (extra && extra[more])
        more++;
    char **merged = mem_alloc(ours + more + 1, sizeof *merged);
    for (size_t i = 0; i < ours; i++) {
        bool replaced = false;
        for (size_t j = 0; j < more; j++) {
            size_t name = (size_t)(strchr(extra[j], '=') - extra[j]) + 1;
            replaced |= strncmp(environ[i], extra[j], name) == 0;
        }
        if (!replaced)
            merged[used++] = environ[i];
    }
    for (size_t j = 0; j < more; j++)
        merged[used++] = (char *)extra[j];
    return merged;
}

bool proc_start(const char *const argv[], const char *const extra[], struct proc *out_proc,
                struct diags *diags)
{
    *out_proc = (struct proc){.in = -1, .out = -1, .error = -1};
    int fds[ENDS];
    if (!open_pipes(fds)) {
        int error = errno;
        close_all(fds);
        return diag_error(diags, "cannot start '%s': no pipe: %s", argv[0], strerror(error));
    }
    char **environment = merged_environment(extra);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        run_child(argv, environment, fds, parent);
    int error = errno;
    free(environment);
    if (pid < 0) {
        close_all(fds);
        return diag_error(diags, "cannot start '%s': %s", argv[0], strerror(error));
    }
    close(fds[0]);
    close(fds[3]);
    close(fds[5]);
    close(fds[7]);
    *out_proc = (struct proc){.pid = pid, .in = fds[1], .out = fds[2], .error = fds[4]};
    const int mine[3] = {out_proc->in, out_proc->out, out_proc->error};
    for (int i = 0; i < 3; i++)
        fcntl(mine[i], F_SETFL, fcntl(mine[i], F_GETFL) | O_NONBLOCK);
    error = child_error(fds[6]);
    close(fds[6]);
    if (!error)
        return true;
    proc_wait(out_proc);
    return diag_error(diags, "cannot start '%s': %s", argv[0], strerror(error));
}

void proc_close(struct proc *proc)
{
    int *const ends[3] = {&proc->in, &proc->out, &proc->error};
    for (int i = 0; i < 3; i++) {
        if (*ends[i] >= 0)
            close(*ends[i]);
        *ends[i] = -1;
    }
}

int proc_wait(struct proc *proc)
{
    int status = 0;
    proc_close(proc);
    while (proc->pid && waitpid(proc->pid, &status, 0) < 0 && errno == EINTR)
        ;
    proc->pid = 0;
    return status;
}

void proc_kill(struct proc *proc)
{
    if (!proc->pid)
        return;
    kill(proc->pid, SIGKILL);
    proc_wait(proc);
}

void proc_describe(int status, struct str *out)
{
    if (WIFSIGNALED(status))
        str_addf(out, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        str_addf(out, "exited with status %d", WEXITSTATUS(status));
}

uint64_t proc_resident(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    uint64_t pages = 0;
    if (fscanf(file, "%*u %" SCNu64, &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

char *proc_self(struct arena *arena)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length <= 0 || (size_t)length >= sizeof path)
        return arena_strdup(arena, "/proc/self/exe");
    return arena_strndup(arena, path, (size_t)length);
}
