#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile_world.h"

/* Every way in which a worker can fail, provoked with the fake NVRTC of tests/fake/nvrtc.c. */

/* A unit that fails between two that do not: one error that names it, and the others are built. */
static void expect_fault(const char *source, enum compile_status status, const char *message,
                         uint64_t memory, unsigned timeout)
{
    struct world *world = world_new();
    world->options.workers = 1;
    world->options.worker_memory = memory;
    if (timeout)
        world->options.unit_timeout = timeout;
    world_unit(world, "fine");
    world_unit(world, source)->expected_seconds = 2;
    world_unit(world, "fine")->expected_seconds = 1;
    assert_false(world_run(world));
    assert_int_equal(world->results[0].status, COMPILE_OK);
    assert_int_equal(world->results[1].status, status);
    assert_int_equal(world->results[2].status, COMPILE_OK);
    assert_true(world->diags.errors == (strstr(source, "fake log") ? 2 : 1));
    assert_int_equal(world->started, 3);
    assert_int_equal(world->finished, 3);
    world_expect(world, "targets/t.lua:2:3: 't/2'");
    world_expect(world, message);
    world_end(world);
}

static void test_crash(void **state)
{
    (void)state;
    expect_fault("fake stderr last words\nfake crash", COMPILE_CRASHED,
                 "'t/2' was not compiled: its worker was killed by signal 11 (Segmentation fault)\n"
                 "last words\n",
                 0, 0);
}

static void test_exit(void **state)
{
    (void)state;
    expect_fault("fake exit 7", COMPILE_CRASHED, "its worker exited with status 7\n", 0, 0);
    expect_fault("fake exit 0", COMPILE_CRASHED, "its worker exited with status 0\n", 0, 0);
}

static void test_time_limit(void **state)
{
    (void)state;
    expect_fault("fake stderr thinking\nfake hang", COMPILE_CRASHED,
                 "it took longer than the time limit of 2 s\nthinking\n", 0, 2);
}

static void test_memory_limit(void **state)
{
    (void)state;
    /* Room for a sanitizer's own memory. */
    expect_fault("fake eat-forever", COMPILE_CRASHED, "more than the limit of 400 MiB",
                 (uint64_t)400 << 20, 0);
}

static void test_nvrtc_out_of_memory(void **state)
{
    (void)state;
    expect_fault("fake result 1", COMPILE_FAILED,
                 "'t/2' does not compile for sm_90a: NVRTC ran out of memory", 0, 0);
}

static void test_garbage(void **state)
{
    (void)state;
    expect_fault("fake garbage\nfake hang", COMPILE_CRASHED,
                 "its worker wrote something that is no answer", 0, 0);
}

static void test_closed_pipe(void **state)
{
    (void)state;
    expect_fault("fake close", COMPILE_CRASHED, "its worker closed its pipe", 0, 0);
}

static void test_refused(void **state)
{
    (void)state;
    expect_fault("fake log nvrtc: error: bad idea\nfake result 5", COMPILE_FAILED,
                 "targets/t.lua:2:3: bad idea\n"
                 "kpack: error: targets/t.lua:2:3: 't/2' does not compile for sm_90a: 1 error\n",
                 0, 0);
    expect_fault("fake result 11", COMPILE_FAILED,
                 "'t/2' does not compile for sm_90a: NVRTC_ERROR_OTHER", 0, 0);
    expect_fault("fake empty", COMPILE_FAILED, "NVRTC made no cubin", 0, 0);
}

static void test_stray_output_is_harmless(void **state)
{
    (void)state;
    struct world *world = world_new();
    world_unit(world, "fake stdout hello\nfake stderr world");
    assert_true(world_run(world));
    assert_int_equal(world->diags.count, 0);
    world_end(world);
}

static void on_event_kill(void *user, enum compile_event event, size_t unit)
{
    struct world *world = user;
    world_event(user, event, unit);
    if (event != COMPILE_TICK || world->killed)
        return;
    /* The only child of this process is the worker. */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *file = fopen(path, "r");
    long pid = 0;
    if (file && fscanf(file, "%ld", &pid) == 1)
        kill((pid_t)pid, SIGKILL);
    if (file)
        fclose(file);
    world->killed = (pid_t)pid;
}

static void test_kill_9(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->options.workers = 1;
    world->options.event = on_event_kill;
    world_unit(world, "fake hang");
    world_unit(world, "fine")->expected_seconds = 1;
    assert_false(world_run(world));
    if (!world->killed)
        skip();
    assert_int_equal(world->results[1].status, COMPILE_OK);
    world_expect(world, "'t/1' was not compiled: its worker was killed by signal 9 (Killed)");
    world_end(world);
}

static void test_stop(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->stop_after = 4;
    world_unit(world, "fine");
    for (int i = 0; i < 3; i++)
        world_unit(world, "fake hang")->expected_seconds = 1;
    world_unit(world, "fine")->expected_seconds = 0.5;
    world->options.workers = 3;
    assert_false(world_run(world));
    assert_int_equal(world->results[0].status, COMPILE_OK);
    for (int i = 1; i < 5; i++)
        assert_int_equal(world->results[i].status, COMPILE_PENDING);
    assert_int_equal(world->diags.count, 0);
    world_end(world);
}

static void test_first_failure_ends_the_build(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->options.keep_going = false;
    world->options.workers = 1;
    world_unit(world, "fake result 6")->expected_seconds = 2;
    world_unit(world, "fine")->expected_seconds = 1;
    assert_false(world_run(world));
    assert_int_equal(world->results[0].status, COMPILE_FAILED);
    assert_int_equal(world->results[1].status, COMPILE_PENDING);
    world_end(world);
}

static void test_longest_first(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->options.workers = 1;
    world->options.keep_going = false;
    world_unit(world, "short");
    world_unit(world, "a longer source goes first");
    world_unit(world, "fake result 6")->expected_seconds = 9;
    world_unit(world, "fine")->expected_seconds = 8;
    assert_false(world_run(world));
    assert_int_equal(world->results[0].status, COMPILE_OK);
    assert_int_equal(world->results[1].status, COMPILE_OK);
    assert_int_equal(world->results[2].status, COMPILE_FAILED);
    assert_int_equal(world->results[3].status, COMPILE_PENDING);
    world_end(world);
}

static void test_many_jobs(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->options.workers = 3;
    for (int i = 0; i < WORLD_UNITS; i++)
        world_unit(world, i % 7 == 3 ? "fake crash" : "fine");
    assert_false(world_run(world));
    for (int i = 0; i < WORLD_UNITS; i++)
        assert_int_equal(world->results[i].status, i % 7 == 3 ? COMPILE_CRASHED : COMPILE_OK);
    world_end(world);
}

/* A worker that keeps more than half of what it may use is replaced before the next unit. */
static void test_grown_worker_is_replaced(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->options.workers = 1;
    world->options.worker_memory = (uint64_t)500 << 20;
    world_unit(world, "fake eat 300");
    world_unit(world, "fine")->expected_seconds = 1;
    assert_true(world_run(world));
    assert_true(world->results[0].peak_bytes > (uint64_t)300 << 20);
    assert_true(world->results[1].peak_bytes < (uint64_t)200 << 20);
    world_end(world);
}

static void test_ignored_children(void **state)
{
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    expect_fault("fake crash", COMPILE_CRASHED, "its worker was killed by signal 11", 0, 0);
    assert_true(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
}

static void test_worker_dies_at_start(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->options.workers = 1;
    world->cuda = world_cuda("load crash\n", true);
    for (int i = 0; i < 5; i++)
        world_unit(world, "fine");
    assert_false(world_run(world));
    world_expect(world,
                 "'t/1' was not compiled: its worker was killed by signal 11 (Segmentation fault) "
                 "before it was ready");
    /* Given up after three tries, not five hundred. */
    world_expect(world, "no compile worker starts: 3 tries in a row failed");
    assert_int_equal(world->diags.errors, 4);
    assert_int_equal(world->results[3].status, COMPILE_PENDING);
    world_end(world);
}

/* No descriptor left for the pipes. */
static void test_worker_cannot_be_started(void **state)
{
    (void)state;
    struct world *world = world_new();
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    int next = dup(0);
    assert_true(next >= 0);
    close(next);
    tight.rlim_cur = (rlim_t)next + 3;
    for (int i = 0; i < 4; i++)
        world_unit(world, "fine");
    world->options.workers = 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    bool ok = world_run(world);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(ok);
    world_expect(world, "'t/1' was not compiled: cannot start '/proc/self/exe': no pipe: Too many "
                        "open files");
    world_expect(world, "no compile worker starts: 3 tries in a row failed");
    assert_int_equal(world->results[3].status, COMPILE_PENDING);
    world_end(world);
}

static void test_worker_hangs_at_start(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->options.workers = 1;
    world->options.unit_timeout = 1;
    world->options.keep_going = false;
    world->cuda = world_cuda("load hang\n", true);
    world_unit(world, "fine");
    assert_false(world_run(world));
    world_expect(world, "'t/1' was not compiled: it took longer than the time limit of 1 s");
    world_end(world);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], COMPILE_WORKER_ARG) == 0)
        return compile_worker_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_exit),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_nvrtc_out_of_memory),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_closed_pipe),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_stray_output_is_harmless),
        cmocka_unit_test(test_kill_9),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_first_failure_ends_the_build),
        cmocka_unit_test(test_longest_first),
        cmocka_unit_test(test_many_jobs),
        cmocka_unit_test(test_grown_worker_is_replaced),
        cmocka_unit_test(test_ignored_children),
        cmocka_unit_test(test_worker_dies_at_start),
        cmocka_unit_test(test_worker_cannot_be_started),
        cmocka_unit_test(test_worker_hangs_at_start),
    };
    return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
