#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/git.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/view.h"
#include "build_bundle.h"
#include "runtime_fixture.h"

static void test_sizes_are_parsed(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t bytes;
    } cases[] = {
        {"0", true, 0},
        {"1", true, 1},
        {"4096", true, 4096},
        {"3K", true, 3072},
        {"512M", true, 512u << 20},
        {"8G", true, (uint64_t)8 << 30},
        {"2T", true, (uint64_t)2 << 40},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"16777216T", false, 0},
        {"16777215T", true, (uint64_t)16777215 << 40},
        {"", false, 0},
        {"G", false, 0},
        {"1g", false, 0},
        {"1GB", false, 0},
        {"1 G", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {"1.5G", false, 0},
        {"0x10", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 7;
        bool ok = machine_parse_size(cases[i].text, &bytes);
        if (ok != cases[i].ok || bytes != cases[i].bytes)
            fail_msg("'%s' gives %d, %llu", cases[i].text, ok, (unsigned long long)bytes);
    }
}

static void test_this_machine_has_something(void **state)
{
    (void)state;
    uint64_t bytes;
    unsetenv("KPACK_MEM");
    assert_true(machine_memory(&bytes));
    assert_true(bytes > 1 << 20);
    assert_true(machine_cores() >= 1);
    setenv("KPACK_MEM", "5M", 1);
    assert_true(machine_memory(&bytes));
    assert_int_equal(bytes, 5 << 20);
    setenv("KPACK_MEM", "", 1);
    assert_true(machine_memory(&bytes));
    setenv("KPACK_MEM", "five", 1);
    assert_false(machine_memory(&bytes));
    setenv("KPACK_MEM", "0", 1); /* which would be no bound at all */
    assert_false(machine_memory(&bytes));
    unsetenv("KPACK_MEM");
    double before = machine_now();
    assert_true(machine_now() >= before);
}

static void test_sizes_are_shown(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {232448, "227.0 KiB"},
        {1048524, "1023.9 KiB"},
        {1048525, "1.0 MiB"},
        {12400000, "11.8 MiB"},
        {(uint64_t)1 << 30, "1.0 GiB"},
        {(uint64_t)1 << 40, "1.0 TiB"},
        {UINT64_MAX, "16777216.0 TiB"},
    };
    (void)state;
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(report_size(&arena, cases[i].bytes), cases[i].text);
    arena_free(&arena);
}

static char *printed(const struct table *table)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    table_print(table, stream);
    fclose(stream);
    return text;
}

static void test_tables_align(void **state)
{
    (void)state;
    struct table table = {0};
    table_row(&table, (const char *[]){"name", "block", "regs"}, 3);
    table_row(&table, (const char *[]){"a", "256x2", "8"}, 3);
    table_text(&table, "between");
    table_row(&table, (const char *[]){"\xc3\xa9\xe4\xb8\xad", NULL, "128"}, 3);
    char *text = printed(&table);
    assert_string_equal(text, "name  block  regs\n"
                              "a     256x2     8\n"
                              "between\n"
                              "\xc3\xa9\xe4\xb8\xad            128\n");
    free(text);
    table_free(&table);
}

static void test_tables_keep_to_their_width(void **state)
{
    (void)state;
    for (size_t length = 100; length < 140; length++) {
        char name[160] = "", *line;
        for (size_t i = 0; i < length; i += 2) /* two bytes, one column: cut between characters */
            memcpy(name + i, "\xc3\xa9", 2);
        memset(name, 'n', 80);
        struct table table = {0};
        table_row(&table, (const char *[]){name, "1234567890", "1234567890"}, 3);
        char *text = printed(&table), *rest = text;
        while ((line = strsep(&rest, "\n"))) {
            size_t columns = 0;
            for (const char *at = line; *at; at += str_utf8(at, strlen(at))) {
                assert_true(str_utf8(at, strlen(at)) > 0);
                columns++;
            }
            assert_true(columns <= REPORT_COLUMNS);
        }
        assert_non_null(strstr(name, "nn\xc3"));
        free(text);
        table_free(&table);
    }
}

static void test_the_status_line(void **state)
{
    (void)state;
    struct compile_unit units[] = {
        {.name = "t/one"}, {.name = "t/tw\xc3\xb6"}, {.name = "t/\x1b["}};
    size_t running[] = {0, 1, 2};
    struct progress progress = {.units = units, .total = 12, .start = 100, .running = running};
    static const struct {
        size_t done, running;
        double now;
        unsigned columns;
        const char *text;
    } cases[] = {
        {0, 0, 100.4, 80, "[0/12] 0 s"},
        {0, 2, 107, 80, "[0/12] 7 s: t/one, t/tw\xc3\xb6"},
        {4, 2, 100.5, 80, "[4/12] 0 s: t/one, t/tw\xc3\xb6"},
        {4, 3, 120, 80, "[4/12] 20 s, about 40 s left: t/one, t/tw\xc3\xb6, t/\\x1B["},
        {4, 3, 120, 43, "[4/12] 20 s, about 40 s left: t/one, t/tw\xc3\xb6"},
        {4, 3, 120, 42, "[4/12] 20 s, about 40 s left: t/one, t/tw"},
        {4, 3, 120, 56, "[4/12] 20 s, about 40 s left: t/one, t/tw\xc3\xb6, t/\\x1B["},
        {4, 3, 120, 50, "[4/12] 20 s, about 40 s left: t/one, t/tw\xc3\xb6, t/\\x1"},
        {4, 3, 120, 1, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str line = {0};
        progress.done = cases[i].done;
        progress.work = 24;
        progress.left = 24 - 2 * (double)cases[i].done;
        progress.running_count = cases[i].running;
        progress_line(&progress, cases[i].now, cases[i].columns, &line);
        assert_string_equal(str_text(&line), cases[i].text);
        str_free(&line);
    }
}

static void test_git_where_there_is_none(void **state)
{
    (void)state;
    struct arena arena = {0};
    const char *used[] = {"a"};
    char *path = mem_strdup(getenv("PATH") ? getenv("PATH") : "");
    assert_null(git_query("/", used, 1, &arena).commit);
    assert_null(git_query("/no/such/folder", used, 1, &arena).commit);
    setenv("PATH", "/nowhere::/dev/null", 1);
    assert_null(git_query(".", used, 1, &arena).commit);
    unsetenv("PATH");
    assert_null(git_query(".", used, 1, &arena).commit);
    setenv("PATH", path, 1);
    free(path);
    arena_free(&arena);
}

static void test_every_command_is_complete(void **state)
{
    (void)state;
    for (const struct cli_command *command = cli_commands; command->name; command++) {
        assert_ptr_equal(cli_find_command(command->name), command);
        assert_non_null(command->run);
        assert_non_null(command->summary);
        assert_true(command->min_words <= command->max_words);
        for (const struct cli_option *option = command->options; option->help; option++)
            assert_true(option->name || option->letter);
    }
    assert_null(cli_find_command("lis"));
    assert_null(cli_find_command(""));
}

static void rewrite(const char *path, const struct build_bytes *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void assert_changed(const struct view *view)
{
    struct str bytes = {0};
    struct diags *diags = &view->cli->diags;
    diag_free(diags);
    assert_false(view_bytes(view, &bytes));
    assert_int_equal(diags->errors, 1);
    assert_non_null(strstr(diags->items[0].message, "changed while it was read"));
    str_free(&bytes);
}

/* What is written on is what was checked, also when the file's name leads elsewhere by then. */
static void test_bytes_are_those_that_were_opened(void **state)
{
    (void)state;
    struct cli cli = {0};
    struct view image, whole;
    struct build_bytes one = build_write(&build_small), other = build_for("b", "sm_90a", 9, 0),
                       two = build_two();
    char *path = arena_strdup(&cli.arena, fixture_file(&one));
    char *bundle = arena_strdup(&cli.arena, fixture_file(&two));
    assert_true(view_open_file(&cli, path, NULL, &image));
    assert_true(view_open_file(&cli, bundle, NULL, &whole));
    struct str bytes = {0};
    assert_true(view_bytes(&whole, &bytes));
    assert_int_equal(bytes.len, two.size);
    assert_memory_equal(bytes.data, two.data, two.size);
    str_free(&bytes);
    unlink(path);
    unlink(bundle);
    rewrite(path, &other, other.size);
    assert_changed(&image);
    rewrite(path, &one, one.size - 1);
    assert_changed(&image);
    one.data[one.size - 1] ^= 1;
    rewrite(path, &one, one.size);
    assert_changed(&image);
    rewrite(bundle, &one, one.size);
    assert_changed(&whole);
    unlink(path);
    unlink(bundle);
    view_close(&image);
    view_close(&whole);
    free(one.data);
    free(other.data);
    free(two.data);
    diag_free(&cli.diags);
    arena_free(&cli.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_are_parsed),
        cmocka_unit_test(test_this_machine_has_something),
        cmocka_unit_test(test_sizes_are_shown),
        cmocka_unit_test(test_tables_align),
        cmocka_unit_test(test_tables_keep_to_their_width),
        cmocka_unit_test(test_the_status_line),
        cmocka_unit_test(test_git_where_there_is_none),
        cmocka_unit_test(test_every_command_is_complete),
        cmocka_unit_test(test_bytes_are_those_that_were_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
