#ifndef TARGET_SANDBOX_H
#define TARGET_SANDBOX_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/mem.h"
#include "target/locate.h"

struct loading;

/* A Lua 5.4 state for one description: text chunks only, a short list of library functions, and
 * caps on memory and work that no construct of the language escapes. What could is left out:
 * coroutines (a hook count of their own), metatables (__gc and message handlers run without hooks,
 * __len fools table functions), table.move (unbounded work in one call). Patterns and plain
 * searches pay their worst case before they start. */

#define SANDBOX_MEMORY ((size_t)64 << 20) /* bytes */
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define SANDBOX_STEPS 50000000.0 /* VM instructions; allocation and matching count too */
#else
#define SANDBOX_STEPS 200000.0 /* what a fuzzer writes loops too often to wait for it */
#endif
#define SANDBOX_SECONDS 5.0 /* of CPU time: the net under all of this */

/* A file whose text became a chunk. */
struct sandbox_file {
    const char *path; /* as messages show it */
    struct source_text text;
};

struct sandbox {
    lua_State *lua;
    struct arena *arena; /* borrowed; owns paths and texts */
    struct diags *diags; /* borrowed */
    const char *root;    /* absolute project root */
    const char *dir;     /* the root as the user would write it, for messages */
    struct sandbox_file *files;
    size_t file_count;
    size_t memory;    /* bytes held now */
    double steps;     /* spent so far */
    double start;     /* CPU seconds when it began */
    const char *over; /* the limit that was passed, NULL while none was */
    struct loc over_loc;
    bool reported;                 /* a load inside a run failed and added its errors */
    const struct loading *loading; /* what `require` is in the middle of */
    void *failed_block;            /* the last allocation refused: twice in a row is the end */
    size_t failed_size;
};

/* Opens the state with the library functions in its sandbox environment. */
bool sandbox_open(struct sandbox *sandbox, struct arena *arena, struct diags *diags,
                  const char *root, const char *dir);
void sandbox_close(struct sandbox *sandbox);

/* The sandbox that this state belongs to. */
struct sandbox *sandbox_of(lua_State *lua);

/* Whether instructions count: for what descriptions run, not for lua/'s own checks of them, whose
 * work the size of the description bounds. */
void sandbox_watch(lua_State *lua, bool on);

/* Counts work done in C; raises a Lua error past the limit. */
void sandbox_spend(lua_State *lua, double steps);

/* The string at `index`, NULL when it is none or holds a NUL, which C would cut. */
const char *sandbox_text(lua_State *lua, int index);

/* What the value at `index` is, for messages about one that sandbox_text refused. */
const char *sandbox_kind(lua_State *lua, int index);

/* Pushes the environment that descriptions run in. */
void sandbox_push_env(lua_State *lua);

/* Calls the function below its `args` arguments in protected mode; a failure becomes one error with
 * its place. On success `results` values are left on the stack. */
bool sandbox_call(struct sandbox *sandbox, int args, int results);

/* Reads a file of the project and pushes it as a function with the sandbox environment. Adds errors
 * and returns false when it cannot be read or parsed. */
bool sandbox_load(struct sandbox *sandbox, const char *path, const char *shown);

/* Raises the Lua error that stands for errors already added. */
int sandbox_fail(lua_State *lua);

/* The message of a caught Lua error in the arena, its place taken off the front. */
const char *sandbox_message(struct sandbox *sandbox, const char *text, struct loc *out_loc);

/* Pushes the embedded file lua/NAME.lua as a function that sees all of Lua's libraries. */
bool sandbox_load_own(struct sandbox *sandbox, const char *name);

/* The place that the Lua function at `level` or the nearest one above it that runs a project's file
 * is at; file NULL when there is none. */
struct loc sandbox_where(struct sandbox *sandbox, int level);

/* The file with this path, NULL when none of that name was loaded. */
struct sandbox_file *sandbox_find(struct sandbox *sandbox, const char *path);

#endif
