#include "target/language.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/watch.h"
#include "target/require.h"

#define MARKS "kpack.marks"
#define EVERY "kpack.every"
#define CHECK "kpack.check"

/* ---- Constructors ------------------------------------------------------------------------------
 */

/* Notes where the table on top of the stack was made. */
static void mark(lua_State *lua, const char *kind, const char *name)
{
    struct loc loc = sandbox_where(sandbox_of(lua), 0);
    lua_getfield(lua, LUA_REGISTRYINDEX, MARKS);
    lua_pushvalue(lua, -2);
    lua_createtable(lua, 0, 4);
    lua_pushstring(lua, kind);
    lua_setfield(lua, -2, "kind");
    lua_pushstring(lua, name);
    lua_setfield(lua, -2, "name");
    lua_pushstring(lua, loc.file);
    lua_setfield(lua, -2, "file");
    lua_pushinteger(lua, loc.line);
    lua_setfield(lua, -2, "line");
    lua_settable(lua, -3);
    lua_pop(lua, 1);
}

/* Makes the table at index 1 the constructor's own: one that another has marked is copied. */
static void own(lua_State *lua)
{
    lua_settop(lua, 1);
    lua_getfield(lua, LUA_REGISTRYINDEX, MARKS);
    lua_pushvalue(lua, 1);
    bool taken = lua_gettable(lua, 2) != LUA_TNIL;
    lua_settop(lua, 1);
    if (!taken)
        return;
    lua_newtable(lua);
    for (lua_pushnil(lua); lua_next(lua, 1);) {
        lua_pushvalue(lua, -2);
        lua_insert(lua, -2);
        lua_settable(lua, 2);
        sandbox_spend(lua, 1);
    }
}

static int make_target(lua_State *lua)
{
    if (lua_type(lua, 1) != LUA_TTABLE)
        return luaL_error(lua, "k.target got a %s, expected a table: k.target { ... }",
                          luaL_typename(lua, 1));
    own(lua);
    mark(lua, "target", NULL);
    return 1;
}

static int make_named(lua_State *lua)
{
    const char *kind = lua_tostring(lua, lua_upvalueindex(1));
    const char *name = lua_tostring(lua, lua_upvalueindex(2));
    if (lua_type(lua, 1) != LUA_TTABLE)
        return luaL_error(lua, "k.%s '%s' got a %s, expected a table: k.%s '%s' { ... }", kind,
                          name, luaL_typename(lua, 1), kind, name);
    own(lua);
    mark(lua, kind, name);
    return 1;
}

static int name_first(lua_State *lua)
{
    const char *kind = lua_tostring(lua, lua_upvalueindex(1));
    if (!sandbox_text(lua, 1))
        return luaL_error(lua, "k.%s got a %s, expected its name: k.%s 'name' { ... }", kind,
                          sandbox_kind(lua, 1), kind);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_pushvalue(lua, 1);
    lua_pushcclosure(lua, make_named, 2);
    return 1;
}

static int host_named(lua_State *lua)
{
    luaL_checkstring(lua, 1);
    lua_settop(lua, 1);
    lua_pushcclosure(lua, name_first, 1);
    return 1;
}

enum {
    GLOB_STEPS = 10000 /* that reading folders counts for */
};

/* ---- k.glob ------------------------------------------------------------------------------------
 */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The root with glob's own marks taken for themselves. */
static char *glob_path(struct arena *arena, const char *root, const char *pattern)
{
    struct str path = {0};
    for (const char *at = root; *at; at++) {
        if (strchr("*?[]\\", *at))
            str_addc(&path, '\\');
        str_addc(&path, *at);
    }
    str_addf(&path, "/%s", pattern);
    char *copy = arena_strdup(arena, str_text(&path));
    str_free(&path);
    return copy;
}

static void *open_folder(const char *path)
{
    watch_note_names(path);
    return opendir(path);
}

static struct dirent *read_folder(void *folder)
{
    return readdir(folder);
}

static void close_folder(void *folder)
{
    closedir(folder);
}

static int look_at(const char *path, struct stat *out_info)
{
    watch_note_type(path);
    return stat(path, out_info);
}

/* glob hands its callbacks nothing of the caller's. */
static char unreadable[PATH_MAX];
static int unreadable_error;

static void note_unreadable(const char *path, int error)
{
    snprintf(unreadable, sizeof unreadable, "%s", path);
    unreadable_error = error;
}

/* A folder that is gone, or behind a link to nowhere, holds no file. */
static int cannot_open(const char *path, int error)
{
    if (error == ENOENT)
        return 0;
    note_unreadable(path, error);
    return 1;
}

/* The found files as sorted root-relative paths in the arena; folders and special files are left
 * out. A folder that cannot be read is an error, and so is a link to nowhere: their kernels would
 * be missing. */
static bool glob_files(struct sandbox *sandbox, const char *pattern, const char ***out_names,
                       size_t *out_count)
{
    glob_t found = {
        .gl_opendir = open_folder,
        .gl_readdir = read_folder,
        .gl_closedir = close_folder,
        .gl_stat = look_at,
        .gl_lstat = look_at,
    };
    size_t root = strlen(sandbox->root) + 1;
    char *path = glob_path(sandbox->arena, sandbox->root, pattern);
    *out_names = NULL;
    *out_count = 0;
    int failure = glob(path, GLOB_NOSORT | GLOB_ALTDIRFUNC, cannot_open, &found);
    bool ok = failure != GLOB_ABORTED;
    if (failure == 0)
        *out_names = arena_alloc(sandbox->arena, found.gl_pathc, sizeof **out_names);
    for (size_t i = 0; failure == 0 && ok && i < found.gl_pathc; i++) {
        struct stat info;
        if (file_is_regular(found.gl_pathv[i]))
            (*out_names)[(*out_count)++] = arena_strdup(sandbox->arena, found.gl_pathv[i] + root);
        else if (look_at(found.gl_pathv[i], &info) != 0) {
            note_unreadable(found.gl_pathv[i], errno);
            ok = false;
        }
    }
    if (!ok)
        diag_error_at(sandbox->diags, sandbox_where(sandbox, 0), "k.glob '%s' cannot read '%s': %s",
                      pattern, unreadable, strerror(unreadable_error));
    globfree(&found);
    if (*out_count)
        qsort(*out_names, *out_count, sizeof **out_names, by_bytes);
    return ok;
}

static bool inside_root(const char *path)
{
    for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (str_starts(at, "../") || strcmp(at, "..") == 0)
            return false;
    return path[0] && path[0] != '/';
}

static int make_glob(lua_State *lua)
{
    struct sandbox *sandbox = sandbox_of(lua);
    const char *pattern = sandbox_text(lua, 1);
    if (!pattern)
        return luaL_error(lua, "k.glob got a %s, expected a pattern such as 'kernels/mine/*.cu'",
                          sandbox_kind(lua, 1));
    if (!inside_root(pattern))
        return luaL_error(lua,
                          "k.glob got '%s', expected a pattern relative to the project root, "
                          "inside it",
                          pattern);
    size_t count;
    const char **names;
    sandbox_spend(lua, GLOB_STEPS);
    bool readable = glob_files(sandbox, pattern, &names, &count);
    sandbox_spend(lua, GLOB_STEPS / 100 * (double)count);
    if (readable && !count)
        diag_error_at(sandbox->diags, sandbox_where(sandbox, 0),
                      "k.glob '%s' finds no file in '%s'", pattern, sandbox->dir);
    lua_newtable(lua);
    mark(lua, "glob", NULL);
    for (size_t i = 0; i < count; i++) {
        lua_newtable(lua);
        lua_pushstring(lua, names[i]);
        lua_setfield(lua, -2, "source");
        lua_getfield(lua, LUA_REGISTRYINDEX, EVERY);
        lua_setfield(lua, -2, "entries");
        const char *stem = path_stem(sandbox->arena, names[i]);
        mark(lua, "module", stem);
        lua_rawseti(lua, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* ---- What lua/check.lua needs ------------------------------------------------------------------
 */

static const char *text_field(lua_State *lua, int index, const char *name)
{
    lua_getfield(lua, index, name);
    const char *text = lua_tostring(lua, -1);
    lua_pop(lua, 1); /* the table still holds it */
    return text;
}

struct loc language_place(lua_State *lua, int index)
{
    enum {
        STEPS = 16
    };
    struct sandbox *sandbox = sandbox_of(lua);
    struct locate_step steps[STEPS];
    size_t first = STEPS;
    int top = lua_gettop(lua);
    lua_pushvalue(lua, index);
    /* From the last step to the constructor's mark. Tables that C leaves keep the strings alive. */
    for (; first > 0 && lua_getfield(lua, -1, "up") == LUA_TTABLE; lua_remove(lua, -2)) {
        lua_getfield(lua, -2, "key");
        bool text = lua_type(lua, -1) == LUA_TSTRING;
        steps[--first] = (struct locate_step){
            text ? lua_tostring(lua, -1) : NULL,
            text ? 0 : (size_t)lua_tointeger(lua, -1),
        };
        lua_pop(lua, 1);
    }
    lua_settop(lua, top + 1);
    const char *shown = text_field(lua, -1, "file"), *name = text_field(lua, -1, "name");
    struct sandbox_file *file = shown ? sandbox_find(sandbox, shown) : NULL;
    struct loc loc = {.file = file ? file->path : NULL};
    bool known = lua_getfield(lua, -1, "line") != LUA_TNIL;
    bool exact = lua_getfield(lua, -2, "exact") != LUA_TNIL;
    loc.line = (uint32_t)lua_tointeger(lua, -2);
    lua_settop(lua, top);
    if (file && known && !exact) {
        struct locate_place place =
            locate(sandbox->arena, &file->text, loc.line, name, steps + first, STEPS - first);
        loc.line = place.line;
        loc.col = place.col;
    }
    return loc;
}

static int host_place(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    struct loc loc = language_place(lua, 1);
    lua_pushstring(lua, loc.file);
    lua_pushinteger(lua, loc.line);
    lua_pushinteger(lua, loc.col);
    return 3;
}

static int host_report(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    const char *message = luaL_checkstring(lua, 2);
    diag_add_text(sandbox_of(lua)->diags, DIAG_ERROR, language_place(lua, 1), message);
    return 0;
}

static int host_nearest(lua_State *lua)
{
    luaL_checktype(lua, 2, LUA_TTABLE);
    size_t count = lua_rawlen(lua, 2);
    const char **names = lua_newuserdatauv(lua, (count + 1) * sizeof *names, 0);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(lua, 2, (lua_Integer)i + 1);
        names[i] = lua_tostring(lua, -1);
        lua_pop(lua, 1);
    }
    lua_pushstring(lua, str_nearest(luaL_checkstring(lua, 1), names, count));
    return 1;
}

static int host_utf8(lua_State *lua)
{
    size_t size, at = 0, step = 1;
    const char *text = luaL_checklstring(lua, 1, &size);
    while (at < size && text[at] && (step = str_utf8(text + at, size - at)) != 0)
        at += step;
    lua_pushboolean(lua, at == size);
    return 1;
}

static int host_printable(lua_State *lua)
{
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    struct str out = {0};
    str_add_printable(&out, text, size);
    const char *copy = arena_strdup(sandbox_of(lua)->arena, str_text(&out));
    str_free(&out);
    lua_pushstring(lua, copy);
    return 1;
}

/* try(f, argument): true and its result, or false, nil, message, file, line. A passed limit ends
 * the run instead. */
static int host_try(lua_State *lua)
{
    lua_settop(lua, 2);
    struct sandbox *sandbox = sandbox_of(lua);
    sandbox_watch(lua, true);
    bool ok = lua_pcall(lua, 1, 1, 0) == LUA_OK;
    sandbox_watch(lua, false);
    lua_pushboolean(lua, ok);
    lua_insert(lua, 1);
    if (ok)
        return 2;
    if (sandbox->over)
        return luaL_error(lua, "%s", sandbox->over);
    struct loc loc = {0};
    const char *message = sandbox_message(sandbox, lua_tostring(lua, 2), &loc);
    lua_pushnil(lua);
    lua_pushstring(lua, message);
    lua_pushstring(lua, loc.file);
    lua_pushinteger(lua, loc.line);
    lua_remove(lua, 2);
    return 5;
}

/* ---- Opening and running -----------------------------------------------------------------------
 */

static const luaL_Reg host_functions[] = {
    {"target", make_target}, {"named", host_named},
    {"glob", make_glob},     {"place", host_place},
    {"report", host_report}, {"nearest", host_nearest},
    {"utf8", host_utf8},     {"printable", host_printable},
    {"try", host_try},       {NULL, NULL},
};

/* own(name): the value of an embedded file, run once with the host table. */
static int host_own(lua_State *lua)
{
    const char *name = luaL_checkstring(lua, 1);
    lua_settop(lua, 1);
    if (lua_getfield(lua, lua_upvalueindex(2), name) != LUA_TNIL)
        return 1;
    if (!sandbox_load_own(sandbox_of(lua), name))
        return sandbox_fail(lua);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_call(lua, 1, 1);
    lua_pushvalue(lua, -1);
    lua_setfield(lua, lua_upvalueindex(2), name);
    return 1;
}

static void push_own(lua_State *lua, int host, const char *name)
{
    lua_getfield(lua, host, "own");
    lua_pushstring(lua, name);
    lua_call(lua, 1, 1);
}

static int open_language(lua_State *lua)
{
    luaL_newlib(lua, host_functions);
    int host = lua_gettop(lua);
    lua_newtable(lua);
    lua_pushvalue(lua, -1);
    lua_setfield(lua, LUA_REGISTRYINDEX, MARKS);
    lua_setfield(lua, host, "marks");
    lua_newtable(lua);
    lua_pushvalue(lua, -1);
    lua_setfield(lua, LUA_REGISTRYINDEX, EVERY);
    lua_setfield(lua, host, "every");
    lua_pushvalue(lua, host);
    lua_newtable(lua);
    lua_pushcclosure(lua, host_own, 2);
    lua_setfield(lua, host, "own");

    push_own(lua, host, "check");
    lua_setfield(lua, LUA_REGISTRYINDEX, CHECK);
    sandbox_push_env(lua);
    push_own(lua, host, "kpack");
    require_push(lua, -1);
    lua_setfield(lua, -3, "require");
    return 0;
}

bool language_open(struct sandbox *sandbox)
{
    lua_pushcfunction(sandbox->lua, open_language);
    return sandbox_call(sandbox, 0, 0);
}

/* In protected mode: even a string pushed here may meet the memory limit. */
static int run(lua_State *lua)
{
    const char *path = lua_touserdata(lua, 1);
    struct description *out = lua_touserdata(lua, 2);
    struct sandbox *sandbox = sandbox_of(lua);
    lua_settop(lua, 0);
    lua_getfield(lua, LUA_REGISTRYINDEX, CHECK);
    if (!sandbox_load(sandbox, path, path))
        return sandbox_fail(lua);
    lua_pushstring(lua, path);
    lua_insert(lua, 2);
    lua_call(lua, 0, LUA_MULTRET);
    sandbox_watch(lua, false);
    lua_gc(lua, LUA_GCSTOP); /* little garbage is left to make; a full collection still comes when
                                memory runs out */
    lua_call(lua, lua_gettop(lua) - 1, 1);
    if (!lua_istable(lua, 1))
        return sandbox_fail(lua);
    description_read(lua, 1, out);
    return 0;
}

bool language_run(struct sandbox *sandbox, const char *path, struct description *out)
{
    lua_pushcfunction(sandbox->lua, run);
    lua_pushlightuserdata(sandbox->lua, (void *)path);
    lua_pushlightuserdata(sandbox->lua, out);
    return sandbox_call(sandbox, 2, 0);
}
