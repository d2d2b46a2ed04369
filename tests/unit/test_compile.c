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
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "compile/compile.h"

/* Real NVRTC: what the faults of tests/fake/nvrtc.c cannot show. */

static struct cuda cuda;
static struct arena arena;

static const char *put(const char *root, const char *name, const char *text)
{
    struct diags diags = {0};
    char *path = path_join(&arena, root, name);
    assert_true(file_make_dirs(path_dir(&arena, path), &diags));
    assert_true(file_publish(path, text, strlen(text), &diags));
    return name;
}

static const char *make_root(void)
{
    char *root = arena_strdup(&arena, "/tmp/kpack-compile-XXXXXX");
    assert_non_null(mkdtemp(root));
    return root;
}

static bool build(const struct compile_unit *units, size_t count, unsigned workers,
                  struct compile_result *results, struct str *text)
{
    struct diags diags = {0};
    struct compile_options options = {
        .cuda = &cuda, .workers = workers, .unit_timeout = 120, .keep_going = true};
    bool ok = compile_run(units, count, &options, &arena, results, &diags);
    diag_render(&diags, 0, false, text);
    diag_free(&diags);
    return ok;
}

static void test_compiles(void **state)
{
    (void)state;
    const char *root = make_root();
    put(root, "kernels/a.cu",
        "#include <cuda_fp16.h>\n#include \"b.h\"\n"
        "extern \"C\" __global__ void k(float *x) { x[0] = B * __half2float(__half(1.0f)); }\n");
    put(root, "kernels/b.h", "#define B 3\n");
    struct compile_unit unit = {
        .name = "t/a", .root = root, .source = "kernels/a.cu", .arch = "sm_90a"};
    struct compile_result result;
    struct str text = {0};
    bool ok = build(&unit, 1, 1, &result, &text);
    assert_true(ok);
    assert_int_equal(result.status, COMPILE_OK);
    assert_true(result.cubin_size > 1000);
    assert_memory_equal(result.cubin, "\177ELF", 4);
    assert_string_equal(result.opened[0].name, "kernels/a.cu");
    str_free(&text);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], COMPILE_WORKER_ARG) == 0)
        return compile_worker_main(argc, argv);
    struct diags diags = {0};
    if (!cuda_find(NULL, ".", &arena, &cuda, &diags)) {
        printf("1..0 # SKIP no CUDA on this machine\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compiles),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
