#include "cli/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static json_t *must(json_t *value)
{
    if (!value) {
        fputs("kpack: error: out of memory\n", stderr);
        exit(1);
    }
    return value;
}

static json_t *string(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    struct str escaped = {0}; /* not UTF-8 */
    str_add_printable(&escaped, text, strlen(text));
    value = json_string(str_text(&escaped));
    str_free(&escaped);
    return must(value);
}

static json_t *string_or_null(const char *text)
{
    return text[0] ? string(text) : json_null();
}

static json_t *integer(uint64_t value)
{
    return must(json_integer((json_int_t)value));
}

static json_t *integer_or_null(bool present, uint64_t value)
{
    return present ? integer(value) : json_null();
}

static json_t *version(uint32_t major, uint32_t minor)
{
    return must(json_sprintf("%u.%u", major, minor));
}

static void set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        must(NULL);
}

static void append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        must(NULL);
}

static json_t *block(const kpk_entry_info *entry)
{
    if (!entry->has_block)
        return json_null();
    json_t *array = must(json_array());
    append(array, integer(entry->block.x));
    append(array, integer(entry->block.y));
    append(array, integer(entry->block.z));
    return array;
}

json_t *view_entry_json(const kpk_entry_info *entry)
{
    static const char *const bits[] = {"", "same", "close"};
    json_t *object = must(json_object());
    set(object, "name", string(entry->name));
    set(object, "symbol", string(entry->symbol));
    set(object, "block", block(entry));
    set(object, "dynamic_smem", integer_or_null(entry->has_dynamic_smem, entry->dynamic_smem));
    set(object, "static_smem", integer(entry->static_smem));
    set(object, "registers", integer(entry->registers));
    set(object, "spill_bytes", integer_or_null(entry->has_spill, entry->spill_bytes));
    set(object, "stack_bytes", integer(entry->stack_bytes));
    set(object, "code_bytes", integer(entry->code_bytes));
    set(object, "twin_of", string_or_null(entry->twin_of));
    set(object, "bits", string_or_null(bits[entry->bits]));
    return object;
}

json_t *view_module_json(const struct view *view, uint32_t index)
{
    kpk_module_info module = view_module(view, index);
    json_t *object = must(json_object()), *constants = must(json_object());
    json_t *flags = must(json_array()), *entries = must(json_array());
    for (uint32_t i = 0; i < module.constant_count; i++) {
        int64_t value;
        const char *name = view_constant(view, index, i, &value);
        set(constants, name, must(json_integer(value)));
    }
    for (uint32_t i = 0; i < module.flag_count; i++)
        append(flags, string(view_flag(view, index, i)));
    for (uint32_t i = 0; i < module.entry_count; i++) {
        kpk_entry_info entry = view_entry(view, module.first_entry + i);
        append(entries, view_entry_json(&entry));
    }
    set(object, "name", string(module.name));
    set(object, "source", string(module.source));
    set(object, "constants", constants);
    set(object, "flags", flags);
    set(object, "entries", entries);
    return object;
}

static json_t *levers(const struct view *view)
{
    json_t *array = must(json_array());
    for (uint32_t i = 0; i < view->info.lever_count; i++) {
        kpk_lever lever = view_lever(view, i);
        json_t *object = must(json_object());
        set(object, "name", string(lever.name));
        set(object, "env", string(lever.env));
        set(object, "kind", string(view_lever_kind(lever.kind)));
        set(object, "default",
            lever.kind == KPK_TEXT ? string(lever.default_text) : json_boolean(lever.default_on));
        append(array, object);
    }
    return array;
}

static json_t *absents(const struct view *view)
{
    json_t *array = must(json_array());
    for (uint32_t i = 0; i < view->info.absent_count; i++) {
        kpk_absent_info absent = view_absent(view, i);
        json_t *object = must(json_object());
        set(object, "module", string(absent.module));
        set(object, "entry", string_or_null(absent.entry));
        set(object, "reason", string(absent.reason));
        append(array, object);
    }
    return array;
}

static json_t *groups(const struct view *view)
{
    json_t *array = must(json_array());
    uint32_t *members = mem_alloc(view->info.module_count, sizeof *members);
    for (uint32_t i = 0; i < view->info.group_count; i++) {
        kpk_group_info group = view_group(view, i);
        json_t *object = must(json_object()), *modules = must(json_array());
        size_t count = view_group_modules(view, i, members);
        for (size_t j = 0; j < count; j++)
            append(modules, string(view_module(view, members[j]).name));
        set(object, "raw_bytes", integer(group.raw_size));
        set(object, "packed_bytes", integer(group.packed_size));
        set(object, "modules", modules);
        append(array, object);
    }
    free(members);
    return array;
}

json_t *view_image_json(const struct view *view)
{
    const kpk_image_info *info = &view->info;
    json_t *object = must(json_object()), *modules = must(json_array());
    for (uint32_t i = 0; i < info->module_count; i++)
        append(modules, view_module_json(view, i));
    set(object, "format", integer(info->format_version));
    set(object, "target", string(info->target));
    set(object, "arch", string(info->arch));
    set(object, "compute", version(info->compute_major, info->compute_minor));
    set(object, "nvrtc", version(info->nvrtc_major, info->nvrtc_minor));
    set(object, "min_driver", integer(info->min_driver));
    set(object, "raw_bytes", integer(info->raw_bytes));
    set(object, "file_bytes", integer(info->file_bytes));
    set(object, "levers", levers(view));
    set(object, "expected_absent", absents(view));
    set(object, "groups", groups(view));
    set(object, "modules", modules);
    return object;
}

void view_print_json(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(value);
}
