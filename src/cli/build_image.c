#include "cli/build.h"

#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "runtime/kpk_format.h"

static struct image_entry image_entry(struct arena *arena, const struct build_entry *entry)
{
    const struct target_entry *declared = entry->declared;
    struct image_entry out = {
        .name = entry->name,
        .symbol = entry->compiled->name,
        .object = entry->object,
        .static_smem = entry->compiled->static_smem,
        .registers = entry->compiled->registers,
        .stack_bytes = entry->compiled->stack_bytes,
        .code_bytes = entry->compiled->code_bytes,
    };
    if (entry->spill) {
        out.present |= KPK_PRESENT_SPILL;
        out.spill_bytes = entry->spill->store_bytes + entry->spill->load_bytes;
    }
    if (declared && declared->has_block) {
        out.present |= KPK_PRESENT_BLOCK;
        memcpy(out.block, declared->block, sizeof out.block);
    }
    if (declared && declared->dynamic_smem.given) {
        out.present |= KPK_PRESENT_DYNAMIC_SMEM;
        out.dynamic_smem = declared->dynamic_smem.value;
    }
    if (declared && declared->twin_module) {
        out.twin_of = arena_printf(arena, "%s:%s", declared->twin_module, declared->twin_entry);
        out.twin_bits = declared->bits == TARGET_BITS_SAME ? KPK_TWIN_SAME : KPK_TWIN_CLOSE;
    }
    return out;
}

static struct image_module image_module(struct arena *arena, const struct build_module *module)
{
    const struct target_module *declared = module->declared;
    size_t first = build_first_object(module), count = module->unit_count - first;
    struct image_object *objects = arena_alloc(arena, count, sizeof *objects);
    struct image_entry *entries = arena_alloc(arena, module->entry_count, sizeof *entries);
    struct image_constant *constants =
        arena_alloc(arena, declared->constant_count, sizeof *constants);
    for (size_t i = 0; i < count; i++)
        objects[i] = (struct image_object){module->result[first + i].cubin,
                                           module->result[first + i].cubin_size};
    for (size_t i = 0; i < module->entry_count; i++)
        entries[i] = image_entry(arena, &module->entries[i]);
    for (size_t i = 0; i < declared->constant_count; i++)
        constants[i] =
            (struct image_constant){declared->constants[i].name, declared->constants[i].value};
    return (struct image_module){
        .name = declared->name,
        .source = declared->source,
        .origin = declared->origin,
        .entries = entries,
        .entry_count = module->entry_count,
        .objects = objects,
        .object_count = count,
        .constants = constants,
        .constant_count = declared->constant_count,
        .flags = declared->flags,
        .flag_count = declared->flag_count,
    };
}

static uint32_t lever_kind(enum target_lever_kind kind)
{
    switch (kind) {
    case TARGET_LEVER_SWITCH:
        return KPK_LEVER_SWITCH;
    case TARGET_LEVER_IS1:
        return KPK_LEVER_IS1;
    case TARGET_LEVER_PRESENCE:
        return KPK_LEVER_PRESENCE;
    case TARGET_LEVER_TEXT:
        return KPK_LEVER_TEXT;
    }
    BUG("no such lever kind");
}

static struct image image_of(struct arena *arena, const struct build_target *build)
{
    const struct target *target = build->target;
    struct image_module *modules = arena_alloc(arena, build->module_count, sizeof *modules);
    struct image_lever *levers = arena_alloc(arena, target->lever_count, sizeof *levers);
    struct image_absent *absents = arena_alloc(arena, target->absent_count, sizeof *absents);
    for (size_t i = 0; i < build->module_count; i++)
        modules[i] = image_module(arena, &build->modules[i]);
    for (size_t i = 0; i < target->lever_count; i++) {
        const struct target_lever *lever = &target->levers[i];
        levers[i] = (struct image_lever){lever->name, lever->env, lever_kind(lever->kind),
                                         lever->on, lever->text};
    }
    for (size_t i = 0; i < target->absent_count; i++) {
        const struct target_absent *absent = &target->absents[i];
        absents[i] = (struct image_absent){absent->module, absent->entry, absent->reason};
    }
    int major = build->modules[0].result->nvrtc_major,
        minor = build->modules[0].result->nvrtc_minor;
    return (struct image){
        .target = target->name,
        .arch = target->arch,
        .compute_major = target->compute_major,
        .compute_minor = target->compute_minor,
        .min_driver = image_min_driver(major, minor, target->arch),
        .nvrtc_major = (uint32_t)major,
        .nvrtc_minor = (uint32_t)minor,
        .sm_count = target->sm_count,
        .smem_optin = target->smem_optin,
        .modules = modules,
        .module_count = build->module_count,
        .levers = levers,
        .lever_count = target->lever_count,
        .absents = absents,
        .absent_count = target->absent_count,
    };
}

bool build_publish(struct cli *cli, struct build_target *build, bool stamp, const char *carried)
{
    struct image image = image_of(&cli->arena, build);
    struct str bytes = {0};
    bool ignored;
    json_t *made_from = build_stamp(cli, build, stamp);
    if (build_stopped()) { /* git was stopped as well, so the stamp may lack the commit */
        json_decref(made_from);
        return false;
    }
    image.stamp = stamp ? build_stamp_text(cli, made_from) : carried;
    bool ok = image_write(&image, 0, &bytes, &build->stats, &cli->diags) &&
              file_update(build->path, bytes.data, bytes.len, &build->written, &cli->diags);
    if (ok) {
        build->image_digest = digest_bytes(bytes.data, bytes.len);
        const char *text = build_sidecar(cli, build, made_from, bytes.len);
        build->sidecar_digest = digest_bytes(text, strlen(text));
        ok = file_update(build_sidecar_path(&cli->arena, build), text, strlen(text), &ignored,
                         &cli->diags);
    }
    json_decref(made_from);
    str_free(&bytes);
    return ok;
}
