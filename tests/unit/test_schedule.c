#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compile/schedule.h"

#define MIB ((uint64_t)1 << 20)

/* Which units start, in what order, and how many at once. */

static struct compile_unit unit(double seconds, uint64_t mib)
{
    return (struct compile_unit){.root = "/nowhere",
                                 .source = "none.cu",
                                 .expected_seconds = seconds,
                                 .expected_bytes = mib * MIB};
}

static void test_longest_first(void **state)
{
    (void)state;
    struct compile_unit units[] = {unit(1, 1), unit(3, 1), unit(0, 1), unit(2, 1), unit(3, 1)};
    static const size_t order[] = {2, 1, 4, 3, 0};
    struct compile_options options = {0};
    struct schedule schedule;
    schedule_start(&schedule, units, 5, &options);
    for (size_t i = 0; i < 5; i++) {
        assert_false(schedule_is_empty(&schedule));
        assert_int_equal(schedule_next(&schedule), order[i]);
    }
    assert_true(schedule_is_empty(&schedule));
    assert_int_equal(schedule_next(&schedule), SCHEDULE_NONE);
    schedule_end(&schedule);
}

static void test_memory(void **state)
{
    (void)state;
    struct compile_unit units[] = {unit(9, 600), unit(8, 700), unit(7, 300), unit(6, 2000)};
    struct compile_options options = {.memory = 1000 * MIB};
    struct schedule schedule;
    schedule_start(&schedule, units, 4, &options);
    assert_int_equal(schedule_next(&schedule), 0);
    assert_int_equal(schedule_next(&schedule), 2); /* 1 does not fit beside 0 */
    assert_int_equal(schedule_next(&schedule), SCHEDULE_NONE);
    schedule_done(&schedule, 2);
    assert_int_equal(schedule_next(&schedule), SCHEDULE_NONE);
    schedule_done(&schedule, 0);
    assert_int_equal(schedule_next(&schedule), 1);
    assert_int_equal(schedule_next(&schedule), SCHEDULE_NONE);
    assert_false(schedule_is_empty(&schedule));
    schedule_done(&schedule, 1);
    assert_int_equal(schedule_next(&schedule), 3); /* alone, although it is too large */
    assert_true(schedule_is_empty(&schedule));
    schedule_end(&schedule);
}

static void test_width(void **state)
{
    (void)state;
    struct compile_unit units[] = {unit(1, 600), unit(1, 0), unit(1, 100), unit(1, 300)};
    assert_int_equal(schedule_width(units, 4, 0, 9), 4);
    assert_int_equal(schedule_width(units, 4, 0, 3), 3);
    assert_int_equal(schedule_width(units, 4, 1000 * MIB, 9), 3);
    assert_int_equal(schedule_width(units, 4, 2024 * MIB, 9), 4); /* unknown: 1024 MiB */
    assert_int_equal(schedule_width(units, 4, 2023 * MIB, 9), 3);
    assert_int_equal(schedule_width(units, 4, 399 * MIB, 9), 1);
    assert_int_equal(schedule_width(units, 4, 1, 9), 1);
    assert_int_equal(schedule_width(NULL, 0, 1, 9), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_first),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
