#include "cli/build.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "compile/nvrtc_log.h"

static const struct cubin_entry *find_compiled(const struct cubin *cubin, const char *name)
{
    for (size_t i = 0; i < cubin->count; i++)
        if (strcmp(cubin->entries[i].name, name) == 0)
            return &cubin->entries[i];
    return NULL;
}

static const struct compile_spill *find_spill(const struct compile_result *result, const char *name)
{
    for (size_t i = 0; i < result->spill_count; i++)
        if (strcmp(result->spills[i].entry, name) == 0)
            return &result->spills[i];
    return NULL;
}

static void missing_entry(struct diags *diags, const struct target_module *module,
                          const struct target_entry *entry, const struct cubin *cubin)
{
    const char **names = mem_alloc(cubin->count, sizeof *names);
    const char *mangled = NULL;
    for (size_t i = 0; i < cubin->count; i++) {
        names[i] = cubin->entries[i].name;
        if (str_starts(names[i], "_Z") && strstr(names[i], entry->name))
            mangled = names[i];
    }
    const char *nearest = str_nearest(entry->name, names, cubin->count);
    if (entry->expression)
        diag_error_at(diags, entry->loc, "'%s' of entry '%s' names no kernel of '%s'",
                      entry->expression, entry->name, module->source);
    else if (mangled)
        diag_error_at(diags, entry->loc,
                      "'%s' has no entry '%s', but '%s': declare the kernel extern \"C\", or name "
                      "it by an expression",
                      module->source, entry->name, mangled);
    else if (nearest)
        diag_error_at(diags, entry->loc, "'%s' has no entry '%s' (did you mean '%s'?)",
                      module->source, entry->name, nearest);
    else
        diag_error_at(diags, entry->loc, "'%s' has no entry '%s'; it has %zu%s%s%s", module->source,
                      entry->name, cubin->count, cubin->count ? ", the first of them '" : "",
                      cubin->count ? names[0] : "", cubin->count ? "'" : "");
    free(names);
}

static void note_extra(struct diags *diags, const struct build_module *module,
                       const struct cubin *cubin)
{
    for (size_t i = 0; i < cubin->count; i++) {
        bool taken = false;
        for (size_t j = 0; j < module->entry_count; j++)
            taken |= module->entries[j].compiled == &cubin->entries[i];
        if (!taken)
            diag_add(diags, DIAG_NOTE, module->declared->loc,
                     "'%s' also has the entry '%s', which no description declares",
                     module->declared->source, cubin->entries[i].name);
    }
}

/* With k.every a kernel that is not extern "C" ships, but under a name that no engine asks for. */
static void warn_mangled(struct diags *diags, const struct build_module *module,
                         const struct cubin *cubin)
{
    for (size_t i = 0; i < cubin->count; i++)
        if (str_starts(cubin->entries[i].name, "_Z"))
            diag_add(diags, DIAG_WARNING, module->declared->loc,
                     "'%s' ships the entry '%s' under that name: declare the kernel extern \"C\", "
                     "or list the entries and name it by an expression",
                     module->declared->source, cubin->entries[i].name);
}

/* The symbol that the compile gave an entry with an expression, else its name. */
static const char *symbol_of(const struct build_module *module, size_t entry)
{
    const struct target_entry *entries = module->declared->entries;
    if (!entries[entry].expression)
        return entries[entry].name;
    size_t position = 0;
    for (size_t i = 0; i < entry; i++)
        position += entries[i].expression != NULL;
    return module->result->symbols[position];
}

static void take(struct build_module *module, const struct target_entry *declared,
                 const struct cubin_entry *compiled, size_t object)
{
    module->entries[module->entry_count++] = (struct build_entry){
        .name = declared ? declared->name : compiled->name,
        .declared = declared,
        .compiled = compiled,
        .spill = find_spill(&module->result[build_first_object(module) + object], compiled->name),
        .object = object,
    };
}

/* Fills the module's entries from its objects' cubins; an entry that was not compiled is an error
 * and left out. */
static void match(struct cli *cli, struct build_module *module, const struct cubin *cubins,
                  bool notes)
{
    const struct target_module *declared = module->declared;
    size_t most = declared->every ? cubins->count : declared->entry_count;
    module->entries = arena_alloc(&cli->arena, most, sizeof *module->entries);
    for (size_t i = 0; declared->every && i < cubins->count; i++)
        take(module, NULL, &cubins->entries[i], 0);
    for (size_t i = 0; !declared->every && i < declared->entry_count; i++) {
        const struct target_entry *entry = &declared->entries[i];
        size_t object = build_object_of(module, entry);
        const struct cubin_entry *compiled = find_compiled(&cubins[object], symbol_of(module, i));
        if (compiled)
            take(module, entry, compiled, object);
        else
            missing_entry(&cli->diags, declared, entry, &cubins[object]);
    }
    if (declared->every)
        warn_mangled(&cli->diags, module, cubins);
    if (!most)
        diag_error_at(
            &cli->diags, declared->loc,
            "'%s' compiles to no entry at all, expected a kernel that is __global__ and not static",
            declared->source);
    if (build_first_object(module)) {
        for (size_t i = 0; i + 1 < module->unit_count; i++)
            build_check_object(cli, module, i, &cubins[i]);
        build_check_variables(cli, module);
    } else if (notes) {
        note_extra(&cli->diags, module, cubins);
    }
}

/* Reads what a module compiled to; false when some of it did not, or is no cubin. */
static bool read_module(struct cli *cli, struct build_module *module, bool notes)
{
    size_t first = build_first_object(module);
    struct cubin *cubins = arena_alloc(&cli->arena, module->unit_count, sizeof *cubins);
    bool ok = true;
    for (size_t i = 0; i < module->unit_count; i++)
        ok &= module->result[i].status == COMPILE_OK;
    for (size_t i = first; ok && i < module->unit_count; i++)
        ok = cubin_read(module->unit[i].name, module->result[i].cubin, module->result[i].cubin_size,
                        &cli->arena, &cubins[i - first], &cli->diags);
    if (ok)
        match(cli, module, cubins, notes);
    return ok;
}

/* ---- Checks -----------------------------------------------------------------------------------
 */

struct check {
    struct diags *diags;
    const struct build_target *build;
    const struct build_module *module;
};

static void check_limit(const struct check *check, const struct target_entry *entry,
                        struct target_size limit, const char *what, uint64_t found)
{
    if (limit.given && found > limit.value)
        diag_error_at(check->diags, entry->loc,
                      "entry '%s' uses %" PRIu64 " %s, more than its limit of %u", entry->name,
                      found, what, limit.value);
}

static void check_seconds(const struct check *check, const struct target_entry *entry)
{
    const struct build_module *module = check->module;
    size_t unit = build_first_object(module) + build_object_of(module, entry);
    double seconds = module->result[unit].seconds;
    if (entry->limits.seconds.given && seconds > entry->limits.seconds.value)
        diag_error_at(check->diags, entry->loc,
                      "entry '%s' took %.1f s to compile, more than its limit of %u s", entry->name,
                      seconds, entry->limits.seconds.value);
}

static void check_limits(const struct check *check, const struct build_entry *entry)
{
    const struct target_entry *declared = entry->declared;
    check_limit(check, declared, declared->limits.registers, "registers",
                entry->compiled->registers);
    check_limit(check, declared, declared->limits.stack_bytes, "bytes of stack",
                entry->compiled->stack_bytes);
    check_limit(check, declared, declared->limits.static_smem, "bytes of static shared memory",
                entry->compiled->static_smem);
    check_limit(check, declared, declared->limits.dynamic_smem, "bytes of dynamic shared memory",
                declared->dynamic_smem.value);
    check_limit(check, declared, declared->limits.code_bytes, "bytes of code",
                entry->compiled->code_bytes);
    check_seconds(check, declared);
    if (entry->spill)
        check_limit(check, declared, declared->limits.spill_bytes, "bytes of spills",
                    (uint64_t)entry->spill->store_bytes + entry->spill->load_bytes);
    else if (declared->limits.spill_bytes.given)
        diag_error_at(check->diags, declared->loc,
                      "entry '%s' has a limit on spills, but the compiler's log does not say how "
                      "many bytes it spills",
                      declared->name);
}

static void check_smem(const struct check *check, const struct build_entry *entry)
{
    const struct target_entry *declared = entry->declared;
    uint32_t found = entry->compiled->static_smem, most = check->build->target->smem_optin;
    if (declared->static_smem.given && declared->static_smem.value != found)
        diag_error_at(check->diags, declared->loc,
                      "entry '%s' uses %u bytes of static shared memory, but declares %u",
                      declared->name, found, declared->static_smem.value);
    if (most && declared->dynamic_smem.given &&
        (uint64_t)declared->dynamic_smem.value + found > most)
        diag_error_at(
            check->diags, declared->loc,
            "entry '%s' needs %u bytes of dynamic and %u of static shared memory, %" PRIu64
            " in all, more than the device's %u",
            declared->name, declared->dynamic_smem.value, found,
            (uint64_t)declared->dynamic_smem.value + found, most);
}

static void check_block(const struct check *check, const struct build_entry *entry)
{
    const struct target_entry *declared = entry->declared;
    const uint32_t *bound = entry->compiled->max_threads;
    if (!declared->has_block || !bound[0])
        return;
    uint64_t threads = (uint64_t)declared->block[0] * declared->block[1] * declared->block[2];
    uint64_t most = bound[0];
    for (int i = 1; i < 3; i++)
        most *= bound[i] ? bound[i] : 1;
    if (threads > most)
        diag_error_at(check->diags, declared->loc,
                      "entry '%s' declares a block of %" PRIu64
                      " threads, but its launch bounds allow %" PRIu64,
                      declared->name, threads, most);
}

static bool ships(const struct build_target *build, const char *module, const char *entry)
{
    for (size_t i = 0; i < build->module_count; i++)
        for (size_t j = 0; j < build->modules[i].entry_count; j++)
            if (strcmp(build->modules[i].declared->name, module) == 0 &&
                strcmp(build->modules[i].entries[j].name, entry) == 0)
                return true;
    return false;
}

static void check_twin(const struct check *check, const struct target_entry *entry)
{
    const struct build_target *build = check->build;
    if (!entry->twin_module || ships(build, entry->twin_module, entry->twin_entry))
        return;
    struct arena arena = {0};
    size_t count = 0, used = 0;
    for (size_t i = 0; i < build->module_count; i++)
        count += build->modules[i].entry_count;
    const char **names = arena_alloc(&arena, count, sizeof *names);
    for (size_t i = 0; i < build->module_count; i++)
        for (size_t j = 0; j < build->modules[i].entry_count; j++)
            names[used++] = arena_printf(&arena, "%s:%s", build->modules[i].declared->name,
                                         build->modules[i].entries[j].name);
    char *wanted = arena_printf(&arena, "%s:%s", entry->twin_module, entry->twin_entry);
    const char *nearest = str_nearest(wanted, names, used);
    diag_error_at(check->diags, entry->loc,
                  "entry '%s' is a twin of '%s', which this target does not ship%s%s%s",
                  entry->name, wanted, nearest ? " (did you mean '" : "", nearest ? nearest : "",
                  nearest ? "'?)" : "");
    arena_free(&arena);
}

/* The warnings themselves were shown when the unit was compiled, or found in the cache. */
static void check_warnings(const struct check *check)
{
    const struct target_module *declared = check->module->declared;
    struct diags found = {0};
    size_t warnings = 0;
    for (size_t i = 0; declared->strict && i < check->module->unit_count; i++)
        nvrtc_log_add(check->module->result[i].log, check->build->target->root, NULL, declared->loc,
                      &found);
    for (size_t i = 0; i < found.count; i++)
        warnings += found.items[i].level == DIAG_WARNING;
    if (warnings)
        diag_error_at(check->diags, declared->loc,
                      "module '%s' compiles with %zu warning%s, which its description makes errors",
                      declared->name, warnings, warnings == 1 ? "" : "s");
    diag_free(&found);
}

static void check_module(const struct check *check, bool whole)
{
    check_warnings(check);
    for (size_t i = 0; i < check->module->entry_count; i++) {
        const struct build_entry *entry = &check->module->entries[i];
        if (!entry->declared)
            continue;
        check_limits(check, entry);
        check_smem(check, entry);
        check_block(check, entry);
        if (whole)
            check_twin(check, entry->declared);
    }
}

/* What k.every ships is known only now. */
static void check_absents(const struct check *check)
{
    const struct target *target = check->build->target;
    const struct build_module *module = check->module;
    for (size_t i = 0; module->declared->every && i < target->absent_count; i++)
        for (size_t j = 0; j < module->entry_count; j++)
            if (strcmp(target->absents[i].module, module->declared->name) == 0 &&
                strcmp(target->absents[i].entry, module->entries[j].name) == 0)
                diag_error_at(check->diags, module->declared->loc,
                              "'%s' ships the entry '%s' by k.every, and the target declares it "
                              "absent: list the module's entries, or take it out of "
                              "expected_absent",
                              module->declared->name, module->entries[j].name);
}

bool build_check(struct cli *cli, struct build_target *build, bool notes)
{
    size_t before = cli->diags.errors;
    bool *read = arena_alloc(&cli->arena, build->module_count, sizeof *read);
    bool whole = true; /* every entry is there, so that a twin that is not is a fault of its own */
    for (size_t i = 0; i < build->module_count; i++) {
        read[i] = read_module(cli, &build->modules[i], notes);
        whole &= read[i];
    }
    whole &= cli->diags.errors == before;
    for (size_t i = 0; i < build->module_count; i++) {
        struct check check = {&cli->diags, build, &build->modules[i]};
        if (read[i])
            check_absents(&check);
        if (read[i])
            check_module(&check, whole);
    }
    return cli->diags.errors == before;
}
