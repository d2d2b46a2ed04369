#include "target/language.h"

#include <glob.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

#define MARKS "kpack.marks"
#define LOADED "kpack.loaded"
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

/* A copy: one table given to two constructors is two things. */
static void push_copy(lua_State *lua, int index)
{
    lua_newtable(lua);
    for (lua_pushnil(lua); lua_next(lua, index);) {
        lua_pushvalue(lua, -2);
        lua_insert(lua, -2);
        lua_settable(lua, -4);
        sandbox_spend(lua, 1);
    }
}

static int make_target(lua_State *lua)
{
    if (lua_type(lua, 1) != LUA_TTABLE)
        return luaL_error(lua, "k.target got a %s, expected a table: k.target { ... }",
                          luaL_typename(lua, 1));
    push_copy(lua, 1);
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
    push_copy(lua, 1);
    mark(lua, kind, name);
    return 1;
}

static int name_first(lua_State *lua)
{
    const char *kind = lua_tostring(lua, lua_upvalueindex(1));
    if (lua_type(lua, 1) != LUA_TSTRING)
        return luaL_error(lua, "k.%s got a %s, expected its name: k.%s 'name' { ... }", kind,
                          luaL_typename(lua, 1), kind);
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

/* The found files as sorted root-relative paths in the arena; folders and special files are left
 * out. */
static const char **glob_files(struct sandbox *sandbox, const char *pattern, size_t *out_count)
{
    glob_t found;
    size_t root = strlen(sandbox->root) + 1;
    char *path = glob_path(sandbox->arena, sandbox->root, pattern);
    *out_count = 0;
    if (glob(path, GLOB_NOSORT, NULL, &found) != 0)
        return NULL;
    const char **names = arena_alloc(sandbox->arena, found.gl_pathc, sizeof *names);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (file_is_regular(found.gl_pathv[i]))
            names[(*out_count)++] = arena_strdup(sandbox->arena, found.gl_pathv[i] + root);
    globfree(&found);
    qsort(names, *out_count, sizeof *names, by_bytes);
    return names;
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
    if (lua_type(lua, 1) != LUA_TSTRING)
        return luaL_error(lua, "k.glob got a %s, expected a pattern such as 'kernels/mine/*.cu'",
                          luaL_typename(lua, 1));
    const char *pattern = lua_tostring(lua, 1);
    if (!inside_root(pattern))
        return luaL_error(lua,
                          "k.glob got '%s', expected a pattern relative to the project root, "
                          "inside it",
                          pattern);
    size_t count;
    const char **names = glob_files(sandbox, pattern, &count);
    if (!count)
        diag_error_at(sandbox->diags, sandbox_where(sandbox, 0),
                      "k.glob '%s' finds no file in '%s'", pattern, sandbox->dir);
    lua_newtable(lua);
    mark(lua, "glob", NULL);
    for (size_t i = 0; i < count; i++) {
        lua_newtable(lua);
        lua_pushstring(lua, names[i]);
        lua_setfield(lua, -2, "source");
        lua_getfield(lua, LUA_REGISTRYINDEX, "kpack.every");
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

/* A place of lua/check.lua (file, line, name, then steps) as a place in the text. */
static struct loc resolve(lua_State *lua, int index)
{
    enum {
        STEPS = 16
    };
    struct sandbox *sandbox = sandbox_of(lua);
    struct locate_step steps[STEPS];
    size_t count = 0;
    const char *shown = text_field(lua, index, "file"), *name = text_field(lua, index, "name");
    const struct sandbox_file *file = shown ? sandbox_find(sandbox, shown) : NULL;
    if (!file)
        return (struct loc){0};
    lua_getfield(lua, index, "line");
    bool known = !lua_isnil(lua, -1);
    uint32_t line = (uint32_t)lua_tointeger(lua, -1);
    lua_getfield(lua, index, "exact");
    bool exact = lua_toboolean(lua, -1);
    lua_pop(lua, 2);
    if (!known || exact)
        return (struct loc){file->path, line, 0};
    for (; count < STEPS && lua_geti(lua, index, (lua_Integer)count + 1) != LUA_TNIL; count++) {
        bool text = lua_type(lua, -1) == LUA_TSTRING;
        steps[count] = (struct locate_step){
            text ? lua_tostring(lua, -1) : NULL,
            text ? 0 : (size_t)lua_tointeger(lua, -1),
        };
        lua_pop(lua, 1);
    }
    if (count < STEPS)
        lua_pop(lua, 1);
    struct locate_place place = locate(&file->text, line, name, steps, count);
    return (struct loc){file->path, place.line, place.col};
}

static int host_place(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    struct loc loc = resolve(lua, 1);
    lua_pushstring(lua, loc.file);
    lua_pushinteger(lua, loc.line);
    lua_pushinteger(lua, loc.col);
    return 3;
}

static int host_report(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    const char *message = luaL_checkstring(lua, 2);
    diag_error_at(sandbox_of(lua)->diags, resolve(lua, 1), "%s", message);
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
    bool ok = lua_pcall(lua, 1, 1, 0) == LUA_OK;
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

/* ---- require -----------------------------------------------------------------------------------
 */

static bool module_name(const char *name)
{
    bool part = false;
    for (; *name; name++) {
        if (*name == '.' && !part)
            return false;
        part = *name != '.';
        if (part &&
            !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *name))
            return false;
    }
    return part;
}

/* The modules being loaded, innermost first. */
struct loading {
    const char *name;
    const struct loading *outer;
};

static void add_chain(const struct loading *loading, const char *from, luaL_Buffer *out)
{
    if (loading->outer && strcmp(loading->name, from) != 0)
        add_chain(loading->outer, from, out);
    luaL_addstring(out, loading->name);
    luaL_addstring(out, " -> ");
}

/* Runs the file and keeps its value under `name` in the table at index 2. */
static int load_module(lua_State *lua, const char *name, const char *path, const char *shown)
{
    struct sandbox *sandbox = sandbox_of(lua);
    struct loading loading = {name, sandbox->loading};
    lua_pushlightuserdata(lua, sandbox);
    lua_setfield(lua, 2, name);
    if (!sandbox_load(sandbox, path, shown))
        return sandbox_fail(lua);
    sandbox->loading = &loading;
    int status = lua_pcall(lua, 0, 1, 0);
    sandbox->loading = loading.outer;
    if (status == LUA_OK && lua_isnil(lua, -1)) {
        lua_pushboolean(lua, true);
        lua_replace(lua, -2);
    }
    if (status == LUA_OK)
        lua_pushvalue(lua, -1);
    else
        lua_pushnil(lua);
    lua_setfield(lua, 2, name);
    return status == LUA_OK ? 1 : lua_error(lua);
}

static int loads_itself(lua_State *lua, const char *name)
{
    luaL_Buffer chain;
    luaL_buffinit(lua, &chain);
    add_chain(sandbox_of(lua)->loading, name, &chain);
    luaL_addstring(&chain, name);
    luaL_pushresult(&chain);
    return luaL_error(lua, "'%s' requires itself: %s", name, lua_tostring(lua, -1));
}

static int require(lua_State *lua)
{
    static const char *const folders[] = {"lua", "targets"};
    struct sandbox *sandbox = sandbox_of(lua);
    if (lua_type(lua, 1) != LUA_TSTRING)
        return luaL_error(lua, "require got a %s, expected a name", luaL_typename(lua, 1));
    const char *name = lua_tostring(lua, 1);
    lua_settop(lua, 1);
    lua_getfield(lua, LUA_REGISTRYINDEX, LOADED);
    int found = lua_getfield(lua, 2, name);
    if (found == LUA_TLIGHTUSERDATA)
        return loads_itself(lua, name);
    if (found != LUA_TNIL)
        return 1;
    if (!module_name(name))
        return luaL_error(lua,
                          "require got '%s', expected a name of letters, digits, '_' and '-', "
                          "with '.' between folders",
                          name);
    char *relative = arena_strdup(sandbox->arena, name);
    for (char *dot; (dot = strchr(relative, '.'));)
        *dot = '/';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *file = arena_printf(sandbox->arena, "%s/%s.lua", folders[i], relative);
        char *path = path_join(sandbox->arena, sandbox->root, file);
        if (access(path, F_OK) == 0)
            return load_module(lua, name, path, path_join(sandbox->arena, sandbox->dir, file));
    }
    return luaL_error(lua,
                      "there is no module '%s': neither in kpack's own language nor as "
                      "lua/%s.lua or targets/%s.lua",
                      name, relative, relative);
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

/* Calls an embedded file with the host table and `schema`, when it is not nil. */
static void run_own(lua_State *lua, const char *name, int host, int schema)
{
    if (!sandbox_load_own(sandbox_of(lua), name))
        sandbox_fail(lua);
    lua_pushvalue(lua, host);
    if (schema)
        lua_pushvalue(lua, schema);
    else
        lua_pushnil(lua);
    lua_call(lua, 2, 1);
}

static int open_language(lua_State *lua)
{
    lua_newtable(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, MARKS);
    lua_newtable(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, "kpack.every");
    luaL_newlib(lua, host_functions);
    int host = lua_gettop(lua);
    lua_getfield(lua, LUA_REGISTRYINDEX, MARKS);
    lua_setfield(lua, host, "marks");
    lua_getfield(lua, LUA_REGISTRYINDEX, "kpack.every");
    lua_setfield(lua, host, "every");

    lua_newtable(lua);
    run_own(lua, "kpack.lua", host, 0);
    lua_setfield(lua, -2, "kpack");
    lua_setfield(lua, LUA_REGISTRYINDEX, LOADED);
    run_own(lua, "schema.lua", host, 0);
    run_own(lua, "check.lua", host, lua_gettop(lua));
    lua_setfield(lua, LUA_REGISTRYINDEX, CHECK);

    sandbox_push_env(lua);
    lua_pushcfunction(lua, require);
    lua_setfield(lua, -2, "require");
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
