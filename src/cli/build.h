#ifndef CLI_BUILD_H
#define CLI_BUILD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/watch.h"
#include "cache/cache.h"
#include "cli/cli.h"
#include "compile/compile.h"
#include "compile/cubin.h"
#include "image/image.h"
#include "target/target.h"

/* From a target and its compiled units to a published image, step by step. */

/* An entry that goes into the image. */
struct build_entry {
    const char *name;
    const struct target_entry *declared; /* NULL: taken by k.every */
    const struct cubin_entry *compiled;
    const struct compile_spill *spill; /* NULL: the ptxas log has no line for it */
    size_t object;                     /* of its module, from 0 */
};

/* A module: one unit, compiled. A split one has one that looks at its variables, and then one per
 * object. */
struct build_module {
    const struct target_module *declared;
    const struct compile_unit *unit;     /* the first of unit_count */
    const struct compile_result *result; /* the same */
    size_t unit_count;
    struct build_entry *entries;
    size_t entry_count;
};

struct build_target {
    const struct target *target;
    const char *path;  /* of the image */
    const char *shown; /* the same as short as may be, for people */
    struct build_module *modules;
    size_t module_count; /* as the target's */
    size_t unit_count;   /* of its modules together */
    struct image_stats stats;
    bool ok;      /* no step has failed so far */
    bool written; /* the image's bytes differ from those that were there */
    struct digest image_digest, sidecar_digest; /* of what is there now */
};

/* What 'kpack build' does, but that it returns when a signal has stopped it, and that the images
 * carry the stamp, unless it is NULL. The caller cleans up and calls build_end. */
enum cli_exit build_run(struct cli *cli, const struct cli_args *args, const char *stamp);

/* Ends the process by the signal that stopped the build, if one did. */
void build_end(void);

/* Whether a signal asked the build to end. */
bool build_stopped(void);

/* Writes what the images depend on, in make's syntax: descriptions, sources and headers. The first
 * `described` items of the watch are what the descriptions asked. */
bool build_depfile(struct cli *cli, const char *path, const struct build_target *builds,
                   size_t count, const struct cuda *cuda, const struct watch *watch,
                   size_t described);

/* Writes a compilation database, with one command of clang for each unit. */
bool build_commands(struct cli *cli, const char *path, const struct compile_unit *units,
                    size_t count, const struct cuda *cuda);

/* The units of a target's modules: those of module i are items[first[i]] to items[first[i + 1]]. */
struct build_units {
    struct compile_unit *items;
    size_t count, *first;
};

/* Where there is no nvJitLink, modules that need it are compiled whole, with a warning. False when
 * a module's flags cannot be linked with. */
bool build_units(const struct target *target, const struct cuda *cuda, struct arena *arena,
                 struct build_units *out, struct diags *diags);

/* Where the objects of a module begin in its units. */
static inline size_t build_first_object(const struct build_module *module)
{
    return module->unit->way == COMPILE_VARIABLES;
}

/* The folder of compiled units: `given`, KPACK_CACHE, or kpack under the user's cache folder. NULL
 * with a warning when there is none. In the arena. */
const char *build_cache_folder(struct cli *cli, const char *given);

/* Reads the cubins, matches compiled and declared entries, and checks sizes, limits and twins.
 * Every fault is an error at its place in the description; modules that did not compile are left
 * out. `notes`: also say which compiled entries
 * are left out. */
bool build_check(struct cli *cli, struct build_target *build, bool notes);

/* The object that an entry of a split module belongs to; 0 of another module. */
size_t build_object_of(const struct build_module *module, const struct target_entry *entry);

/* Checks of a split module whose entries are known: an object holds what it was linked for, and
 * objects share no variable that is written. */
void build_check_object(struct cli *cli, const struct build_module *module, size_t object,
                        const struct cubin *cubin);
void build_check_variables(struct cli *cli, const struct build_module *module);

/* Writes when each unit ran on which worker, as a trace that Chrome and Perfetto show. */
bool build_timings(struct cli *cli, const char *path, const struct compile_unit *units,
                   const struct compile_result *results, size_t count);

/* What an image was made from: kpack, NVRTC, commit, digests of sources; the same for the same
 * inputs. `needs_commit`: warn when there is none. A new reference. */
json_t *build_stamp(struct cli *cli, const struct build_target *build, bool needs_commit);

/* The stamp as the image carries it. In the arena. */
const char *build_stamp_text(struct cli *cli, const json_t *stamp);

const char *build_sidecar_path(struct arena *arena, const struct build_target *build);

/* The sidecar's text: the stamp, the image's size and digest, timings. Adds to the stamp. In the
 * arena. */
const char *build_sidecar(struct cli *cli, const struct build_target *build, json_t *stamp,
                          size_t size);

/* What tells whether a build has anything to do: everything that one has read and written. */
struct build_record {
    struct cache *cache; /* NULL: there is no record */
    struct digest key;
    struct watch watch;
    struct cache_name *entries; /* of the units' results; in an arena */
    size_t entry_count;
};

/* Starts the record of a build that this command line stands for. */
void build_record_start(struct build_record *record, struct cache *cache,
                        const struct cli_args *args);

/* Whether the last such build's record still holds; says what that build said: nothing when
 * `silent`, only warnings when `quiet`. */
bool build_record_holds(struct build_record *record, struct cli *cli, bool silent, bool quiet);

/* Notes the repository's state, before it is asked for. */
void build_record_git(struct build_record *record, const struct build_target *build);

/* Keeps the record of a build that went well; the units' inputs are in the watch by then. */
void build_record_keep(struct build_record *record, struct cli *cli, const struct cli_args *args,
                       const struct build_target *builds, size_t count);
void build_record_free(struct build_record *record);

/* The line about a published image: its path, units and sizes. In the arena. */
const char *build_line(struct cli *cli, const struct build_target *build);

/* The last line of a build. `workers` 0: nothing was compiled. */
void build_summary(size_t done, size_t units, size_t hits, double seconds, unsigned workers);

/* Writes the image (when its bytes differ from what is there) and then the sidecar beside it. The
 * image carries a stamp of this build when `stamp` is set, else `carried` unless it is NULL. */
bool build_publish(struct cli *cli, struct build_target *build, bool stamp, const char *carried);

#endif
