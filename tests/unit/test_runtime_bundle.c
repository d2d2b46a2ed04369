#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "build_bundle.h"
#include "runtime_fixture.h"

enum {
    HOPPER = 1, /* of build_two's parts */
};

static int start(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    if (fixture == NULL)
        return 1;
    fixture->bytes = build_two();
    fake_cuda_reset();
    *state = fixture;
    return fixture_reopen(fixture) != KPK_OK;
}

static void set_device(int ordinal, int major, int minor)
{
    fake_cuda_state()->device_count = ordinal + 1;
    fake_cuda_state()->devices[ordinal] = fake_cuda_state()->devices[0];
    fake_cuda_state()->devices[ordinal].major = major;
    fake_cuda_state()->devices[ordinal].minor = minor;
}

static const char *target_of(const kpk_image *image)
{
    kpk_image_info info;
    assert_int_equal(kpk_get_image(image, &info), KPK_OK);
    return info.target;
}

static kpk_status preload_one(kpk_image *image)
{
    kpk_kernel kernel = kpk_resolve(image, "alpha", "one");
    return kernel.id == 0 ? KPK_ERR_ABSENT : kpk_preload(image, &kernel, 1);
}

static void test_parts(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(kpk_part_count(fixture->image), 2);
    kpk_part_info part;
    assert_int_equal(kpk_get_part(fixture->image, HOPPER, &part), KPK_OK);
    assert_string_equal(part.target, "hopper");
    assert_string_equal(part.arch, "sm_90a");
    assert_int_equal(part.compute_major, 9);
    assert_int_equal(part.min_driver, 12040);
    struct build_bytes whole = build_for("hopper", "sm_90a", 9, 0);
    assert_int_equal(part.offset % 4096, 0);
    assert_int_equal(part.size, whole.size);
    assert_memory_equal(fixture->bytes.data + part.offset, whole.data, whole.size);
    free(whole.data);
    assert_int_equal(kpk_get_part(fixture->image, 2, &part), KPK_ERR_ARGUMENT);
    assert_null(part.target);
    assert_int_equal(kpk_get_part(NULL, 0, &part), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_part(fixture->image, 0, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_part_count(NULL), 0);
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_int_equal(kpk_part_count(fixture->image), 2);
}

/* Before the part is picked nothing pretends to know. */
static void test_before_bind(void **state)
{
    struct fixture *fixture = *state;
    kpk_image *image = fixture->image;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(kpk_resolve(image, "alpha", "one").id, 0);
        assert_int_equal(fixture->messages, 1);
    }
    assert_int_equal(fixture->severity, KPK_ERROR);
    assert_non_null(strstr(fixture->message, "'alpha:one' is looked up in a bundle whose part is "
                                             "not picked: call kpk_bind first"));
    assert_int_equal(kpk_unexpected_absences(image, NULL, 0), 0);
    assert_false(kpk_has_module(image, "alpha"));
    assert_int_equal(kpk_absent_reason(image, "alpha", "one"), KPK_ABSENT_NOT_BOUND);
    assert_non_null(strstr(kpk_absence_text(KPK_ABSENT_NOT_BOUND), "not bound"));
    kpk_image_info info;
    kpk_module_info module;
    kpk_lever lever;
    uint32_t index;
    int64_t value;
    const char *text;
    void *function;
    uint8_t byte;
    assert_int_equal(kpk_get_image(image, &info), KPK_ERR_NOT_BOUND);
    assert_null(info.target);
    assert_int_equal(kpk_get_module(image, 0, &module), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_find_module(image, "alpha", &index), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_get_constant(image, 0, 0, &text, &value), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_get_flag(image, 0, 0, &text), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_constant(image, "alpha", "CHUNK", &value), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_find_lever(image, "switch", &lever), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_read_blob(image, 0, &byte, 1), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_preload(image, NULL, 0), KPK_ERR_NOT_BOUND);
    assert_false(kpk_resident(image, NULL, 0));
    /* A handle of an earlier open is none yet. */
    kpk_kernel old = {(uint64_t)1 << 32 | 1};
    assert_int_equal(kpk_launch(image, old, grid_of(1, 1, 1), 0, NULL, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_function(image, old, &function), KPK_ERR_ARGUMENT);
    kpk_trim(image);
    assert_int_equal(fake_cuda_calls(), 0);
}

static void test_bind_picks(void **state)
{
    struct fixture *fixture = *state;
    kpk_image *image = fixture->image;
    assert_int_equal(kpk_bind(image, 0), KPK_OK);
    assert_string_equal(target_of(image), "hopper");
    assert_int_equal(kpk_absent_reason(image, "alpha", "one"), KPK_PRESENT);
    kpk_kernel one = kpk_resolve(image, "alpha", "one");
    assert_int_equal(kpk_launch(image, one, grid_of(3, 1, 1), 0, NULL, NULL), KPK_OK);
    assert_string_equal(fake_cuda_state()->launch[0].entry, "one");
    assert_int_equal(kpk_preload(image, NULL, 0), KPK_OK);
    assert_true(kpk_resident(image, NULL, 0));
    assert_int_equal(kpk_resolve(image, "alpha", "missing").id, 0);
    assert_int_equal(kpk_unexpected_absences(image, NULL, 0), 1);
    assert_int_equal(kpk_verify(image), KPK_OK);

    /* The handles are those of the image by itself, and its size too. */
    struct build_bytes whole = build_for("hopper", "sm_90a", 9, 0);
    kpk_image *single;
    assert_int_equal(kpk_open_memory(whole.data, whole.size, NULL, &single), KPK_OK);
    assert_true(kpk_resolve(single, "alpha", "one").id == one.id);
    kpk_image_info a, b;
    assert_int_equal(kpk_get_image(image, &a), KPK_OK);
    assert_int_equal(kpk_get_image(single, &b), KPK_OK);
    assert_int_equal(a.file_bytes, b.file_bytes);
    assert_int_equal(kpk_part_count(single), 0);
    kpk_close(single);
    free(whole.data);

    /* Another device that runs the part joins; one that does not is told so. */
    set_device(1, 9, 0);
    assert_int_equal(kpk_bind(image, 1), KPK_OK);
    set_device(2, 12, 1);
    assert_int_equal(kpk_bind(image, 2), KPK_ERR_WRONG_DEVICE);
    assert_non_null(strstr(fixture->message, "[hopper]: the part is for sm_90a, device 2 is "));
    assert_int_equal(kpk_launch(image, one, grid_of(3, 1, 1), 0, NULL, NULL), KPK_OK);
}

static void test_no_part_fits(void **state)
{
    struct fixture *fixture = *state;
    set_device(0, 8, 9);
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_ERR_WRONG_DEVICE);
    assert_non_null(
        strstr(fixture->message, "bundle is for sm_121a (gb10) and sm_90a (hopper), device 0 is "));
    assert_non_null(strstr(fixture->message, "with compute capability 8.9"));
    assert_int_equal(kpk_absent_reason(fixture->image, "alpha", "one"), KPK_ABSENT_WRONG_DEVICE);
    set_device(1, 12, 1); /* nothing is decided by a failure */
    assert_int_equal(kpk_bind(fixture->image, 1), KPK_OK);
    assert_string_equal(target_of(fixture->image), "gb10");
}

static void test_which_part(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *target, *arch;
        uint32_t major, minor;
    } parts[] = {
        {"a", "sm_100", 10, 0},  {"b", "sm_100a", 10, 0}, {"c", "sm_100f", 10, 0},
        {"d", "sm_103f", 10, 3}, {"e", "sm_120f", 12, 0}, {"f", "sm_80", 8, 0},
        {"g", "sm_90", 9, 0},    {"h", "sm_90a", 9, 0},
    };
    static const struct {
        int major, minor;
        const char *target; /* NULL: none */
    } devices[] = {
        {9, 0, "h"}, {8, 0, "f"},  {8, 9, "f"},  {10, 0, "b"}, {10, 1, "c"},  {10, 3, "d"},
        {9, 1, "g"}, {12, 0, "e"}, {12, 1, "e"}, {7, 5, NULL}, {11, 0, NULL},
    };
    enum {
        PARTS = 8
    };
    struct build_bytes images[PARTS];
    for (int i = 0; i < PARTS; i++)
        images[i] = build_for(parts[i].target, parts[i].arch, parts[i].major, parts[i].minor);
    struct build_bytes bundle = build_bundle(images, PARTS);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        kpk_open_desc desc = fixture_desc(fixture);
        kpk_image *image;
        assert_int_equal(kpk_open_memory(bundle.data, bundle.size, &desc, &image), KPK_OK);
        set_device(0, devices[i].major, devices[i].minor);
        kpk_status status = kpk_bind(image, 0);
        assert_int_equal(status, devices[i].target == NULL ? KPK_ERR_WRONG_DEVICE : KPK_OK);
        if (status == KPK_OK)
            assert_string_equal(target_of(image), devices[i].target);
        for (int p = 0; status != KPK_OK && p < PARTS; p++)
            assert_non_null(strstr(fixture->message, parts[p].arch));
        kpk_close(image);
    }
    for (int i = 0; i < PARTS; i++)
        free(images[i].data);
    free(bundle.data);
}

static kpk_status open_target(struct fixture *fixture, const struct build_bytes *bytes,
                              const char *target, kpk_image **out_image)
{
    kpk_open_desc desc = fixture_desc(fixture);
    desc.target = target;
    return kpk_open_memory(bytes->data, bytes->size, &desc, out_image);
}

static void test_target(void **state)
{
    struct fixture *fixture = *state;
    kpk_image *image;
    char name[] = "gb10"; /* not kept */
    assert_int_equal(open_target(fixture, &fixture->bytes, name, &image), KPK_OK);
    memset(name, '?', sizeof(name));
    assert_string_equal(target_of(image), "gb10");
    assert_true(kpk_resolve(image, "alpha", "one").id != 0);
    assert_int_equal(kpk_verify(image), KPK_OK);
    assert_int_equal(kpk_bind(image, 0), KPK_ERR_WRONG_DEVICE);
    assert_non_null(strstr(fixture->message, "[gb10]: the part is for sm_121a, device 0 is "));
    set_device(1, 12, 1);
    assert_int_equal(kpk_bind(image, 1), KPK_OK);
    assert_int_equal(preload_one(image), KPK_OK);
    kpk_close(image);

    assert_int_equal(open_target(fixture, &fixture->bytes, "gb11", &image), KPK_ERR_ABSENT);
    assert_null(image);
    assert_non_null(strstr(fixture->message, "has nothing for target 'gb11', but sm_121a (gb10) "
                                             "and sm_90a (hopper)"));

    struct build_bytes single = build_for("hopper", "sm_90a", 9, 0);
    assert_int_equal(open_target(fixture, &single, "hopper", &image), KPK_OK);
    kpk_close(image);
    assert_int_equal(open_target(fixture, &single, "gb10", &image), KPK_ERR_ABSENT);
    assert_non_null(strstr(fixture->message, "is for target 'hopper', not for 'gb10'"));
    free(single.data);
}

static void test_old_driver(void **state)
{
    struct fixture *fixture = *state;
    /* The smallest need of any part is asked first, for such a driver may lack functions too. */
    fake_cuda_state()->version = 12030;
    fake_cuda_state()->hidden[FAKE_cuLibraryLoadData] = true;
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_ERR_OLD_DRIVER);
    assert_non_null(strstr(fixture->message, "CUDA 12.4 or newer, the driver here is for 12.3"));
    fake_cuda_reset();

    struct build_image newer = build_small;
    newer.target = "hopper";
    newer.min_driver = 13000;
    struct build_bytes images[2] = {build_for("gb10", "sm_121a", 12, 1), build_write(&newer)};
    struct build_bytes bundle = build_bundle(images, 2);
    kpk_image *image;
    assert_int_equal(open_target(fixture, &bundle, NULL, &image), KPK_OK);
    fake_cuda_state()->version = 12080;
    assert_int_equal(kpk_bind(image, 0), KPK_ERR_OLD_DRIVER);
    assert_non_null(strstr(fixture->message, "CUDA 13.0 or newer, the driver here is for 12.8"));
    assert_int_equal(kpk_absent_reason(image, "alpha", "one"), KPK_ABSENT_WRONG_DEVICE);
    set_device(1, 12, 1);
    assert_int_equal(kpk_bind(image, 1), KPK_OK);
    kpk_close(image);
    free(images[0].data);
    free(images[1].data);
    free(bundle.data);
}

/* ---- Bytes of other parts ------------------------------------------------------------------- */

static void use_hopper(kpk_image *image)
{
    assert_int_equal(kpk_bind(image, 0), KPK_OK);
    assert_string_equal(target_of(image), "hopper");
    assert_int_equal(kpk_preload(image, NULL, 0), KPK_OK);
    assert_int_equal(kpk_verify(image), KPK_OK);
    kpk_close(image);
}

static void test_other_parts_are_garbage(void **state)
{
    struct fixture *fixture = *state;
    const struct kpk_part_record other = *build_part(&fixture->bytes, 0);
    memset(fixture->bytes.data + other.offset, 0x5a, other.size);
    kpk_image *image;
    const char *path = fixture_file(&fixture->bytes);
    kpk_open_desc desc = fixture_desc(fixture);
    assert_int_equal(kpk_open(path, &desc, &image), KPK_OK);
    assert_int_equal(kpk_verify(image), KPK_ERR_DAMAGED);
    use_hopper(image);
    unlink(path);
    assert_int_equal(open_target(fixture, &fixture->bytes, NULL, &image), KPK_OK);
    use_hopper(image);
    /* And is damage only where it is used. */
    set_device(1, 12, 1);
    assert_int_equal(open_target(fixture, &fixture->bytes, NULL, &image), KPK_OK);
    assert_int_equal(kpk_bind(image, 1), KPK_ERR_DAMAGED);
    assert_non_null(strstr(fixture->message, "[gb10]: is not the image that the part table names"));
    assert_int_equal(kpk_absent_reason(image, "alpha", "one"), KPK_ABSENT_DAMAGED);
    use_hopper(image);
    assert_int_equal(open_target(fixture, &fixture->bytes, "gb10", &image), KPK_ERR_DAMAGED);
}

/* Pages of the other parts that may not even be read. */
static void test_other_parts_are_unreadable(void **state)
{
    struct fixture *fixture = *state;
    size_t size = (fixture->bytes.size + 4095) & ~(size_t)4095;
    const struct kpk_part_record gb10 = *build_part(&fixture->bytes, 0);
    const struct kpk_part_record hopper = *build_part(&fixture->bytes, HOPPER);
    if (sysconf(_SC_PAGESIZE) != 4096) {
        printf("# SKIP pages here are not of 4096 bytes\n");
        skip();
    }
    for (int way = 0; way < 2; way++) {
        uint8_t *bytes =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(bytes != MAP_FAILED);
        memcpy(bytes, fixture->bytes.data, fixture->bytes.size);
        struct build_bytes bundle = {bytes, fixture->bytes.size};
        kpk_image *image;
        /* Open with nothing but the table readable. */
        assert_int_equal(mprotect(bytes + gb10.offset, size - gb10.offset, PROT_NONE), 0);
        assert_int_equal(open_target(fixture, &bundle, NULL, &image), KPK_OK);
        const struct kpk_part_record *used = way == 0 ? &hopper : &gb10;
        size_t used_size = (used->size + 4095) & ~(size_t)4095;
        assert_int_equal(mprotect(bytes + used->offset, used_size, PROT_READ), 0);
        set_device(0, way == 0 ? 9 : 12, way == 0 ? 0 : 1);
        assert_int_equal(kpk_bind(image, 0), KPK_OK);
        assert_int_equal(kpk_preload(image, NULL, 0), KPK_OK);
        assert_int_equal(kpk_verify(image), KPK_OK);
        kpk_close(image);
        munmap(bytes, size);
    }
}

/* An overlay needs to know what it looks through. */
static void test_overlay(void **state)
{
    struct fixture *fixture = *state;
    struct build_bytes bytes = build_for("fix", "sm_90a", 9, 0);
    kpk_image *fix, *overlay;
    assert_int_equal(open_target(fixture, &bytes, NULL, &fix), KPK_OK);
    assert_int_equal(kpk_overlay(fixture->image, fix, &overlay), KPK_ERR_NOT_BOUND);
    assert_non_null(strstr(fixture->message, "call kpk_bind before kpk_overlay"));
    assert_int_equal(kpk_overlay(fix, fixture->image, &overlay), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    assert_int_equal(kpk_overlay(fixture->image, fix, &overlay), KPK_OK);
    assert_true(kpk_resolve(overlay, "alpha", "one").id == kpk_resolve(fix, "alpha", "one").id);
    kpk_close(overlay);
    kpk_close(fix);
    free(bytes.data);
}

/* A fault while the part is read leaves the bundle as it was, for the next try. */
static void test_part_mended(void **state)
{
    struct fixture *fixture = *state;
    struct build_bytes *bytes = &fixture->bytes;
    const struct kpk_part_record hopper = *build_part(bytes, HOPPER);
    for (size_t at = 0; at < 2000; at += 100) {
        kpk_image *image;
        bytes->data[hopper.offset + at] ^= 1;
        assert_int_equal(open_target(fixture, bytes, NULL, &image), KPK_OK);
        assert_int_equal(kpk_bind(image, 0), KPK_ERR_DAMAGED);
        assert_int_equal(kpk_get_image(image, &(kpk_image_info){0}), KPK_ERR_NOT_BOUND);
        bytes->data[hopper.offset + at] ^= 1;
        use_hopper(image);
    }
}

/* ---- Threads -------------------------------------------------------------------------------- */

enum {
    THREADS = 8
};

struct user {
    kpk_image *image;
    kpk_status status;
};

/* Whoever comes first picks; the others wait for it, or are told that it is not bound. */
static void *use_from_thread(void *argument)
{
    struct user *user = argument;
    kpk_image_info info;
    kpk_resolve(user->image, "alpha", "one");
    kpk_status early = kpk_get_image(user->image, &info);
    user->status = early == KPK_OK || early == KPK_ERR_NOT_BOUND ? KPK_OK : early;
    if (user->status == KPK_OK)
        user->status = kpk_bind(user->image, 0);
    if (user->status == KPK_OK)
        user->status = kpk_launch(user->image, kpk_resolve(user->image, "alpha", "one"),
                                  grid_of(1, 1, 1), 0, NULL, NULL);
    return NULL;
}

static void test_threads(void **state)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < 20; round++) {
        pthread_t threads[THREADS];
        struct user users[THREADS];
        kpk_open_desc desc = {.symbol = fake_cuda_symbol};
        kpk_image *image;
        fake_cuda_reset();
        assert_int_equal(kpk_open_memory(fixture->bytes.data, fixture->bytes.size, &desc, &image),
                         KPK_OK);
        for (int i = 0; i < THREADS; i++) {
            users[i] = (struct user){image, KPK_OK};
            assert_int_equal(pthread_create(&threads[i], NULL, use_from_thread, &users[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(users[i].status, KPK_OK);
        }
        assert_int_equal(fake_cuda_state()->calls[FAKE_cuLibraryLoadData], 1);
        assert_int_equal(fake_cuda_state()->launches, THREADS);
        kpk_close(image);
    }
}

static int stop(void **state)
{
    return fixture_stop(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_parts),
        TEST(test_before_bind),
        TEST(test_bind_picks),
        TEST(test_no_part_fits),
        TEST(test_which_part),
        TEST(test_target),
        TEST(test_old_driver),
        TEST(test_other_parts_are_garbage),
        TEST(test_other_parts_are_unreadable),
        TEST(test_overlay),
        TEST(test_part_mended),
        TEST(test_threads),
    };
    return cmocka_run_group_tests_name("runtime_bundle", tests, NULL, NULL);
}
