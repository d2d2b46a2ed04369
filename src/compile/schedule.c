#include "compile/schedule.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/jobserver.h"

/* What a unit of which nothing is known is counted with. */
#define UNKNOWN_BYTES ((uint64_t)1 << 30)

static uint64_t expected_bytes(const struct compile_unit *unit)
{
    return unit->expected_bytes ? unit->expected_bytes : UNKNOWN_BYTES;
}

/* ---- Order ------------------------------------------------------------------------------------
 */

struct rank {
    size_t unit;
    double seconds;
    off_t bytes;
};

static int by_rank(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    bool x_known = x->seconds > 0, y_known = y->seconds > 0;
    if (x_known != y_known)
        return x_known ? 1 : -1;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

void schedule_start(struct schedule *schedule, const struct compile_unit *units, size_t count,
                    const struct compile_options *options)
{
    struct arena arena = {0};
    struct rank *ranks = arena_alloc(&arena, count, sizeof *ranks);
    *schedule = (struct schedule){.units = units,
                                  .count = count,
                                  .memory = options->memory,
                                  .jobs = options->jobs,
                                  .order = mem_alloc(count, sizeof *schedule->order)};
    for (size_t i = 0; i < count; i++) {
        const struct compile_unit *unit = &units[i];
        struct stat info;
        bool known = unit->expected_seconds > 0;
        bool sized = !known && stat(path_join(&arena, unit->root, unit->source), &info) == 0;
        ranks[i] = (struct rank){i, known ? unit->expected_seconds : 0, sized ? info.st_size : 0};
    }
    qsort(ranks, count, sizeof *ranks, by_rank);
    for (size_t i = 0; i < count; i++)
        schedule->order[i] = ranks[i].unit;
    arena_free(&arena);
}

/* ---- Starting and ending ----------------------------------------------------------------------
 */

static bool fits(const struct schedule *schedule, size_t unit)
{
    uint64_t bytes = expected_bytes(&schedule->units[unit]);
    return !schedule->running || !schedule->memory ||
           (schedule->used <= schedule->memory && bytes <= schedule->memory - schedule->used);
}

static bool take_slot(struct schedule *schedule)
{
    if (!schedule->jobs || schedule->running < schedule->slots + 1)
        return true;
    bool taken = jobserver_take(schedule->jobs);
    schedule->slots += taken;
    schedule->waits = !taken;
    return taken;
}

size_t schedule_next(struct schedule *schedule)
{
    size_t at = schedule->next, *order = schedule->order;
    schedule->waits = false;
    while (at < schedule->count && !fits(schedule, order[at]))
        at++;
    if (at == schedule->count || !take_slot(schedule))
        return SCHEDULE_NONE;
    size_t unit = order[at];
    memmove(&order[schedule->next + 1], &order[schedule->next],
            (at - schedule->next) * sizeof *order);
    schedule->next++;
    schedule->running++;
    schedule->used += expected_bytes(&schedule->units[unit]);
    return unit;
}

/* All but the one slot that is ours from the start. */
static void give_slots(struct schedule *schedule)
{
    size_t needed = schedule->running ? schedule->running - 1 : 0;
    for (; schedule->slots > needed; schedule->slots--)
        jobserver_give(schedule->jobs);
}

void schedule_done(struct schedule *schedule, size_t unit)
{
    schedule->running--;
    schedule->used -= expected_bytes(&schedule->units[unit]);
    give_slots(schedule);
}

bool schedule_is_empty(const struct schedule *schedule)
{
    return schedule->next == schedule->count;
}

void schedule_end(struct schedule *schedule)
{
    schedule->running = 0;
    give_slots(schedule);
    free(schedule->order);
    *schedule = (struct schedule){0};
}

/* ---- Width ------------------------------------------------------------------------------------
 */

static int by_bytes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

size_t schedule_width(const struct compile_unit *units, size_t count, uint64_t memory, size_t most)
{
    uint64_t *bytes = mem_alloc(count, sizeof *bytes), sum = 0;
    size_t width = 0;
    for (size_t i = 0; i < count; i++)
        bytes[i] = expected_bytes(&units[i]);
    if (count)
        qsort(bytes, count, sizeof *bytes, by_bytes);
    while (width < count && width < most &&
           (!memory || (sum <= memory && bytes[width] <= memory - sum)))
        sum += bytes[width++];
    free(bytes);
    return width ? width : 1;
}
