#ifndef COMPILE_WORLD_H
#define COMPILE_WORLD_H

#include <sys/types.h>

#include "compile/compile.h"

/* What the tests of compile_run share: units in a folder of the test's own, compiled with the fake
 * NVRTC of tests/fake/nvrtc.c, and what came of them. Failures are cmocka's. */

enum {
    WORLD_UNITS = 40
};

extern struct arena world_arena; /* for anything; freed by world_tear_down */
extern char *world_folder;       /* the project root of all units */

struct world {
    struct cuda cuda;
    struct compile_unit units[WORLD_UNITS];
    struct compile_result results[WORLD_UNITS];
    size_t count;
    struct compile_options options;
    struct diags diags;
    struct str text; /* the diagnostics, rendered */
    volatile int stop;
    size_t started, finished, ticks;
    size_t stop_after; /* sets `stop` when that many units have started */
    pid_t killed;      /* the worker that the test has killed */
};

/* Group fixtures. */
int world_set_up(void **state);
int world_tear_down(void **state);

/* Two workers, keep going, the fake NVRTC as it is. */
struct world *world_new(void);

/* Writes a source; its unit is called "t/N" and declared on line N of targets/t.lua. */
struct compile_unit *world_unit(struct world *world, const char *source);

/* Compiles; checks that no child is left. */
bool world_run(struct world *world);

/* The rendered diagnostics must hold `text`. */
void world_expect(const struct world *world, const char *text);

void world_end(struct world *world);

void world_put(const char *folder, const char *name, const void *bytes, size_t size);

/* A CUDA folder of its own with the fake NVRTC; `facts` is its fake.txt, or NULL. */
struct cuda world_cuda(const char *facts, bool builtins);

/* Counts events; what struct compile_options calls. */
void world_event(void *user, enum compile_event event, size_t unit);

#endif
