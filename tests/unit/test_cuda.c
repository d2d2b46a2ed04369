#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "compile_world.h"

static const char *in_work(const char *name)
{
    return path_join(&world_arena, world_folder, name);
}

static void touch(const char *name)
{
    world_put(world_folder, name, "", 0);
}

/* Finds in `dir`; "" or the one error. */
static const char *find(const char *dir, struct cuda *out)
{
    struct diags diags = {0};
    const char *message = "";
    if (!cuda_find(dir, world_folder, &world_arena, out, &diags)) {
        assert_int_equal(diags.count, 1);
        message = arena_strdup(&world_arena, diags.items[0].message);
    } else {
        assert_int_equal(diags.count, 0);
    }
    diag_free(&diags);
    return message;
}

static void test_layouts(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *nvrtc, *nvjitlink, *headers;
    } layouts[] = {
        {"toolkit", "lib64/libnvrtc.so.13", "lib64/libnvJitLink.so.13", "include"},
        {"targets", "targets/x86_64-linux/lib/libnvrtc.so.12", NULL,
         "targets/x86_64-linux/include"},
        {"wheels13", "nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cu13/lib/libnvJitLink.so.13",
         "nvidia/cu13/include"},
        {"wheels12", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
         "nvidia/nvjitlink/lib/libnvJitLink.so.12", "nvidia/cuda_runtime/include"},
        {"inside13/nvidia/cu13", "lib/libnvrtc.so.13", NULL, "include"},
        {"inside12/nvidia", "cuda_nvrtc/lib/libnvrtc.so.12", NULL, "cuda_runtime/include"},
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const char *dir = layouts[i].dir;
        touch(arena_printf(&world_arena, "%s/%s", dir, layouts[i].nvrtc));
        if (layouts[i].nvjitlink)
            touch(arena_printf(&world_arena, "%s/%s", dir, layouts[i].nvjitlink));
        touch(arena_printf(&world_arena, "%s/%s/cuda_runtime.h", dir, layouts[i].headers));
        struct cuda cuda;
        assert_string_equal(find(in_work(dir), &cuda), "");
        assert_string_equal(cuda.dir, in_work(dir));
        assert_string_equal(cuda.found_by, "--cuda");
        assert_string_equal(cuda.nvrtc, path_join(&world_arena, in_work(dir), layouts[i].nvrtc));
        if (layouts[i].nvjitlink)
            assert_string_equal(cuda.nvjitlink,
                                path_join(&world_arena, in_work(dir), layouts[i].nvjitlink));
        else
            assert_null(cuda.nvjitlink);
        assert_int_equal(cuda.include_count, 1);
        assert_string_equal(cuda.includes[0],
                            path_join(&world_arena, in_work(dir), layouts[i].headers));
        assert_int_equal(cuda.tried_count, 1);
    }
}

static void test_library_folder_itself(void **state)
{
    (void)state;
    struct cuda cuda;
    touch("flat/lib/libnvrtc.so.13");
    touch("flat/include/cuda.h");
    assert_string_equal(find(in_work("flat/lib"), &cuda), "");
    assert_int_equal(cuda.include_count, 1);
    assert_string_equal(cuda.includes[0], in_work("flat/include"));
}

static void test_header_folders_of_wheels_are_all_found(void **state)
{
    (void)state;
    struct cuda cuda;
    touch("many/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    touch("many/nvidia/cuda_runtime/include/cuda.h");
    touch("many/nvidia/cuda_nvcc/include/crt/mma.h");
    touch("many/nvidia/cuda_cccl/include/cuda/std/cstdint");
    touch("many/nvidia/curand/include/curand.h");
    assert_string_equal(find(in_work("many"), &cuda), "");
    assert_int_equal(cuda.include_count, 4);
    assert_string_equal(cuda.includes[2], in_work("many/nvidia/cuda_cccl/include"));
}

static void test_newest_library(void **state)
{
    (void)state;
    struct cuda cuda;
    touch("newest/lib/libnvrtc.so.12");
    touch("newest/lib/libnvrtc.so.13.0.88");
    touch("newest/lib/libnvrtc.so.13");
    touch("newest/lib/libnvrtc.so.99x");
    touch("newest/lib/libnvrtc.so");
    assert_true(file_make_dirs(in_work("newest/lib/libnvrtc.so.14"), &(struct diags){0}));
    assert_string_equal(find(in_work("newest"), &cuda), "");
    assert_string_equal(cuda.nvrtc, in_work("newest/lib/libnvrtc.so.13"));
}

static void test_named_folder_without_nvrtc(void **state)
{
    (void)state;
    struct cuda cuda;
    static const char tail[] = "; expected a CUDA toolkit or unpacked NVIDIA wheels, 12.4 or "
                               "newer; 'kpack doctor' says what is looked at";
    assert_string_equal(
        find("/no/such", &cuda),
        arena_printf(&world_arena,
                     "no usable NVRTC in '/no/such', which --cuda names: no such folder%s", tail));
    assert_int_equal(cuda.tried_count, 1);
    assert_string_equal(cuda.tried[0], "/no/such: no such folder");
    touch("empty/lib/other.so");
    assert_string_equal(
        find(in_work("empty"), &cuda),
        arena_printf(&world_arena,
                     "no usable NVRTC in '%s', which --cuda names: no libnvrtc.so.N%s",
                     in_work("empty"), tail));
    touch("old/lib/libnvrtc.so.11.8.89");
    assert_string_equal(find(in_work("old"), &cuda),
                        arena_printf(&world_arena,
                                     "no usable NVRTC in '%s', which --cuda names: "
                                     "libnvrtc.so.11.8.89 is older than 12.4%s",
                                     in_work("old"), tail));
}

static void test_variables(void **state)
{
    (void)state;
    struct cuda cuda;
    touch("home/lib64/libnvrtc.so.13");
    touch("path/lib64/libnvrtc.so.13");
    setenv("CUDA_PATH", in_work("path"), 1);
    setenv("CUDA_HOME", in_work("home"), 1);
    assert_string_equal(find(NULL, &cuda), "");
    assert_string_equal(cuda.found_by, "CUDA_HOME");
    assert_string_equal(find(in_work("path"), &cuda), "");
    assert_string_equal(cuda.found_by, "--cuda");
    setenv("CUDA_HOME", "", 1);
    assert_string_equal(find(NULL, &cuda), "");
    assert_string_equal(cuda.found_by, "CUDA_PATH");
    assert_string_equal(cuda.dir, in_work("path"));
    /* A variable that names nothing usable is an error, not a reason to look elsewhere. */
    setenv("CUDA_HOME", "/no/such", 1);
    assert_non_null(strstr(find(NULL, &cuda), "'/no/such', which CUDA_HOME names"));
    unsetenv("CUDA_HOME");
    unsetenv("CUDA_PATH");
}

static void test_usual_folders_and_out(void **state)
{
    (void)state;
    struct cuda cuda;
    const char *first = find(NULL, &cuda);
    /* A toolkit of this machine comes before out/cuda, which is found where there is none. */
    bool installed = !*first && strcmp(cuda.found_by, "the usual folders") == 0;
    touch("out/cuda/nvidia/cu13/lib/libnvrtc.so.13");
    assert_string_equal(find(NULL, &cuda), "");
    assert_string_equal(cuda.found_by, installed ? "the usual folders" : "out/cuda");
    if (*first)
        assert_non_null(strstr(first, "no CUDA found: install the CUDA toolkit"));
}

static const char *identity(const char *name)
{
    struct diags diags = {0};
    struct str text = {0};
    bool ok = nvrtc_identity(in_work(name), &text, &diags);
    const char *copy = arena_strdup(&world_arena, ok ? str_text(&text) : diags.items[0].message);
    str_free(&text);
    diag_free(&diags);
    return copy;
}

static void test_identity(void **state)
{
    (void)state;
    struct str bytes = {0};
    struct diags diags = {0};
    static const char lib[] = "id/libnvrtc.so.13", builtins[] = "id/libnvrtc-builtins.so.13.0";
    assert_true(file_read(FAKE "/nvrtc/lib64/libnvrtc.so.13", &bytes, &diags));
    world_put(world_folder, lib, bytes.data, bytes.len);
    const char *alone = identity(lib);
    world_put(world_folder, builtins, "one", 3);
    const char *both = identity(lib);
    assert_true(str_starts(both, alone));
    assert_true(str_starts(both + strlen(alone), "blake2b "));
    assert_int_equal(strlen(both + strlen(alone)), 8 + 64 + 1);
    world_put(world_folder, builtins, "two", 3);
    assert_string_not_equal(identity(lib), both);
    /* The same through a link, which is how toolkits name it. */
    assert_int_equal(symlink("libnvrtc.so.13", in_work("id/libnvrtc.so")), 0);
    assert_string_equal(identity("id/libnvrtc.so"), identity(lib));
    /* Whatever the file holds, it has an identity: every cut of its start. */
    for (size_t size = 1; size < 700; size += 9) {
        world_put(world_folder, lib, bytes.data, size);
        assert_true(str_starts(identity(lib), "b"));
    }
    touch(lib);
    assert_non_null(strstr(identity(lib), "': it is no library"));
    assert_non_null(strstr(identity("id/absent"), "cannot find '"));
    /* What lies beside it counts, so it must be seen. */
    struct rlimit files, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = files;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const char *blind = identity(lib);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_non_null(strstr(blind, "where NVRTC's other libraries are: Too many open files"));
    str_free(&bytes);
}

static void test_build_id(void **state)
{
    (void)state;
    /* An ELF header, one program header, one note. */
    unsigned char file[64 + 56 + 36] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    file[32] = 64;
    file[54] = 56;
    file[56] = 1;
    file[64] = 4;
    file[64 + 8] = 64 + 56;
    file[64 + 32] = 36;
    unsigned char *note = file + 64 + 56;
    note[0] = 4;
    note[4] = 20;
    note[8] = 3;
    memcpy(note + 12, "GNU", 4);
    for (unsigned char i = 0; i < 20; i++)
        note[16 + i] = i;
    world_put(world_folder, "build/libnvrtc.so.13", file, sizeof file);
    assert_string_equal(identity("build/libnvrtc.so.13"),
                        "build-id 000102030405060708090a0b0c0d0e0f10111213\n");
    for (size_t i = 0; i < sizeof file; i++) {
        file[i] ^= 0xff;
        world_put(world_folder, "build/libnvrtc.so.13", file, sizeof file);
        assert_true(str_starts(identity("build/libnvrtc.so.13"), "b"));
        file[i] ^= 0xff;
    }
}

static int set_up(void **state)
{
    unsetenv("CUDA_HOME");
    unsetenv("CUDA_PATH");
    return world_set_up(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_library_folder_itself),
        cmocka_unit_test(test_header_folders_of_wheels_are_all_found),
        cmocka_unit_test(test_newest_library),
        cmocka_unit_test(test_named_folder_without_nvrtc),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_usual_folders_and_out),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_build_id),
    };
    return cmocka_run_group_tests(tests, set_up, world_tear_down);
}
