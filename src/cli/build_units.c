#include "cli/build.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "compile/link_flags.h"

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

/* ---- Splitting --------------------------------------------------------------------------------
 */

/* What tells nvJitLink, or the worker, which kernel an entry is. */
static const char *kernel_text(const struct target_entry *entry)
{
    return entry->expression ? entry->expression : entry->name;
}

/* nvJitLink takes every kernel whose symbol contains the wanted one, and a symbol contains the
 * names that an expression is written with. */
static bool overlap(const struct target_entry *a, const struct target_entry *b)
{
    const char *x = kernel_text(a), *y = kernel_text(b);
    return strstr(x, y) || strstr(y, x);
}

/* Numbers the entries' groups in the order of their first entries; returns how many there are. */
static size_t group(const struct target_module *module, size_t *groups)
{
    size_t count = 0;
    for (size_t i = 0; i < module->entry_count; i++) {
        groups[i] = count;
        for (size_t j = 0; j < i; j++)
            if (overlap(&module->entries[i], &module->entries[j]) && groups[j] != groups[i]) {
                size_t from = groups[i] > groups[j] ? groups[i] : groups[j];
                size_t to = groups[i] > groups[j] ? groups[j] : groups[i];
                for (size_t k = 0; k <= i; k++)
                    groups[k] = groups[k] == from ? to : groups[k] - (groups[k] > from);
            }
        for (size_t j = 0; j <= i; j++)
            count = groups[j] >= count ? groups[j] + 1 : count;
    }
    return count;
}

static void split(const struct target_module *module, struct arena *arena,
                  const struct compile_unit *whole, struct compile_unit *out, size_t *out_count)
{
    size_t *groups = arena_alloc(arena, module->entry_count, sizeof *groups);
    size_t count = group(module, groups);
    const char **all = arena_alloc(arena, module->entry_count, sizeof *all);
    for (size_t i = 0; i < module->entry_count; i++)
        all[i] = kernel_text(&module->entries[i]);
    out[0] = *whole;
    out[0].name = arena_printf(arena, "%s (variables)", whole->name);
    out[0].way = COMPILE_VARIABLES;
    out[0].kernels = all;
    out[0].kernel_count = module->entry_count;
    for (size_t g = 0; g < count; g++) {
        struct compile_unit *unit = &out[1 + g];
        const char **kernels = arena_alloc(arena, module->entry_count, sizeof *kernels);
        struct str name = {0};
        *unit = *whole;
        for (size_t i = 0; i < module->entry_count; i++)
            if (groups[i] == g) {
                str_addf(&name, "%s%s", name.len ? "+" : "", module->entries[i].name);
                kernels[unit->kernel_count++] = all[i];
            }
        unit->name = arena_printf(arena, "%s:%s", whole->name, str_text(&name));
        unit->kernels = kernels;
        str_free(&name);
    }
    *out_count = 1 + count;
}

/* ---- Units ------------------------------------------------------------------------------------
 */

static struct loc flag_loc(const struct target_module *module, const char *flag)
{
    for (size_t i = 0; i < module->flag_count; i++)
        if (strcmp(module->flags[i], flag) == 0)
            return module->flag_locs[i];
    return module->loc;
}

static bool set_link(const struct target_module *module, struct arena *arena,
                     struct compile_unit *unit, struct diags *diags)
{
    const char *unknown;
    unit->way = COMPILE_LINKED;
    unit->link_options =
        link_flags(module->flags, module->flag_count, arena, &unit->link_option_count, &unknown);
    return unit->link_options ||
           diag_error_at(diags, flag_loc(module, unknown),
                         "module '%s' has the flag '%s', which nvJitLink knows no counterpart of: "
                         "leave the flag out, or compile the module without %s",
                         module->name, unknown, module->split ? "split" : "lto");
}

static struct compile_unit whole_unit(const struct target *target,
                                      const struct target_module *module, struct arena *arena)
{
    size_t most = module->constant_count + 3 * module->entry_count;
    struct defines defines = {arena, arena_alloc(arena, most, sizeof(char *)), 0};
    for (size_t j = 0; j < module->constant_count; j++)
        define(&defines, "", module->constants[j].name, module->constants[j].value);
    for (size_t j = 0; j < module->entry_count; j++)
        define_entry(&defines, &module->entries[j]);
    struct compile_unit unit = {
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
        .arch_loc = target->arch_loc,
        .flag_locs = module->flag_locs,
    };
    unit.expressions = expressions(module, arena, &unit.expression_count);
    return unit;
}

/* One warning, however many modules ask for it. */
static void warn_of_whole(const struct target *target, struct diags *diags)
{
    const struct target_module *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < target->module_count; i++) {
        const struct target_module *module = &target->modules[i];
        first = !first && (module->split || module->lto) ? module : first;
        count += module->split || module->lto;
    }
    if (first)
        diag_add(diags, DIAG_WARNING, first->loc,
                 "there is no nvJitLink beside NVRTC: module '%s'%s compiled whole, without '%s'; "
                 "install NVIDIA's package nvidia-nvjitlink",
                 first->name, count > 1 ? " and all that ask like it are" : " is",
                 first->split ? "split" : "lto");
}

bool build_units(const struct target *target, const struct cuda *cuda, struct arena *arena,
                 struct build_units *out, struct diags *diags)
{
    size_t errors = diags->errors, most = 0;
    for (size_t i = 0; i < target->module_count; i++)
        most += 1 + (target->modules[i].split ? target->modules[i].entry_count : 0);
    *out = (struct build_units){
        .items = arena_alloc(arena, most, sizeof *out->items),
        .first = arena_alloc(arena, target->module_count + 1, sizeof *out->first),
    };
    if (!cuda->nvjitlink)
        warn_of_whole(target, diags);
    for (size_t i = 0; i < target->module_count; i++) {
        const struct target_module *module = &target->modules[i];
        struct compile_unit unit = whole_unit(target, module, arena);
        size_t count = 1;
        bool link = cuda->nvjitlink && (module->split || module->lto);
        if (link && !set_link(module, arena, &unit, diags))
            link = false;
        if (link && module->split)
            split(module, arena, &unit, out->items + out->count, &count);
        else
            out->items[out->count] = unit;
        out->count += count;
        out->first[i + 1] = out->count;
    }
    return diags->errors == errors;
}
