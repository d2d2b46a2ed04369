#include "cli/view.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/emit.h"

static json_t *version(uint32_t major, uint32_t minor)
{
    char text[32];
    snprintf(text, sizeof text, "%u.%u", major, minor);
    return emit_string(text);
}

static json_t *block(const kpk_entry_info *entry)
{
    if (!entry->has_block)
        return json_null();
    json_t *array = emit_array();
    emit_append(array, emit_count(entry->block.x));
    emit_append(array, emit_count(entry->block.y));
    emit_append(array, emit_count(entry->block.z));
    return array;
}

json_t *view_entry_json(const kpk_entry_info *entry)
{
    static const char *const bits[] = {"", "same", "close"};
    json_t *object = emit_object();
    emit_set(object, "name", emit_string(entry->name));
    emit_set(object, "symbol", emit_string(entry->symbol));
    emit_set(object, "block", block(entry));
    emit_set(object, "dynamic_smem",
             emit_count_or_null(entry->has_dynamic_smem, entry->dynamic_smem));
    emit_set(object, "static_smem", emit_count(entry->static_smem));
    emit_set(object, "registers", emit_count(entry->registers));
    emit_set(object, "spill_bytes", emit_count_or_null(entry->has_spill, entry->spill_bytes));
    emit_set(object, "stack_bytes", emit_count(entry->stack_bytes));
    emit_set(object, "code_bytes", emit_count(entry->code_bytes));
    emit_set(object, "twin_of", emit_string_or_null(entry->twin_of));
    emit_set(object, "bits", emit_string_or_null(bits[entry->bits]));
    return object;
}

json_t *view_module_json(const struct view *view, uint32_t index)
{
    kpk_module_info module = view_module(view, index);
    json_t *object = emit_object(), *constants = emit_object();
    json_t *flags = emit_array(), *entries = emit_array();
    for (uint32_t i = 0; i < module.constant_count; i++) {
        int64_t value;
        const char *name = view_constant(view, index, i, &value);
        emit_set(constants, name, emit_integer(value));
    }
    for (uint32_t i = 0; i < module.flag_count; i++)
        emit_append(flags, emit_string(view_flag(view, index, i)));
    for (uint32_t i = 0; i < module.entry_count; i++) {
        kpk_entry_info entry = view_entry(view, module.first_entry + i);
        emit_append(entries, view_entry_json(&entry));
    }
    emit_set(object, "name", emit_string(module.name));
    emit_set(object, "source", emit_string(module.source));
    emit_set(object, "constants", constants);
    emit_set(object, "flags", flags);
    emit_set(object, "entries", entries);
    return object;
}

static json_t *levers(const struct view *view)
{
    json_t *array = emit_array();
    for (uint32_t i = 0; i < view->info.lever_count; i++) {
        kpk_lever lever = view_lever(view, i);
        json_t *object = emit_object();
        emit_set(object, "name", emit_string(lever.name));
        emit_set(object, "env", emit_string(lever.env));
        emit_set(object, "kind", emit_string(view_lever_kind(lever.kind)));
        emit_set(object, "default",
                 lever.kind == KPK_TEXT ? emit_string(lever.default_text)
                                        : emit_bool(lever.default_on));
        emit_append(array, object);
    }
    return array;
}

static json_t *absents(const struct view *view)
{
    json_t *array = emit_array();
    for (uint32_t i = 0; i < view->info.absent_count; i++) {
        kpk_absent_info absent = view_absent(view, i);
        json_t *object = emit_object();
        emit_set(object, "module", emit_string(absent.module));
        emit_set(object, "entry", emit_string_or_null(absent.entry));
        emit_set(object, "reason", emit_string(absent.reason));
        emit_append(array, object);
    }
    return array;
}

static json_t *groups(const struct view *view)
{
    json_t *array = emit_array();
    uint32_t *members = mem_alloc(view->info.module_count, sizeof *members);
    for (uint32_t i = 0; i < view->info.group_count; i++) {
        kpk_group_info group = view_group(view, i);
        json_t *object = emit_object(), *modules = emit_array();
        size_t count = view_group_modules(view, i, members);
        for (size_t j = 0; j < count; j++)
            emit_append(modules, emit_string(view_module(view, members[j]).name));
        emit_set(object, "raw_bytes", emit_count(group.raw_size));
        emit_set(object, "packed_bytes", emit_count(group.packed_size));
        emit_set(object, "modules", modules);
        emit_append(array, object);
    }
    free(members);
    return array;
}

json_t *view_image_json(const struct view *view)
{
    const kpk_image_info *info = &view->info;
    json_t *object = emit_object(), *modules = emit_array();
    for (uint32_t i = 0; i < info->module_count; i++)
        emit_append(modules, view_module_json(view, i));
    emit_set(object, "format", emit_count(info->format_version));
    emit_set(object, "target", emit_string(info->target));
    emit_set(object, "arch", emit_string(info->arch));
    emit_set(object, "compute", version(info->compute_major, info->compute_minor));
    emit_set(object, "nvrtc", version(info->nvrtc_major, info->nvrtc_minor));
    emit_set(object, "min_driver", emit_count(info->min_driver));
    emit_set(object, "raw_bytes", emit_count(info->raw_bytes));
    emit_set(object, "file_bytes", emit_count(info->file_bytes));
    emit_set(object, "levers", levers(view));
    emit_set(object, "expected_absent", absents(view));
    emit_set(object, "groups", groups(view));
    emit_set(object, "modules", modules);
    return object;
}
