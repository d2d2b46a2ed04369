#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "compile_world.h"

/* What reaches NVRTC, what it sees of the file system, and what is refused before it runs. */

static void test_options(void **state)
{
    (void)state;
    struct world *world = world_new();
    struct compile_unit *unit = world_unit(world, "fine");
    static const char *const flags[] = {"--fmad=false", "-lineinfo"};
    static const char *const defines[] = {"K_DIM=128"};
    static const char *const includes[] = {"kernels/gb10/common"};
    unit->flags = flags;
    unit->flag_count = 2;
    unit->defines = defines;
    unit->define_count = 1;
    unit->includes = includes;
    unit->include_count = 1;
    assert_true(world_run(world));
    const struct compile_result *result = &world->results[0];
    char *text = arena_strndup(&world_arena, result->cubin, result->cubin_size);
    assert_string_equal(text, "--gpu-architecture=sm_90a\n--ptxas-options=-v\n--fmad=false\n"
                              "-lineinfo\n-DK_DIM=128\n-Ikernels/gb10/common\n-I<cuda>\n"
                              "-I<cuda>/cccl\n-I<kpack>\n-no-cache\n");
    assert_int_equal(result->nvrtc_major, 13);
    assert_int_equal(result->nvrtc_minor, 0);
    world_end(world);
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
        struct world *world = world_new();
        struct compile_unit *unit = world_unit(world, "fine");
        unit->flags = &cases[i].flag;
        unit->flag_count = 1;
        assert_false(world_run(world));
        world_expect(world,
                     arena_printf(&world_arena, "the flag '%s' has no place in a description: %s",
                                  cases[i].flag, cases[i].reason));
        world_end(world);
    }
}

/* What a library gets of the file system. */
static void test_file_layer(void **state)
{
    (void)state;
    struct world *world = world_new();
    world_put(world_folder, "sub/bom.h", "\xef\xbb\xbfx", 4);
    world_put(world_folder, "sub/file.h", "12345", 5);
    assert_int_equal(mkfifo(path_join(&world_arena, world_folder, "sub/fifo.h"), 0600), 0);
    world_unit(world, "fake open sub/file.h\nfake open ./sub/file.h\nfake open " COMPILE_CWD
                      "/sub/file.h\n"
                      "fake open sub/bom.h\nfake open sub/absent.h\nfake open sub/fifo.h\n"
                      "fake open sub\nfake open <cuda>/cuda.h\nfake open <cuda>/absent.h\n"
                      "fake open <kpack>/math.h\nfake open <kpack>/absent.h\n"
                      "fake open /dev/null\nfake write new.txt\nfake cwd\nfake time\n");
    assert_true(world_run(world));
    const struct compile_result *result = &world->results[0];
    assert_non_null(strstr(result->log, "sub/file.h: stat 0, mtime 0, 5 bytes\n"
                                        "./sub/file.h: stat 0, mtime 0, 5 bytes\n" COMPILE_CWD
                                        "/sub/file.h: stat 0, mtime 0, 5 bytes\n"
                                        "sub/bom.h: stat 0, mtime 0, 1 bytes\n"
                                        "sub/absent.h: stat -1, mtime 0, 0 bytes\n"
                                        "sub/fifo.h: stat -1, mtime 0, 0 bytes\n"
                                        "sub: stat 0, mtime 0, 0 bytes\n"
                                        "<cuda>/cuda.h: stat 0, mtime 0, 5 bytes\n"
                                        "<cuda>/absent.h: stat -1, mtime 0, 0 bytes\n"
                                        "<kpack>/math.h: stat 0, mtime 0, "));
    assert_non_null(strstr(result->log, "<kpack>/absent.h: stat -1, mtime 0, 0 bytes\n"
                                        "/dev/null: stat -1, mtime 0, 0 bytes\n"
                                        "new.txt: fopen 0, open -1\n" COMPILE_CWD "\n"
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
    assert_int_equal(stat(path_join(&world_arena, world_folder, "sub/bom.h"), &info), 0);
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
    assert_false(file_is_regular(path_join(&world_arena, world_folder, "new.txt")));
    world_end(world);
}

/* A name that was only looked at counts as read, and a file that changes while it is compiled is
 * recorded as it was compiled. */
static void test_files_that_change(void **state)
{
    (void)state;
    struct world *world = world_new();
    world_put(world_folder, "seen.h", "seen", 4);
    world_put(world_folder, "a.h", "first", 5);
    world_put(world_folder, "b.h", "the second", 10);
    world_unit(world, "fake stat seen.h\nfake open a.h\nfake rename b.h a.h\nfake open a.h\n");
    assert_true(world_run(world));
    const struct compile_result *result = &world->results[0];
    assert_string_equal(result->log, "a.h: stat 0, mtime 0, 5 bytes\n"
                                     "a.h: stat 0, mtime 0, 5 bytes\n");
    assert_int_equal(result->opened_count, 3);
    assert_string_equal(result->opened[1].name, "a.h");
    assert_int_equal(result->opened[1].size, 5);
    assert_string_equal(result->opened[2].name, "seen.h");
    world_end(world);
}

/* A worker keeps the bytes of files that have settled, and sees it when one is another. */
static void test_settled_files(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->options.workers = 1;
    world_put(world_folder, "settled.h",
              "\xef\xbb\xbf"
              "12345",
              8);
    world_put(world_folder, "other.h",
              "\xef\xbb\xbf"
              "54321",
              8);
    sleep(4);
    static const char *const sources[] = {
        "fake open settled.h\n",
        "fake open settled.h\n",
        "fake rename other.h settled.h\nfake open settled.h\n",
        "fake open settled.h\n",
    };
    for (int i = 0; i < 4; i++)
        world_unit(world, sources[i])->expected_seconds = 9 - i;
    assert_true(world_run(world));
    const struct compile_input *files[4];
    for (int i = 0; i < 4; i++) {
        const struct compile_result *result = &world->results[i];
        assert_string_equal(result->log, "settled.h: stat 0, mtime 0, 5 bytes\n");
        assert_int_equal(result->opened_count, 2);
        files[i] = &result->opened[1];
    }
    assert_memory_equal(&files[0]->digest, &files[1]->digest, sizeof files[0]->digest);
    assert_memory_equal(&files[2]->digest, &files[3]->digest, sizeof files[0]->digest);
    assert_memory_not_equal(&files[0]->digest, &files[2]->digest, sizeof files[0]->digest);
    assert_true(files[0]->ino == files[1]->ino && files[2]->ino == files[3]->ino);
    assert_true(files[0]->ino != files[2]->ino);
    world_end(world);
}

static void test_no_cache_from_12_9(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->cuda = world_cuda("version 12 8\n", true);
    /* Its builtins have the version in their name. */
    world_put(path_dir(&world_arena, world->cuda.nvrtc), "libnvrtc-builtins.so.12.8", "", 0);
    world_unit(world, "fine");
    assert_false(world_run(world));
    world_expect(world, "cannot open '");
    world_expect(world, "libnvrtc-builtins.so.12.8': ");
    world_end(world);
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
        struct world *world = world_new();
        world->cuda = world_cuda(cases[i].facts, cases[i].builtins);
        world_unit(world, "fine");
        world_unit(world, "fine");
        assert_false(world_run(world));
        /* The same for every unit: said once. */
        assert_int_equal(world->diags.errors, 1);
        world_expect(world, cases[i].message);
        world_end(world);
    }
}

static void test_wrong_library(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->cuda = world_cuda(NULL, true);
    world_put(path_dir(&world_arena, world->cuda.nvrtc), "libnvrtc.so.13", "not a library", 13);
    world_unit(world, "fine");
    assert_false(world_run(world));
    world_expect(world, "cannot open NVRTC: ");
    world_end(world);
    struct nvrtc_info info;
    struct diags diags = {0};
    assert_false(nvrtc_query(world->cuda.nvrtc, &info, &diags));
    assert_false(nvrtc_query("libc.so.6", &info, &diags));
    assert_string_equal(diags.items[1].message,
                        "'libc.so.6' is not a usable NVRTC: it has no function 'nvrtcVersion'");
    diag_free(&diags);
}

static void test_unknown_arch(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_70", "sm_90z", "compute_90", "sm_", "sm_090", "90a"};
    struct world *world = world_new();
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        world_unit(world, "fine")->arch = archs[i];
    world_unit(world, "fine")->arch = "sm_120f";
    world->units[0].loc = (struct loc){"t.lua", 4, 3};
    world->units[0].arch_loc = (struct loc){"t.lua", 2, 5};
    assert_false(world_run(world));
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        world_expect(world,
                     arena_printf(&world_arena,
                                  "NVRTC 13.0 does not know the arch '%s', expected one of: "
                                  "sm_75, sm_80, sm_90[a], sm_100[af], sm_120[af], sm_121[af]",
                                  archs[i]));
    world_expect(world, "t.lua:2:5: 't/1' does not compile for sm_70");
    assert_int_equal(world->results[6].status, COMPILE_OK);
    world_end(world);
}

static void test_bad_sources(void **state)
{
    (void)state;
    struct world *world = world_new();
    world_put(world_folder, "nul.cu", "a\0b", 3);
    assert_int_equal(mkfifo(path_join(&world_arena, world_folder, "fifo.cu"), 0600), 0);
    world_unit(world, "")->source = "absent.cu";
    world_unit(world, "")->source = "nul.cu";
    world_unit(world, "")->source = "fifo.cu";
    world_unit(world, "")->source = ".";
    world_unit(world, "")->root = "/no/such/root";
    assert_false(world_run(world));
    world_expect(world, "cannot read the source 'absent.cu': No such file or directory");
    world_expect(world, "the source 'nul.cu' holds a NUL byte at offset 1");
    world_expect(world, "cannot read the source 'fifo.cu': it is a special file");
    world_expect(world, "cannot read the source '.': it is a directory");
    world_expect(world, "cannot enter the project root '/no/such/root': No such file or directory");
    world_end(world);
}

static void test_empty_list(void **state)
{
    (void)state;
    struct world *world = world_new();
    assert_true(world_run(world));
    world_end(world);
}

static bool is_opened(const struct compile_result *result, const char *name)
{
    for (size_t i = 0; i < result->opened_count; i++)
        if (strcmp(result->opened[i].name, name) == 0)
            return true;
    return false;
}

static bool is_missed(const struct compile_result *result, const char *name)
{
    for (size_t i = 0; i < result->missed_count; i++)
        if (strcmp(result->missed[i], name) == 0)
            return true;
    return false;
}

/* What a library reads by other calls is what the text may include. */
static void test_unwatched_library(void **state)
{
    (void)state;
    static const char *const includes[] = {"inc"};
    static const char one[] = "#pragma once\n#if 0\n#include <deep.cuh>\n#endif\n";
    static const char split[] = "# /* why */ inc\\\nlude \"leaf.cuh\"\n#include \"scan_one.cuh\"\n";
    struct world *world = world_new();
    world_put(world_folder, "scan_one.cuh", one, sizeof one - 1);
    assert_int_equal(mkdir(path_join(&world_arena, world_folder, "inc"), 0777), 0);
    world_put(world_folder, "inc/deep.cuh", split, sizeof split - 1);
    world_put(world_folder, "inc/leaf.cuh", "\n", 1);
    struct compile_unit *unit =
        world_unit(world, "fake blind\nfake raw scan_one.cuh\n#include \"scan_one.cuh\"\n"
                          "#if __has_include(\"not_there.h\")\n#include <stdint.h>\n#endif\n");
    unit->includes = includes;
    unit->include_count = 1;
    assert_true(world_run(world));
    const struct compile_result *result = &world->results[0];
    assert_int_equal(result->inputs, COMPILE_SCANNED);
    assert_non_null(strstr(result->log, "scan_one.cuh: 46 bytes"));
    static const char *const read[] = {"scan_one.cuh", "inc/deep.cuh", "inc/leaf.cuh",
                                       "<kpack>/stdint.h"};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        assert_true(is_opened(result, read[i]));
    assert_true(is_missed(result, "deep.cuh") || is_missed(result, "inc/not_there.h"));
    assert_true(is_missed(result, "not_there.h"));
    /* Folders that exist only in the file layer are of no use to it. */
    assert_null(memmem(result->cubin, result->cubin_size, COMPILE_CUDA_ROOT, 6));
    assert_null(memmem(result->cubin, result->cubin_size, COMPILE_HEADERS_ROOT, 7));
    world_end(world);
}

static void test_unknown_includes(void **state)
{
    (void)state;
    struct world *world = world_new();
    world_put(world_folder, "scan_two.cuh", "\n", 1);
    world_unit(world, "fake blind\n#define NAME \"scan_two.cuh\"\n#include NAME\n");
    world_unit(world, "#include \"scan_two.cuh\"\n"); /* watched, and yet not seen to read it */
    world_unit(world, "fake open scan_two.cuh\n#include \"scan_two.cuh\"\n");
    world_unit(world, "no line of it includes a file\n");
    assert_true(world_run(world));
    assert_int_equal(world->results[0].inputs, COMPILE_UNKNOWN);
    assert_int_equal(world->results[1].inputs, COMPILE_SCANNED);
    assert_true(is_opened(&world->results[1], "scan_two.cuh"));
    assert_int_equal(world->results[2].inputs, COMPILE_SEEN);
    assert_int_equal(world->results[3].inputs, COMPILE_SEEN);
    world_end(world);
}

static void test_scanned_next_and_nul(void **state)
{
    (void)state;
    static const char *const includes[] = {"one", "two"};
    static const char nul[] = "int a;\n\0\n#include \"behind.cuh\"\n";
    struct world *world = world_new();
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(mkdir(path_join(&world_arena, world_folder, includes[i]), 0777), 0);
    world_put(world_folder, "one/both.cuh", "#include_next <both.cuh>\n", 25);
    world_put(world_folder, "two/both.cuh", "\n", 1);
    world_put(world_folder, "nul.cuh", nul, sizeof nul - 1);
    struct compile_unit *unit = world_unit(world, "fake blind\n#include <both.cuh>\n");
    unit->includes = includes;
    unit->include_count = 2;
    world_unit(world, "fake blind\n#include \"nul.cuh\"\n");
    assert_true(world_run(world));
    assert_int_equal(world->results[0].inputs, COMPILE_SCANNED);
    assert_true(is_opened(&world->results[0], "one/both.cuh"));
    assert_true(is_opened(&world->results[0], "two/both.cuh"));
    assert_int_equal(world->results[1].inputs, COMPILE_UNKNOWN);
    world_end(world);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], COMPILE_WORKER_ARG) == 0)
        return compile_worker_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),          cmocka_unit_test(test_misplaced_flags),
        cmocka_unit_test(test_file_layer),       cmocka_unit_test(test_files_that_change),
        cmocka_unit_test(test_settled_files),    cmocka_unit_test(test_no_cache_from_12_9),
        cmocka_unit_test(test_unusable_nvrtc),   cmocka_unit_test(test_wrong_library),
        cmocka_unit_test(test_unknown_arch),     cmocka_unit_test(test_bad_sources),
        cmocka_unit_test(test_empty_list),       cmocka_unit_test(test_unwatched_library),
        cmocka_unit_test(test_unknown_includes), cmocka_unit_test(test_scanned_next_and_nul),
    };
    return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
