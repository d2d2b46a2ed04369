#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "target/locate.h"

/* Where the steps lead to; a step is a name, or a position as digits. NULL ends them. */
static struct locate_place find(const char *data, uint32_t line, const char *name,
                                const char *const *path)
{
    struct arena arena = {0};
    struct source_text text;
    struct locate_step steps[8];
    size_t count = 0;
    for (; path[count]; count++) {
        bool digits = path[count][0] >= '0' && path[count][0] <= '9';
        steps[count] = digits ? (struct locate_step){NULL, (size_t)(path[count][0] - '0')}
                              : (struct locate_step){path[count], 0};
    }
    source_index(&arena, data, strlen(data), &text);
    struct locate_place place = locate(&arena, &text, line, name, steps, count);
    arena_free(&arena);
    return place;
}

/* The text at the place, up to the next blank or mark. */
#define CHECK(data, line, name, expected_line, expected, ...)                                      \
    check(data, line, name, expected_line, expected, (const char *const[]){__VA_ARGS__, NULL})

static void check(const char *data, uint32_t line, const char *name, uint32_t expected_line,
                  const char *expected, const char *const *path)
{
    struct locate_place place = find(data, line, name, path);
    assert_int_equal(place.line, expected_line);
    assert_int_not_equal(place.col, 0);
    const char *at = data;
    for (uint32_t i = 1; i < place.line; i++)
        at = strchr(at, '\n') + 1;
    at += place.col - 1;
    if (strncmp(at, expected, strlen(expected)) != 0)
        fail_msg("found '%.20s', expected '%s'", at, expected);
}

static void fields_of_the_returned_table(void **state)
{
    (void)state;
    static const char text[] = "local x = { name = 1 }\n"
                               "return {\n"
                               "  a = 1, name = \"x\",\n"
                               "  ['quoted'] = 2, [\"also\"] = 3; [[long]],\n"
                               "  list = { 1, \"two\", { three = 3 } },\n"
                               "}\n";
    CHECK(text, 0, NULL, 3, "name = \"x\"", "name");
    CHECK(text, 0, NULL, 4, "['quoted']", "quoted");
    CHECK(text, 0, NULL, 4, "[\"also\"]", "also");
    CHECK(text, 0, NULL, 4, "[[long]]", "1");
    CHECK(text, 0, NULL, 5, "\"two\"", "list", "2");
    CHECK(text, 0, NULL, 5, "three", "list", "3", "three");
    /* What is not there: as far as the text goes. */
    CHECK(text, 0, NULL, 5, "{ three", "list", "3", "four");
    CHECK(text, 0, NULL, 5, "list", "list", "9");
    CHECK(text, 0, NULL, 2, "{", "nowhere");
}

static void constructors_by_line_and_name(void **state)
{
    (void)state;
    static const char text[] = "return k.target { modules = {\n"
                               "  k.module \"a\" { size = 1 }, k.module \"b\" { size = 2 },\n"
                               "  k.module('c')({ size = 3 }), k.module [[d]] { size = 4 },\n"
                               "  make { k.entry \"e\" {\n"
                               "    size = 5 }, size = 6 },\n"
                               "  k.module(\"p\" .. 1) { size = 7 },\n"
                               "} }\n";
    CHECK(text, 2, "a", 2, "size = 1", "size");
    CHECK(text, 2, "b", 2, "size = 2", "size");
    CHECK(text, 3, "c", 3, "size = 3", "size");
    CHECK(text, 3, "d", 3, "size = 4", "size");
    CHECK(text, 4, "e", 5, "size = 5", "size");
    CHECK(text, 4, NULL, 5, "size = 6", "size");
    CHECK(text, 6, "p1", 6, "size = 7", "size"); /* a name that the text does not spell out */
    CHECK(text, 1, NULL, 1, "modules", "modules");
    CHECK(text, 1, NULL, 2, "k.module \"b\"", "modules", "2");
    assert_int_equal(find(text, 2, "c", (const char *const[]){NULL}).col, 0);
    assert_int_equal(find(text, 99, "a", (const char *const[]){NULL}).col, 0);
}

static void text_that_is_no_field(void **state)
{
    (void)state;
    static const char text[] =
        "-- return { name = 0 }\n"
        "--[==[ return {\n ]] name = 0 } ]==]\n"
        "local f = function() return { name = 0, x = 1 } end\n"
        "local s = \"return { name = \\\" 0 }\" .. 'it\\'s { name' .. [=[ } ]] name = { ]=]\n"
        "return {\n"
        "  f = function(a, b)\n"
        "    local name = { name = 1, 2 }\n"
        "    if a then return a, b end\n"
        "    for i = 1, 2 do b = i end\n"
        "    repeat a = b until a == b\n"
        "    return { name = 2 }, 3\n"
        "  end,\n"
        "  call(1, { name = 3 }, 4), a == b, -- name = 4,\n"
        "  x[1], name = 5,\n"
        "}\n";
    CHECK(text, 0, NULL, 15, "name = 5", "name");
    CHECK(text, 0, NULL, 14, "call", "1");
    CHECK(text, 0, NULL, 14, "a == b", "2");
    CHECK(text, 0, NULL, 15, "x[1]", "3");
    CHECK(text, 0, NULL, 7, "f = function", "f", "name");
}

static void line_ends(void **state)
{
    (void)state;
    static const char *const ends[] = {"\n", "\r\n", "\r", "\n\r"};
    for (size_t i = 0; i < 4; i++) {
        char text[100] = "return {";
        strcat(text, ends[i]);
        strcat(text, ends[i]);
        strcat(text, "  a = 1,");
        strcat(text, ends[i]);
        strcat(text, "  b = 2 }");
        struct locate_place place = find(text, 0, NULL, (const char *const[]){"b", NULL});
        /* Two bare line ends that differ are one; two equal ones are two. */
        assert_int_equal(place.line, 4);
        assert_int_equal(place.col, 3);
    }
    struct locate_place place =
        find("\xEF\xBB\xBFreturn { a = 1 }", 0, NULL, (const char *const[]){"a", NULL});
    assert_int_equal(place.line, 1);
    assert_int_equal(place.col, 13);
}

static void broken_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "return",
        "return {",
        "return { a = ",
        "return { a",
        "return { [",
        "return { [\"a",
        "return { [\"a\"",
        "return \"",
        "return [==[",
        "--[[",
        "{{{{",
        "}}}}",
        "return }",
        "return { a = 1 ] }",
        "return { a = ) }",
        "return { end }",
        "[",
        "[=",
        "\\",
        "return { 'a\\",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        find(texts[i], 0, NULL, (const char *const[]){"a", "1", NULL});
        find(texts[i], 1, "a", (const char *const[]){"a", "1", NULL});
        find(texts[i], 1, NULL, (const char *const[]){NULL});
    }
    char deep[4096];
    memset(deep, '{', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    find(deep, 0, NULL, (const char *const[]){"1", NULL});
    find(deep, 1, NULL, (const char *const[]){"1", "1", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_the_returned_table),
        cmocka_unit_test(constructors_by_line_and_name),
        cmocka_unit_test(text_that_is_no_field),
        cmocka_unit_test(line_ends),
        cmocka_unit_test(broken_texts),
    };
    return cmocka_run_group_tests_name("target_locate", tests, NULL, NULL);
}
