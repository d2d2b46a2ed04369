#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../fake/cuda.h"
#include "kpk_build.h"
#include "runtime/kpk.h"

struct fixture {
    struct build_bytes bytes;
    kpk_image *image;
    char message[1024]; /* the last one */
    unsigned messages;
};

static void keep_message(void *user, kpk_severity severity, const char *text)
{
    struct fixture *fixture = user;
    (void)severity;
    snprintf(fixture->message, sizeof(fixture->message), "%s", text);
    fixture->messages++;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->bytes = build_write(&build_small);
    fake_cuda_reset();
    kpk_open_desc desc = {
        .message = keep_message, .message_user = fixture, .symbol = fake_cuda_symbol};
    kpk_status status =
        kpk_open_memory(fixture->bytes.data, fixture->bytes.size, &desc, &fixture->image);
    if (status != KPK_OK)
        print_error("%s: %s\n", kpk_status_text(status), fixture->message);
    *state = fixture;
    return status;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    kpk_close(fixture->image);
    free(fixture->bytes.data);
    int left = (int)fake_cuda_state()->libraries;
    free(fixture);
    return left;
}

static kpk_grid grid(uint32_t x, uint32_t y, uint32_t z)
{
    return (kpk_grid){x, y, z};
}

static void test_resolves_without_driver(void **state)
{
    struct fixture *fixture = *state;
    static const char *const names[][2] = {
        {"alpha", "one"}, {"alpha", "two"}, {"beta", "big"}, {"beta", "plain"}, {"gamma", "bare"}};
    for (size_t i = 0; i < 5; i++) {
        kpk_kernel kernel = kpk_resolve(fixture->image, names[i][0], names[i][1]);
        assert_true(kernel.id != 0);
        kpk_entry_info info;
        assert_int_equal(kpk_get_kernel(fixture->image, kernel, &info), KPK_OK);
        assert_string_equal(info.module, names[i][0]);
        assert_string_equal(info.name, names[i][1]);
        assert_true(info.kernel.id == kernel.id);
    }
    assert_true(kpk_resolve(fixture->image, "alpha", "big").id == 0);
    assert_true(kpk_resolve(fixture->image, "", "").id == 0);
    assert_true(kpk_resolve(fixture->image, NULL, "one").id == 0);
    assert_true(kpk_resolve(fixture->image, "alpha", NULL).id == 0);
    assert_int_equal(fake_cuda_calls(), 0);
}

static void test_launches(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    kpk_kernel two = kpk_resolve(fixture->image, "alpha", "two");
    int x = 1;
    void *args[] = {&x};
    struct CUstream_st *stream = (struct CUstream_st *)(void *)&x;
    assert_int_equal(kpk_launch(fixture->image, two, grid(7, 8, 9), 0, stream, args), KPK_OK);
    assert_int_equal(fake->launches, 1);
    const struct fake_launch *launch = &fake->launch[0];
    assert_string_equal(launch->entry, "two");
    const unsigned expected_grid[3] = {7, 8, 9}, expected_block[3] = {32, 4, 2};
    assert_memory_equal(launch->grid, expected_grid, sizeof(expected_grid));
    assert_memory_equal(launch->block, expected_block, sizeof(expected_block));
    assert_int_equal(launch->smem, 0);
    assert_ptr_equal(launch->stream, &x);
    assert_ptr_equal(launch->args, args);
    unsigned long before = fake_cuda_calls();
    assert_int_equal(kpk_launch(fixture->image, two, grid(1, 1, 1), 0, NULL, NULL), KPK_OK);
    assert_int_equal(fake_cuda_calls(), before + 1);
    assert_int_equal(fixture->messages, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_resolves_without_driver, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_launches, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("runtime", tests, NULL, NULL);
}
