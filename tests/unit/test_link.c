#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "compile/link_flags.h"
#include "compile/ptx_vars.h"

/* ---- Flags -------------------------------------------------------------------------------------
 */

static void check_flags(const char *const *flags, size_t count, const char *wanted)
{
    struct arena arena = {0};
    struct str found = {0};
    size_t found_count;
    const char *unknown;
    const char **list = link_flags(flags, count, &arena, &found_count, &unknown);
    if (!list)
        str_addf(&found, "unknown %s", unknown);
    for (size_t i = 0; list && i < found_count; i++)
        str_addf(&found, "%s%s", i ? " " : "", list[i]);
    assert_string_equal(str_text(&found), wanted);
    str_free(&found);
    arena_free(&arena);
}

#define CHECK_FLAGS(wanted, ...)                                                                   \
    check_flags((const char *const[]){__VA_ARGS__},                                                \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), wanted)

static void test_flags(void **state)
{
    (void)state;
    CHECK_FLAGS("-fma=0", "--fmad=false");
    CHECK_FLAGS("-fma=1 -ftz=0 -prec-div=1 -prec-sqrt=0", "-fmad=true", "-ftz=false",
                "--prec-div=true", "-prec-sqrt=false");
    CHECK_FLAGS("-maxrregcount=64 -Xptxas=-O1 -lineinfo -lineinfo", "--maxrregcount=64",
                "--ptxas-options=-O1", "-lineinfo", "--generate-line-info");
    CHECK_FLAGS("-split-compile=4 -jump-table-density=9", "--split-compile=4",
                "-jump-table-density=9");
    CHECK_FLAGS("-ftz=1 -prec-div=0 -prec-sqrt=0 -fma=1", "--use_fast_math");
    CHECK_FLAGS("-fma=0 -prec-div=1 -ftz=1 -prec-sqrt=0", "-fmad=false", "-use_fast_math",
                "--prec-div=true");
    CHECK_FLAGS("", "-DA=1", "-UB", "--define-macro=C", "-std=c++20", "-default-device", "-w",
                "--diag-suppress=177", "--restrict");
    CHECK_FLAGS("unknown -fmad=1", "-ftz=true", "-fmad=1");
    CHECK_FLAGS("unknown -G", "-G");
    CHECK_FLAGS("unknown -dlto", "-dlto");
    CHECK_FLAGS("unknown --use_fast_math=false", "--use_fast_math=false");
    CHECK_FLAGS("unknown -wide", "-wide");
}

/* ---- Variables ---------------------------------------------------------------------------------
 */

static void check_variables(const char *body, const char *wanted)
{
    struct arena arena = {0};
    struct str ptx = {0}, found = {0};
    str_adds(&ptx, "//\n.version 9.0\n.target sm_90a\n.address_size 64\n"
                   ".extern .global .align 4 .u32 elsewhere;\n"
                   ".visible .global .align 4 .u32 one;\n"
                   ".global .align 4 .b8 table[8] = {1, 0, 0, 0, 2};\n"
                   ".global .align 1 .b8 $str[3] = {104, 105};\n"
                   ".global .align 8 .u64 pointer = generic(table);\n"
                   ".const .align 4 .u32 constant;\n");
    str_adds(&ptx, body);
    size_t count;
    const struct ptx_variable *variables = ptx_variables(ptx.data, ptx.len, &arena, &count);
    for (size_t i = 0; i < count; i++) {
        const struct ptx_variable *variable = &variables[i];
        if (!variable->user_count && !variable->in_function)
            continue;
        str_addf(&found, "%s%s%s:", variable->name, variable->written ? " written" : "",
                 variable->in_function ? " function" : "");
        for (size_t j = 0; j < variable->user_count; j++)
            str_addf(&found, " %s", variable->users[j]);
        str_adds(&found, ";");
    }
    assert_string_equal(str_text(&found), wanted);
    str_free(&ptx);
    str_free(&found);
    arena_free(&arena);
}

#define KERNEL(name, code)                                                                         \
    ".visible .entry " name "(\n .param .u64 " name "_param_0\n)\n.maxntid 128, 1, 1\n{\n"         \
    " .reg .b64 %rd<9>;\n" code " ret;\n}\n"

static void test_variables(void **state)
{
    (void)state;
    check_variables(KERNEL("a", "ld.global.u32 %r1, [one];\n"), "one: a;");
    check_variables(KERNEL("a", "st.global.u32 [one], %r1;\n")
                        KERNEL("b", ".loc 1 2 3\nld.global.u32 %r1, [one+4];\n"),
                    "one written: a b;");
    check_variables(KERNEL("a", "mov.u64 %rd1, table;\nadd.s64 %rd2, %rd1, %rd3;\n"
                                "ld.global.nc.v2.u32 {%r1, %r2}, [%rd2];\n"
                                "st.global.u32 [%rd4], %r1;\n"),
                    "table: a;");
    check_variables(KERNEL("a", "mov.u64 %rd1, table;\n$L__BB0_1:\nadd.s64 %rd2, %rd1, %rd3;\n"
                                "@%p1 st.global.u32 [%rd2], %r1;\n"),
                    "table written: a;");
    /* A register that is used before the address reaches it, as in a loop. */
    check_variables(KERNEL("a", "$L:\nred.global.add.u32 [%rd2], 1;\nmov.u64 %rd2, %rd1;\n"
                                "mov.u64 %rd1, table;\n@%p1 bra $L;\n"),
                    "table written: a;");
    check_variables(KERNEL("a", "mov.u64 %rd1, table;\nst.local.u64 [%rd5], %rd1;\n"),
                    "table written: a;");
    check_variables(KERNEL("a", "mov.u64 %rd1, table;\n{ // callseq 0, 0\n.param .b64 param0;\n"
                                "st.param.b64 [param0], %rd1;\ncall.uni f, (param0);\n}\n"
                                "ld.global.u32 %r1, [one];\n"),
                    "one: a;table written: a;");
    check_variables(KERNEL("a", "brand.new.instruction %rd1, table;\n"), "table written: a;");
    check_variables(
        ".func (.param .b32 r) helper(\n)\n{\nld.global.u32 %r1, [one];\nret;\n}\n" KERNEL(
            "a", "call.uni (r), helper, ();\n"),
        "one function:;");
    check_variables(KERNEL("a", "mov.u64 %rd1, $str;\nst.param.b64 [p], %rd1;\n"), "");
    check_variables("", "");
}

/* Any beginning of a text, and any text, is read without harm. */
static void test_broken_ptx(void **state)
{
    (void)state;
    static const char text[] = ".global .b8 a[2] = {1};\n" KERNEL("k", "st.global.u8 [a], 1;\n");
    struct arena arena = {0};
    size_t count;
    for (size_t size = 0; size < sizeof text; size++)
        ptx_variables(text, size, &arena, &count);
    ptx_variables("}}}{{;:.global;.entry{.func", 27, &arena, &count);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_broken_ptx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
