#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"

/* A child process with its three standard streams on pipes. The ends here are close-on-exec and
 * non-blocking. */
struct proc {
    pid_t pid;      /* 0: none */
    int in;         /* we write, it reads; -1: closed */
    int out, error; /* it writes, we read; -1: closed */
};

/* Starts argv[0] (a path) with our environment plus the NULL-terminated `extra` NAME=VALUE strings
 * (NULL: none). The child dies with us. A program that cannot be executed is an error here. */
bool proc_start(const char *const argv[], const char *const extra[], struct proc *out_proc,
                struct diags *diags);

/* Closes the pipes that are still open; the child then sees the end of its input. */
void proc_close(struct proc *proc);

/* Kills the child, waits for it and closes the pipes. Does nothing when there is none. */
void proc_kill(struct proc *proc);

/* Waits for the child and closes the pipes; returns waitpid's status. */
int proc_wait(struct proc *proc);

/* Text of a waitpid status: "exited with status 1", "was killed by signal 11 (Segmentation fault)".
 */
void proc_describe(int status, struct str *out);

/* Resident bytes of a process now, 0 when unknown. */
uint64_t proc_resident(pid_t pid);

/* Path of this very executable, in the arena. */
char *proc_self(struct arena *arena);

#endif
