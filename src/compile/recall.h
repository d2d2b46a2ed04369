#ifndef COMPILE_RECALL_H
#define COMPILE_RECALL_H

#include <stdbool.h>

#include "base/map.h"
#include "base/watch.h"
#include "cache/cache.h"
#include "cache/cache_key.h"
#include "compile/compile.h"

/* Compiles that need not be done again. What decides is content: NVRTC's identity, the unit's arch,
 * flags, constants and include folders, the bytes of its source and of every file that the compile
 * opened, and that each name it tried in vain still leads nowhere. Names are root-relative, so that
 * a moved or another checkout finds the same results.
 *
 * A unit's configuration with its source's bytes leads to the lists of names that its compiles
 * asked for (one as a rule); a list, with what each of its names holds now, leads to the result.
 * Files are read once per struct recall. */
struct recall {
    struct cache *cache;     /* borrowed */
    const struct cuda *cuda; /* borrowed */
    struct str nvrtc;        /* its identity */
    struct str nvjitlink;    /* the same of nvJitLink; empty: there is none */
    struct arena arena;
    struct map files; /* what the names hold, by path */
};

/* False when NVRTC's files cannot be read. */
bool recall_open(struct recall *recall, struct cache *cache, const struct cuda *cuda,
                 struct diags *diags);
void recall_close(struct recall *recall);

/* Fills a unit's expected seconds and bytes from its last compile, where that is known. */
void recall_expect(struct recall *recall, struct compile_unit *unit);

/* The result of an equal compile, in the arena; warnings of its log are added as when it ran. */
bool recall_find(struct recall *recall, const struct compile_unit *unit, struct arena *arena,
                 struct compile_result *out_result, struct diags *diags);

/* Keeps a result that is COMPILE_OK. */
void recall_keep(struct recall *recall, const struct compile_unit *unit,
                 const struct compile_result *result, struct diags *diags);

/* Adds to a list what the result was made from: that other paths hold nothing, too. False when the
 * files have changed since, so that no list can say it. */
bool recall_watch(const struct recall *recall, const struct compile_unit *unit,
                  const struct compile_result *result, struct watch *out);

enum {
    RECALL_ENTRIES = 3
};

/* The entries of the cache that a result, found or kept, stands on. */
void recall_entries(struct recall *recall, const struct compile_unit *unit,
                    const struct compile_result *result, struct cache_name out[RECALL_ENTRIES]);

enum recall_reason {
    RECALL_HIT,
    RECALL_NEW,     /* no compile of this unit is known */
    RECALL_CHANGED, /* something differs from the last compile */
    RECALL_LOST,    /* nothing differs, but its result is gone */
};

/* Why a unit would be compiled. On RECALL_CHANGED: the first difference, in the arena. */
enum recall_reason recall_explain(struct recall *recall, const struct compile_unit *unit,
                                  struct arena *arena, struct key_field *out_old,
                                  struct key_field *out_new);

#endif
