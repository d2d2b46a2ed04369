#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/str.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- str ---------------------------------------------------------------------------------------
 */

static void nearest_name(void **state)
{
    (void)state;
    static const char *const names[] = {"name", "source", "tile", "stages", "smem", "static_smem"};
    static const struct {
        const char *word, *expected;
    } cases[] = {
        {"stagse", "stages"}, /* a transposition is one edit */
        {"sxurce", "source"}, /* one letter wrong */
        {"tiles", "tile"},    /* one too many */
        {"staticsmem", "static_smem"},
        {"smen", "smem"},
        {"name", NULL}, /* equal is not near */
        {"xyz", NULL},  /* nothing in common */
        {"a", NULL},    /* as many edits as letters */
        {"", NULL},
        {"configuration", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *found = str_nearest(cases[i].word, names, COUNT(names));
        if (cases[i].expected)
            assert_string_equal(found ? found : "(none)", cases[i].expected);
        else
            assert_null(found);
    }
    assert_null(str_nearest("stages", names, 0));
}

static void nearest_takes_the_first_of_equals(void **state)
{
    (void)state;
    static const char *const names[] = {"lever_b", "lever_c"};
    assert_string_equal(str_nearest("lever_a", names, 2), "lever_b");
}

static void nearest_of_long_words(void **state)
{
    (void)state;
    char word[130], name[130];
    const char *const names[] = {name};
    memset(word, 'a', sizeof word);
    memset(name, 'a', sizeof name);
    word[127] = '\0';
    name[128] = '\0';
    assert_string_equal(str_nearest(word, names, 1), name);
    word[127] = 'a';
    word[129] = '\0';
    assert_null(str_nearest(word, names, 1)); /* longer than it compares */
    word[10] = '\0';
    name[128] = 'a';
    name[129] = '\0';
    assert_null(str_nearest(word, names, 1));
}

static void utf8_sequences(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t expected;
    } cases[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},     /* a continuation alone */
        {"\xc0\xaf", 0}, /* overlong '/' */
        {"\xc1\xbf", 0},
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xed\xa0\x80", 0},     /* a surrogate */
        {"\xf4\x90\x80\x80", 0}, /* past U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
        {"\xe2\x82", 0}, /* cut short */
        {"\xc3(", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(str_utf8(cases[i].text, strlen(cases[i].text)), cases[i].expected);
    assert_int_equal(str_utf8("a", 0), 0);
    assert_int_equal(str_utf8("\xe2\x82\xac", 2), 0); /* the size counts, not the NUL */
    assert_int_equal(str_utf8("\0", 1), 1);
}

static void printable_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"plain text", "plain text"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\x1b[31mred", "\\x1B[31mred"},
        {"a\nb\tc\r", "a\\x0Ab\\x09c\\x0D"},
        {"\x7f", "\\x7F"},
        {"\xc2\x9b"
         "31m",
         "\\xC2\\x9B31m"}, /* CSI in one code point */
        {"\xc2\xa0", "\xc2\xa0"},
        {"\xff\xc3", "\\xFF\\xC3"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct str out = {0};
        str_add_printable(&out, cases[i].text, strlen(cases[i].text));
        assert_string_equal(str_text(&out), cases[i].expected);
        str_free(&out);
    }
    struct str out = {0};
    str_add_printable(&out, "a\0b", 3);
    assert_string_equal(str_text(&out), "a\\x00"
                                        "b");
    str_free(&out);
}

static void growing_string(void **state)
{
    (void)state;
    struct str text = {0};
    assert_string_equal(str_text(&text), "");
    str_add(&text, "", 0);
    assert_string_equal(text.data, "");
    for (int i = 0; i < 1000; i++)
        str_addf(&text, "%d,", i);
    assert_int_equal(text.len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(strlen(text.data), text.len);
    str_clear(&text);
    assert_string_equal(text.data, "");
    str_free(&text);
    assert_null(text.data);
}

static void starts_and_ends(void **state)
{
    (void)state;
    assert_true(str_starts("targets/a", "targets/"));
    assert_false(str_starts("tar", "targets"));
    assert_true(str_ends("a.lua", ".lua"));
    assert_true(str_ends("a", ""));
    assert_false(str_ends("lua", ".lua"));
}

/* ---- diag --------------------------------------------------------------------------------------
 */

/* Renders one error at line:col of a file with this text; the file's name becomes FILE. */
static char *rendered(const char *text, size_t size, uint32_t line, uint32_t col, bool colour)
{
    char path[] = "/tmp/kpack-base-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
    struct diags diags = {0};
    struct str out = {0};
    diag_error_at(&diags, (struct loc){path, line, col}, "wrong");
    diag_render(&diags, 0, colour, &out);
    unlink(path);
    diag_free(&diags);
    char *at = strstr(out.data, path);
    assert_non_null(at);
    memcpy(at, "FILE", 4);
    memmove(at + 4, at + strlen(path), strlen(at + strlen(path)) + 1);
    return out.data;
}

static void check_rendered(const char *text, uint32_t line, uint32_t col, const char *expected)
{
    char *found = rendered(text, strlen(text), line, col, false);
    assert_string_equal(found, expected);
    free(found);
}

static void caret_under_the_column(void **state)
{
    (void)state;
    check_rendered("one\ntwo three\n", 2, 5,
                   "kpack: error: FILE:2:5: wrong\n     2 | two three\n       |     ^\n");
    check_rendered("one", 1, 1, "kpack: error: FILE:1:1: wrong\n     1 | one\n       | ^\n");
    /* Just past the end, where something is missing. */
    check_rendered("one\n", 1, 4, "kpack: error: FILE:1:4: wrong\n     1 | one\n       |    ^\n");
}

static void caret_after_wide_bytes(void **state)
{
    (void)state;
    check_rendered("\"\xc3\xbc\", x\n", 1, 7,
                   "kpack: error: FILE:1:7: wrong\n     1 | \"\xc3\xbc\", x\n       |      ^\n");
    check_rendered("\tx = 1\n", 1, 2,
                   "kpack: error: FILE:1:2: wrong\n     1 | \tx = 1\n       | \t^\n");
    check_rendered("\x1b[2J y\n", 1, 6,
                   "kpack: error: FILE:1:6: wrong\n     1 | \\x1B[2J y\n       |         ^\n");
    check_rendered("\xff y\n", 1, 3,
                   "kpack: error: FILE:1:3: wrong\n     1 | \\xFF y\n       |      ^\n");
    check_rendered("\xef\xbb\xbfx y\n", 1, 6,
                   "kpack: error: FILE:1:6: wrong\n     1 | x y\n       |   ^\n");
    check_rendered("a b\r\nc d\r\n", 2, 3,
                   "kpack: error: FILE:2:3: wrong\n     2 | c d\n       |   ^\n");
}

static void no_caret_without_the_line(void **state)
{
    (void)state;
    check_rendered("one\n", 2, 1, "kpack: error: FILE:2:1: wrong\n");
    check_rendered("one\n", 1, 9, "kpack: error: FILE:1:9: wrong\n");
    check_rendered("one\n", 1, 0, "kpack: error: FILE:1: wrong\n");
    check_rendered("one\n", 0, 3, "kpack: error: FILE: wrong\n");
    struct diags diags = {0};
    struct str out = {0};
    diag_error_at(&diags, (struct loc){"/", 1, 1}, "a folder");
    diag_error_at(&diags, (struct loc){"/nonexistent/file", 1, 1}, "no file");
    diag_error(&diags, "no place");
    diag_render(&diags, 0, false, &out);
    assert_string_equal(out.data, "kpack: error: /:1:1: a folder\n"
                                  "kpack: error: /nonexistent/file:1:1: no file\n"
                                  "kpack: error: no place\n");
    str_free(&out);
    diag_free(&diags);
}

static void hostile_text_is_escaped(void **state)
{
    (void)state;
    struct diags diags = {0};
    struct str out = {0};
    diag_error_at(&diags, (struct loc){"a\x1b[1m\n.lua", 0, 0}, "bad '%s'",
                  "\x1b]0;x\nkpack: error: y\n");
    diag_warning(&diags, "mind the gap");
    diag_add(&diags, DIAG_NOTE, (struct loc){0}, "by the way");
    diag_add_text(&diags, DIAG_ERROR, (struct loc){0}, "a compiler's\n  second\x07 line");
    diag_render(&diags, 0, false, &out);
    assert_string_equal(out.data, "kpack: error: a\\x1B[1m\\x0A.lua: bad "
                                  "'\\x1B]0;x\\x0Akpack: error: y\\x0A'\n"
                                  "kpack: warning: mind the gap\n"
                                  "kpack: note: by the way\n"
                                  "kpack: error: a compiler's\n  second\\x07 line\n");
    assert_int_equal(diags.errors, 2);
    assert_int_equal(diags.count, 4);
    str_clear(&out);
    diag_render(&diags, 3, false, &out);
    assert_string_equal(out.data, "kpack: error: a compiler's\n  second\\x07 line\n");
    str_free(&out);
    diag_free(&diags);
}

static void colours(void **state)
{
    (void)state;
    char *found = rendered("x\n", 2, 1, 1, true);
    assert_string_equal(found, "kpack: \033[1;31merror:\033[0m FILE:1:1: wrong\n"
                               "     1 | x\n       | \033[1;32m^\033[0m\n");
    free(found);
}

/* ---- paths -------------------------------------------------------------------------------------
 */

static void path_arithmetic(void **state)
{
    (void)state;
    struct arena arena = {0};
    assert_string_equal(path_join(&arena, "a", "b"), "a/b");
    assert_string_equal(path_join(&arena, "a/", "b"), "a/b");
    assert_string_equal(path_join(&arena, ".", "b"), "b");
    assert_string_equal(path_join(&arena, "", "b"), "b");
    assert_string_equal(path_join(&arena, "/", "b"), "/b");
    assert_string_equal(path_join(&arena, "a", "/b"), "/b");
    assert_string_equal(path_dir(&arena, "a"), ".");
    assert_string_equal(path_dir(&arena, "a/b/c"), "a/b");
    assert_string_equal(path_dir(&arena, "/a"), "/");
    assert_string_equal(path_base("a/b.c"), "b.c");
    assert_string_equal(path_base("b.c"), "b.c");
    assert_string_equal(path_stem(&arena, "a/b.c.lua"), "b.c");
    assert_string_equal(path_stem(&arena, ".hidden"), ".hidden");
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_name),
        cmocka_unit_test(nearest_takes_the_first_of_equals),
        cmocka_unit_test(nearest_of_long_words),
        cmocka_unit_test(utf8_sequences),
        cmocka_unit_test(printable_text),
        cmocka_unit_test(growing_string),
        cmocka_unit_test(starts_and_ends),
        cmocka_unit_test(caret_under_the_column),
        cmocka_unit_test(caret_after_wide_bytes),
        cmocka_unit_test(no_caret_without_the_line),
        cmocka_unit_test(hostile_text_is_escaped),
        cmocka_unit_test(colours),
        cmocka_unit_test(path_arithmetic),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
