#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime_fixture.h"

enum {
    THREADS = 16,
    ROUNDS = 25,
};

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    kpk_image *image;
    unsigned failures;
};

static void *use_image(void *user)
{
    struct worker *worker = user;
    static const char *const names[][2] = {
        {"alpha", "one"}, {"alpha", "two"}, {"beta", "big"}, {"beta", "plain"}};
    pthread_barrier_wait(worker->barrier);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            kpk_kernel kernel = kpk_resolve(worker->image, names[i][0], names[i][1]);
            kpk_status status = kpk_launch(worker->image, kernel, grid_of(1, 1, 1), 0, NULL, NULL);
            worker->failures += status != KPK_OK;
        }
        worker->failures += kpk_bind(worker->image, round % 2) != KPK_OK;
        kpk_resolve(worker->image, "alpha", "missing");
        worker->failures += kpk_absent_reason(worker->image, "alpha", "one") != KPK_PRESENT;
        kpk_trim(worker->image);
    }
    return NULL;
}

/* Runs one function in all threads at once. */
static void run_all(kpk_image *image, void *(*function)(void *))
{
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.barrier = &barrier, .image = image};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, function, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    pthread_barrier_destroy(&barrier);
}

static void use_by_many(struct fixture *fixture)
{
    struct fake_cuda *fake = fake_cuda_state();
    for (int round = 0; round < ROUNDS; round++) {
        kpk_close(fixture->image);
        fixture->image = NULL;
        fake_cuda_reset();
        fake->device_count = 2;
        assert_int_equal(fixture_reopen(fixture), KPK_OK);
        assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
        run_all(fixture->image, use_image);
        assert_int_equal(fake->calls[FAKE_cuInit], 1);
        assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 3);
        assert_int_equal(fake->calls[FAKE_cuLibraryGetKernel], 4);
        assert_int_equal(fake->launches, THREADS * 3 * 4);
        kpk_miss miss;
        assert_int_equal(kpk_unexpected_absences(fixture->image, &miss, 1), 1);
        assert_int_equal(miss.count, THREADS * 3);
    }
}

static void test_first_use_by_many(void **state)
{
    struct fixture *fixture = *state;
    use_by_many(fixture);
    /* And where a group is decoded in parts, with trims between them. */
    free(fixture->bytes.data);
    fixture->bytes = build_write_long();
    use_by_many(fixture);
}

static void *use_once(void *user)
{
    struct worker *worker = user;
    kpk_kernel big = kpk_resolve(worker->image, "beta", "big");
    pthread_barrier_wait(worker->barrier);
    worker->failures = kpk_launch(worker->image, big, grid_of(1, 1, 1), 0, NULL, NULL) != KPK_OK ||
                       !kpk_resident(worker->image, &big, 1);
    return NULL;
}

/* Sixteen first uses of one kernel at the same moment: one load, sixteen launches. */
static void test_the_same_first_use(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    for (int round = 0; round < 2 * ROUNDS; round++) {
        fake_cuda_reset();
        assert_int_equal(fixture_reopen(fixture), KPK_OK);
        assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
        run_all(fixture->image, use_once);
        assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 1);
        assert_int_equal(fake->calls[FAKE_cuLibraryGetKernel], 1);
        assert_int_equal(fake->calls[FAKE_cuKernelSetAttribute], 1);
        assert_int_equal(fake->launches, THREADS);
        kpk_close(fixture->image);
        fixture->image = NULL;
        assert_int_equal(fake->libraries, 0);
    }
}

static void *use_and_close(void *user)
{
    struct worker *worker = user;
    kpk_image *overlay = NULL;
    pthread_barrier_wait(worker->barrier);
    for (int round = 0; round < 4; round++) {
        worker->failures += kpk_overlay(worker->image, worker->image, &overlay) != KPK_OK;
        kpk_kernel kernel = kpk_resolve(overlay, "alpha", "two");
        worker->failures += kpk_launch(overlay, kernel, grid_of(1, 1, 1), 0, NULL, NULL) != KPK_OK;
        kpk_close(overlay);
    }
    return NULL;
}

/* Overlays over one image come and go in many threads. */
static void test_overlays_by_many(void **state)
{
    struct fixture *fixture = *state;
    struct fake_cuda *fake = fake_cuda_state();
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    run_all(fixture->image, use_and_close);
    assert_int_equal(fake->calls[FAKE_cuLibraryLoadData], 1);
    assert_int_equal(fake->launches, THREADS * 4);
    assert_int_equal(fake->libraries, 1);
}

/* In a forked child every driver call is refused with a name, and closing touches no driver. */
static int use_in_child(struct fixture *fixture, kpk_kernel loaded)
{
    struct fake_cuda *fake = fake_cuda_state();
    kpk_image *image = fixture->image;
    unsigned long calls = fake_cuda_calls();
    void *function = NULL;
    if (kpk_launch(image, loaded, grid_of(1, 1, 1), 0, NULL, NULL) != KPK_ERR_FORKED ||
        kpk_launch_block(image, loaded, grid_of(1, 1, 1), grid_of(1, 1, 1), 0, NULL, NULL) !=
            KPK_ERR_FORKED)
        return 1;
    if (kpk_bind(image, 0) != KPK_ERR_FORKED || kpk_preload(image, NULL, 0) != KPK_ERR_FORKED ||
        kpk_function(image, loaded, &function) != KPK_ERR_FORKED ||
        kpk_driver_symbol(image, "cuInit") != NULL)
        return 2;
    if (strstr(fixture->message, "opened before fork") == NULL)
        return 3;
    /* What needs no driver still answers. */
    if (kpk_resolve(image, "alpha", "two").id == 0 || kpk_resolve(image, "alpha", "no").id != 0 ||
        kpk_unexpected_absences(image, NULL, 0) != 0 || kpk_misses_json(image, NULL, 0) != 0 ||
        kpk_verify(image) != KPK_OK)
        return 4;
    kpk_trim(image);
    kpk_close(image);
    if (fake_cuda_calls() != calls)
        return 5;
    free(fixture->bytes.data);
    fixture->bytes = build_write(&build_small);
    fixture->image = NULL;
    if (fixture_reopen(fixture) != KPK_OK || kpk_bind(fixture->image, 0) != KPK_OK)
        return 6;
    kpk_close(fixture->image);
    return fake->libraries == 1 ? 0 : 7; /* the parent's, not unloaded here */
}

static void test_fork(void **state)
{
    struct fixture *fixture = *state;
    if (!fixture_fork_wipes())
        skip();
    assert_int_equal(kpk_bind(fixture->image, 0), KPK_OK);
    kpk_kernel one = kpk_resolve(fixture->image, "alpha", "one");
    assert_int_equal(kpk_preload(fixture->image, &one, 1), KPK_OK);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(use_in_child(fixture, one));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(kpk_launch(fixture->image, one, grid_of(1, 1, 1), 0, NULL, NULL), KPK_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_start, fixture_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_use_by_many),
        TEST(test_the_same_first_use),
        TEST(test_overlays_by_many),
        TEST(test_fork),
    };
    return cmocka_run_group_tests_name("runtime_threads", tests, NULL, NULL);
}
