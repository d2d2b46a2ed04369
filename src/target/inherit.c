#include "target/inherit.h"

#include <stdlib.h>
#include <string.h>

size_t inherit_entry(const struct declared_module *module, const char *name)
{
    for (size_t i = 0; i < module->entry_count; i++)
        if (strcmp(module->entries[i].entry.name, name) == 0)
            return i;
    return SIZE_MAX;
}

static int by_module(const void *a, const void *b)
{
    return strcmp((*(const struct declared_module *const *)a)->name,
                  (*(const struct declared_module *const *)b)->name);
}

static int by_lever(const void *a, const void *b)
{
    return strcmp((*(const struct declared_lever *const *)a)->lever.name,
                  (*(const struct declared_lever *const *)b)->lever.name);
}

static int by_absent(const void *a, const void *b)
{
    const struct target_absent *left = &(*(const struct declared_absent *const *)a)->absent;
    const struct target_absent *right = &(*(const struct declared_absent *const *)b)->absent;
    int order = strcmp(left->module, right->module);
    return order ? order : strcmp(left->entry, right->entry);
}

const struct declared_module *inherit_module(const struct merged *merged, const char *name)
{
    struct declared_module key = {.name = name};
    const struct declared_module *wanted = &key;
    const struct declared_module **found =
        merged->module_count ? bsearch(&wanted, merged->modules, merged->module_count,
                                       sizeof *merged->modules, by_module)
                             : NULL;
    return found ? *found : NULL;
}

/* Lists are pointers to the parent's items, then to the child's own; sorting brings equals together
 * and the child's wins. */

static size_t merge(const void **list, size_t parents, const void *const *own, size_t count,
                    int (*order)(const void *, const void *))
{
    size_t kept = 0;
    for (size_t i = 0; i < parents; i++) {
        bool replaced = count && bsearch(&list[i], own, count, sizeof *own, order);
        if (!replaced)
            list[kept++] = list[i];
    }
    if (count)
        memcpy(list + kept, own, count * sizeof *own);
    qsort(list, kept + count, sizeof *list, order);
    return kept + count;
}

static void check_shadow(const struct declared_module *module,
                         const struct declared_module *replaced, struct diags *diags)
{
    if (!replaced) {
        if (module->shadow)
            diag_error_at(diags, module->loc,
                          "module '%s' has shadow = true, but no parent target has it",
                          module->name);
        if (module->drop_count)
            diag_error_at(diags, module->drops[0].loc,
                          "module '%s' drops '%s', but it replaces no module of a parent target",
                          module->name, module->drops[0].entry);
        return;
    }
    if (!module->shadow) {
        diag_error_at(diags, module->loc,
                      "module '%s' replaces the one of target '%s' (%s:%u): declare shadow = true",
                      module->name, replaced->owner->name, replaced->loc.file, replaced->loc.line);
        return;
    }
    for (size_t i = 0; i < replaced->entry_count && !module->every; i++) {
        const char *name = replaced->entries[i].entry.name;
        bool dropped = false;
        for (size_t j = 0; j < module->drop_count; j++)
            dropped |= strcmp(module->drops[j].entry, name) == 0;
        if (!dropped && inherit_entry(module, name) == SIZE_MAX)
            diag_error_at(
                diags, module->loc,
                "module '%s' drops entry '%s' of target '%s': ship it, or list it in drops "
                "with a reason",
                module->name, name, replaced->owner->name);
    }
    for (size_t j = 0; j < module->drop_count; j++) {
        const struct dropped *drop = &module->drops[j];
        if (inherit_entry(module, drop->entry) != SIZE_MAX)
            diag_error_at(diags, drop->loc, "module '%s' both drops and ships entry '%s'",
                          module->name, drop->entry);
        else if (!replaced->every && inherit_entry(replaced, drop->entry) == SIZE_MAX)
            diag_error_at(diags, drop->loc,
                          "module '%s' drops '%s', which the module of target '%s' does not have",
                          module->name, drop->entry, replaced->owner->name);
    }
}

static void merge_modules(const struct description *description, struct arena *arena,
                          const struct merged *parent, struct merged *out)
{
    const void **own = arena_alloc(arena, description->module_count, sizeof *own);
    for (size_t i = 0; i < description->module_count; i++)
        own[i] = &description->modules[i];
    qsort(own, description->module_count, sizeof *own, by_module);
    const void **list =
        arena_alloc(arena, parent->module_count + description->module_count, sizeof *list);
    for (size_t i = 0; i < parent->module_count; i++)
        list[i] = parent->modules[i];
    out->module_count =
        merge(list, parent->module_count, own, description->module_count, by_module);
    out->modules = arena_alloc(arena, out->module_count, sizeof *out->modules);
    for (size_t i = 0; i < out->module_count; i++)
        out->modules[i] = list[i];
}

static void merge_levers(const struct description *description, struct arena *arena,
                         const struct merged *parent, struct merged *out)
{
    const void **own = arena_alloc(arena, description->lever_count, sizeof *own);
    for (size_t i = 0; i < description->lever_count; i++)
        own[i] = &description->levers[i];
    qsort(own, description->lever_count, sizeof *own, by_lever);
    const void **list =
        arena_alloc(arena, parent->lever_count + description->lever_count, sizeof *list);
    for (size_t i = 0; i < parent->lever_count; i++)
        list[i] = parent->levers[i];
    out->lever_count = merge(list, parent->lever_count, own, description->lever_count, by_lever);
    out->levers = arena_alloc(arena, out->lever_count, sizeof *out->levers);
    for (size_t i = 0; i < out->lever_count; i++)
        out->levers[i] = list[i];
}

/* Whether the target ships this entry, as far as its descriptions tell. */
static bool ships(const struct merged *merged, const struct target_absent *absent)
{
    const struct declared_module *module = inherit_module(merged, absent->module);
    return module && inherit_entry(module, absent->entry) != SIZE_MAX;
}

/* The description's own expected_absent and drops; then its parents', but for what it ships. */
static void merge_absents(const struct description *description, struct arena *arena,
                          struct diags *diags, const struct merged *parent, struct merged *out)
{
    size_t most = description->absent_count, count = 0, inherited = 0;
    for (size_t i = 0; i < description->module_count; i++)
        most += description->modules[i].drop_count;
    const void **own = arena_alloc(arena, most, sizeof *own);
    for (size_t i = 0; i < description->absent_count; i++) {
        const struct declared_absent *absent = &description->absents[i];
        own[count++] = absent;
        if (ships(out, &absent->absent))
            diag_error_at(diags, absent->loc,
                          "expected_absent names '%s:%s', which target '%s' ships",
                          absent->absent.module, absent->absent.entry, description->name);
    }
    for (size_t i = 0; i < description->module_count; i++) {
        const struct declared_module *module = &description->modules[i];
        for (size_t j = 0; j < module->drop_count; j++) {
            struct declared_absent *absent = arena_alloc(arena, 1, sizeof *absent);
            absent->absent = (struct target_absent){module->name, module->drops[j].entry,
                                                    module->drops[j].reason};
            absent->loc = module->drops[j].loc;
            own[count++] = absent;
        }
    }
    qsort(own, count, sizeof *own, by_absent);
    for (size_t i = 1; i < count; i++)
        if (by_absent(&own[i - 1], &own[i]) == 0) {
            const struct declared_absent *again = own[i];
            diag_error_at(diags, again->loc, "'%s:%s' stands both in drops and in expected_absent",
                          again->absent.module, again->absent.entry);
        }
    const void **list = arena_alloc(arena, parent->absent_count + count, sizeof *list);
    for (size_t i = 0; i < parent->absent_count; i++)
        if (!ships(out, &parent->absents[i]->absent))
            list[inherited++] = parent->absents[i];
    out->absent_count = merge(list, inherited, own, count, by_absent);
    out->absents = arena_alloc(arena, out->absent_count, sizeof *out->absents);
    for (size_t i = 0; i < out->absent_count; i++)
        out->absents[i] = list[i];
}

void inherit_merge(const struct description *description, struct arena *arena, struct diags *diags,
                   struct merged *out)
{
    struct merged parent = {0};
    struct diags silent = {0};
    if (description->parent)
        inherit_merge(description->parent, arena, &silent, &parent);
    diag_free(&silent);
    for (size_t i = 0; i < description->module_count; i++)
        check_shadow(&description->modules[i],
                     inherit_module(&parent, description->modules[i].name), diags);
    merge_modules(description, arena, &parent, out);
    merge_levers(description, arena, &parent, out);
    merge_absents(description, arena, diags, &parent, out);
}
