#include "target/sandbox.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/embed.h"
#include "base/file.h"
#include "target/guard.h"

enum {
    HOOK_STEPS = 1000, /* instructions between two looks at the limits */
    TRACE_LINES = 4,
    TRACE_LEVELS = 32,   /* Lua finds a level by walking to it */
    FILE_MAX = 16 << 20, /* bytes of a file's text */
};

#define RAN_PAST "ran past 50 million steps: a loop that does not end?"

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct sandbox *sandbox_of(lua_State *lua)
{
    return *(struct sandbox **)lua_getextraspace(lua);
}

/* Chunk names are \1N\1: Lua cuts long paths short in its messages, and these come back whole. */
static struct sandbox_file *file_of(struct sandbox *sandbox, const char *chunk, size_t *out_size)
{
    char *end;
    if (chunk[0] != '\1')
        return NULL;
    unsigned long index = strtoul(chunk + 1, &end, 10);
    if (*end != '\1' || index >= sandbox->file_count)
        return NULL;
    *out_size = (size_t)(end + 1 - chunk);
    return &sandbox->files[index];
}

static bool frame_place(struct sandbox *sandbox, lua_Debug *frame, struct loc *out)
{
    size_t ignored;
    lua_getinfo(sandbox->lua, "Sl", frame);
    const struct sandbox_file *file = file_of(sandbox, frame->short_src, &ignored);
    if (!file || frame->currentline <= 0)
        return false;
    *out = (struct loc){file->path, (uint32_t)frame->currentline, 0};
    return true;
}

struct loc sandbox_where(struct sandbox *sandbox, int level)
{
    lua_Debug frame;
    struct loc loc = {0};
    while (sandbox->lua && lua_getstack(sandbox->lua, level++, &frame))
        if (frame_place(sandbox, &frame, &loc))
            break;
    return loc;
}

static void pass_limit(struct sandbox *sandbox, const char *limit);

/* Once a limit is passed, every further instruction fails: each pcall on the way out catches one
 * error and meets the next. */
static void hook(lua_State *lua, lua_Debug *frame)
{
    (void)frame;
    struct sandbox *sandbox = sandbox_of(lua);
    if (!sandbox->over) {
        sandbox->steps += HOOK_STEPS;
        if (sandbox->steps > SANDBOX_STEPS)
            pass_limit(sandbox, RAN_PAST);
        else if (cpu_seconds() - sandbox->start > SANDBOX_SECONDS)
            pass_limit(sandbox, "ran for more than 5 seconds");
    }
    if (sandbox->over)
        luaL_error(lua, "%s", sandbox->over);
}

void sandbox_watch(lua_State *lua, bool on)
{
    if (!sandbox_of(lua)->over)
        lua_sethook(lua, on ? hook : NULL, on ? LUA_MASKCOUNT : 0, HOOK_STEPS);
}

static void pass_limit(struct sandbox *sandbox, const char *limit)
{
    if (sandbox->over)
        return;
    sandbox->over = limit;
    sandbox->over_loc = sandbox_where(sandbox, 0);
    if (sandbox->lua)
        lua_sethook(sandbox->lua, hook, LUA_MASKCOUNT, 1);
}

void sandbox_spend(lua_State *lua, double steps)
{
    struct sandbox *sandbox = sandbox_of(lua);
    sandbox->steps += steps;
    if (sandbox->steps > SANDBOX_STEPS) {
        pass_limit(sandbox, RAN_PAST);
        luaL_error(lua, "%s", RAN_PAST);
    }
}

/* Lua asks again after a full collection; a second refusal of the same request, or any after that,
 * ends the run: a collection per failed request would outlast every other limit. */
static void *refuse(struct sandbox *sandbox, void *block, size_t size)
{
    if (sandbox->failed_size == size && sandbox->failed_block == block)
        pass_limit(sandbox, "uses more than 64 MiB of memory");
    sandbox->failed_block = block;
    sandbox->failed_size = size;
    return NULL;
}

static void *allocate(void *user, void *block, size_t old_size, size_t size)
{
    struct sandbox *sandbox = user;
    size_t held = block ? old_size : 0;
    if (!size) {
        sandbox->memory -= held;
        free(block);
        return NULL;
    }
    if (size > held) {
        size_t more = size - held;
        if (more > SANDBOX_MEMORY - sandbox->memory)
            return refuse(sandbox, block, size);
        sandbox->steps += (double)more / 32;
        if (sandbox->steps > SANDBOX_STEPS)
            pass_limit(sandbox, RAN_PAST);
        if (sandbox->over)
            return NULL;
    }
    void *moved = realloc(block, size);
    if (!moved)
        return size > held ? refuse(sandbox, block, size) : block;
    sandbox->memory = sandbox->memory - held + size;
    sandbox->failed_size = 0;
    return moved;
}

/* ---- Errors ------------------------------------------------------------------------------------
 */

/* Adds the text with chunk names replaced by paths. */
static void add_readable(struct sandbox *sandbox, const char *text, struct str *out)
{
    while (*text) {
        size_t size = 1;
        const struct sandbox_file *file = file_of(sandbox, text, &size);
        if (file)
            str_adds(out, file->path);
        else
            str_addc(out, *text);
        text += size;
    }
}

/* Takes "\1N\1:LINE: " off the front of a message. */
static const char *take_place(struct sandbox *sandbox, const char *text, struct loc *out)
{
    size_t size;
    char *end;
    const struct sandbox_file *file = file_of(sandbox, text, &size);
    if (!file || text[size] != ':')
        return text;
    unsigned long line = strtoul(text + size + 1, &end, 10);
    if (end == text + size + 1 || end[0] != ':' || end[1] != ' ')
        return text;
    *out = (struct loc){file->path, (uint32_t)line, 0};
    return end + 2;
}

/* Message handler: keeps the message and adds the project's lines that led to it, when the error
 * came up in a function called from elsewhere. */
static int add_trace(lua_State *lua)
{
    struct sandbox *sandbox = sandbox_of(lua);
    if (lua_type(lua, 1) != LUA_TSTRING) {
        luaL_where(lua, 2); /* above us and `error`, which alone raises such values */
        lua_pushfstring(lua, "error got a %s, expected a message", luaL_typename(lua, 1));
        lua_concat(lua, 2);
        lua_replace(lua, 1);
    }
    lua_settop(lua, 1);
    struct loc last = {0}, loc;
    lua_Debug frame;
    int lines = 0;
    take_place(sandbox, lua_tostring(lua, 1), &last);
    for (int level = 1;
         level < TRACE_LEVELS && lines < TRACE_LINES && lua_getstack(lua, level, &frame); level++) {
        if (!frame_place(sandbox, &frame, &loc) || (last.file == loc.file && last.line == loc.line))
            continue;
        last = loc;
        lua_pushfstring(lua, "\n    called from %s:%d", loc.file, (int)loc.line);
        lua_concat(lua, 2);
        lines++;
    }
    return 1;
}

const char *sandbox_message(struct sandbox *sandbox, const char *text, struct loc *out_loc)
{
    struct str message = {0};
    text = take_place(sandbox, text ? text : "an error without a message", out_loc);
    add_readable(sandbox, text, &message);
    const char *copy = arena_strdup(sandbox->arena, str_text(&message));
    str_free(&message);
    return copy;
}

int sandbox_fail(lua_State *lua)
{
    sandbox_of(lua)->reported = true;
    return luaL_error(lua, "the errors above");
}

static void report(struct sandbox *sandbox, int status)
{
    struct loc loc = {.file = sandbox->file_count ? sandbox->files[0].path : NULL};
    if (sandbox->over || status == LUA_ERRMEM) {
        if (sandbox->over && sandbox->over_loc.file)
            loc = sandbox->over_loc;
        diag_error_at(sandbox->diags, loc, "the description %s",
                      sandbox->over ? sandbox->over : "uses more than 64 MiB of memory");
    } else if (!sandbox->reported) {
        const char *message = sandbox_message(sandbox, lua_tostring(sandbox->lua, -1), &loc);
        diag_add_text(sandbox->diags, DIAG_ERROR, loc, message);
    }
}

bool sandbox_call(struct sandbox *sandbox, int args, int results)
{
    lua_State *lua = sandbox->lua;
    int base = lua_gettop(lua) - args;
    lua_pushcfunction(lua, add_trace);
    lua_insert(lua, base);
    int status = lua_pcall(lua, args, results, base);
    if (status == LUA_OK && sandbox->over)
        status = LUA_ERRRUN;
    if (status != LUA_OK) {
        report(sandbox, status);
        lua_settop(lua, base - 1);
        return false;
    }
    lua_remove(lua, base);
    return true;
}

/* ---- Chunks ------------------------------------------------------------------------------------
 */

struct sandbox_file *sandbox_find(struct sandbox *sandbox, const char *path)
{
    for (size_t i = 0; i < sandbox->file_count; i++)
        if (strcmp(sandbox->files[i].path, path) == 0)
            return &sandbox->files[i];
    return NULL;
}

static void add_file(struct sandbox *sandbox, const char *shown, const struct str *text)
{
    struct sandbox_file *files =
        arena_alloc(sandbox->arena, sandbox->file_count + 1, sizeof *files);
    if (sandbox->file_count)
        memcpy(files, sandbox->files, sandbox->file_count * sizeof *files);
    struct sandbox_file *file = &files[sandbox->file_count];
    file->path = arena_strdup(sandbox->arena, shown);
    const char *data = arena_strndup(sandbox->arena, str_text(text), text->len);
    source_index(sandbox->arena, data, text->len, &file->text);
    sandbox->files = files;
    sandbox->file_count++;
}

bool sandbox_load(struct sandbox *sandbox, const char *path, const char *shown)
{
    lua_State *lua = sandbox->lua;
    struct str text = {0};
    struct stat info;
    if (stat(path, &info) == 0 && info.st_size > FILE_MAX)
        return diag_error(sandbox->diags,
                          "cannot read '%s': it has %lld bytes, expected %d at most", shown,
                          (long long)info.st_size, FILE_MAX);
    if (!file_read(path, &text, sandbox->diags)) {
        str_free(&text);
        return false;
    }
    add_file(sandbox, shown, &text);
    str_free(&text);
    const struct sandbox_file *file = &sandbox->files[sandbox->file_count - 1];
    const char *data = file->text.data;
    size_t size = file->text.size;
    if (size >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) {
        data += 3;
        size -= 3;
    }
    if (size && data[0] == LUA_SIGNATURE[0])
        return diag_error_at(sandbox->diags, (struct loc){.file = file->path},
                             "the file is Lua bytecode, expected Lua text");
    if (size >= 4 && memcmp(data, "\x89KPK", 4) == 0)
        return diag_error_at(sandbox->diags, (struct loc){.file = file->path},
                             "the file is an image, expected a description: see 'kpack list'");
    char chunk[32];
    snprintf(chunk, sizeof chunk, "=\1%zu\1", sandbox->file_count - 1);
    int status = luaL_loadbufferx(lua, data, size, chunk, "t");
    if (status != LUA_OK) {
        report(sandbox, status);
        lua_pop(lua, 1);
        return false;
    }
    sandbox_push_env(lua);
    lua_setupvalue(lua, -2, 1);
    return true;
}

bool sandbox_load_own(struct sandbox *sandbox, const char *name)
{
    char chunk[64];
    snprintf(chunk, sizeof chunk, "=lua/%s.lua", name);
    for (const struct embed_file *file = embed_lua; file->name; file++) {
        if (strcmp(file->name, chunk + strlen("=lua/")) != 0)
            continue;
        int status = luaL_loadbufferx(sandbox->lua, file->data, file->size, chunk, "t");
        if (status != LUA_OK)
            report(sandbox, status);
        return status == LUA_OK;
    }
    BUG("a file of lua/ is not embedded");
}

/* ---- Opening -----------------------------------------------------------------------------------
 */

static int open_libraries(lua_State *lua)
{
    luaL_requiref(lua, LUA_GNAME, luaopen_base, 1);
    luaL_requiref(lua, LUA_TABLIBNAME, luaopen_table, 1);
    luaL_requiref(lua, LUA_STRLIBNAME, luaopen_string, 1);
    luaL_requiref(lua, LUA_MATHLIBNAME, luaopen_math, 1);
    guard_push_env(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, "kpack.env");
    return 0;
}

const char *sandbox_text(lua_State *lua, int index)
{
    size_t size;
    const char *text =
        lua_type(lua, index) == LUA_TSTRING ? lua_tolstring(lua, index, &size) : NULL;
    return text && strlen(text) == size ? text : NULL;
}

const char *sandbox_kind(lua_State *lua, int index)
{
    return lua_type(lua, index) == LUA_TSTRING ? "string with a NUL byte"
                                               : luaL_typename(lua, index);
}

void sandbox_push_env(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, "kpack.env");
}

bool sandbox_open(struct sandbox *sandbox, struct arena *arena, struct diags *diags,
                  const char *root, const char *dir)
{
    *sandbox = (struct sandbox){
        .arena = arena, .diags = diags, .root = root, .dir = dir, .start = cpu_seconds()};
    sandbox->lua = lua_newstate(allocate, sandbox);
    if (!sandbox->lua)
        return diag_error(diags, "cannot start Lua: out of memory");
    *(struct sandbox **)lua_getextraspace(sandbox->lua) = sandbox;
    sandbox_watch(sandbox->lua, true);
    lua_gc(sandbox->lua, LUA_GCINC, 1000, 0, 0); /* short runs: collect when memory grew tenfold */
    lua_pushcfunction(sandbox->lua, open_libraries);
    return sandbox_call(sandbox, 0, 0);
}

void sandbox_close(struct sandbox *sandbox)
{
    if (sandbox->lua)
        lua_close(sandbox->lua);
    sandbox->lua = NULL;
}
