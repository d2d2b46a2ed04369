#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "compile/nvrtc_log.h"
#include "compile/ptxas_log.h"

/* Logs as NVRTC 12.4 to 13.5 wrote them, shortened, and what may come instead. */

static struct ptxas_log read_ptxas(const char *text, struct arena *arena, const char *rest)
{
    struct ptxas_log log;
    struct str left = {0};
    ptxas_log_read(text, arena, &log, &left);
    assert_string_equal(str_text(&left), rest);
    str_free(&left);
    return log;
}

static void test_ptxas_13(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct ptxas_log log = read_ptxas(
        "k.cu(7): warning #177-D: variable \"u\" was declared but never referenced\n"
        "\n"
        "ptxas info    : Overriding global maxrregcount 32 with entry-specific value 128 computed "
        "using thread count\n"
        "ptxas info    : Overriding maximum register limit 256 for 'k' with  32 of maxrregcount "
        "option\n"
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized\n"
        "ptxas info    : 35 bytes gmem, 8 bytes cmem[4]\n"
        "ptxas info    : Compiling entry function '_Z2tkILi128EEvPf' for 'sm_90a'\n"
        "ptxas info    : Function properties for _Z2tkILi128EEvPf\n"
        "ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 24 registers, used 1 barriers, 8 bytes cumulative stack size, 512 "
        "bytes smem, 360 bytes cmem[0]\n"
        "ptxas info    : Compile time = 2.388 ms\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     592 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used 32 registers, used 0 barriers, 592 bytes cumulative stack size\n"
        "ptxas info    : Compile time = 27.405 ms\n"
        "ptxas info    : Function properties for _Z6spillyPf\n"
        "ptxas         .     0 bytes stack frame, 484 bytes spill stores, 488 bytes spill loads\n",
        &arena,
        "k.cu(7): warning #177-D: variable \"u\" was declared but never referenced\n"
        "\n"
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized\n");
    assert_int_equal(log.count, 2);
    const struct ptxas_entry *first = &log.entries[0], *second = &log.entries[1];
    assert_string_equal(first->name, "_Z2tkILi128EEvPf");
    assert_int_equal(first->registers, 24);
    assert_int_equal(first->barriers, 1);
    assert_int_equal(first->stack_bytes, 8);
    assert_int_equal(first->smem_bytes, 512);
    assert_int_equal(first->spill_store_bytes, 0);
    assert_string_equal(second->name, "k");
    assert_int_equal(second->registers, 32);
    assert_int_equal(second->stack_bytes, 592);
    assert_int_equal(second->spill_store_bytes, 12 + 484);
    assert_int_equal(second->spill_load_bytes, 4 + 488);
    arena_free(&arena);
}

static void test_ptxas_other_forms(void **state)
{
    (void)state;
    struct arena arena = {0};
    /* Older: plain indentation, no barriers; functions may come before the entries. */
    struct ptxas_log log =
        read_ptxas("ptxas info    : 0 bytes gmem\r\n"
                   "ptxas info    : Function properties for f\r\n"
                   "    8 bytes stack frame, 2 bytes spill stores, 3 bytes spill loads\r\n"
                   "ptxas info    : Compiling entry function 'k' for 'sm_90'\r\n"
                   "ptxas info    : Function properties for k\r\n"
                   "    16 bytes stack frame, 10 bytes spill stores, 20 bytes spill loads\r\n"
                   "ptxas info    : Used 31 registers, 400 bytes smem, 364 bytes cmem[0]\r\n",
                   &arena, "");
    assert_int_equal(log.count, 1);
    assert_int_equal(log.entries[0].registers, 31);
    assert_int_equal(log.entries[0].smem_bytes, 400);
    assert_int_equal(log.entries[0].stack_bytes, 16);
    assert_int_equal(log.entries[0].spill_store_bytes, 12);
    assert_int_equal(log.entries[0].spill_load_bytes, 23);
    /* A demangled name is taken as it stands, quotes and all. */
    log = read_ptxas("ptxas info : Compiling entry function 'void f<'a'>(float*)' for 'sm_90a'\n",
                     &arena, "");
    assert_string_equal(log.entries[0].name, "void f<'a'>(float*)");
    arena_free(&arena);
}

/* Lines that only look like ptxas's stay in the log. */
static void test_ptxas_look_alikes(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "ptxas info    : Compiling entry function 'k'\n",
        "ptxas info    : Compiling entry function '' for 'sm_90a'\n",
        "ptxas info    : Function properties for \n",
        "ptxas info    : Used many registers\n",
        "ptxas info    : Used 99999999999 registers\n",
        "ptxas info\n",
        "ptxas\n",
        "ptxas warning : Stack size for entry function 'recur' cannot be statically determined\n",
        "8 bytes stack frame, x bytes spill stores, 0 bytes spill loads\n",
        "8 bytes stack frame\n",
        "    4294967296 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n",
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(read_ptxas(lines[i], &arena, lines[i]).count, 0);
    struct ptxas_log log = read_ptxas(
        "ptxas info : Compiling entry function 'k' for 'x'\n"
        "4294967295 bytes stack frame, 4294967295 bytes spill stores, 1 bytes spill loads\n"
        "0 bytes stack frame, 4294967295 bytes spill stores, 1 bytes spill loads",
        &arena, "");
    assert_true(log.entries[0].spill_store_bytes == UINT32_MAX);
    assert_int_equal(log.entries[0].spill_load_bytes, 2);
    arena_free(&arena);
}

static const char sample[] =
    "dir (1)/e.cu(7): error: identifier \"u\" is undefined\n"
    "  \tint a = 3;\tu(y);\n"
    "  \t          \t^\n"
    "\n"
    "<kpack>/math.h(3): warning #47-D: incompatible redefinition of macro \"X\"\n"
    "  #define X 1\n"
    "          ^\n"
    "\n"
    "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n"
    "\n"
    "absent.h(4): error: no instance of function template \"f\" matches the argument list\n"
    "            argument types are: (int)\n"
    "      f(3);\n"
    "      ^\n"
    "          detected during:\n"
    "            instantiation of \"void g<T>()\" at line 9\n"
    "            instantiation of \"void h<T>()\" at line 12 of e.cu\n"
    "\n"
    "dir (1)/e.cu(10): catastrophic error: #error directive: stop here\n"
    "  #error stop here\n"
    "   ^\n"
    "\n"
    "nvrtc: error: invalid value for --gpu-architecture (-arch)\n"
    "ptxas application ptx input, line 27; error   : Not a name of any known instruction: 'x'\n"
    "ptxas fatal   : Ptx assembly aborted due to errors\n"
    "ptxas warning : Stack size for entry function 'k' cannot be statically determined\n"
    "something of no known form\n"
    "2 errors and 1 catastrophic error detected in the compilation of \"e.cu\".\n"
    "Compilation terminated.\n";

static void test_nvrtc_log(void **state)
{
    (void)state;
    char folder[] = "/tmp/kpack-logs-XXXXXX";
    struct arena arena = {0};
    struct diags diags = {0};
    assert_non_null(mkdtemp(folder));
    const char *dir = path_join(&arena, folder, "dir (1)"), *path = path_join(&arena, dir, "e.cu");
    assert_true(file_make_dirs(dir, &diags));
    assert_true(file_publish(path, "\n", 1, &diags));
    struct loc place = {"targets/t.lua", 3, 5};
    assert_int_equal(nvrtc_log_add(sample, folder, NULL, place, &diags), 6);
    assert_int_equal(diags.count, 9);
    const struct diag *item = diags.items;
    assert_string_equal(item[0].loc.file, path);
    assert_int_equal(item[0].loc.line, 7);
    assert_int_equal(item[0].loc.col, 13);
    assert_string_equal(item[0].message, "identifier \"u\" is undefined");
    /* What cannot be read from the disk keeps NVRTC's copy of the line. */
    assert_string_equal(item[1].loc.file, "<kpack>/math.h");
    assert_int_equal(item[1].loc.col, 0);
    assert_int_equal(item[1].level, DIAG_WARNING);
    assert_string_equal(item[1].message, "incompatible redefinition of macro \"X\"\n"
                                         "  #define X 1\n"
                                         "          ^");
    assert_string_equal(item[2].message,
                        "no instance of function template \"f\" matches the argument list\n"
                        "            argument types are: (int)\n"
                        "          detected during:\n"
                        "            instantiation of \"void g<T>()\" at line 9\n"
                        "            instantiation of \"void h<T>()\" at line 12 of e.cu\n"
                        "      f(3);\n"
                        "      ^");
    assert_string_equal(item[3].message, "#error directive: stop here");
    assert_int_equal(item[3].level, DIAG_ERROR);
    assert_string_equal(item[4].loc.file, "targets/t.lua");
    assert_int_equal(item[4].loc.line, 3);
    assert_string_equal(item[4].message, "invalid value for --gpu-architecture (-arch)");
    assert_string_equal(item[5].loc.file, "targets/t.lua");
    assert_string_equal(item[5].message,
                        "ptxas: Not a name of any known instruction: 'x' (line 27 of the PTX)");
    assert_string_equal(item[6].message, "ptxas: Ptx assembly aborted due to errors");
    assert_int_equal(item[7].level, DIAG_WARNING);
    assert_int_equal(item[8].level, DIAG_NOTE);
    assert_string_equal(item[8].message, "something of no known form");
    diag_free(&diags);
    unlink(path);
    rmdir(dir);
    rmdir(folder);
    arena_free(&arena);
}

static void test_unknown_lines_are_kept(void **state)
{
    (void)state;
    struct diags diags = {0};
    assert_int_equal(nvrtc_log_add("some words\nmore\n\n", "/", NULL, (struct loc){0}, &diags), 0);
    assert_int_equal(diags.count, 1);
    assert_int_equal(diags.items[0].level, DIAG_NOTE);
    assert_string_equal(diags.items[0].message, "some words\nmore");
    assert_int_equal(nvrtc_log_add("", "/", NULL, (struct loc){0}, &diags), 0);
    assert_int_equal(diags.count, 1);
    diag_free(&diags);
}

/* Whatever the log holds, both parsers take it: every cut and many flips, each in a buffer of its
 * own size, so that a sanitizer sees one byte too far. */
static void read_both(const char *bytes, size_t size)
{
    struct arena arena = {0};
    struct diags diags = {0};
    struct ptxas_log log;
    struct str rest = {0};
    char *text = malloc(size + 1);
    assert_non_null(text);
    memcpy(text, bytes, size);
    text[size] = '\0';
    ptxas_log_read(text, &arena, &log, &rest);
    assert_true(rest.len <= size);
    nvrtc_log_add(text, "/none", NULL, (struct loc){0}, &diags);
    free(text);
    str_free(&rest);
    diag_free(&diags);
    arena_free(&arena);
}

static void test_hostile_logs(void **state)
{
    (void)state;
    struct str text = {0};
    str_adds(&text, sample);
    str_adds(&text, "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
                    "ptxas info    : Function properties for k\n"
                    "ptxas         .     8 bytes stack frame, 1 bytes spill stores, 2 bytes spill "
                    "loads\n"
                    "ptxas info    : Used 24 registers, used 1 barriers, 512 bytes smem\n");
    for (size_t size = 0; size <= text.len; size++)
        read_both(text.data, size);
    uint64_t seed = 0x9e3779b97f4a7c15u;
    static const char special[] = "\n\r():' ^#\t09x";
    for (int round = 0; round < 3000; round++) {
        struct str copy = {0};
        str_add(&copy, text.data, text.len);
        for (int i = 0; i < 8; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            copy.data[(seed >> 33) % copy.len] = special[(seed >> 20) % (sizeof special - 1)];
        }
        read_both(copy.data, copy.len);
        str_free(&copy);
    }
    str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ptxas_13),
        cmocka_unit_test(test_ptxas_other_forms),
        cmocka_unit_test(test_ptxas_look_alikes),
        cmocka_unit_test(test_nvrtc_log),
        cmocka_unit_test(test_unknown_lines_are_kept),
        cmocka_unit_test(test_hostile_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
