/* An image in front of another: what answers, what is counted, who frees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/kpk_image.h"
#include "runtime_fixture.h"

/* The fix: alpha:one anew, with other shared memory; delta, which the base has not. */
static const struct build_entry fixed_alpha[] = {
    {.name = "one", .block = {64, 1, 1}, .present = KPK_PRESENT_ALL, .dynamic_smem = 2048}};
static const struct build_entry fixed_delta[] = {
    {.name = "new", .block = {32, 1, 1}, .present = KPK_PRESENT_ALL}};
static const struct build_constant alpha_constants[] = {{"CHUNK", 64}, {"K_DIM", -128}};
static const uint32_t first[] = {0}, second[] = {1};
static const struct build_module fixed_modules[] = {
    {"alpha", fixed_alpha, 1, first, 1, alpha_constants, 2, NULL, 0},
    {"delta", fixed_delta, 1, second, 1, NULL, 0, NULL, 0},
};
static const char *const fixed_blobs[] = {"FAKE one fixed", "FAKE new"};
static const struct build_lever fixed_levers[] = {
    {"extra", "KPK_TEST_EXTRA", "of the fix", KPK_LEVER_TEXT, 0},
    {"switch", "KPK_TEST_SWITCH", NULL, KPK_LEVER_SWITCH, 0},
};
static const struct build_absent fixed_absents[] = {{"delta", "later", "not yet"},
                                                    {"gamma", "bare", "the fix does not have it"}};
static const struct build_image fixed = {
    .target = "fix",
    .arch = "sm_90a",
    .compute_major = 9,
    .min_driver = 12080,
    .sm_count = 7,
    .modules = fixed_modules,
    .module_count = 2,
    .blobs = fixed_blobs,
    .blob_count = 2,
    .levers = fixed_levers,
    .lever_count = 2,
    .absents = fixed_absents,
    .absent_count = 2,
};

struct pair {
    struct build_bytes bytes;
    kpk_image *front, *overlay;
};

static kpk_image *open_bytes(struct fixture *fixture, const struct build_bytes *bytes)
{
    kpk_open_desc desc = fixture_desc(fixture);
    kpk_image *image = NULL;
    assert_int_equal(kpk_open_memory(bytes->data, bytes->size, &desc, &image), KPK_OK);
    return image;
}

static struct pair open_front(struct fixture *fixture, const struct build_image *image)
{
    struct pair pair = {.bytes = build_write(image)};
    pair.front = open_bytes(fixture, &pair.bytes);
    return pair;
}

static struct pair lay(struct fixture *fixture)
{
    struct pair pair = open_front(fixture, &fixed);
    assert_int_equal(kpk_overlay(fixture->image, pair.front, &pair.overlay), KPK_OK);
    return pair;
}

static void lift(struct pair *pair)
{
    kpk_close(pair->overlay);
    kpk_close(pair->front);
    free(pair->bytes.data);
}

static kpk_status launch(kpk_image *image, const char *module, const char *entry)
{
    kpk_kernel kernel = kpk_resolve(image, module, entry);
    return kpk_launch(image, kernel, grid_of(1, 1, 1), 0, NULL, NULL);
}

static void test_answers_by_entry(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    struct pair pair = lay(fixture);
    kpk_image *overlay = pair.overlay;
    assert_true(kpk_resolve(overlay, "alpha", "one").id ==
                kpk_resolve(pair.front, "alpha", "one").id);
    assert_true(kpk_resolve(overlay, "alpha", "two").id ==
                kpk_resolve(fixture->image, "alpha", "two").id);
    assert_true(kpk_resolve(overlay, "delta", "new").id != 0);
    assert_true(kpk_resolve(overlay, "beta", "big").id != 0);
    assert_true(kpk_resolve(overlay, "delta", "big").id == 0);
    assert_true(kpk_resolve(overlay, NULL, "big").id == 0);
    assert_true(kpk_has_module(overlay, "delta"));
    assert_true(kpk_has_module(overlay, "gamma"));
    assert_false(kpk_has_module(overlay, "omega"));
    assert_int_equal(fake_cuda_calls(), 0);

    assert_int_equal(launch(overlay, "alpha", "one"), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_bind(overlay, 0), KPK_OK);
    assert_int_equal(launch(overlay, "alpha", "one"), KPK_OK);
    assert_string_equal(fake->loaded_text, "FAKE one fixed");
    assert_int_equal(fake->launch[0].smem, 2048);
    assert_int_equal(launch(overlay, "alpha", "two"), KPK_OK);
    assert_string_equal(fake->loaded_text, "FAKE one two");
    assert_int_equal(fake->launch[1].block[1], 4);
    /* What one has loaded the other has too, under the same handle. */
    unsigned long calls = fake_cuda_calls();
    assert_int_equal(launch(fixture->image, "alpha", "two"), KPK_OK);
    assert_int_equal(launch(pair.front, "alpha", "one"), KPK_OK);
    assert_int_equal(fake_cuda_calls(), calls + 2);
    /* The base's own entry is still the base's. */
    assert_int_equal(launch(fixture->image, "alpha", "one"), KPK_OK);
    assert_int_equal(fake->launch[4].smem, 1024);

    kpk_kernel bare = kpk_resolve(overlay, "gamma", "bare");
    void *function = NULL;
    assert_int_equal(
        kpk_launch_block(overlay, bare, grid_of(1, 1, 1), grid_of(8, 1, 1), 0, NULL, NULL), KPK_OK);
    assert_int_equal(kpk_function(overlay, bare, &function), KPK_OK);
    assert_non_null(function);
    assert_non_null(kpk_driver_symbol(overlay, "cuInit"));
    assert_int_equal(launch(overlay, "omega", "none"), KPK_ERR_ARGUMENT);
    assert_message(fixture, "image in memory over image in memory: the handle is zero or another");
    lift(&pair);
}

static void test_what_it_says_of_itself(void **state)
{
    struct fixture *fixture = *state;
    struct pair pair = lay(fixture);
    kpk_image *overlay = pair.overlay;
    kpk_entry_info entry;
    assert_int_equal(kpk_get_kernel(overlay, kpk_resolve(overlay, "alpha", "one"), &entry), KPK_OK);
    assert_int_equal(entry.dynamic_smem, 2048);
    assert_int_equal(kpk_get_kernel(overlay, kpk_resolve(overlay, "alpha", "two"), &entry), KPK_OK);
    assert_string_equal(entry.twin_of, "alpha:one");
    assert_int_equal(kpk_get_kernel(overlay, (kpk_kernel){0}, &entry), KPK_ERR_ARGUMENT);

    kpk_lever lever;
    assert_int_equal(kpk_find_lever(overlay, "switch", &lever), KPK_OK);
    assert_false(lever.on);
    assert_int_equal(kpk_find_lever(overlay, "extra", &lever), KPK_OK);
    assert_string_equal(lever.text, "of the fix");
    assert_int_equal(kpk_find_lever(overlay, "text", &lever), KPK_OK);
    assert_string_equal(lever.text, "fallback");
    assert_int_equal(kpk_find_lever(overlay, "none", &lever), KPK_ERR_ABSENT);
    int64_t value = 0;
    assert_int_equal(kpk_constant(overlay, "alpha", "K_DIM", &value), KPK_OK);
    assert_int_equal(value, -128);
    assert_int_equal(kpk_constant(overlay, "beta", "K_DIM", &value), KPK_ERR_ABSENT);

    kpk_image_info info, base, front;
    assert_int_equal(kpk_get_image(overlay, &info), KPK_OK);
    assert_int_equal(kpk_get_image(fixture->image, &base), KPK_OK);
    assert_int_equal(kpk_get_image(pair.front, &front), KPK_OK);
    assert_string_equal(info.target, "small");
    assert_string_equal(info.arch, "sm_90a");
    assert_int_equal(info.sm_count, base.sm_count);
    assert_int_equal(info.min_driver, 12080);
    assert_int_equal(info.file_bytes, base.file_bytes + front.file_bytes);
    assert_int_equal(info.raw_bytes, base.raw_bytes + front.raw_bytes);
    assert_int_equal(info.module_count | info.entry_count | info.lever_count | info.group_count, 0);
    kpk_module_info module;
    uint32_t index = 0;
    assert_int_equal(kpk_get_module(overlay, 0, &module), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_entry(overlay, 0, &entry), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_get_lever(overlay, 0, &lever), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_find_module(overlay, "alpha", &index), KPK_ERR_ABSENT);
    assert_int_equal(kpk_get_image(overlay, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_verify(overlay), KPK_OK);
    assert_int_equal(fixture->messages, 0);
    lift(&pair);
}

static void test_absences(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    struct pair pair = lay(fixture);
    kpk_image *overlay = pair.overlay;
    kpk_resolve(overlay, "alpha", "gone");  /* declared by the base */
    kpk_resolve(overlay, "delta", "later"); /* by the front */
    kpk_resolve(overlay, "gamma", "bare");  /* declared by the front, shipped by the base */
    kpk_resolve(overlay, "alpha", "missing");
    kpk_resolve(overlay, "alpha", "missing");
    kpk_resolve(fixture->image, "delta", "new");
    kpk_miss miss[2];
    assert_int_equal(kpk_unexpected_absences(overlay, miss, 2), 1);
    assert_string_equal(miss[0].entry, "missing");
    assert_int_equal(miss[0].count, 2);
    assert_int_equal(kpk_unexpected_absences(fixture->image, miss, 2), 1);
    assert_string_equal(miss[0].module, "delta");
    assert_int_equal(kpk_unexpected_absences(pair.front, miss, 2), 0);

    assert_int_equal(kpk_absent_reason(overlay, "omega", "x"), KPK_ABSENT_MODULE);
    assert_int_equal(kpk_absent_reason(overlay, "delta", "x"), KPK_ABSENT_ENTRY);
    assert_int_equal(kpk_absent_reason(overlay, "delta", NULL), KPK_ABSENT_ENTRY);
    assert_int_equal(kpk_absent_reason(overlay, "gamma", "bare"), KPK_PRESENT);
    fake->version = 12050; /* enough for the base, not for the fix, which is bound first */
    assert_int_equal(kpk_bind(overlay, 0), KPK_ERR_OLD_DRIVER);
    assert_message(fixture, "image needs a driver for CUDA 12.8 or newer");
    assert_int_equal(kpk_absent_reason(overlay, "alpha", "one"), KPK_ABSENT_WRONG_DEVICE);
    assert_int_equal(launch(overlay, "beta", "big"), KPK_ERR_NOT_BOUND);
    fake->version = 13000;
    assert_int_equal(kpk_bind(overlay, 0), KPK_OK);
    /* A fix that the driver refuses is not its old self. */
    fake->fail_with[FAKE_cuLibraryLoadData] = 209;
    assert_int_equal(launch(overlay, "alpha", "one"), KPK_ERR_LOAD);
    fake->fail_with[FAKE_cuLibraryLoadData] = 0;
    assert_int_equal(launch(overlay, "alpha", "one"), KPK_ERR_LOAD);
    assert_int_equal(kpk_absent_reason(overlay, "alpha", "one"), KPK_ABSENT_LOAD_FAILED);
    assert_int_equal(kpk_absent_reason(overlay, "alpha", "two"), KPK_PRESENT);
    assert_int_equal(launch(overlay, "alpha", "two"), KPK_OK);
    assert_int_equal(kpk_absent_reason(fixture->image, "alpha", "one"), KPK_PRESENT);
    lift(&pair);
}

static void test_preload(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    struct pair pair = lay(fixture);
    kpk_image *overlay = pair.overlay;
    assert_false(kpk_resident(overlay, NULL, 0));
    assert_int_equal(kpk_preload(overlay, NULL, 0), KPK_ERR_NOT_BOUND);
    assert_int_equal(kpk_bind(overlay, 0), KPK_OK);
    kpk_kernel some[] = {
        kpk_resolve(overlay, "alpha", "one"), {0}, kpk_resolve(overlay, "beta", "plain")};
    assert_int_equal(kpk_preload(overlay, some, 3), KPK_OK);
    assert_true(kpk_resident(overlay, some, 3));
    assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 2);
    assert_false(kpk_resident(overlay, NULL, 0));
    assert_int_equal(kpk_preload(overlay, NULL, 0), KPK_OK);
    assert_true(kpk_resident(overlay, NULL, 0));
    /* Both of the fix; of the base all four, for alpha:two falls through; but not its alpha:one. */
    assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 6);
    assert_int_equal(fake->calls[FAKE_cuLibraryGetKernel], 6);
    assert_int_equal(fake->calls[FAKE_cuFuncLoad], 2 + 6);
    assert_false(kpk_resident(fixture->image, NULL, 0));
    assert_true(kpk_resident(pair.front, NULL, 0));
    unsigned long calls = fake_cuda_calls();
    assert_int_equal(launch(overlay, "beta", "big"), KPK_OK);
    assert_int_equal(fake_cuda_calls(), calls + 1);
    kpk_trim(overlay);
    some[1].id = 99;
    assert_false(kpk_resident(overlay, some, 3));
    assert_int_equal(kpk_preload(overlay, some, 3), KPK_ERR_ARGUMENT);
    assert_false(kpk_resident(NULL, some, 3));
    lift(&pair);
}

/* Whoever closes first, the overlay works on; what is loaded goes with the last of them. */
static void test_closed_in_any_order(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int order = 0; order < 6; order++) {
        struct pair pair = lay(fixture);
        kpk_image *images[3] = {pair.overlay, fixture->image, pair.front};
        bool closed[3] = {false};
        assert_int_equal(kpk_bind(pair.overlay, 0), KPK_OK);
        assert_int_equal(kpk_preload(pair.overlay, NULL, 0), KPK_OK);
        for (int i = 0; i < 3; i++) {
            kpk_close(images[orders[order][i]]);
            closed[orders[order][i]] = true;
            if (!closed[0]) {
                assert_int_equal(launch(pair.overlay, "alpha", "one"), KPK_OK);
                assert_int_equal(launch(pair.overlay, "beta", "big"), KPK_OK);
                assert_int_equal(fake->libraries, 6);
            } else {
                assert_int_equal(fake->libraries, (closed[1] ? 0 : 4) + (closed[2] ? 0 : 2));
            }
            if (!closed[1])
                assert_int_equal(launch(fixture->image, "alpha", "two"), KPK_OK);
        }
        assert_int_equal(fake->libraries, 0);
        free(pair.bytes.data);
        fixture->image = NULL;
        assert_int_equal(fixture_reopen(fixture), KPK_OK);
    }
}

static void test_overlay_over_overlay(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    struct pair pair = lay(fixture);
    static const struct build_module modules[] = {
        {"alpha", fixed_alpha, 1, first, 1, alpha_constants, 2, NULL, 0}};
    static const char *const blobs[] = {"FAKE one again"};
    struct build_image again = fixed;
    again.target = "again";
    again.modules = modules;
    again.blobs = blobs;
    again.module_count = again.blob_count = 1;
    struct pair third = open_front(fixture, &again);
    assert_int_equal(kpk_overlay(pair.overlay, third.front, &third.overlay), KPK_OK);
    /* And the same with the overlay in front: third, fix, small in both ways. */
    kpk_image *fronts = NULL, *other = NULL;
    assert_int_equal(kpk_overlay(pair.front, third.front, &fronts), KPK_OK);
    assert_int_equal(kpk_overlay(fixture->image, fronts, &other), KPK_OK);
    kpk_close(fronts);
    kpk_close(pair.overlay);
    pair.overlay = NULL;
    kpk_image *both[] = {third.overlay, other};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kpk_bind(both[i], 0), KPK_OK);
        assert_int_equal(launch(both[i], "alpha", "one"), KPK_OK);
        assert_int_equal(launch(both[i], "delta", "new"), KPK_OK);
        assert_int_equal(launch(both[i], "gamma", "bare"), KPK_ERR_ARGUMENT);
        assert_int_equal(launch(both[i], "beta", "plain"), KPK_OK);
    }
    assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 4);
    assert_true(kpk_resolve(other, "alpha", "one").id ==
                kpk_resolve(third.front, "alpha", "one").id);
    kpk_close(other);
    lift(&third);
    lift(&pair);
}

static void test_the_same_image_twice(void **state)
{
    struct fixture *fixture = *state;
    kpk_image *same = open_bytes(fixture, &fixture->bytes), *overlay = NULL, *self = NULL;
    assert_int_equal(kpk_overlay(fixture->image, same, &overlay), KPK_OK);
    assert_int_equal(kpk_overlay(fixture->image, fixture->image, &self), KPK_OK);
    assert_int_equal(kpk_bind(overlay, 0), KPK_OK);
    assert_int_equal(kpk_bind(self, 0), KPK_OK);
    assert_int_equal(launch(overlay, "alpha", "one"), KPK_OK);
    assert_int_equal(launch(self, "alpha", "one"), KPK_OK);
    kpk_close(overlay);
    kpk_close(same);
    kpk_close(fixture->image);
    fixture->image = NULL;
    assert_int_equal(launch(self, "alpha", "one"), KPK_OK);
    kpk_close(self);
}

static void refused(struct fixture *fixture, const struct build_image *image, kpk_status status,
                    const char *message)
{
    struct pair pair = open_front(fixture, image);
    pair.overlay = fixture->image;
    assert_int_equal(kpk_overlay(fixture->image, pair.front, &pair.overlay), status);
    assert_null(pair.overlay);
    assert_message(fixture, message);
    lift(&pair);
}

static void test_refused(void **state)
{
    struct fixture *fixture = *state;
    kpk_image *out = fixture->image;
    assert_int_equal(kpk_overlay(fixture->image, NULL, &out), KPK_ERR_ARGUMENT);
    assert_null(out);
    assert_int_equal(kpk_overlay(NULL, fixture->image, &out), KPK_ERR_ARGUMENT);
    assert_int_equal(kpk_overlay(fixture->image, fixture->image, NULL), KPK_ERR_ARGUMENT);
    struct build_image other = fixed;
    other.arch = "sm_120a";
    other.compute_major = 12;
    refused(fixture, &other, KPK_ERR_ARGUMENT,
            "image in memory: is for sm_90a, the image to put in front, image in memory, is for "
            "sm_120a");
    other = fixed;
    other.arch = "sm_90";
    refused(fixture, &other, KPK_ERR_ARGUMENT, "is for sm_90");
    /* Two digests that begin with the same bytes cannot be had; a tag can. */
    struct pair pair = open_front(fixture, &fixed);
    pair.front->tag = fixture->image->tag;
    assert_int_equal(kpk_overlay(fixture->image, pair.front, &pair.overlay), KPK_ERR_ARGUMENT);
    assert_message(fixture, "handles of the two cannot be told apart");
    lift(&pair);
}

/* kpk_constant answers for the whole module, so the fix must be the whole module or agree. */
static void test_constants_that_differ(void **state)
{
    struct fixture *fixture = *state;
    static const struct build_entry whole[] = {fixed_alpha[0], {.name = "two"}};
    static const struct build_constant sets[][3] = {
        {{"CHUNK", 32}, {"K_DIM", -128}},               /* another value */
        {{"CHUNK", 64}},                                /* one less */
        {{"CHUNK", 64}, {"K_DIM", -128}, {"V_DIM", 1}}, /* one more */
        {{"A", 1}, {"CHUNK", 64}, {"K_DIM", -128}},
        {{"K_DIM", -128}},
    };
    static const uint32_t counts[] = {2, 1, 3, 3, 1};
    static const char *const names[] = {"'CHUNK'", "'K_DIM'", "'V_DIM'", "'A'", "'CHUNK'"};
    for (size_t i = 0; i < 5; i++) {
        struct build_module modules[] = {fixed_modules[0], fixed_modules[1]};
        modules[0].constants = sets[i];
        modules[0].constant_count = counts[i];
        struct build_image image = fixed;
        image.modules = modules;
        refused(fixture, &image, KPK_ERR_CONSTANT,
                "'alpha:two' would be left to it beside a module 'alpha' of image in memory whose "
                "constant ");
        assert_message(fixture, names[i]);
        modules[0].entries = whole;
        modules[0].entry_count = 2;
        static const char *const blobs[] = {"FAKE one two fixed", "FAKE new"};
        image.blobs = blobs;
        struct pair pair = open_front(fixture, &image);
        assert_int_equal(kpk_overlay(fixture->image, pair.front, &pair.overlay), KPK_OK);
        lift(&pair);
    }
}

static int use_in_child(kpk_image *base, struct pair *pair)
{
    kpk_image *other = NULL;
    unsigned long calls = fake_cuda_calls();
    kpk_kernel two = kpk_resolve(pair->overlay, "alpha", "two");
    if (two.id == 0 ||
        kpk_launch(pair->overlay, two, grid_of(1, 1, 1), 0, NULL, NULL) != KPK_ERR_FORKED)
        return 1;
    if (kpk_bind(pair->overlay, 0) != KPK_ERR_FORKED ||
        kpk_preload(pair->overlay, NULL, 0) != KPK_ERR_FORKED ||
        kpk_resident(pair->overlay, NULL, 0) ||
        kpk_driver_symbol(pair->overlay, "cuInit") != NULL ||
        kpk_overlay(base, pair->front, &other) != KPK_ERR_FORKED || other != NULL)
        return 2;
    kpk_trim(pair->overlay);
    kpk_close(base);
    lift(pair);
    return fake_cuda_calls() == calls ? 0 : 3;
}

static void test_fork(void **state)
{
    struct fixture *fixture = *state;
    if (!fixture_fork_wipes())
        skip();
    struct pair pair = lay(fixture);
    assert_int_equal(kpk_bind(pair.overlay, 0), KPK_OK);
    assert_int_equal(kpk_preload(pair.overlay, NULL, 0), KPK_OK);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(use_in_child(fixture->image, &pair));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(launch(pair.overlay, "alpha", "two"), KPK_OK);
    lift(&pair);
}

/* An overlay of images whose desc's strings are gone since they were opened. */
static void test_desc_is_copied(void **state)
{
    struct fixture *fixture = *state;
    struct pair pair = {.bytes = build_write(&fixed)};
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    char *text = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(text != MAP_FAILED);
    strcpy(text, "libcuda.so.1");
    kpk_open_desc desc = fixture_desc(fixture);
    desc.driver_path = text;
    kpk_image *base = NULL;
    assert_int_equal(kpk_open_memory(fixture->bytes.data, fixture->bytes.size, &desc, &base),
                     KPK_OK);
    assert_int_equal(kpk_open_memory(pair.bytes.data, pair.bytes.size, &desc, &pair.front), KPK_OK);
    assert_int_equal(mprotect(text, size, PROT_NONE), 0);
    assert_int_equal(kpk_overlay(base, pair.front, &pair.overlay), KPK_OK);
    assert_int_equal(kpk_bind(pair.overlay, 0), KPK_OK);
    kpk_close(base);
    lift(&pair);
    munmap(text, size);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_start, fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answers_by_entry),
        TEST(test_what_it_says_of_itself),
        TEST(test_absences),
        TEST(test_preload),
        TEST(test_closed_in_any_order),
        TEST(test_overlay_over_overlay),
        TEST(test_the_same_image_twice),
        TEST(test_refused),
        TEST(test_constants_that_differ),
        TEST(test_fork),
        TEST(test_desc_is_copied),
    };
    return cmocka_run_group_tests_name("runtime_overlay", tests, NULL, NULL);
}
