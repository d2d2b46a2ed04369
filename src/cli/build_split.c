#include "cli/build.h"

#include <string.h>

#include "base/str.h"
#include "compile/ptx_vars.h"

/* What holds for the objects of a split module together. */

static bool wants(const struct compile_unit *unit, const struct target_entry *entry)
{
    const char *text = entry->expression ? entry->expression : entry->name;
    for (size_t i = 0; i < unit->kernel_count; i++)
        if (strcmp(unit->kernels[i], text) == 0)
            return true;
    return false;
}

size_t build_object_of(const struct build_module *module, const struct target_entry *entry)
{
    size_t first = build_first_object(module);
    for (size_t i = first; first && i < module->unit_count; i++)
        if (wants(&module->unit[i], entry))
            return i - first;
    return 0;
}

static const struct build_entry *entry_of(const struct build_module *module, const char *symbol)
{
    for (size_t i = 0; i < module->entry_count; i++)
        if (strcmp(module->entries[i].compiled->name, symbol) == 0)
            return &module->entries[i];
    return NULL;
}

/* nvJitLink takes every kernel whose symbol contains the wanted one. */
void build_check_object(struct cli *cli, const struct build_module *module, size_t object,
                        const struct cubin *cubin)
{
    for (size_t i = 0; i < cubin->count; i++) {
        const struct build_entry *entry = entry_of(module, cubin->entries[i].name);
        if (!entry || entry->object != object)
            diag_error_at(
                &cli->diags, module->declared->loc,
                "'%s' also holds the kernel '%s', whose symbol contains that of an entry: "
                "declare it too, or give it another name",
                module->unit[build_first_object(module) + object].name, cubin->entries[i].name);
    }
}

/* A variable is copied into each object that uses it. */
void build_check_variables(struct cli *cli, const struct build_module *module)
{
    size_t count;
    struct ptx_variable *variables =
        ptx_variables(module->result->cubin, module->result->cubin_size, &cli->arena, &count);
    for (size_t i = 0; i < count; i++) {
        const struct ptx_variable *variable = &variables[i];
        const struct build_entry *first = NULL, *other = NULL;
        for (size_t j = 0; j < module->entry_count; j++) {
            const struct build_entry *entry = &module->entries[j];
            bool uses = variable->in_function;
            for (size_t k = 0; k < variable->user_count; k++)
                uses |= strcmp(variable->users[k], entry->compiled->name) == 0;
            if (uses && !first)
                first = entry;
            else if (uses && entry->object != first->object && !other)
                other = entry;
        }
        if (variable->written && other)
            diag_error_at(
                &cli->diags, module->declared->loc,
                "entries '%s' and '%s' of the split module '%s' share the variable '%s', "
                "which is written, or its address handed on: each would have a copy of its "
                "own; compile the module "
                "without split",
                first->name, other->name, module->declared->name, variable->name);
    }
}
