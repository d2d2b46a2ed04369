#include "target/require.h"

#include <lauxlib.h>
#include <string.h>

#include "base/file.h"
#include "target/sandbox.h"

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
    const char *name = sandbox_text(lua, 1);
    if (!name)
        return luaL_error(lua, "require got a %s, expected a name", sandbox_kind(lua, 1));
    lua_settop(lua, 1);
    lua_pushvalue(lua, lua_upvalueindex(1));
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
    sandbox_spend(lua, 1000); /* files are looked for */
    char *relative = arena_strdup(sandbox->arena, name);
    for (char *dot; (dot = strchr(relative, '.'));)
        *dot = '/';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *file = arena_printf(sandbox->arena, "%s/%s.lua", folders[i], relative);
        char *path = path_join(sandbox->arena, sandbox->root, file);
        if (file_exists(path))
            return load_module(lua, name, path, path_join(sandbox->arena, sandbox->dir, file));
    }
    return luaL_error(lua,
                      "there is no module '%s': neither in kpack's own language nor as "
                      "lua/%s.lua or targets/%s.lua",
                      name, relative, relative);
}

void require_push(lua_State *lua, int language)
{
    language = lua_absindex(lua, language);
    lua_newtable(lua);
    lua_pushvalue(lua, language);
    lua_setfield(lua, -2, "kpack");
    lua_pushcclosure(lua, require, 1);
}
