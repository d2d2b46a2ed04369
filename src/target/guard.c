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

/* A failing call costs more than its instructions. */
static int guarded_pcall(lua_State *lua)
{
    sandbox_spend(lua, 100);
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

/* ---- Order -------------------------------------------------------------------------------------
 */

/* Whether the value at index a comes before the one at b. Comparisons in C pay themselves, as no
 * instruction count sees them. */
typedef bool before_fn(lua_State *lua, int a, int b);

static bool before(lua_State *lua, int a, int b)
{
    double size = lua_type(lua, a) == LUA_TSTRING ? (double)lua_rawlen(lua, a) : 0;
    sandbox_spend(lua, 8 + size / 32);
    return lua_compare(lua, a, b, LUA_OPLT);
}

/* Numbers before strings, each in rising order. */
static bool key_before(lua_State *lua, int a, int b)
{
    bool a_number = lua_type(lua, a) == LUA_TNUMBER, b_number = lua_type(lua, b) == LUA_TNUMBER;
    return a_number != b_number ? a_number : before(lua, a, b);
}

/* By the function at index 2. */
static bool called_before(lua_State *lua, int a, int b)
{
    lua_pushvalue(lua, 2);
    lua_pushvalue(lua, a);
    lua_pushvalue(lua, b);
    lua_call(lua, 2, 1);
    bool result = lua_toboolean(lua, -1);
    lua_pop(lua, 1);
    return result;
}

/* Merges [left, middle) and [middle, end) of the list at `from` into the one at `to`. */
static void merge(lua_State *lua, int from, int to, lua_Integer left, lua_Integer middle,
                  lua_Integer end, before_fn *first)
{
    lua_Integer right = middle;
    for (lua_Integer at = left; at < end; at++) {
        bool both = left < middle && right < end;
        int top = lua_gettop(lua);
        lua_rawgeti(lua, from, left);
        lua_rawgeti(lua, from, right);
        bool take_right = both ? first(lua, top + 2, top + 1) : right < end;
        lua_pushvalue(lua, take_right ? top + 2 : top + 1);
        lua_rawseti(lua, to, at);
        lua_settop(lua, top);
        right += take_right;
        left += !take_right;
    }
}

/* Sorts the list at index `list`. Stable, as Lua's own sort is not: that one picks pivots by the
 * clock in long lists, so that equals end in another order in every run. */
static void sort(lua_State *lua, int list, before_fn *first)
{
    lua_Integer count = (lua_Integer)lua_rawlen(lua, list);
    lua_newtable(lua);
    int from = list, to = lua_gettop(lua);
    for (lua_Integer width = 1; width < count; width *= 2) {
        for (lua_Integer at = 1; at <= count; at += 2 * width) {
            lua_Integer middle = at + width <= count ? at + width : count + 1;
            lua_Integer end = middle + width <= count ? middle + width : count + 1;
            merge(lua, from, to, at, middle, end, first);
        }
        int other = from;
        from = to;
        to = other;
    }
    for (lua_Integer at = 1; from != list && at <= count; at++) {
        lua_rawgeti(lua, from, at);
        lua_rawseti(lua, list, at);
    }
    lua_pop(lua, 1);
}

static int guarded_sort(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    bool given = !lua_isnoneornil(lua, 2);
    if (given)
        luaL_checktype(lua, 2, LUA_TFUNCTION);
    lua_settop(lua, 2);
    sort(lua, 1, given ? called_before : before);
    return 0;
}

/* Work on a whole table in one call. */
static int paid_table(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    sandbox_spend(lua, (double)lua_rawlen(lua, 1) / 4);
    return original(lua)(lua);
}

/* At the end these cost nothing; elsewhere they move what follows. */
static int guarded_insert(lua_State *lua)
{
    return lua_gettop(lua) > 2 ? paid_table(lua) : original(lua)(lua);
}

static int guarded_remove(lua_State *lua)
{
    return lua_gettop(lua) > 1 ? paid_table(lua) : original(lua)(lua);
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
    sort(lua, 2, key_before);
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
    {"assert", NULL}, {"error", NULL},    {"ipairs", NULL}, {"pcall", guarded_pcall},
    {"select", NULL}, {"tonumber", NULL}, {"type", NULL},   {"tostring", guarded_tostring},
};
static const struct allowed table_names[] = {
    {"concat", paid_table},     {"insert", guarded_insert}, {"pack", NULL},
    {"remove", guarded_remove}, {"sort", guarded_sort},     {"unpack", paid_table},
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

/* The name that an __index function was asked for. */
static const char *asked(lua_State *lua)
{
    return lua_type(lua, 2) == LUA_TSTRING ? lua_tostring(lua, 2) : luaL_typename(lua, 2);
}

static int unknown_name(lua_State *lua)
{
    static const char *const known[] = {
        "assert",  "error",  "false",  "ipairs", "math",     "nil",      "pairs", "pcall",
        "require", "select", "string", "table",  "tonumber", "tostring", "true",  "type",
    };
    static const char *const absent[] = {"coroutine", "debug", "io", "os", "package", "utf8"};
    const char *name = asked(lua);
    lua_getglobal(lua, name);
    bool exists = !lua_isnil(lua, -1);
    for (size_t i = 0; i < COUNT(absent); i++)
        exists |= strcmp(name, absent[i]) == 0;
    if (exists)
        return luaL_error(lua, "'%s' is not available in a description", name);
    const char *nearest = str_nearest(name, known, COUNT(known));
    if (nearest)
        return luaL_error(lua, "unknown name '%s' (did you mean '%s'?)", name, nearest);
    return luaL_error(lua, "unknown name '%s': no local or global variable is called so", name);
}

static int unknown_function(lua_State *lua)
{
    return luaL_error(lua, "'%s.%s' is not available in a description",
                      lua_tostring(lua, lua_upvalueindex(1)), asked(lua));
}

static void push_library(lua_State *lua, const char *name, const struct allowed *names,
                         size_t count)
{
    lua_getglobal(lua, name);
    lua_newtable(lua);
    copy_allowed(lua, names, count);
    lua_remove(lua, -2);
    lua_newtable(lua);
    lua_pushstring(lua, name);
    lua_pushcclosure(lua, unknown_function, 1);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, -2);
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

    lua_pushcfunction(lua, ordered_pairs);
    lua_setfield(lua, -2, "pairs");

    lua_newtable(lua);
    lua_pushcfunction(lua, unknown_name);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, -2);
}
