#ifndef COMPILE_SCHEDULE_H
#define COMPILE_SCHEDULE_H

#include "compile/compile.h"

/* Which unit starts next, and whether one may start now. */
struct schedule {
    const struct compile_unit *units;
    size_t *order, next, count; /* not yet started: order[next..count); order is owned */
    uint64_t memory, used;      /* bytes: of all units at once, and expected of those that run */
    size_t running;
    struct jobserver *jobs; /* NULL: none */
    size_t slots;           /* taken from it */
    bool waits;             /* for a slot */
};

#define SCHEDULE_NONE SIZE_MAX

void schedule_start(struct schedule *schedule, const struct compile_unit *units, size_t count,
                    const struct compile_options *options);

/* Takes the next unit that may start beside those that run: the first of the order that is expected
 * to fit into memory, when the jobserver has a slot for it. One may always run. SCHEDULE_NONE: none
 * now. */
size_t schedule_next(struct schedule *schedule);

/* A unit that was taken has ended. */
void schedule_done(struct schedule *schedule, size_t unit);

bool schedule_is_empty(const struct schedule *schedule);

/* Gives all slots back. */
void schedule_end(struct schedule *schedule);

/* Units that could run at once by their expected memory alone, `most` at most, and at least 1. */
size_t schedule_width(const struct compile_unit *units, size_t count, uint64_t memory, size_t most);

#endif
