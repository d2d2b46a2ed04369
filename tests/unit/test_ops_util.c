#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops_util.h"

struct kept {
    kpk_severity severity;
    char text[1024];
};

static void keep(void *user, kpk_severity severity, const char *text)
{
    struct kept *kept = user;

    kept->severity = severity;
    strncpy(kept->text, text, sizeof kept->text - 1);
}

/* Launchers' messages follow the rule of kpk_message_fn: one line that drives no terminal. */
static void test_messages_are_lines_of_utf8(void **state)
{
    (void)state;
    struct kept kept = {0};
    const struct ops_log log = {keep, &kept};

    ops_say(&log, KPK_WARNING, "'%s' is off", "a\x1b[2J\nb\xc2\x9b\xff");
    assert_string_equal(kept.text, "'a?[2J?b??"
                                   "?' is off");
    assert_int_equal(kept.severity, KPK_WARNING);
    assert_int_equal(ops_fail(&log, KPK_ERR_LOAD, "5\xc2\xb5s of '%s'", "\r"), KPK_ERR_LOAD);
    assert_string_equal(kept.text, "5\xc2\xb5s of '?'");
    assert_int_equal(kept.severity, KPK_ERROR);
}

/* A line that is cut within a character ends well all the same. */
static void test_long_messages_are_cut(void **state)
{
    (void)state;
    struct kept kept = {0};
    const struct ops_log log = {keep, &kept};
    char name[1001];

    for (size_t i = 0; i < 500; i++)
        memcpy(name + 2 * i, "\xc2\xb5", 3);
    ops_say(&log, KPK_INFO, "%s", name);
    assert_int_equal(strlen(kept.text), 511);
    assert_memory_equal(kept.text, name, 510);
    assert_int_equal(kept.text[510], '?');
}

static void test_nobody_listens(void **state)
{
    (void)state;
    const struct ops_log silent = {0};

    ops_say(NULL, KPK_INFO, "x");
    ops_say(&silent, KPK_INFO, "x");
    assert_int_equal(ops_fail(NULL, KPK_ERR_SMEM, "x"), KPK_ERR_SMEM);
    kpk_message_line(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_are_lines_of_utf8),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_nobody_listens),
    };
    return cmocka_run_group_tests_name("ops_util", tests, NULL, NULL);
}
