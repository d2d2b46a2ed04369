#ifndef BASE_JOBSERVER_H
#define BASE_JOBSERVER_H

#include <stdbool.h>
#include <stddef.h>

/* The job slots that GNU make shares with what it starts, by the protocol of its manual ("Sharing
 * Job Slots"): one slot is ours from the start, each further one is a byte read from a pipe and
 * written back. */
struct jobserver {
    int in, out;  /* -1: there is none */
    char *tokens; /* owned: the bytes that are to be written back */
    size_t count, cap;
};

/* Finds the jobserver that MAKEFLAGS names. False when it names one that cannot be reached: make
 * closes it for recipes whose line does not begin with '+'. */
bool jobserver_open(struct jobserver *jobs, const char *makeflags);

/* Gives back what is still held. */
void jobserver_close(struct jobserver *jobs);

/* Takes a slot if one is free now; true without a jobserver. */
bool jobserver_take(struct jobserver *jobs);
void jobserver_give(struct jobserver *jobs);

#endif
