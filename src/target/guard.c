#include "target/guard.h"

#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "target/sandbox.h"

/* Worst-case steps of matching a pattern against `size` bytes: every repetition may be tried at
 * every length, from every start. */
static double pattern_cost(const char *pattern, size_t length, size_t size)
{
    double cost = pattern[0] == '^' ? 1 : (double)size + 1;
    for (size_t i = 0; i < length; i++) {
        char byte = pattern[i];
        if (byte == '*' || byte == '+' || byte == '-')
            cost *= (double)size + 1;
        else if (byte == '?')
            cost *= 2;
        else if (byte == '%' && ++i < length &&
                 (pattern[i] == 'b' || (pattern[i] >= '0' && pattern[i] <= '9')))
            cost *= (double)size + 1;
    }
    return cost * ((double)length + 1) / 8;
}

static lua_CFunction original(lua_State *lua)
{
    return lua_tocfunction(lua, lua_upvalueindex(1));
}

/* Around find, match, gmatch and gsub. */
static int guarded_match(lua_State *lua)
{
    struct sandbox *sandbox = sandbox_of(lua);
    size_t size, length;
    luaL_checklstring(lua, 1, &size);
    const char *pattern = luaL_checklstring(lua, 2, &length);
    double cost = pattern_cost(pattern, length, size);
    if (cost > SANDBOX_STEPS - sandbox->steps)
        return luaL_error(lua,
                          "matching a pattern of %d bytes against %d bytes may take too long: "
                          "use fewer repetitions or a shorter text",
                          (int)length, (int)size);
    sandbox->steps += cost;
    return original(lua)(lua);
}

static int guarded_rep(lua_State *lua)
{
    size_t size, gap;
    luaL_checklstring(lua, 1, &size);
    lua_Integer count = luaL_checkinteger(lua, 2);
    luaL_optlstring(lua, 3, "", &gap);
    if (count > 0 && ((double)size + (double)gap) * (double)count > (double)SANDBOX_MEMORY / 4)
        return luaL_error(lua, "the result of string.rep would be larger than 16 MiB");
    return original(lua)(lua);
}

/* No %p, and no value whose text is an address. */
static int guarded_format(lua_State *lua)
{
    size_t length;
    const char *format = luaL_checklstring(lua, 1, &length);
    for (size_t i = 0; i < length; i++) {
        if (format[i] != '%')
            continue;
        for (i++; i < length && strchr("-+ #0123456789.", format[i]) && format[i]; i++)
            ;
        if (i < length && format[i] == 'p')
            return luaL_error(lua,
                              "string.format has no '%%p' here: addresses differ from run to run");
    }
    for (int i = 2; i <= lua_gettop(lua); i++) {
        int type = lua_type(lua, i);
        if (type == LUA_TTABLE || type == LUA_TFUNCTION)
            return luaL_argerror(
                lua, i,
                lua_pushfstring(lua, "string or number expected, got %s", luaL_typename(lua, i)));
    }
    return original(lua)(lua);
}

static int guarded_tostring(lua_State *lua)
{
    luaL_checkany(lua, 1);
    int type = lua_type(lua, 1);
    if (type == LUA_TTABLE || type == LUA_TFUNCTION)
        lua_pushstring(lua, luaL_typename(lua, 1));
    else
        luaL_tolstring(lua, 1, NULL);
    return 1;
}

/* Numbers before strings, each in rising order. */
static bool key_less(lua_State *lua, int a, int b)
{
    bool a_number = lua_type(lua, a) == LUA_TNUMBER, b_number = lua_type(lua, b) == LUA_TNUMBER;
    if (a_number != b_number)
        return a_number;
    return lua_compare(lua, a, b, LUA_OPLT);
}

/* Comparators in C, which no instruction count sees: they pay themselves. */
static int paid_less(lua_State *lua)
{
    double size = lua_type(lua, 1) == LUA_TSTRING ? (double)lua_rawlen(lua, 1) : 0;
    sandbox_spend(lua, 2 + size / 32);
    bool less = lua_toboolean(lua, lua_upvalueindex(1)) ? key_less(lua, 1, 2)
                                                        : lua_compare(lua, 1, 2, LUA_OPLT);
    lua_pushboolean(lua, less);
    return 1;
}

static void push_paid_less(lua_State *lua, bool keys)
{
    lua_pushboolean(lua, keys);
    lua_pushcclosure(lua, paid_less, 1);
}

static int guarded_sort(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_settop(lua, 2);
    if (lua_isnil(lua, 2)) {
        lua_settop(lua, 1);
        push_paid_less(lua, false);
    }
    return original(lua)(lua);
}

static int next_pair(lua_State *lua)
{
    lua_Integer at = lua_tointeger(lua, lua_upvalueindex(3)) + 1;
    lua_pushinteger(lua, at);
    lua_replace(lua, lua_upvalueindex(3));
    if (lua_geti(lua, lua_upvalueindex(2), at) == LUA_TNIL)
        return 1;
    lua_pushvalue(lua, -1);
    lua_gettable(lua, lua_upvalueindex(1));
    return 2;
}

/* pairs in a fixed order: a description must give the same image in every run. */
static int ordered_pairs(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_settop(lua, 1);
    lua_newtable(lua);
    lua_Integer count = 0;
    for (lua_pushnil(lua); lua_next(lua, 1);) {
        lua_pop(lua, 1);
        int type = lua_type(lua, -1);
        if (type != LUA_TNUMBER && type != LUA_TSTRING)
            return luaL_error(lua,
                              "pairs found a key that is a %s: only numbers and strings have "
                              "an order",
                              luaL_typename(lua, -1));
        lua_pushvalue(lua, -1);
        lua_rawseti(lua, 2, ++count);
        sandbox_spend(lua, 4);
    }
    lua_pushcfunction(lua, original(lua));
    lua_pushvalue(lua, 2);
    push_paid_less(lua, true);
    lua_call(lua, 2, 0);
    lua_pushinteger(lua, 0);
    lua_pushcclosure(lua, next_pair, 3);
    return 1;
}

/* ---- The environment ---------------------------------------------------------------------------
 */

struct allowed {
    const char *name;
    lua_CFunction guard; /* NULL: the library's own */
};

static const struct allowed base_names[] = {
    {"assert", NULL}, {"error", NULL},    {"ipairs", NULL}, {"pcall", NULL},
    {"select", NULL}, {"tonumber", NULL}, {"type", NULL},   {"tostring", guarded_tostring},
};
static const struct allowed table_names[] = {
    {"concat", NULL}, {"insert", NULL},       {"pack", NULL},
    {"remove", NULL}, {"sort", guarded_sort}, {"unpack", NULL},
};
static const struct allowed string_names[] = {
    {"byte", NULL},
    {"char", NULL},
    {"find", guarded_match},
    {"format", guarded_format},
    {"gmatch", guarded_match},
    {"gsub", guarded_match},
    {"len", NULL},
    {"lower", NULL},
    {"match", guarded_match},
    {"rep", guarded_rep},
    {"reverse", NULL},
    {"sub", NULL},
    {"upper", NULL},
};
static const struct allowed math_names[] = {
    {"abs", NULL}, {"ceil", NULL}, {"floor", NULL},     {"fmod", NULL},
    {"max", NULL}, {"min", NULL},  {"tointeger", NULL}, {"type", NULL},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Copies the allowed names of the table below the top into the table on top. */
static void copy_allowed(lua_State *lua, const struct allowed *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lua_getfield(lua, -2, names[i].name);
        if (names[i].guard)
            lua_pushcclosure(lua, names[i].guard, 1);
        lua_setfield(lua, -2, names[i].name);
    }
}

static const char *const known_names[] = {
    "assert", "error",  "ipairs", "math",     "pairs",    "pcall", "require",
    "select", "string", "table",  "tonumber", "tostring", "type",
};

static int unknown_name(lua_State *lua)
{
    const char *name = lua_type(lua, 2) == LUA_TSTRING ? lua_tostring(lua, 2) : "?";
    const char *nearest = str_nearest(name, known_names, COUNT(known_names));
    lua_getglobal(lua, name);
    if (!lua_isnil(lua, -1) || strcmp(name, "os") == 0 || strcmp(name, "io") == 0 ||
        strcmp(name, "debug") == 0 || strcmp(name, "coroutine") == 0 ||
        strcmp(name, "package") == 0 || strcmp(name, "utf8") == 0)
        return luaL_error(lua, "'%s' is not available in a description", name);
    if (nearest)
        return luaL_error(lua, "unknown name '%s' (did you mean '%s'?)", name, nearest);
    return luaL_error(lua, "unknown name '%s': no local or global variable is called so", name);
}

static void push_library(lua_State *lua, const char *name, const struct allowed *names,
                         size_t count)
{
    lua_getglobal(lua, name);
    lua_newtable(lua);
    copy_allowed(lua, names, count);
    lua_remove(lua, -2);
}

static void push_library_function(lua_State *lua, const char *library, const char *name)
{
    lua_getglobal(lua, library);
    lua_getfield(lua, -1, name);
    lua_remove(lua, -2);
}

void guard_push_env(lua_State *lua)
{
    push_library(lua, LUA_GNAME, base_names, COUNT(base_names));
    push_library(lua, LUA_TABLIBNAME, table_names, COUNT(table_names));
    lua_setfield(lua, -2, LUA_TABLIBNAME);
    push_library(lua, LUA_MATHLIBNAME, math_names, COUNT(math_names));
    lua_setfield(lua, -2, LUA_MATHLIBNAME);
    push_library(lua, LUA_STRLIBNAME, string_names, COUNT(string_names));

    /* ("x"):rep(n) finds its method through the metatable of strings. */
    lua_pushliteral(lua, "");
    lua_getmetatable(lua, -1);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pop(lua, 2);
    lua_setfield(lua, -2, LUA_STRLIBNAME);

    push_library_function(lua, LUA_TABLIBNAME, "sort");
    lua_pushcclosure(lua, ordered_pairs, 1);
    lua_setfield(lua, -2, "pairs");

    lua_newtable(lua);
    lua_pushcfunction(lua, unknown_name);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, -2);
}
