#include "cli/build.h"

#include <inttypes.h>

struct defines {
    struct arena *arena;
    const char **items;
    size_t count;
};

/* A negative value in parentheses: the text must bind as one operand. C has no literal for
 * INT64_MIN. */
static void define(struct defines *defines, const char *prefix, const char *name, int64_t value)
{
    const char *text;
    if (value == INT64_MIN)
        text = "(-9223372036854775807-1)";
    else
        text = arena_printf(defines->arena, value < 0 ? "(%" PRId64 ")" : "%" PRId64, value);
    defines->items[defines->count++] = arena_printf(defines->arena, "%s%s=%s", prefix, name, text);
}

static void define_entry(struct defines *defines, const struct target_entry *entry)
{
    if (entry->dynamic_smem.given)
        define(defines, "KPK_SMEM_", entry->name, entry->dynamic_smem.value);
    if (entry->static_smem.given)
        define(defines, "KPK_STATIC_SMEM_", entry->name, entry->static_smem.value);
    if (entry->has_block)
        define(defines, "KPK_BLOCK_", entry->name,
               (int64_t)entry->block[0] * entry->block[1] * entry->block[2]);
}

static const char **expressions(const struct target_module *module, struct arena *arena,
                                size_t *out_count)
{
    const char **list = arena_alloc(arena, module->entry_count, sizeof *list);
    *out_count = 0;
    for (size_t i = 0; i < module->entry_count; i++)
        if (module->entries[i].expression)
            list[(*out_count)++] = module->entries[i].expression;
    return list;
}

void build_units(const struct target *target, struct arena *arena, struct compile_unit *out_units)
{
    for (size_t i = 0; i < target->module_count; i++) {
        const struct target_module *module = &target->modules[i];
        size_t most = module->constant_count + 3 * module->entry_count;
        struct defines defines = {arena, arena_alloc(arena, most, sizeof(char *)), 0};
        for (size_t j = 0; j < module->constant_count; j++)
            define(&defines, "", module->constants[j].name, module->constants[j].value);
        for (size_t j = 0; j < module->entry_count; j++)
            define_entry(&defines, &module->entries[j]);
        out_units[i] = (struct compile_unit){
            .name = arena_printf(arena, "%s/%s", target->name, module->name),
            .root = target->root,
            .source = module->source,
            .arch = target->arch,
            .flags = module->flags,
            .flag_count = module->flag_count,
            .defines = defines.items,
            .define_count = defines.count,
            .includes = module->includes,
            .include_count = module->include_count,
            .loc = module->loc,
        };
        out_units[i].expressions = expressions(module, arena, &out_units[i].expression_count);
    }
}
