#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime_fixture.h"

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
    assert_true(kpk_resolve(NULL, "alpha", "one").id == 0);
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
    assert_int_equal(kpk_launch(fixture->image, two, grid_of(7, 8, 9), 0, stream, args), KPK_OK);
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
    assert_int_equal(kpk_launch(fixture->image, two, grid_of(1, 1, 1), 0, NULL, NULL), KPK_OK);
    assert_int_equal(fake_cuda_calls(), before + 1);
    assert_int_equal(fixture->messages, 0);
}

static void test_shared_memory_of_a_launch(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_OK);
    assert_int_equal(fake->launch[0].smem, 1024);
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 100), KPK_OK);
    assert_int_equal(fake->launch[1].smem, 100);
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 1024), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 1025), KPK_ERR_SMEM);
    assert_message(fixture,
                   "'alpha:one': 1025 bytes of shared memory asked for, 1024 are declared");
    assert_int_equal(fake->launches, 3);
    assert_int_equal(fake->attributes, 0);
}

static void test_opts_in_to_shared_memory(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_OK);
    assert_int_equal(fake->attributes, 1);
    assert_int_equal(fake->attribute_value, 200000);
    assert_int_equal(fake->launch[0].smem, 200000);
    /* Nothing is declared for beta:plain: it may take what the device has. */
    assert_int_equal(fixture_launch(fixture, "beta", "plain", 100000), KPK_OK);
    assert_int_equal(fake->attribute_value, 232448);
    assert_int_equal(fake->launch[1].smem, 100000);
}

static void test_shared_memory_over_the_device(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    fake->devices[0].max_smem_optin = 200999;
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_ERR_SMEM);
    assert_message(fixture, "'beta:big' needs 200000 bytes of dynamic and 1000 of static shared "
                            "memory, device 0 has 200999 for a block");
    assert_int_equal(kpk_absent_reason(fixture->image, "beta", "big"), KPK_ABSENT_LOAD_FAILED);
    unsigned messages = fixture->messages;
    unsigned long calls = fake_cuda_calls();
    assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_ERR_SMEM);
    assert_int_equal(fixture->messages, messages);
    assert_int_equal(fake_cuda_calls(), calls);
    assert_int_equal(fake->launches, 0);
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_OK);
}

static void test_block_of_the_caller(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    kpk_kernel bare = kpk_resolve(fixture->image, "gamma", "bare");
    assert_int_equal(kpk_launch(fixture->image, bare, grid_of(1, 1, 1), 0, NULL, NULL),
                     KPK_ERR_ARGUMENT);
    assert_message(fixture, "'gamma:bare' has no block of its own");
    assert_int_equal(
        kpk_launch_block(fixture->image, bare, grid_of(2, 1, 1), grid_of(96, 1, 1), 64, NULL, NULL),
        KPK_OK);
    assert_int_equal(fake->launches, 1);
    assert_int_equal(fake->launch[0].block[0], 96);
    assert_int_equal(fake->launch[0].smem, 64);
    for (int axis = 0; axis < 3; axis++) {
        uint32_t size[3] = {1, 1, 1};
        size[axis] = 0;
        kpk_grid empty = grid_of(size[0], size[1], size[2]);
        assert_int_equal(
            kpk_launch_block(fixture->image, bare, empty, grid_of(1, 1, 1), 0, NULL, NULL),
            KPK_ERR_ARGUMENT);
        assert_int_equal(
            kpk_launch_block(fixture->image, bare, grid_of(1, 1, 1), empty, 0, NULL, NULL),
            KPK_ERR_ARGUMENT);
    }
    assert_int_equal(fake->launches, 1);
}

static void test_foreign_handles(void **state)
{
    struct fixture *fixture = *state;
    struct build_image other_image = build_small;
    other_image.target = "other";
    struct build_bytes bytes = build_write(&other_image);
    kpk_image *other = NULL;
    assert_int_equal(kpk_open_memory(bytes.data, bytes.size, NULL, &other), KPK_OK);
    kpk_kernel kernel = kpk_resolve(other, "alpha", "one");
    assert_true(kernel.id != 0);
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    kpk_kernel bad[] = {kernel, {0}, {1}, {UINT64_MAX}};
    for (size_t i = 0; i < 4; i++) {
        kpk_entry_info info;
        void *function = state;
        assert_int_equal(kpk_get_kernel(fixture->image, bad[i], &info), KPK_ERR_ARGUMENT);
        assert_int_equal(kpk_launch(fixture->image, bad[i], grid_of(1, 1, 1), 0, NULL, NULL),
                         KPK_ERR_ARGUMENT);
        assert_int_equal(kpk_function(fixture->image, bad[i], &function), KPK_ERR_ARGUMENT);
        assert_null(function);
    }
    assert_int_equal(kpk_preload(fixture->image, bad, 1), KPK_ERR_ARGUMENT);
    assert_message(fixture, "another image's");
    kpk_close(other);
    free(bytes.data);
}

static void test_unbound(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_ERR_NOT_BOUND);
    assert_message(fixture, "image in memory: the image is not bound to a device");
    assert_int_equal(kpk_preload(fixture->image, NULL, 0), KPK_ERR_NOT_BOUND);
    kpk_kernel two = kpk_resolve(fixture->image, "alpha", "two");
    assert_int_equal(
        kpk_launch_block(fixture->image, two, grid_of(1, 1, 1), grid_of(1, 1, 1), 0, NULL, NULL),
        KPK_ERR_NOT_BOUND);
    assert_null(kpk_driver_symbol(fixture->image, "cuInit"));
    assert_int_equal(fake_cuda_calls(), 0);
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_non_null(kpk_driver_symbol(fixture->image, "cuInit"));
    assert_null(kpk_driver_symbol(fixture->image, "cuNoSuchFunction"));
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_OK);
}

static void test_entry_missing_in_cubin(void **state)
{
    struct fixture *fixture = *state;
    static const char *const blobs[] = {"FAKE onemore two", "FAKE big", "FAKE _Z5plaini",
                                        "FAKE bare"};
    struct build_image image = build_small;
    image.blobs = blobs;
    free(fixture->bytes.data);
    fixture->bytes = build_write(&image);
    assert_int_equal(fixture_reopen(fixture), KPK_OK);
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_ERR_LOAD);
    assert_message(fixture, "module 'alpha': its cubin has no entry 'one'");
    assert_int_equal(kpk_absent_reason(fixture->image, "alpha", "one"), KPK_ABSENT_LOAD_FAILED);
    assert_int_equal(kpk_absent_reason(fixture->image, "alpha", "two"), KPK_PRESENT);
    assert_int_equal(fixture_launch(fixture, "alpha", "two", 0), KPK_OK);
}

static void test_preload(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    kpk_kernel some[] = {{0}, kpk_resolve(fixture->image, "alpha", "two"), {0}};
    assert_int_equal(kpk_preload(fixture->image, some, 3), KPK_OK);
    assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 1);
    assert_int_equal(fake->calls[FAKE_cuFuncLoad], 1);
    assert_int_equal(kpk_preload(fixture->image, some, 0), KPK_OK);
    fake->context = NULL; /* nowhere to put the code yet */
    assert_int_equal(kpk_preload(fixture->image, NULL, 0), KPK_OK);
    assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 4);
    assert_int_equal(fake->calls[FAKE_cuLibraryGetKernel], 5);
    assert_int_equal(fake->calls[FAKE_cuFuncLoad], 1);
    unsigned long calls = fake_cuda_calls();
    assert_int_equal(fixture_launch(fixture, "gamma", "bare", 0), KPK_ERR_ARGUMENT);
    assert_int_equal(fixture_launch(fixture, "beta", "plain", 0), KPK_OK);
    assert_int_equal(fake_cuda_calls(), calls + 1);
}

static void test_resident(void **state)
{
    struct fixture *fixture = *state;
    kpk_kernel set[] = {kpk_resolve(fixture->image, "alpha", "two"),
                        {0},
                        kpk_resolve(fixture->image, "beta", "big")};
    assert_false(kpk_resident(fixture->image, set, 3));
    assert_true(kpk_resident(fixture->image, set + 1, 1));
    assert_true(kpk_resident(fixture->image, set, 0));
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_false(kpk_resident(fixture->image, set, 3));
    assert_int_equal(kpk_preload(fixture->image, set, 3), KPK_OK);
    assert_true(kpk_resident(fixture->image, set, 3));
    assert_false(kpk_resident(fixture->image, NULL, 0));
    assert_int_equal(kpk_preload(fixture->image, NULL, 0), KPK_OK);
    assert_true(kpk_resident(fixture->image, NULL, 0));
    unsigned long calls = fake_cuda_calls();
    kpk_trim(fixture->image);
    assert_true(kpk_resident(fixture->image, NULL, 0));
    set[1].id = 1;
    assert_false(kpk_resident(fixture->image, set, 3));
    assert_false(kpk_resident(NULL, NULL, 0));
    assert_int_equal(fake_cuda_calls(), calls);
}

static void test_trim(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    kpk_trim(fixture->image);
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_OK);
    kpk_trim(fixture->image);
    assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "beta", "plain", 0), KPK_OK);
    assert_string_equal(fake->loaded_text, "FAKE _Z5plaini");
    kpk_trim(fixture->image);
    assert_int_equal(fixture_launch(fixture, "alpha", "two", 0), KPK_OK);
}

static void test_function(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    kpk_kernel one = kpk_resolve(fixture->image, "alpha", "one");
    void *function = state;
    assert_int_equal(kpk_function(fixture->image, one, &function), KPK_ERR_NOT_BOUND);
    assert_null(function);
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_int_equal(kpk_function(fixture->image, one, &function), KPK_OK);
    assert_non_null(function);
    assert_int_equal(kpk_function(fixture->image, one, NULL), KPK_ERR_ARGUMENT);
    fake->fail_with[FAKE_cuLaunchKernel] = 700;
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_ERR_DRIVER);
    assert_message(fixture, "the launch of 'alpha:one' failed with CUDA_ERROR_FAKE (700)");
    fake->fail_with[FAKE_cuLaunchKernel] = 0;
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_OK);
}

static void test_null_arguments(void **state)
{
    struct fixture *fixture = *state;
    kpk_image *image = NULL;
    kpk_kernel none = {0};
    assert_int_equal(kpk_open(NULL, NULL, &image), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_open("x", NULL, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_open_memory(NULL, 8, NULL, &image), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_open_memory(fixture->bytes.data + 4, 8, NULL, &image), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_open_memory(fixture->bytes.data, 8, NULL, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_bind(NULL, 0), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_launch(NULL, none, grid_of(1, 1, 1), 0, NULL, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_preload(NULL, NULL, 0), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_verify(NULL), KPK_ERR_ARGUMENT);
    assert_null(kpk_driver_symbol(NULL, "cuInit"));
    assert_null(kpk_driver_symbol(fixture->image, NULL));
    kpk_trim(NULL);
    kpk_close(NULL);
}

static void test_texts(void **state)
{
    (void)state;
    for (int i = -1; i <= KPK_STATUS_COUNT + 1; i++) {
        const char *text = kpk_status_text((kpk_status)i);
        assert_non_null(text);
        assert_int_equal(strcmp(text, "unknown status") == 0, i < 0 || i >= KPK_STATUS_COUNT);
    }
    for (int i = 0; i <= KPK_ABSENT_DAMAGED; i++)
        assert_string_not_equal(kpk_absence_text((kpk_absence)i), "unknown absence");
    assert_string_equal(kpk_absence_text((kpk_absence)99), "unknown absence");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_start, fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_resolves_without_driver),
        TEST(test_launches),
        TEST(test_shared_memory_of_a_launch),
        TEST(test_opts_in_to_shared_memory),
        TEST(test_shared_memory_over_the_device),
        TEST(test_block_of_the_caller),
        TEST(test_foreign_handles),
        TEST(test_unbound),
        TEST(test_entry_missing_in_cubin),
        TEST(test_preload),
        TEST(test_resident),
        TEST(test_trim),
        TEST(test_function),
        TEST(test_null_arguments),
        TEST(test_texts),
    };
    return cmocka_run_group_tests_name("runtime", tests, NULL, NULL);
}
