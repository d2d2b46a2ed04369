#include "target/check.h"

#include <string.h>

enum {
    STATIC_SMEM_MAX = 48 * 1024, /* CUDA's limit for every architecture */
    CYCLE_SHOWN = 8,             /* members that a message names */
};

struct checker {
    const struct description *description;
    const struct merged *merged;
    struct arena *arena;
    struct diags *diags;
};

/* The entry that `entry` is a twin of, NULL when there is none, or none that is declared. */
static struct declared_entry *parent_of(const struct merged *merged,
                                        const struct declared_entry *entry,
                                        const struct declared_module **out_module)
{
    if (!entry->entry.twin_module)
        return NULL;
    const struct declared_module *module = inherit_module(merged, entry->entry.twin_module);
    size_t index = module ? inherit_entry(module, entry->entry.twin_entry) : SIZE_MAX;
    if (index == SIZE_MAX)
        return NULL;
    *out_module = module;
    return &module->entries[index];
}

static const char *nearest_module(const struct checker *checker, const char *name)
{
    const struct merged *merged = checker->merged;
    const char **names = arena_alloc(checker->arena, merged->module_count, sizeof *names);
    for (size_t i = 0; i < merged->module_count; i++)
        names[i] = merged->modules[i]->name;
    return str_nearest(name, names, merged->module_count);
}

static const char *nearest_entry(const struct checker *checker,
                                 const struct declared_module *module, const char *name)
{
    const char **names = arena_alloc(checker->arena, module->entry_count, sizeof *names);
    for (size_t i = 0; i < module->entry_count; i++)
        names[i] = module->entries[i].entry.name;
    return str_nearest(name, names, module->entry_count);
}

static const char *suggestion(const struct checker *checker, const char *near)
{
    return near ? arena_printf(checker->arena, " (did you mean '%s'?)", near) : "";
}

/* The cycle that `entry` is in, from its first member in order. */
static void report_cycle(const struct checker *checker, const struct declared_module *module,
                         const struct declared_entry *entry)
{
    const struct declared_module *first_module = module, *at_module = module;
    const struct declared_entry *first = entry, *at = entry;
    size_t length = 0;
    do {
        int order = strcmp(at_module->name, first_module->name);
        if (order < 0 || (!order && strcmp(at->entry.name, first->entry.name) < 0)) {
            first = at;
            first_module = at_module;
        }
        at = parent_of(checker->merged, at, &at_module);
        length++;
    } while (at != entry);
    if (length == 1)
        return; /* a twin of itself, which check_twin says */
    struct str chain = {0};
    str_addf(&chain, "%s:%s", first_module->name, first->entry.name);
    at = first;
    for (size_t i = 0; i < length; i++) {
        at = parent_of(checker->merged, at, &at_module);
        if (i < CYCLE_SHOWN || i + 1 == length)
            str_addf(&chain, " -> %s:%s", at_module->name, at->entry.name);
        else if (i == CYCLE_SHOWN)
            str_addf(&chain, " -> %zu more", length - 1 - CYCLE_SHOWN);
    }
    diag_error_at(checker->diags, first->twin_loc, "twins form a cycle: %s", str_text(&chain));
    str_free(&chain);
}

/* An entry has one parent at most: a walk that meets itself has found a cycle, one that meets an
 * earlier walk has nothing new before it. */
static void check_cycles(const struct checker *checker)
{
    const struct merged *merged = checker->merged;
    size_t walk = 0;
    for (size_t i = 0; i < merged->module_count; i++)
        for (size_t j = 0; j < merged->modules[i]->entry_count; j++)
            merged->modules[i]->entries[j].walk = 0; /* of a parent target's check */
    for (size_t i = 0; i < merged->module_count; i++) {
        for (size_t j = 0; j < merged->modules[i]->entry_count; j++) {
            const struct declared_module *module = merged->modules[i];
            struct declared_entry *at = &module->entries[j];
            walk++;
            while (at && !at->walk) {
                at->walk = walk;
                at = parent_of(merged, at, &module);
            }
            if (at && at->walk == walk)
                report_cycle(checker, module, at);
        }
    }
}

static void check_twin(const struct checker *checker, const struct declared_module *module,
                       const struct declared_entry *declared)
{
    const struct target_entry *entry = &declared->entry;
    if (!entry->twin_module)
        return;
    const struct declared_module *parent = inherit_module(checker->merged, entry->twin_module);
    if (!parent) {
        diag_error_at(checker->diags, declared->twin_loc,
                      "entry '%s' is a twin of '%s:%s', but target '%s' has no module '%s'%s",
                      entry->name, entry->twin_module, entry->twin_entry,
                      checker->description->name, entry->twin_module,
                      suggestion(checker, nearest_module(checker, entry->twin_module)));
    } else if (parent == module && strcmp(entry->name, entry->twin_entry) == 0) {
        diag_error_at(checker->diags, declared->twin_loc, "entry '%s' is a twin of itself",
                      entry->name);
    } else if (!parent->every && inherit_entry(parent, entry->twin_entry) == SIZE_MAX) {
        diag_error_at(checker->diags, declared->twin_loc,
                      "entry '%s' is a twin of '%s:%s', but module '%s' has no entry '%s'%s",
                      entry->name, entry->twin_module, entry->twin_entry, parent->name,
                      entry->twin_entry,
                      suggestion(checker, nearest_entry(checker, parent, entry->twin_entry)));
    }
}

static void check_smem(const struct checker *checker, const struct declared_entry *declared)
{
    const struct target_entry *entry = &declared->entry;
    uint32_t fixed = entry->static_smem.value, most = checker->description->smem_optin;
    uint64_t total = (uint64_t)fixed + entry->dynamic_smem.value;
    if (fixed > STATIC_SMEM_MAX)
        diag_error_at(checker->diags, declared->static_smem_loc,
                      "entry '%s' has %u bytes of static shared memory, expected %d at most: use "
                      "dynamic shared memory for more",
                      entry->name, fixed, STATIC_SMEM_MAX);
    else if (most && total > most)
        diag_error_at(checker->diags,
                      entry->dynamic_smem.given ? declared->smem_loc : declared->static_smem_loc,
                      "entry '%s' takes %llu bytes of shared memory, but the device of target '%s' "
                      "allows %u (smem_optin)",
                      entry->name, (unsigned long long)total, checker->description->name, most);
}

static void check_levers(const struct checker *checker)
{
    const struct merged *merged = checker->merged;
    for (size_t i = 0; i < merged->lever_count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(merged->levers[i]->lever.env, merged->levers[j]->lever.env) == 0)
                diag_error_at(checker->diags, merged->levers[i]->loc,
                              "levers '%s' and '%s' are both read from '%s'",
                              merged->levers[j]->lever.name, merged->levers[i]->lever.name,
                              merged->levers[i]->lever.env);
}

/* Of two definitions of one macro NVRTC takes one, and the image would record the other. */
static void check_defines(const struct checker *checker, const struct declared_module *module,
                          const char *const *flags, size_t count, struct loc loc)
{
    static const char *const prefixes[] = {"-D", "--define-macro="};
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof prefixes / sizeof *prefixes; j++) {
            const char *name = flags[i] + strlen(prefixes[j]);
            size_t length = str_starts(flags[i], prefixes[j]) ? strcspn(name, "=") : 0;
            for (size_t k = 0; length && k < module->constant_count; k++)
                if (strncmp(module->constants[k].name, name, length) == 0 &&
                    !module->constants[k].name[length])
                    diag_error_at(checker->diags, loc,
                                  "the flag '%s' defines what the tile constant '%s' of module "
                                  "'%s' does: keep the constant",
                                  flags[i], module->constants[k].name, module->name);
        }
}

void check_merged(const struct description *description, const struct merged *merged,
                  struct arena *arena, struct diags *diags)
{
    struct checker checker = {description, merged, arena, diags};
    for (size_t i = 0; i < merged->module_count; i++) {
        const struct declared_module *module = merged->modules[i];
        const struct description *owner = module->owner;
        check_defines(&checker, module, owner->flags, owner->flag_count, owner->flags_loc);
        check_defines(&checker, module, module->flags, module->flag_count, module->flags_loc);
        for (size_t j = 0; j < module->entry_count; j++) {
            check_twin(&checker, module, &module->entries[j]);
            check_smem(&checker, &module->entries[j]);
        }
    }
    check_cycles(&checker);
    check_levers(&checker);
}
