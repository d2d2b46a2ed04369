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

/* Merges two lists of pointers in the order of `order`; where both have an equal, `own` wins. */
static void *merge(struct arena *arena, const void *parents, size_t parent_count, const void *own,
                   size_t own_count, int (*order)(const void *, const void *), size_t *out_count)
{
    const void **list = arena_alloc(arena, parent_count + own_count, sizeof *list);
    const void *const *from = parents;
    size_t count = 0;
    for (size_t i = 0; i < parent_count; i++)
        if (!own_count || !bsearch(&from[i], own, own_count, sizeof *list, order))
            list[count++] = from[i];
    if (own_count)
        memcpy(list + count, own, own_count * sizeof *list);
    count += own_count;
    qsort(list, count, sizeof *list, order);
    *out_count = count;
    return list;
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
    if (module->every || replaced->every) {
        diag_error_at(
            diags, module->loc,
            "module '%s' replaces the one of target '%s', but %s has entries = k.every: list the "
            "entries of both, so that none is dropped unseen",
            module->name, replaced->owner->name, module->every ? "it" : "that one");
        return;
    }
    for (size_t i = 0; i < replaced->entry_count; i++) {
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
        else if (inherit_entry(replaced, drop->entry) == SIZE_MAX)
            diag_error_at(diags, drop->loc,
                          "module '%s' drops '%s', which the module of target '%s' does not have",
                          module->name, drop->entry, replaced->owner->name);
    }
}

static void merge_modules(const struct description *description, struct arena *arena,
                          const struct merged *parent, struct merged *out)
{
    size_t count = description->module_count;
    const struct declared_module **own = arena_alloc(arena, count, sizeof *own);
    for (size_t i = 0; i < count; i++)
        own[i] = &description->modules[i];
    qsort(own, count, sizeof *own, by_module);
    out->modules = merge(arena, parent->modules, parent->module_count, own, count, by_module,
                         &out->module_count);
}

static void merge_levers(const struct description *description, struct arena *arena,
                         const struct merged *parent, struct merged *out)
{
    size_t count = description->lever_count;
    const struct declared_lever **own = arena_alloc(arena, count, sizeof *own);
    for (size_t i = 0; i < count; i++)
        own[i] = &description->levers[i];
    qsort(own, count, sizeof *own, by_lever);
    out->levers =
        merge(arena, parent->levers, parent->lever_count, own, count, by_lever, &out->lever_count);
}

/* Whether the target ships this entry, as far as its descriptions tell. */
static bool ships(const struct merged *merged, const struct target_absent *absent)
{
    const struct declared_module *module = inherit_module(merged, absent->module);
    return module && inherit_entry(module, absent->entry) != SIZE_MAX;
}

/* The absences that a description itself declares: expected_absent and drops, sorted. */
static const struct declared_absent **own_absents(const struct description *description,
                                                  struct arena *arena, size_t *out_count)
{
    size_t most = description->absent_count, count = 0;
    for (size_t i = 0; i < description->module_count; i++)
        most += description->modules[i].drop_count;
    const struct declared_absent **own = arena_alloc(arena, most, sizeof *own);
    for (size_t i = 0; i < description->absent_count; i++)
        own[count++] = &description->absents[i];
    for (size_t i = 0; i < description->module_count; i++) {
        const struct declared_module *module = &description->modules[i];
        for (size_t j = 0; j < module->drop_count; j++) {
            const struct dropped *drop = &module->drops[j];
            struct declared_absent *absent = arena_alloc(arena, 1, sizeof *absent);
            *absent =
                (struct declared_absent){{module->name, drop->entry, drop->reason}, drop->loc};
            own[count++] = absent;
        }
    }
    qsort(own, count, sizeof *own, by_absent);
    *out_count = count;
    return own;
}

/* A parent's absence ends where the child ships the entry; a child's own must be true. */
static void merge_absents(const struct description *description, struct arena *arena,
                          struct diags *diags, const struct merged *parent, struct merged *out)
{
    size_t count, inherited = 0;
    const struct declared_absent **own = own_absents(description, arena, &count);
    for (size_t i = 0; i < description->absent_count; i++) {
        const struct declared_absent *absent = &description->absents[i];
        if (ships(out, &absent->absent))
            diag_error_at(diags, absent->loc,
                          "expected_absent names '%s:%s', which target '%s' ships",
                          absent->absent.module, absent->absent.entry, description->name);
    }
    for (size_t i = 1; i < count; i++)
        if (by_absent(&own[i - 1], &own[i]) == 0)
            diag_error_at(diags, own[i]->loc, "'%s:%s' stands both in drops and in expected_absent",
                          own[i]->absent.module, own[i]->absent.entry);
    const struct declared_absent **kept = arena_alloc(arena, parent->absent_count, sizeof *kept);
    for (size_t i = 0; i < parent->absent_count; i++)
        if (!ships(out, &parent->absents[i]->absent))
            kept[inherited++] = parent->absents[i];
    out->absents = merge(arena, kept, inherited, own, count, by_absent, &out->absent_count);
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
