#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"
#include "compile/compile.h"

/* What a build says while it compiles, on standard error. */

enum progress_mode {
    PROGRESS_NONE,  /* errors and warnings only */
    PROGRESS_PLAIN, /* one line per finished unit */
    PROGRESS_LIVE,  /* one status line that redraws itself */
};

struct progress {
    struct cli *cli;
    enum progress_mode mode;
    const struct compile_unit *units;
    const struct compile_result *results;
    size_t total, done;
    double start;
    double typical;    /* mean of the units' expected seconds, where they are known; else 1 */
    double work, left; /* expected seconds of all units, and of those not done */
    size_t *running;   /* owned: units that run now, in the order they started */
    size_t running_count;
};

/* False when `text` (NULL: auto) is no mode. */
bool progress_parse(const char *text, enum progress_mode *out_mode);

void progress_start(struct progress *progress, struct cli *cli, enum progress_mode mode,
                    const struct compile_unit *units, const struct compile_result *results,
                    size_t total);

/* The callback of compile_options; `user` is the progress. */
void progress_event(void *user, enum compile_event event, size_t unit);

/* Wipes the status line. */
void progress_end(struct progress *progress);

/* Adds the status line's text, `columns` wide at most. */
void progress_line(const struct progress *progress, double now, unsigned columns, struct str *out);

#endif
