/* The image and the driver: devices, versions, and what each of the driver's errors becomes. */
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

static void test_wrong_device(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    fake->devices[0] = (struct fake_device){12, 1, 49152, 101376, "NVIDIA GB10"};
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_ERR_WRONG_DEVICE);
    assert_string_equal(fixture->message,
                        "image in memory: image is for sm_90a, device 0 is 'NVIDIA GB10' with "
                        "compute capability 12.1");
    assert_int_equal(kpk_absent_reason(fixture->image, "alpha", "one"), KPK_ABSENT_WRONG_DEVICE);
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_ERR_NOT_BOUND);
    fake->fail_with[FAKE_cuDeviceGetName] = 1;
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_ERR_WRONG_DEVICE);
    assert_message(fixture, "device 0 is '' with compute capability 12.1");
    fake->devices[0].major = 9;
    fake->devices[0].minor = 0;
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_int_equal(kpk_absent_reason(fixture->image, "alpha", "one"), KPK_PRESENT);
}

static void test_arch_rule(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    static const struct {
        const char *arch;
        unsigned major, minor;
        int device_major, device_minor;
        bool fits;
    } cases[] = {
        {"sm_90a", 9, 0, 9, 0, true},     {"sm_90a", 9, 0, 9, 1, false},
        {"sm_90a", 9, 0, 8, 9, false},    {"sm_121a", 12, 1, 12, 1, true},
        {"sm_121a", 12, 1, 12, 0, false}, {"sm_120f", 12, 0, 12, 0, true},
        {"sm_120f", 12, 0, 12, 1, true},  {"sm_120f", 12, 0, 10, 0, false},
        {"sm_121f", 12, 1, 12, 0, false}, {"sm_80", 8, 0, 8, 9, true},
        {"sm_89", 8, 9, 8, 6, false},     {"sm_80", 8, 0, 9, 0, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct build_image image = build_small;
        image.arch = cases[i].arch;
        image.compute_major = cases[i].major;
        image.compute_minor = cases[i].minor;
        free(fixture->bytes.data);
        fixture->bytes = build_write(&image);
        assert_int_equal(fixture_reopen(fixture), KPK_OK);
        fake->devices[0].major = cases[i].device_major;
        fake->devices[0].minor = cases[i].device_minor;
        assert_int_equal(kpk_bind(fixture->image, 0),
                         cases[i].fits ? KPK_OK : KPK_ERR_WRONG_DEVICE);
    }
}

static void test_old_driver(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    fake->version = 12030;
    fake->hidden[FAKE_cuLibraryLoadData] = true;
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_ERR_OLD_DRIVER);
    assert_message(fixture, "image needs a driver for CUDA 12.4 or newer, the driver here is for "
                            "12.3");
    assert_int_equal(kpk_absent_reason(fixture->image, "alpha", "one"), KPK_ABSENT_WRONG_DEVICE);
    assert_int_equal(fake->calls[FAKE_cuInit], 0);
}

static void test_missing_symbols(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    static const char *const names[] = {
#define NAME(name) #name,
        FAKE_CUDA_FUNCTIONS(NAME)
#undef NAME
    };
    for (int i = 0; i < FAKE_FUNCTION_COUNT; i++) {
        kpk_close(fixture->image);
        fixture->image = NULL;
        fake_cuda_reset();
        fake->hidden[i] = true;
        assert_int_equal(fixture_reopen(fixture), KPK_OK);
        kpk_status status = kpk_bind(fixture->image, 0);
        /* Newer than the least driver, and the launchers' own. */
        if (i == FAKE_cuFuncLoad || i == FAKE_cuLaunchKernelEx) {
            assert_int_equal(status, KPK_OK);
            assert_int_equal(kpk_preload(fixture->image, NULL, 0), KPK_OK);
            continue;
        }
        assert_int_equal(status, KPK_ERR_NO_DRIVER);
        assert_message(fixture, names[i]);
    }
}

/* Every call of every function fails once; nothing leaks (the tear-down counts libraries), and what
 * is not the cubin's fault works when tried again. */
static void test_each_call_fails(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    for (int function = 0; function < FAKE_FUNCTION_COUNT; function++) {
        for (unsigned long call = 1;; call++) {
            kpk_close(fixture->image);
            fixture->image = NULL;
            assert_int_equal(fake->libraries, 0);
            fake_cuda_reset();
            fake->device_count = 2;
            fake->fail_with[function] = 2; /* CUDA_ERROR_OUT_OF_MEMORY: may pass */
            fake->fail_call[function] = call;
            assert_int_equal(fixture_reopen(fixture), KPK_OK);
            kpk_status status = kpk_bind(fixture->image, 0);
            if (status == KPK_OK)
                status = kpk_preload(fixture->image, NULL, 0);
            if (status == KPK_OK)
                status = kpk_bind(fixture->image, 1);
            if (status == KPK_OK)
                status = fixture_launch(fixture, "alpha", "one", 0);
            if (fake->calls[function] < call) {
                assert_int_equal(status, KPK_OK);
                break;
            }
            if (function == FAKE_cuCtxGetCurrent || function == FAKE_cuLibraryUnload) {
                assert_int_equal(status, KPK_OK);
                continue;
            }
            assert_int_equal(status, KPK_ERR_DRIVER);
            assert_message(fixture, "CUDA_ERROR_FAKE (2)");
            assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
            assert_int_equal(kpk_preload(fixture->image, NULL, 0), KPK_OK);
            assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_OK);
        }
    }
}

static void test_no_error_texts(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    fake->fail_with[FAKE_cuGetErrorName] = 1;
    fake->fail_with[FAKE_cuGetErrorString] = 1;
    fake->fail_with[FAKE_cuInit] = 100;
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_ERR_DRIVER);
    assert_message(fixture, "cuInit failed with an unknown error (100)");
}

/* Each failed call says which kernel or device it was about, in the driver's words. */
static void test_driver_errors_are_named(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    static const struct {
        enum fake_function function;
        int error;
        kpk_status status;
        const char *message;
    } cases[] = {
        {FAKE_cuDriverGetVersion, 3, KPK_ERR_DRIVER, "cuDriverGetVersion failed with"},
        {FAKE_cuInit, 100, KPK_ERR_DRIVER, "cuInit failed with"},
        {FAKE_cuDeviceGet, 101, KPK_ERR_DRIVER, "cuDeviceGet of device 0 failed with"},
        {FAKE_cuDeviceGetAttribute, 1, KPK_ERR_DRIVER,
         "cuDeviceGetAttribute of device 0 failed with"},
        {FAKE_cuLibraryLoadData, 200, KPK_ERR_LOAD,
         "cuLibraryLoadData of module 'alpha' failed with"},
        {FAKE_cuLibraryLoadData, 218, KPK_ERR_LOAD, "of module 'alpha' failed with"},
        {FAKE_cuLibraryLoadData, 222, KPK_ERR_LOAD, "of module 'alpha' failed with"},
        {FAKE_cuLibraryLoadData, 300, KPK_ERR_LOAD, "of module 'alpha' failed with"},
        {FAKE_cuLibraryLoadData, 2, KPK_ERR_DRIVER, "of module 'alpha' failed with"},
        {FAKE_cuLibraryGetKernel, 4, KPK_ERR_DRIVER,
         "cuLibraryGetKernel of 'alpha:one' failed with"},
        {FAKE_cuKernelSetAttribute, 1, KPK_ERR_DRIVER,
         "cuKernelSetAttribute for 200000 bytes of shared memory of 'beta:big' on device 0 failed "
         "with"},
        {FAKE_cuKernelGetFunction, 201, KPK_ERR_DRIVER,
         "cuKernelGetFunction of 'alpha:one' failed with"},
        {FAKE_cuFuncLoad, 209, KPK_ERR_LOAD, "cuFuncLoad of 'alpha:one' failed with"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_cuda_reset();
        assert_int_equal(fixture_reopen(fixture), KPK_OK);
        fake->fail_with[cases[i].function] = cases[i].error;
        kpk_status status = kpk_bind(fixture->image, 0);
        if (status == KPK_OK)
            status = kpk_preload(fixture->image, NULL, 0);
        assert_int_equal(status, cases[i].status);
        assert_message(fixture, cases[i].message);
        assert_message(fixture, cases[i].error == 209 ? "(209): no kernel image is available"
                                                      : ": the fake driver was told to fail");
        kpk_close(fixture->image);
        fixture->image = NULL;
    }
}

/* Whichever call the driver refuses while a stream is captured: a status and a remedy, and nothing
 * that stays. */
static void test_first_use_in_a_capture(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    static const struct {
        enum fake_function function;
        const char *call;
    } refused[] = {
        {FAKE_cuLibraryLoadData, "cuLibraryLoadData of module 'beta'"},
        {FAKE_cuLibraryGetKernel, "cuLibraryGetKernel of 'beta:big'"},
        {FAKE_cuKernelSetAttribute,
         "cuKernelSetAttribute for 200000 bytes of shared memory of 'beta:big' on device 0"},
        {FAKE_cuLaunchKernel, "the launch of 'beta:big'"},
    };
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(fixture_reopen(fixture), KPK_OK);
        assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
        for (int error = 900; error <= 901; error++) {
            fake->fail_with[refused[i].function] = error;
            assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_ERR_CAPTURE);
            assert_message(fixture, refused[i].call);
            assert_message(fixture, "; call kpk_preload before the capture begins");
        }
        fake->fail_with[refused[i].function] = 900;
        assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_ERR_CAPTURE);
        assert_message(fixture, " failed with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): "
                                "operation not permitted when stream is capturing; call");
        assert_int_equal(kpk_absent_reason(fixture->image, "beta", "big"), KPK_PRESENT);
        fake->fail_with[refused[i].function] = 0;
        assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_OK);
    }
    /* After a preload the driver is asked for nothing but the launch. */
    assert_int_equal(kpk_preload(fixture->image, NULL, 0), KPK_OK);
    for (int i = 0; i < FAKE_FUNCTION_COUNT; i++)
        fake->fail_with[i] = i == FAKE_cuLaunchKernel ? 0 : 900;
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "beta", "plain", 0), KPK_OK);
}

static void test_cubin_refused(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    fake->fail_with[FAKE_cuLibraryLoadData] = 209;
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_ERR_LOAD);
    assert_message(fixture, "cuLibraryLoadData of module 'alpha' failed with "
                            "CUDA_ERROR_NO_BINARY_FOR_GPU (209): no kernel image is available");
    assert_int_equal(kpk_absent_reason(fixture->image, "alpha", "two"), KPK_ABSENT_LOAD_FAILED);
    assert_int_equal(kpk_absent_reason(fixture->image, "gamma", "bare"), KPK_PRESENT);
    fake->fail_with[FAKE_cuLibraryLoadData] = 0;
    /* It stays refused, quietly: a launcher that falls back must not pay for it each time. */
    unsigned messages = fixture->messages;
    assert_int_equal(fixture_launch(fixture, "alpha", "two", 0), KPK_ERR_LOAD);
    assert_int_equal(fixture->messages, messages);
    assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 1);
    assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_OK);
}

static void test_several_devices(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    fake->device_count = 4;
    fake->devices[2].max_smem_optin = 150000;
    fake->devices[3].major = 8;
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_OK);
    assert_int_equal(fake->attributes, 1);
    assert_int_equal(fake->attribute_device, 0);
    /* A kernel that is loaded already is made ready for the new device. */
    assert_int_equal(kpk_bind(fixture->image, 1), KPK_OK);
    assert_int_equal(fake->attributes, 2);
    assert_int_equal(fake->attribute_device, 1);
    assert_int_equal(kpk_bind(fixture->image, 1), KPK_OK);
    assert_int_equal(fake->attributes, 2);
    assert_int_equal(fixture->messages, 0);
    assert_int_equal(kpk_bind(fixture->image, 2), KPK_OK);
    assert_int_equal(fixture->severity, KPK_WARNING);
    assert_message(fixture, "'beta:big' needs more shared memory than device 2 has");
    assert_int_equal(fake->attributes, 2);
    assert_int_equal(kpk_bind(fixture->image, 3), KPK_ERR_WRONG_DEVICE);
    assert_int_equal(kpk_bind(fixture->image, 4), KPK_ERR_DRIVER);
    assert_int_equal(kpk_bind(fixture->image, -1), KPK_ERR_ARGUMENT);
    /* A failed bind takes nothing away from the devices that are bound. */
    assert_int_equal(fixture_launch(fixture, "alpha", "one", 0), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "beta", "plain", 0), KPK_OK);
    assert_int_equal(fake->attributes, 5);
}

/* One handle, four devices: loaded once, opted in on each, launched in a context of each. */
static void test_one_handle_on_four_devices(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    fake->device_count = 4;
    kpk_kernel big = kpk_resolve(fixture->image, "beta", "big");
    for (int when = 0; when < 2; when++) {
        assert_int_equal(fixture_reopen(fixture), KPK_OK);
        memset(fake->calls, 0, sizeof(fake->calls));
        fake->attributes = 0;
        for (int device = 0; device < 4; device++) {
            assert_int_equal(kpk_bind(fixture->image, device), KPK_OK);
            if (when == 1 && device == 1) /* loaded when two are bound, two to come */
                assert_int_equal(kpk_preload(fixture->image, &big, 1), KPK_OK);
        }
        void *function = NULL, *again = NULL;
        for (int device = 0; device < 4; device++) {
            fake->context_device = device;
            unsigned long before = fake->launches_on[device];
            assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_OK);
            assert_int_equal(fake->launches_on[device], before + 1);
            assert_int_equal(kpk_function(fixture->image, big, &again), KPK_OK);
            assert_true(function == NULL || function == again);
            function = again;
        }
        assert_int_equal(fake->calls[FAKE_cuInit], 1);
        assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 1);
        assert_int_equal(fake->calls[FAKE_cuLibraryGetKernel], 1);
        assert_int_equal(fake->attributes, 4);
        fake->context_device = 0;
    }
    /* A device that is not bound has not been asked for the shared memory. */
    assert_int_equal(fixture_reopen(fixture), KPK_OK);
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    fake->context_device = 3;
    assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_ERR_DRIVER);
    assert_message(fixture, "the launch of 'beta:big' failed with");
    assert_int_equal(kpk_bind(fixture->image, 3), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_OK);
    /* One of four is too small: it is named, and so are both sizes. */
    assert_int_equal(fixture_reopen(fixture), KPK_OK);
    fake->devices[2].max_smem_optin = 101376;
    for (int device = 0; device < 4; device++)
        assert_int_equal(kpk_bind(fixture->image, device), KPK_OK);
    assert_int_equal(fixture_launch(fixture, "beta", "big", 0), KPK_ERR_SMEM);
    assert_message(fixture, "'beta:big' needs 200000 bytes of dynamic and 1000 of static shared "
                            "memory, device 2 has 101376 for a block");
}

static void test_driver_libraries(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *path;
        kpk_status status;
        const char *message;
    } cases[] = {
        {FAKE "/libcuda.so.1", KPK_OK, NULL},
        {"/nowhere/libcuda.so.1", KPK_ERR_NO_DRIVER,
         "cannot open the CUDA driver '/nowhere/libcuda.so.1'"},
        {FAKE "/old/libcuda.so.1", KPK_ERR_NO_DRIVER, "has no function 'cuLibraryLoadData'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kpk_open_desc desc = fixture_desc(fixture);
        desc.symbol = NULL;
        char path[64];
        snprintf(path, sizeof(path), "%s", cases[i].path);
        desc.driver_path = path;
        kpk_image *image = NULL;
        assert_int_equal(kpk_open_memory(fixture->bytes.data, fixture->bytes.size, &desc, &image),
                         KPK_OK);
        memset(path, 'x', sizeof(path) - 1); /* the desc is copied */
        kpk_status status = kpk_bind(image, 0);
        if (status != cases[i].status)
            print_error("%s\n", fixture->message);
        assert_int_equal(status, cases[i].status);
        if (cases[i].message != NULL)
            assert_message(fixture, cases[i].message);
        else
            assert_int_equal(kpk_preload(image, NULL, 0), KPK_OK);
        kpk_close(image);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_start, fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_wrong_device),
        TEST(test_arch_rule),
        TEST(test_old_driver),
        TEST(test_missing_symbols),
        TEST(test_each_call_fails),
        TEST(test_no_error_texts),
        TEST(test_driver_errors_are_named),
        TEST(test_first_use_in_a_capture),
        TEST(test_cubin_refused),
        TEST(test_several_devices),
        TEST(test_one_handle_on_four_devices),
        TEST(test_driver_libraries),
    };
    return cmocka_run_group_tests_name("runtime_driver", tests, NULL, NULL);
}
