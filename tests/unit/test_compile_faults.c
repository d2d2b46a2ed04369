#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/proc.h"
#include "compile/compile.h"

/* Every way in which a worker can fail, provoked with the fake NVRTC of tests/fake/nvrtc.c. */

enum {
    UNITS_MAX = 40
};

static struct arena arena;
static char *work; /* a folder of the test's own */

struct world {
    struct cuda cuda;
    struct compile_unit units[UNITS_MAX];
    struct compile_result results[UNITS_MAX];
    size_t count;
    struct compile_options options;
    struct diags diags;
    struct str text; /* the diagnostics, rendered */
    volatile int stop;
    size_t started, finished, ticks;
    size_t stop_after; /* sets `stop` when that many units have started */
    pid_t killed;      /* kills a worker at the first tick */
};

static void put(const char *folder, const char *name, const void *bytes, size_t size)
{
    struct diags diags = {0};
    char *path = path_join(&arena, folder, name);
    assert_true(file_make_dirs(path_dir(&arena, path), &diags));
    assert_true(file_publish(path, bytes, size, &diags));
}

/* A CUDA folder with the fake NVRTC; `facts` is its fake.txt, or NULL. */
static struct cuda fake_cuda(const char *facts, bool builtins)
{
    static int number;
    const char *dir = arena_printf(&arena, "%s/cuda%d", work, number++);
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc-builtins.so.13.0"};
    for (size_t i = 0; i < (builtins ? 2 : 1); i++) {
        struct str bytes = {0};
        struct diags diags = {0};
        const char *from = arena_printf(&arena, "out/fake/nvrtc/lib64/%s", names[i]);
        assert_true(file_read(from, &bytes, &diags));
        put(dir, arena_printf(&arena, "lib64/%s", names[i]), bytes.data, bytes.len);
        str_free(&bytes);
    }
    if (facts)
        put(dir, "lib64/fake.txt", facts, strlen(facts));
    put(dir, "include/cuda.h", "cuda\n", 5);
    struct cuda cuda;
    struct diags diags = {0};
    assert_true(cuda_find(dir, work, &arena, &cuda, &diags));
    return cuda;
}

static void on_event(void *user, enum compile_event event, size_t unit)
{
    struct world *world = user;
    if (event == COMPILE_TICK) {
        assert_true(unit == SIZE_MAX);
        world->ticks++;
        return;
    }
    assert_true(unit < world->count);
    if (event == COMPILE_STARTED && ++world->started == world->stop_after)
        world->stop = 1;
    world->finished += event == COMPILE_FINISHED;
}

static struct world *new_world(void)
{
    struct world *world = arena_alloc(&arena, 1, sizeof *world);
    static struct cuda cuda;
    if (!cuda.nvrtc)
        cuda = fake_cuda(NULL, true);
    world->cuda = cuda;
    world->options = (struct compile_options){
        .workers = 2,
        .unit_timeout = 30,
        .keep_going = true,
        .event = on_event,
        .event_user = world,
        .stop = &world->stop,
    };
    return world;
}

static struct compile_unit *add_unit(struct world *world, const char *source)
{
    static int number;
    const char *name = arena_printf(&arena, "unit%d.cu", number++);
    put(work, name, source, strlen(source));
    struct compile_unit *unit = &world->units[world->count++];
    *unit = (struct compile_unit){
        .name = arena_printf(&arena, "t/%zu", world->count),
        .root = work,
        .source = name,
        .arch = "sm_90a",
        .loc = {"targets/t.lua", (uint32_t)world->count, 3},
    };
    return unit;
}

static bool run(struct world *world)
{
    world->options.cuda = &world->cuda;
    bool ok = compile_run(world->units, world->count, &world->options, &arena, world->results,
                          &world->diags);
    diag_render(&world->diags, 0, false, &world->text);
    /* No child is left, alive or dead. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    return ok;
}

static void done(struct world *world)
{
    diag_free(&world->diags);
    str_free(&world->text);
}

static void expect(const struct world *world, const char *text)
{
    if (!strstr(str_text(&world->text), text))
        print_message("expected: %s\nfound: %s\n", text, str_text(&world->text));
    assert_non_null(strstr(str_text(&world->text), text));
}

/* A unit that fails between two that do not: one error that names it, and the others are built. */
static void expect_fault(const char *source, enum compile_status status, const char *message,
                         uint64_t memory, unsigned timeout)
{
    struct world *world = new_world();
    world->options.workers = 1;
    world->options.worker_memory = memory;
    if (timeout)
        world->options.unit_timeout = timeout;
    add_unit(world, "fine");
    add_unit(world, source)->expected_seconds = 2;
    add_unit(world, "fine")->expected_seconds = 1;
    assert_false(run(world));
    assert_int_equal(world->results[0].status, COMPILE_OK);
    assert_int_equal(world->results[1].status, status);
    assert_int_equal(world->results[2].status, COMPILE_OK);
    assert_true(world->diags.errors == (strstr(source, "fake log") ? 2 : 1));
    assert_int_equal(world->started, 3);
    assert_int_equal(world->finished, 3);
    expect(world, "targets/t.lua:2:3: 't/2'");
    expect(world, message);
    done(world);
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
                 "it took longer than the time limit of 1 s\nthinking\n", 0, 1);
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

/* A library that reads files by other calls would leave them out of the record. */
static void test_unwatched_library(void **state)
{
    (void)state;
    expect_fault("fake blind", COMPILE_FAILED, "this NVRTC does not read files by the calls that",
                 0, 0);
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
    struct world *world = new_world();
    add_unit(world, "fake stdout hello\nfake stderr world");
    assert_true(run(world));
    assert_int_equal(world->diags.count, 0);
    done(world);
}

static void on_event_kill(void *user, enum compile_event event, size_t unit)
{
    struct world *world = user;
    on_event(user, event, unit);
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
    struct world *world = new_world();
    world->options.workers = 1;
    world->options.event = on_event_kill;
    add_unit(world, "fake hang");
    add_unit(world, "fine")->expected_seconds = 1;
    assert_false(run(world));
    if (!world->killed)
        skip();
    assert_int_equal(world->results[1].status, COMPILE_OK);
    expect(world, "'t/1' was not compiled: its worker was killed by signal 9 (Killed)");
    done(world);
}

static void test_stop(void **state)
{
    (void)state;
    struct world *world = new_world();
    world->stop_after = 4;
    add_unit(world, "fine");
    for (int i = 0; i < 3; i++)
        add_unit(world, "fake hang")->expected_seconds = 1;
    add_unit(world, "fine")->expected_seconds = 0.5;
    world->options.workers = 3;
    assert_false(run(world));
    assert_int_equal(world->results[0].status, COMPILE_OK);
    for (int i = 1; i < 5; i++)
        assert_int_equal(world->results[i].status, COMPILE_PENDING);
    assert_int_equal(world->diags.count, 0);
    done(world);
}

static void test_first_failure_ends_the_build(void **state)
{
    (void)state;
    struct world *world = new_world();
    world->options.keep_going = false;
    world->options.workers = 1;
    add_unit(world, "fake result 6")->expected_seconds = 2;
    add_unit(world, "fine")->expected_seconds = 1;
    assert_false(run(world));
    assert_int_equal(world->results[0].status, COMPILE_FAILED);
    assert_int_equal(world->results[1].status, COMPILE_PENDING);
    done(world);
}

static void test_longest_first(void **state)
{
    (void)state;
    struct world *world = new_world();
    world->options.workers = 1;
    world->options.keep_going = false;
    add_unit(world, "short");
    add_unit(world, "a longer source goes first");
    add_unit(world, "fake result 6")->expected_seconds = 9;
    add_unit(world, "fine")->expected_seconds = 8;
    assert_false(run(world));
    assert_int_equal(world->results[0].status, COMPILE_OK);
    assert_int_equal(world->results[1].status, COMPILE_OK);
    assert_int_equal(world->results[2].status, COMPILE_FAILED);
    assert_int_equal(world->results[3].status, COMPILE_PENDING);
    done(world);
}

static void test_many_jobs(void **state)
{
    (void)state;
    struct world *world = new_world();
    world->options.workers = 3;
    for (int i = 0; i < UNITS_MAX; i++)
        add_unit(world, i % 7 == 3 ? "fake crash" : "fine");
    assert_false(run(world));
    for (int i = 0; i < UNITS_MAX; i++)
        assert_int_equal(world->results[i].status, i % 7 == 3 ? COMPILE_CRASHED : COMPILE_OK);
    done(world);
}

/* A worker that keeps more than half of what it may use is replaced before the next unit. */
static void test_grown_worker_is_replaced(void **state)
{
    (void)state;
    struct world *world = new_world();
    world->options.workers = 1;
    world->options.worker_memory = (uint64_t)500 << 20;
    add_unit(world, "fake eat 300");
    add_unit(world, "fine")->expected_seconds = 1;
    assert_true(run(world));
    assert_true(world->results[0].peak_bytes > (uint64_t)300 << 20);
    assert_true(world->results[1].peak_bytes < (uint64_t)200 << 20);
    done(world);
}

static void test_options(void **state)
{
    (void)state;
    struct world *world = new_world();
    struct compile_unit *unit = add_unit(world, "fine");
    static const char *const flags[] = {"--fmad=false", "-lineinfo"};
    static const char *const defines[] = {"K_DIM=128"};
    static const char *const includes[] = {"kernels/gb10/common"};
    unit->flags = flags;
    unit->flag_count = 2;
    unit->defines = defines;
    unit->define_count = 1;
    unit->includes = includes;
    unit->include_count = 1;
    assert_true(run(world));
    const struct compile_result *result = &world->results[0];
    char *text = arena_strndup(&arena, result->cubin, result->cubin_size);
    assert_string_equal(text, "--gpu-architecture=sm_90a\n--ptxas-options=-v\n--fmad=false\n"
                              "-lineinfo\n-DK_DIM=128\n-Ikernels/gb10/common\n-I<cuda>\n"
                              "-I<cuda>/cccl\n-I<kpack>\n-no-cache\n");
    assert_int_equal(result->nvrtc_major, 13);
    assert_int_equal(result->nvrtc_minor, 0);
    done(world);
}

static void test_misplaced_flags(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *reason;
    } cases[] = {
        {"-arch=sm_80", "the target's arch says it"},
        {"--pch", "a result must not depend on earlier ones"},
        {"--use-pch=x.pch", "a result must not depend on earlier ones"},
        {"--time=x.csv", "it writes a file"},
        {"-fdevice-time-trace=x", "it writes a file"},
        {"-rdc=true", "a module is a whole program: nothing links it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = new_world();
        struct compile_unit *unit = add_unit(world, "fine");
        unit->flags = &cases[i].flag;
        unit->flag_count = 1;
        assert_false(run(world));
        expect(world, arena_printf(&arena, "the flag '%s' has no place in a description: %s",
                                   cases[i].flag, cases[i].reason));
        done(world);
    }
}

/* What a library gets of the file system. */
static void test_file_layer(void **state)
{
    (void)state;
    struct world *world = new_world();
    put(work, "sub/bom.h", "\xef\xbb\xbfx", 4);
    put(work, "sub/file.h", "12345", 5);
    assert_int_equal(mkfifo(path_join(&arena, work, "sub/fifo.h"), 0600), 0);
    add_unit(world, "fake open sub/file.h\nfake open ./sub/file.h\nfake open /kpack/sub/file.h\n"
                    "fake open sub/bom.h\nfake open sub/absent.h\nfake open sub/fifo.h\n"
                    "fake open sub\nfake open <cuda>/cuda.h\nfake open <cuda>/absent.h\n"
                    "fake open <kpack>/math.h\nfake open <kpack>/absent.h\n"
                    "fake open /dev/null\nfake write new.txt\nfake cwd\nfake time\n");
    assert_true(run(world));
    const struct compile_result *result = &world->results[0];
    assert_non_null(strstr(result->log, "sub/file.h: stat 0, mtime 0, 5 bytes\n"
                                        "./sub/file.h: stat 0, mtime 0, 5 bytes\n"
                                        "/kpack/sub/file.h: stat 0, mtime 0, 5 bytes\n"
                                        "sub/bom.h: stat 0, mtime 0, 1 bytes\n"
                                        "sub/absent.h: stat -1, mtime 0, 0 bytes\n"
                                        "sub/fifo.h: stat -1, mtime 0, 0 bytes\n"
                                        "sub: stat 0, mtime 0, 0 bytes\n"
                                        "<cuda>/cuda.h: stat 0, mtime 0, 5 bytes\n"
                                        "<cuda>/absent.h: stat -1, mtime 0, 0 bytes\n"
                                        "<kpack>/math.h: stat 0, mtime 0, "));
    assert_non_null(strstr(result->log, "<kpack>/absent.h: stat -1, mtime 0, 0 bytes\n"
                                        "/dev/null: stat -1, mtime 0, 0 bytes\n"
                                        "new.txt: fopen 0, open -1\n"
                                        "/kpack\n"
                                        "0\n"));
    static const char *const opened[] = {"<cuda>/cuda.h", "<kpack>/math.h", "sub/bom.h",
                                         "sub/file.h"};
    assert_int_equal(result->opened_count, 5);
    assert_string_equal(result->opened[0].name, world->units[0].source);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(result->opened[i + 1].name, opened[i]);
    /* The digest is of the file's bytes, the mark in front included. */
    struct digest_state state_of;
    digest_start(&state_of);
    digest_add(&state_of, "\xef\xbb\xbfx", 4);
    struct digest digest = digest_finish(&state_of);
    assert_memory_equal(result->opened[3].digest.bytes, digest.bytes, DIGEST_SIZE);
    struct stat info;
    assert_int_equal(stat(path_join(&arena, work, "sub/bom.h"), &info), 0);
    assert_true(result->opened[3].ino == info.st_ino && result->opened[3].dev == info.st_dev);
    assert_int_equal(result->opened[3].size, 4);
    assert_true(result->opened[3].mtime_ns ==
                (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec);
    assert_true(result->opened[2].dev == 0 && result->opened[2].ino == 0);
    /* What is there and is no file is missed too: a file in its place would count. */
    static const char *const missed[] = {"/dev/null", "<cuda>/absent.h", "<kpack>/absent.h",
                                         "sub",       "sub/absent.h",    "sub/fifo.h"};
    assert_int_equal(result->missed_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(result->missed[i], missed[i]);
    assert_false(file_is_regular(path_join(&arena, work, "new.txt")));
    done(world);
}

/* A name that was only looked at counts as read, and a file that changes while it is compiled is
 * recorded as it was compiled. */
static void test_files_that_change(void **state)
{
    (void)state;
    struct world *world = new_world();
    put(work, "seen.h", "seen", 4);
    put(work, "a.h", "first", 5);
    put(work, "b.h", "the second", 10);
    add_unit(world, "fake stat seen.h\nfake open a.h\nfake rename b.h a.h\nfake open a.h\n");
    assert_true(run(world));
    const struct compile_result *result = &world->results[0];
    assert_string_equal(result->log, "a.h: stat 0, mtime 0, 5 bytes\n"
                                     "a.h: stat 0, mtime 0, 5 bytes\n");
    assert_int_equal(result->opened_count, 3);
    assert_string_equal(result->opened[1].name, "a.h");
    assert_int_equal(result->opened[1].size, 5);
    assert_string_equal(result->opened[2].name, "seen.h");
    done(world);
}

static void test_ignored_children(void **state)
{
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    expect_fault("fake crash", COMPILE_CRASHED, "its worker was killed by signal 11", 0, 0);
    assert_true(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
}

static void test_no_cache_from_12_9(void **state)
{
    (void)state;
    struct world *world = new_world();
    world->cuda = fake_cuda("version 12 8\n", true);
    /* Its builtins have the version in their name. */
    put(path_dir(&arena, world->cuda.nvrtc), "libnvrtc-builtins.so.12.8", "", 0);
    add_unit(world, "fine");
    assert_false(run(world));
    expect(world, "cannot open '");
    expect(world, "libnvrtc-builtins.so.12.8': ");
    done(world);
}

static void test_unusable_nvrtc(void **state)
{
    (void)state;
    static const struct {
        const char *facts;
        bool builtins;
        const char *message;
    } cases[] = {
        {"version 11 8\n", true, "' is NVRTC 11.8, expected 12.4 or newer"},
        {"version 12 3\n", true, "' is NVRTC 12.3, expected 12.4 or newer"},
        {NULL, false, "' needs its builtins library, expected at '"},
        {"archs \n", true, "' does not say which archs it knows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = new_world();
        world->cuda = fake_cuda(cases[i].facts, cases[i].builtins);
        add_unit(world, "fine");
        add_unit(world, "fine");
        assert_false(run(world));
        /* The same for every unit: said once. */
        assert_int_equal(world->diags.errors, 1);
        expect(world, cases[i].message);
        done(world);
    }
}

static void test_wrong_library(void **state)
{
    (void)state;
    struct world *world = new_world();
    world->cuda = fake_cuda(NULL, true);
    put(path_dir(&arena, world->cuda.nvrtc), "libnvrtc.so.13", "not a library", 13);
    add_unit(world, "fine");
    assert_false(run(world));
    expect(world, "cannot open NVRTC: ");
    done(world);
    struct nvrtc_info info;
    struct diags diags = {0};
    assert_false(nvrtc_query(world->cuda.nvrtc, &info, &diags));
    assert_false(nvrtc_query("libc.so.6", &info, &diags));
    assert_string_equal(diags.items[1].message,
                        "'libc.so.6' is not a usable NVRTC: it has no function 'nvrtcVersion'");
    diag_free(&diags);
}

static void test_worker_dies_at_start(void **state)
{
    (void)state;
    struct world *world = new_world();
    world->options.workers = 1;
    world->cuda = fake_cuda("load crash\n", true);
    for (int i = 0; i < 5; i++)
        add_unit(world, "fine");
    assert_false(run(world));
    expect(world, "'t/1' was not compiled: its worker was killed by signal 11 (Segmentation fault) "
                  "before it was ready");
    /* Given up after three tries, not five hundred. */
    expect(world, "no compile worker starts: 3 tries in a row failed");
    assert_int_equal(world->diags.errors, 4);
    assert_int_equal(world->results[3].status, COMPILE_PENDING);
    done(world);
}

static void test_worker_hangs_at_start(void **state)
{
    (void)state;
    struct world *world = new_world();
    world->options.workers = 1;
    world->options.unit_timeout = 1;
    world->options.keep_going = false;
    world->cuda = fake_cuda("load hang\n", true);
    add_unit(world, "fine");
    assert_false(run(world));
    expect(world, "'t/1' was not compiled: it took longer than the time limit of 1 s");
    done(world);
}

static void test_unknown_arch(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_70", "sm_90z", "compute_90", "sm_", "sm_090", "90a"};
    struct world *world = new_world();
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        add_unit(world, "fine")->arch = archs[i];
    add_unit(world, "fine")->arch = "sm_120f";
    assert_false(run(world));
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        expect(world, arena_printf(&arena,
                                   "NVRTC 13.0 does not know the arch '%s', expected one of: "
                                   "sm_75, sm_80, sm_90, sm_100, sm_120, sm_121",
                                   archs[i]));
    assert_int_equal(world->results[6].status, COMPILE_OK);
    done(world);
}

static void test_bad_sources(void **state)
{
    (void)state;
    struct world *world = new_world();
    put(work, "nul.cu", "a\0b", 3);
    assert_int_equal(mkfifo(path_join(&arena, work, "fifo.cu"), 0600), 0);
    add_unit(world, "")->source = "absent.cu";
    add_unit(world, "")->source = "nul.cu";
    add_unit(world, "")->source = "fifo.cu";
    add_unit(world, "")->source = ".";
    add_unit(world, "")->root = "/no/such/root";
    assert_false(run(world));
    expect(world, "cannot read the source 'absent.cu': No such file or directory");
    expect(world, "the source 'nul.cu' holds a NUL byte at offset 1");
    expect(world, "cannot read the source 'fifo.cu': it is a special file");
    expect(world, "cannot read the source '.': it is a directory");
    expect(world, "cannot enter the project root '/no/such/root': No such file or directory");
    done(world);
}

static void test_empty_list(void **state)
{
    (void)state;
    struct world *world = new_world();
    assert_true(run(world));
    done(world);
}

static int set_up(void **state)
{
    (void)state;
    work = arena_strdup(&arena, "/tmp/kpack-faults-XXXXXX");
    return mkdtemp(work) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    const char *const argv[] = {"/bin/rm", "-rf", work, NULL};
    struct proc proc;
    struct diags diags = {0};
    if (proc_start(argv, NULL, &proc, &diags))
        proc_wait(&proc);
    diag_free(&diags);
    arena_free(&arena);
    return 0;
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
        cmocka_unit_test(test_unwatched_library),
        cmocka_unit_test(test_stray_output_is_harmless),
        cmocka_unit_test(test_kill_9),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_first_failure_ends_the_build),
        cmocka_unit_test(test_longest_first),
        cmocka_unit_test(test_many_jobs),
        cmocka_unit_test(test_grown_worker_is_replaced),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_misplaced_flags),
        cmocka_unit_test(test_file_layer),
        cmocka_unit_test(test_files_that_change),
        cmocka_unit_test(test_ignored_children),
        cmocka_unit_test(test_no_cache_from_12_9),
        cmocka_unit_test(test_unusable_nvrtc),
        cmocka_unit_test(test_wrong_library),
        cmocka_unit_test(test_worker_dies_at_start),
        cmocka_unit_test(test_worker_hangs_at_start),
        cmocka_unit_test(test_unknown_arch),
        cmocka_unit_test(test_bad_sources),
        cmocka_unit_test(test_empty_list),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
