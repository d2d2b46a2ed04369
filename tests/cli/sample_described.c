#include "sample_described.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "compile/cubin.h"
#include "runtime/kpk_format.h"

static void fail(const char *what, const char *name)
{
    fprintf(stderr, "sample_image: %s '%s'\n", what, name);
    exit(1);
}

static const char *text(struct arena *arena, const json_t *object, const char *key,
                        const char *other)
{
    const char *found = json_string_value(json_object_get(object, key));
    return found ? arena_strdup(arena, found) : other;
}

static uint32_t number(const json_t *object, const char *key, uint32_t other)
{
    const json_t *found = json_object_get(object, key);
    return found ? (uint32_t)json_integer_value(found) : other;
}

static uint32_t item(const json_t *array, size_t index)
{
    return (uint32_t)json_integer_value(json_array_get(array, index));
}

static struct image_object read_object(struct arena *arena, const char *path, struct cubin *out)
{
    struct str bytes = {0};
    struct diags diags = {0};
    if (!file_read(path, &bytes, &diags))
        fail("cannot read", path);
    void *copy = arena_alloc(arena, bytes.len, 1);
    memcpy(copy, bytes.data, bytes.len);
    cubin_read(path, copy, bytes.len, arena, out, &diags); /* noise has no figures */
    struct image_object object = {copy, bytes.len};
    str_free(&bytes);
    diag_free(&diags);
    return object;
}

static struct image_entry entry_of(struct arena *arena, const json_t *json,
                                   const struct cubin *cubins)
{
    struct image_entry entry = {
        .name = text(arena, json, "name", ""),
        .symbol = text(arena, json, "symbol", NULL),
        .object = number(json, "object", 0),
    };
    const char *symbol = entry.symbol ? entry.symbol : entry.name;
    const struct cubin *cubin = &cubins[entry.object];
    struct cubin_entry said = {0};
    for (size_t i = 0; i < cubin->count; i++)
        if (strcmp(cubin->entries[i].name, symbol) == 0)
            said = cubin->entries[i];
    entry.registers = number(json, "registers", said.registers);
    entry.static_smem = number(json, "static_smem", said.static_smem);
    entry.stack_bytes = number(json, "stack", said.stack_bytes);
    const json_t *code = json_object_get(json, "code");
    entry.code_bytes = code ? (uint64_t)json_integer_value(code) : said.code_bytes;
    entry.dynamic_smem = number(json, "dynamic_smem", 0);
    entry.spill_bytes = number(json, "spill", 0);
    entry.present = (json_object_get(json, "spill") ? KPK_PRESENT_SPILL : 0) |
                    (json_object_get(json, "dynamic_smem") ? KPK_PRESENT_DYNAMIC_SMEM : 0);
    const json_t *block = json_object_get(json, "block");
    for (size_t i = 0; block && i < 3; i++)
        entry.block[i] = item(block, i);
    entry.present |= block ? KPK_PRESENT_BLOCK : 0;
    entry.twin_of = text(arena, json, "twin_of", NULL);
    if (entry.twin_of)
        entry.twin_bits = strcmp(text(arena, json, "bits", "close"), "same") == 0 ? KPK_TWIN_SAME
                                                                                  : KPK_TWIN_CLOSE;
    return entry;
}

static struct image_module module_of(struct arena *arena, json_t *json)
{
    json_t *entries = json_object_get(json, "entries"), *cubins = json_object_get(json, "cubins");
    json_t *constants = json_object_get(json, "constants"), *flags = json_object_get(json, "flags");
    json_t *value;
    const char *key;
    size_t count = json_array_size(cubins), at = 0;
    struct cubin *read = arena_alloc(arena, count, sizeof *read);
    struct image_object *objects = arena_alloc(arena, count, sizeof *objects);
    for (size_t i = 0; i < count; i++)
        objects[i] = read_object(arena, json_string_value(json_array_get(cubins, i)), &read[i]);
    struct image_entry *list = arena_alloc(arena, json_array_size(entries), sizeof *list);
    for (size_t i = 0; i < json_array_size(entries); i++)
        list[i] = entry_of(arena, json_array_get(entries, i), read);
    struct image_constant *values = arena_alloc(arena, json_object_size(constants), sizeof *values);
    json_object_foreach(constants, key, value)
    {
        values[at++] = (struct image_constant){arena_strdup(arena, key), json_integer_value(value)};
    }
    const char **texts = arena_alloc(arena, json_array_size(flags), sizeof *texts);
    for (size_t i = 0; i < json_array_size(flags); i++)
        texts[i] = arena_strdup(arena, json_string_value(json_array_get(flags, i)));
    return (struct image_module){
        .name = text(arena, json, "name", ""),
        .source = text(arena, json, "source", "kernels/some.cu"),
        .origin = text(arena, json, "origin", "some"),
        .entries = list,
        .entry_count = json_array_size(entries),
        .objects = objects,
        .object_count = count,
        .constants = values,
        .constant_count = at,
        .flags = texts,
        .flag_count = json_array_size(flags),
    };
}

static void add_lists(struct arena *arena, const json_t *json, struct image *image)
{
    const json_t *levers = json_object_get(json, "levers"),
                 *absents = json_object_get(json, "absent");
    image->lever_count = json_array_size(levers);
    image->absent_count = json_array_size(absents);
    struct image_lever *lever = arena_alloc(arena, image->lever_count, sizeof *lever);
    struct image_absent *absent = arena_alloc(arena, image->absent_count, sizeof *absent);
    for (size_t i = 0; i < image->lever_count; i++) {
        const json_t *one = json_array_get(levers, i);
        lever[i] = (struct image_lever){
            text(arena, one, "name", ""), text(arena, one, "env", ""), number(one, "kind", 0),
            json_is_true(json_object_get(one, "on")), text(arena, one, "text", NULL)};
    }
    for (size_t i = 0; i < image->absent_count; i++) {
        const char *words[3];
        for (size_t j = 0; j < 3; j++)
            words[j] = arena_strdup(
                arena, json_string_value(json_array_get(json_array_get(absents, i), j)));
        absent[i] = (struct image_absent){words[0], words[1], words[2]};
    }
    image->levers = lever;
    image->absents = absent;
}

struct image describe_image(const char *path, struct arena *arena, size_t *out_group_cap)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error), *modules = json_object_get(json, "modules");
    if (!json)
        fail(error.text, path);
    json_t *nvrtc = json_object_get(json, "nvrtc");
    const char *arch = text(arena, json, "arch", "sm_90a");
    uint32_t compute = (uint32_t)strtoul(arch + strlen("sm_"), NULL, 10);
    struct image_module *list = arena_alloc(arena, json_array_size(modules), sizeof *list);
    for (size_t i = 0; i < json_array_size(modules); i++)
        list[i] = module_of(arena, json_array_get(modules, i));
    struct image image = {
        .target = text(arena, json, "target", "some"),
        .arch = arch,
        .stamp = text(arena, json, "stamp", NULL),
        .compute_major = compute / 10,
        .compute_minor = compute % 10,
        .sm_count = number(json, "sm_count", 0),
        .smem_optin = number(json, "smem_optin", 0),
        .min_driver = 13000,
        .nvrtc_major = nvrtc ? item(nvrtc, 0) : 13,
        .nvrtc_minor = nvrtc ? item(nvrtc, 1) : 0,
        .modules = list,
        .module_count = json_array_size(modules),
    };
    add_lists(arena, json, &image);
    *out_group_cap = number(json, "group_cap", 0);
    json_decref(json);
    return image;
}
