/* Descriptions in small project trees made on the spot. With a file as argument, the program prints
 * what target_load makes of it instead: tests/lua/descriptions.t compares that with golden files.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "target/target.h"

/* ---- Dump --------------------------------------------------------------------------------------
 */

static void show_size(const char *name, struct target_size size)
{
    if (size.given)
        printf(" %s=%u", name, size.value);
}

static void show_list(const char *name, const char *const *list, size_t count)
{
    if (count)
        printf("    %s", name);
    for (size_t i = 0; i < count; i++)
        printf(" '%s'", list[i]);
    if (count)
        puts("");
}

static void show_entry(const struct target_entry *entry)
{
    static const char *const bits[] = {"none", "same", "close"};
    printf("    entry %s at %u:%u", entry->name, entry->loc.line, entry->loc.col);
    if (entry->expression)
        printf(" expression='%s'", entry->expression);
    if (entry->has_block)
        printf(" block=%ux%ux%u", entry->block[0], entry->block[1], entry->block[2]);
    show_size("smem", entry->dynamic_smem);
    show_size("static_smem", entry->static_smem);
    if (entry->twin_module)
        printf(" twin_of=%s:%s bits=%s", entry->twin_module, entry->twin_entry, bits[entry->bits]);
    show_size("limit.registers", entry->limits.registers);
    show_size("limit.spill_bytes", entry->limits.spill_bytes);
    show_size("limit.stack_bytes", entry->limits.stack_bytes);
    show_size("limit.static_smem", entry->limits.static_smem);
    show_size("limit.dynamic_smem", entry->limits.dynamic_smem);
    show_size("limit.code_bytes", entry->limits.code_bytes);
    show_size("limit.seconds", entry->limits.seconds);
    puts("");
}

static void show_module(const struct target_module *module)
{
    printf("  module %s at %s:%u:%u from %s source '%s'%s%s%s%s\n", module->name, module->loc.file,
           module->loc.line, module->loc.col, module->origin, module->source,
           module->every ? " every" : "", module->split ? " split" : "", module->lto ? " lto" : "",
           module->strict ? " strict" : "");
    show_list("flags", module->flags, module->flag_count);
    show_list("includes", module->includes, module->include_count);
    for (size_t i = 0; i < module->constant_count; i++)
        printf("    %s = %" PRId64 "\n", module->constants[i].name, module->constants[i].value);
    for (size_t i = 0; i < module->entry_count; i++)
        show_entry(&module->entries[i]);
}

static void show_target(const struct target *target)
{
    static const char *const kinds[] = {"switch", "is1", "presence", "text"};
    printf("target %s arch %s inherits %s compute %u.%u sm_count %u smem_optin %u\n", target->name,
           target->arch, target->inherits ? target->inherits : "nothing", target->compute_major,
           target->compute_minor, target->sm_count, target->smem_optin);
    for (size_t i = 0; i < target->module_count; i++)
        show_module(&target->modules[i]);
    for (size_t i = 0; i < target->lever_count; i++) {
        const struct target_lever *lever = &target->levers[i];
        printf("  lever %s env %s %s %s '%s'\n", lever->name, lever->env, kinds[lever->kind],
               lever->on ? "on" : "off", lever->text);
    }
    for (size_t i = 0; i < target->absent_count; i++)
        printf("  absent %s:%s '%s'\n", target->absents[i].module, target->absents[i].entry,
               target->absents[i].reason);
}

static int show(const char *path)
{
    struct arena arena = {0};
    struct diags diags = {0};
    struct str text = {0};
    const struct target *target = target_load(path, &arena, &diags);
    diag_render(&diags, 0, false, &text);
    fputs(str_text(&text), stdout);
    if (target)
        show_target(target);
    int status = target ? 0 : 1;
    str_free(&text);
    diag_free(&diags);
    arena_free(&arena);
    return status;
}

/* ---- Tests -------------------------------------------------------------------------------------
 */

static void ships_both_targets(void **state)
{
    (void)state;
    static const char *const paths[] = {"targets/gb10.lua", "targets/hopper.lua"};
    for (size_t i = 0; i < 2; i++) {
        struct arena arena = {0};
        struct diags diags = {0};
        struct str text = {0};
        const struct target *target = target_load(paths[i], &arena, &diags);
        diag_render(&diags, 0, false, &text);
        if (!target)
            print_error("%s\n", str_text(&text));
        assert_non_null(target);
        assert_int_equal(diags.count, 0);
        str_free(&text);
        diag_free(&diags);
        arena_free(&arena);
    }
}

static void keeps_to_its_own_errors(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct diags diags = {0};
    diag_error(&diags, "an error of someone else");
    const struct target *target = target_load("targets/hopper.lua", &arena, &diags);
    assert_non_null(target);
    assert_int_equal(diags.errors, 1);
    assert_null(target_load("targets/nowhere.lua", &arena, &diags));
    assert_int_equal(diags.errors, 2);
    diag_free(&diags);
    /* What was loaded lives on in its arena. */
    assert_string_equal(target->path, "targets/hopper.lua");
    assert_int_equal(target->root[0], '/');
    assert_false(str_ends(target->root, "/"));
    assert_string_equal(target->inherits, "gb10");
    arena_free(&arena);
}

/* The 128-row tile's layout and the contract's sizes (src/ops checks the same constants). */
static void describes_the_first_kernel(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct diags diags = {0};
    const struct target *target = target_load("targets/hopper.lua", &arena, &diags);
    assert_non_null(target);
    assert_int_equal(target->compute_major, 9);
    assert_int_equal(target->compute_minor, 0);
    const struct target_entry *entry = NULL;
    for (size_t i = 0; i < target->module_count; i++)
        for (size_t j = 0; j < target->modules[i].entry_count; j++)
            if (strcmp(target->modules[i].entries[j].name, "w8a16_gemm_pipelined") == 0)
                entry = &target->modules[i].entries[j];
    assert_non_null(entry);
    assert_int_equal(entry->static_smem.value, 27904);
    assert_int_equal(entry->block[0] * entry->block[1] * entry->block[2], 256);
    assert_true(entry->limits.spill_bytes.given);
    assert_int_equal(entry->limits.spill_bytes.value, 0);
    arena_free(&arena);
    diag_free(&diags);
}

static void declares_the_levers_of_both_launchers(void **state)
{
    (void)state;
    static const struct {
        const char *env;
        enum target_lever_kind kind;
    } levers[] = {
        {"METRALE_GDN_PREFILL_TC", TARGET_LEVER_SWITCH},
        {"METRALE_NO_GDN_PREFILL_TC_REMNANTS", TARGET_LEVER_IS1},
        {"METRALE_NO_GDN_FWD_O_MMA8", TARGET_LEVER_PRESENCE},
        {"METRALE_GDN_TMA", TARGET_LEVER_IS1},
        {"METRALE_GDN_VTILE", TARGET_LEVER_TEXT},
        {"METRALE_GDN_PIPE", TARGET_LEVER_TEXT},
        {"METRALE_GDN_TC_VBLOCK", TARGET_LEVER_IS1},
        {"METRALE_NO_W8A16_TC_ROWS", TARGET_LEVER_PRESENCE},
        {"METRALE_NO_W8A16_PIPE128", TARGET_LEVER_PRESENCE},
        {"METRALE_CANONICAL_TIERS", TARGET_LEVER_IS1},
        {"METRALE_ROW_EXACT_TIERS", TARGET_LEVER_IS1},
    };
    static const char *const paths[] = {"targets/gb10.lua", "targets/hopper.lua"};
    for (size_t t = 0; t < 2; t++) {
        struct arena arena = {0};
        struct diags diags = {0};
        const struct target *target = target_load(paths[t], &arena, &diags);
        assert_non_null(target);
        for (size_t i = 0; i < sizeof levers / sizeof *levers; i++) {
            const struct target_lever *found = NULL;
            for (size_t j = 0; j < target->lever_count; j++)
                if (strcmp(target->levers[j].env, levers[i].env) == 0)
                    found = &target->levers[j];
            assert_non_null(found);
            assert_int_equal(found->kind, levers[i].kind);
            /* The one default that differs between the targets. */
            assert_int_equal(found->on, i == 0 && t == 1);
            assert_string_equal(found->text, "");
        }
        arena_free(&arena);
        diag_free(&diags);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return show(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ships_both_targets),
        cmocka_unit_test(keeps_to_its_own_errors),
        cmocka_unit_test(describes_the_first_kernel),
        cmocka_unit_test(declares_the_levers_of_both_launchers),
    };
    return cmocka_run_group_tests_name("target", tests, NULL, NULL);
}
