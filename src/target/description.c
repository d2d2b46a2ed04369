#include "target/description.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "target/language.h"

struct reader {
    lua_State *lua;
    struct arena *arena;
};

/* All of these read a field of the table on top of the stack. */

static const char *text(struct reader *reader, const char *name)
{
    const char *copy = NULL;
    if (lua_getfield(reader->lua, -1, name) == LUA_TSTRING)
        copy = arena_strdup(reader->arena, lua_tostring(reader->lua, -1));
    lua_pop(reader->lua, 1);
    return copy;
}

static bool flag(struct reader *reader, const char *name)
{
    lua_getfield(reader->lua, -1, name);
    bool value = lua_toboolean(reader->lua, -1);
    lua_pop(reader->lua, 1);
    return value;
}

static struct target_size size(struct reader *reader, const char *name)
{
    struct target_size value = {0};
    if (lua_getfield(reader->lua, -1, name) == LUA_TNUMBER)
        value = (struct target_size){true, (uint32_t)lua_tointeger(reader->lua, -1)};
    lua_pop(reader->lua, 1);
    return value;
}

static struct loc loc(struct reader *reader, const char *name)
{
    struct loc value = {0};
    if (lua_getfield(reader->lua, -1, name) == LUA_TTABLE)
        value = language_place(reader->lua, -1);
    lua_pop(reader->lua, 1);
    return value;
}

/* The place of a field of the table on top. */
static struct loc field_loc(struct reader *reader, const char *name)
{
    struct loc value = {0};
    if (lua_getfield(reader->lua, -1, "places") == LUA_TTABLE)
        value = loc(reader, name);
    lua_pop(reader->lua, 1);
    return value;
}

/* Pushes the list `name` (or an empty one) and returns an array for its items. */
static void *open_list(struct reader *reader, const char *name, size_t item, size_t *out_count)
{
    if (lua_getfield(reader->lua, -1, name) != LUA_TTABLE) {
        lua_pop(reader->lua, 1);
        lua_newtable(reader->lua);
    }
    *out_count = lua_rawlen(reader->lua, -1);
    return arena_alloc(reader->arena, *out_count, item);
}

static void push_item(struct reader *reader, size_t index)
{
    lua_rawgeti(reader->lua, -1, (lua_Integer)index + 1);
}

static void pop(struct reader *reader)
{
    lua_pop(reader->lua, 1);
}

static const char **texts(struct reader *reader, const char *name, size_t *out_count)
{
    const char **list = open_list(reader, name, sizeof *list, out_count);
    for (size_t i = 0; i < *out_count; i++) {
        push_item(reader, i);
        list[i] = arena_strdup(reader->arena, lua_tostring(reader->lua, -1));
        pop(reader);
    }
    pop(reader);
    return list;
}

static struct folders folders(struct reader *reader, const char *name)
{
    struct folders list = {0};
    list.items = open_list(reader, name, sizeof *list.items, &list.count);
    for (size_t i = 0; i < list.count; i++) {
        push_item(reader, i);
        list.items[i] = (struct folder){text(reader, "path"), loc(reader, "place")};
        pop(reader);
    }
    pop(reader);
    return list;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct target_constant *)a)->name,
                  ((const struct target_constant *)b)->name);
}

static struct target_constant *constants(struct reader *reader, size_t *out_count)
{
    struct target_constant *list = open_list(reader, "tile", sizeof *list, out_count);
    for (size_t i = 0; i < *out_count; i++) {
        push_item(reader, i);
        list[i].name = text(reader, "name");
        lua_getfield(reader->lua, -1, "value");
        list[i].value = lua_tointeger(reader->lua, -1);
        lua_pop(reader->lua, 2);
    }
    pop(reader);
    qsort(list, *out_count, sizeof *list, by_name);
    return list;
}

static void read_block(struct reader *reader, struct target_entry *entry)
{
    if (lua_getfield(reader->lua, -1, "block") == LUA_TTABLE) {
        entry->has_block = true;
        for (size_t i = 0; i < 3; i++) {
            push_item(reader, i);
            entry->block[i] = (uint32_t)lua_tointeger(reader->lua, -1);
            pop(reader);
        }
    }
    pop(reader);
}

static void read_limits(struct reader *reader, struct target_entry *entry)
{
    if (lua_getfield(reader->lua, -1, "limits") == LUA_TTABLE) {
        entry->limits.registers = size(reader, "registers");
        entry->limits.spill_bytes = size(reader, "spill_bytes");
        entry->limits.stack_bytes = size(reader, "stack_bytes");
        entry->limits.static_smem = size(reader, "static_smem");
        entry->limits.dynamic_smem = size(reader, "dynamic_smem");
        entry->limits.code_bytes = size(reader, "code_bytes");
        entry->limits.seconds = size(reader, "seconds");
    }
    pop(reader);
}

static void read_entry(struct reader *reader, struct declared_entry *out)
{
    struct target_entry *entry = &out->entry;
    entry->name = text(reader, "name");
    entry->expression = text(reader, "expression");
    entry->loc = loc(reader, "place");
    read_block(reader, entry);
    entry->dynamic_smem = size(reader, "smem");
    entry->static_smem = size(reader, "static_smem");
    entry->twin_module = text(reader, "twin_module");
    entry->twin_entry = text(reader, "twin_entry");
    const char *bits = text(reader, "bits");
    if (bits)
        entry->bits = strcmp(bits, "same") == 0 ? TARGET_BITS_SAME : TARGET_BITS_CLOSE;
    read_limits(reader, entry);
    out->twin_loc = field_loc(reader, "twin_of");
    out->smem_loc = field_loc(reader, "smem");
    out->static_smem_loc = field_loc(reader, "static_smem");
}

static void read_entries(struct reader *reader, struct declared_module *module)
{
    module->entries = open_list(reader, "entries", sizeof *module->entries, &module->entry_count);
    module->every = flag(reader, "every");
    for (size_t i = 0; i < module->entry_count; i++) {
        push_item(reader, i);
        read_entry(reader, &module->entries[i]);
        pop(reader);
    }
    pop(reader);
}

static void read_drops(struct reader *reader, struct declared_module *module)
{
    module->drops = open_list(reader, "drops", sizeof *module->drops, &module->drop_count);
    for (size_t i = 0; i < module->drop_count; i++) {
        push_item(reader, i);
        module->drops[i] =
            (struct dropped){text(reader, "name"), text(reader, "reason"), loc(reader, "place")};
        pop(reader);
    }
    pop(reader);
}

static bool strict(struct reader *reader, bool otherwise)
{
    const char *warnings = text(reader, "warnings");
    return warnings ? strcmp(warnings, "error") == 0 : otherwise;
}

static void read_module(struct reader *reader, const struct description *owner,
                        struct declared_module *out)
{
    *out = (struct declared_module){
        .owner = owner,
        .name = text(reader, "name"),
        .source = text(reader, "source"),
        .loc = loc(reader, "place"),
        .source_loc = field_loc(reader, "source"),
        .split = flag(reader, "split"),
        .lto = flag(reader, "lto"),
        .strict = strict(reader, owner->strict),
        .shadow = flag(reader, "shadow"),
        .includes = folders(reader, "includes"),
    };
    out->constants = constants(reader, &out->constant_count);
    out->flags_loc = field_loc(reader, "flags");
    out->flags = texts(reader, "flags", &out->flag_count);
    read_entries(reader, out);
    read_drops(reader, out);
}

static void read_levers(struct reader *reader, struct description *out)
{
    static const char *const kinds[] = {"switch", "is1", "presence", "text"};
    out->levers = open_list(reader, "levers", sizeof *out->levers, &out->lever_count);
    for (size_t i = 0; i < out->lever_count; i++) {
        struct declared_lever *lever = &out->levers[i];
        push_item(reader, i);
        const char *kind = text(reader, "kind"), *value = text(reader, "default");
        lever->lever = (struct target_lever){
            .name = text(reader, "name"),
            .env = text(reader, "env"),
            .text = value ? value : "",
            .on = !value && flag(reader, "default"),
        };
        for (size_t k = 0; kind && k < sizeof kinds / sizeof *kinds; k++)
            if (strcmp(kind, kinds[k]) == 0)
                lever->lever.kind = (enum target_lever_kind)k;
        lever->loc = loc(reader, "place");
        pop(reader);
    }
    pop(reader);
}

static void read_absents(struct reader *reader, struct description *out)
{
    out->absents = open_list(reader, "expected_absent", sizeof *out->absents, &out->absent_count);
    for (size_t i = 0; i < out->absent_count; i++) {
        push_item(reader, i);
        out->absents[i] = (struct declared_absent){
            {text(reader, "module"), text(reader, "entry"), text(reader, "reason")},
            loc(reader, "place"),
        };
        pop(reader);
    }
    pop(reader);
}

static void read_device(struct reader *reader, struct description *out)
{
    if (out->arch) {
        uint32_t digits = (uint32_t)strtoul(out->arch + 3, NULL, 10);
        out->compute_major = digits / 10;
        out->compute_minor = digits % 10;
    }
    if (lua_getfield(reader->lua, -1, "device") == LUA_TTABLE) {
        out->sm_count = size(reader, "sm_count").value;
        out->smem_optin = size(reader, "smem_optin").value;
    }
    pop(reader);
}

void description_read(lua_State *lua, int index, struct description *out)
{
    struct reader reader = {lua, sandbox_of(lua)->arena};
    luaL_checkstack(lua, 40, NULL);
    lua_pushvalue(lua, index);
    out->name = text(&reader, "name");
    out->arch = text(&reader, "arch");
    out->inherits = text(&reader, "inherits");
    out->loc = loc(&reader, "place");
    out->arch_loc = field_loc(&reader, "arch");
    out->inherits_loc = field_loc(&reader, "inherits");
    out->flags_loc = field_loc(&reader, "flags");
    out->flags = texts(&reader, "flags", &out->flag_count);
    out->strict = strict(&reader, false);
    out->includes = folders(&reader, "includes");
    read_device(&reader, out);
    read_levers(&reader, out);
    read_absents(&reader, out);
    out->modules = open_list(&reader, "modules", sizeof *out->modules, &out->module_count);
    for (size_t i = 0; i < out->module_count; i++) {
        push_item(&reader, i);
        read_module(&reader, out, &out->modules[i]);
        pop(&reader);
    }
    lua_pop(lua, 2);
}
