#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/embed.h"
#include "base/file.h"
#include "compile_world.h"

/* With the real NVRTC: what the fake one of test_compile_faults cannot show. */

enum {
    UNITS_MAX = 40
};

static struct cuda cuda;

struct build {
    const char *root;
    struct cuda *cuda;
    unsigned workers;
    struct compile_unit units[UNITS_MAX];
    struct compile_result results[UNITS_MAX];
    size_t count;
    const char *text; /* the diagnostics, rendered */
};

static void put(const char *root, const char *name, const char *text)
{
    world_put(root, name, text, strlen(text));
}

static struct build *new_build(const char *folder)
{
    struct build *build = arena_alloc(&world_arena, 1, sizeof *build);
    struct diags diags = {0};
    build->root = path_join(&world_arena, world_folder, folder);
    assert_true(file_make_dirs(build->root, &diags));
    build->cuda = &cuda;
    build->workers = 2;
    return build;
}

static struct compile_unit *add_unit(struct build *build, const char *name, const char *source)
{
    if (source)
        put(build->root, name, source);
    struct compile_unit *unit = &build->units[build->count++];
    *unit =
        (struct compile_unit){.name = name, .root = build->root, .source = name, .arch = "sm_90a"};
    return unit;
}

static bool run(struct build *build)
{
    struct diags diags = {0};
    struct compile_options options = {
        .cuda = build->cuda, .workers = build->workers, .unit_timeout = 200, .keep_going = true};
    bool ok =
        compile_run(build->units, build->count, &options, &world_arena, build->results, &diags);
    struct str text = {0};
    diag_render(&diags, 0, false, &text);
    build->text = arena_strdup(&world_arena, str_text(&text));
    str_free(&text);
    diag_free(&diags);
    return ok;
}

static void run_clean(struct build *build)
{
    run(build);
    assert_string_equal(build->text, "");
    for (size_t i = 0; i < build->count; i++)
        assert_memory_equal(build->results[i].cubin, "\177ELF", 4);
}

static bool holds(const struct compile_result *result, const char *text)
{
    return memmem(result->cubin, result->cubin_size, text, strlen(text)) != NULL;
}

static bool same_bytes(const struct compile_result *a, const struct compile_result *b)
{
    return a->cubin_size == b->cubin_size && memcmp(a->cubin, b->cubin, a->cubin_size) == 0;
}

static void test_lists_what_it_read(void **state)
{
    (void)state;
    struct build *build = new_build("reads");
    put(build->root, "kernels/near.h", "#include \"deep/far.h\"\n");
    put(build->root, "kernels/deep/far.h", "#define FAR 4\n");
    put(build->root, "inc/angle.h", "#define ANGLE 5\n");
    static const char *const includes[] = {"other", "inc"};
    struct compile_unit *unit = add_unit(build, "kernels/a.cu",
                                         "#include \"near.h\"\n#include <angle.h>\n"
                                         "#include <stdint.h>\n#include <nv/target>\n"
                                         "extern \"C\" __global__ void k(int *x)\n"
                                         "{ x[0] = FAR + ANGLE; }\n");
    unit->includes = includes;
    unit->include_count = 2;
    run_clean(build);
    const struct compile_result *result = &build->results[0];
    assert_string_equal(result->opened[0].name, "kernels/a.cu");
    static const char *const wanted[] = {"inc/angle.h",        "kernels/near.h",
                                         "kernels/deep/far.h", "<kpack>/stdint.h",
                                         "<cuda>/nv/target",   "<cuda>/cccl/cuda/std/cstdint"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t found = 0;
        for (size_t j = 1; j < result->opened_count; j++)
            found += strcmp(result->opened[j].name, wanted[i]) == 0;
        assert_int_equal(found, 1);
    }
    /* A file put here would be found first. */
    bool missed = false;
    for (size_t i = 0; i < result->missed_count; i++)
        missed |= strcmp(result->missed[i], "other/angle.h") == 0;
    assert_true(missed);
    assert_true(result->seconds > 0 && result->peak_bytes > 1 << 20);
    assert_int_equal(result->nvrtc_major >= 12, 1);
}

static const char paths_source[] =
    "#include <cuda_fp16.h>\n"
    "#include <assert.h>\n"
    "#include \"name.h\"\n"
    "extern \"C\" __global__ void k(float *x, const char **names)\n"
    "{\n"
    "    assert(x[1] > 0);\n"
    "    names[0] = __FILE__;\n"
    "    names[1] = name();\n"
    "    names[2] = __DATE__ \" \" __TIME__;\n"
    "    x[0] = __half2float(__float2half(x[2]) * __float2half(x[3]));\n"
    "}\n";

static struct build *paths_build(const char *folder, struct cuda *with)
{
    static const char *const flags[] = {"-lineinfo"}, *const includes[] = {"inc"};
    struct build *build = new_build(folder);
    build->cuda = with;
    put(build->root, "inc/name.h", "static __device__ const char *name() { return __FILE__; }\n");
    struct compile_unit *unit = add_unit(build, "kernels/paths.cu", paths_source);
    unit->flags = flags;
    unit->flag_count = 1;
    unit->includes = includes;
    unit->include_count = 1;
    run_clean(build);
    return build;
}

/* Links to the real files in the layout of unpacked wheels: of CUDA 13, or of CUDA 12. */
static struct cuda wheels(const char *folder, bool cuda13)
{
    struct diags diags = {0};
    const char *dir = path_join(&world_arena, world_folder, folder);
    static const char *const packages[] = {"cuda_runtime", "cuda_nvcc", "cuda_cccl", "curand"};
    size_t count = 0;
    const char *links[5][2] = {
        {path_dir(&world_arena, cuda.nvrtc), cuda13 ? "nvidia/cu13/lib" : "nvidia/cuda_nvrtc/lib"}};
    for (size_t i = 0; i < cuda.include_count && i < 4; i++) {
        links[++count][0] = cuda.includes[i];
        links[count][1] = cuda13 ? "nvidia/cu13/include"
                                 : arena_printf(&world_arena, "nvidia/%s/include", packages[i]);
        if (cuda13)
            break;
    }
    for (size_t i = 0; i <= count; i++) {
        const char *path = path_join(&world_arena, dir, links[i][1]);
        assert_true(file_make_dirs(path_dir(&world_arena, path), &diags));
        assert_int_equal(symlink(links[i][0], path), 0);
    }
    struct cuda found;
    assert_true(cuda_find(dir, world_folder, &world_arena, &found, &diags));
    return found;
}

static void test_same_bytes_everywhere(void **state)
{
    (void)state;
    struct cuda cuda13 = wheels("wheels 13", true), cuda12 = wheels("wheels 12", false);
    struct build *first = paths_build("one", &cuda);
    /* Headers in several folders, as of CUDA 12's wheels, do not fit the layout of CUDA 13's. */
    struct build *builds[] = {
        paths_build("a folder/with \"quotes\" and \xc3\xa9", &cuda),
        paths_build("three", cuda.include_count == 1 ? &cuda13 : &cuda12),
        paths_build("four", &cuda12),
    };
    for (size_t i = 0; i < 3; i++)
        assert_true(same_bytes(&first->results[0], &builds[i]->results[0]));
    assert_true(holds(&first->results[0], "kernels/paths.cu"));
    assert_true(holds(&first->results[0], "inc/name.h"));
    assert_true(holds(&first->results[0], COMPILE_CWD));
    assert_true(holds(&first->results[0], "Jan  1 1970 00:00:00"));
    assert_false(holds(&first->results[0], world_folder));
    assert_false(holds(&first->results[0], cuda.includes[0]));
    assert_false(holds(&first->results[0], cuda.dir));
}

/* A worker's earlier jobs leave no trace in its later ones. */
static void test_same_bytes_in_any_order(void **state)
{
    (void)state;
    struct build *alone = new_build("order"), *many = new_build("order");
    many->workers = 1;
    static const char text[] = "#include <cuda_fp16.h>\ntemplate <int N> struct S { __half h; };\n"
                               "extern \"C\" __global__ void k(S<3> *x) { x[0] = x[1]; }\n";
    add_unit(alone, "k.cu", text);
    add_unit(many, "other.cu", "extern \"C\" __global__ void other(int *x) { x[0] = 1; }\n");
    add_unit(many, "bad.cu", "nonsense\n");
    add_unit(many, "k.cu", NULL)->expected_seconds = 2;
    add_unit(many, "k.cu", NULL)->expected_seconds = 1;
    run_clean(alone);
    assert_false(run(many));
    assert_int_equal(many->results[1].status, COMPILE_FAILED);
    assert_true(same_bytes(&alone->results[0], &many->results[2]));
    assert_true(same_bytes(&alone->results[0], &many->results[3]));
}

static void test_environment_does_not_count(void **state)
{
    (void)state;
    struct build *clean = new_build("environment"), *dirty = new_build("environment");
    static const char text[] =
        "extern \"C\" __global__ void k(float *x) { x[0] = x[1] * x[2] + x[3]; }\n";
    add_unit(clean, "k.cu", text);
    add_unit(dirty, "k.cu", text);
    run_clean(clean);
    setenv("NVRTC_APPEND_FLAGS", "--fmad=false -G", 1);
    run_clean(dirty);
    unsetenv("NVRTC_APPEND_FLAGS");
    assert_true(same_bytes(&clean->results[0], &dirty->results[0]));
}

#define KERNEL(body) "extern \"C\" __global__ void k(float *x) { " body " }\n"

static const struct {
    const char *name, *source;
} header_tests[] = {
    {"math.h", "#include <math.h>\n" KERNEL(
                   "x[0] = INFINITY; x[1] = NAN; x[2] = (float)M_PI; x[3] = HUGE_VALF;"
                   "x[4] = sqrtf(x[5]) + (float)isnan(x[6]); x[5] = (float)HUGE_VAL;"
                   "static_assert(INFINITY > 3e38f, \"\"); static_assert(NAN != NAN, \"\");"
                   "float_t f = 1; double_t d = 2; x[6] = f + (float)d;")},
    {"float.h", "#include <float.h>\n" KERNEL(
                    "static_assert(DBL_EPSILON == 2.220446049250313e-16, \"\");"
                    "static_assert(FLT_EPSILON == 1.1920929e-07f, \"\");"
                    "static_assert(FLT_MAX == 3.4028235e+38f, \"\");"
                    "static_assert(FLT_MIN == 1.17549435e-38f, \"\");"
                    "static_assert(FLT_TRUE_MIN == 1.4e-45f, \"\");"
                    "static_assert(DBL_MAX == 1.7976931348623157e+308, \"\");"
                    "static_assert(DBL_MIN == 2.2250738585072014e-308, \"\");"
                    "static_assert(DBL_TRUE_MIN == 5e-324, \"\");"
                    "static_assert(LDBL_MAX == DBL_MAX, \"\"); x[0] = FLT_RADIX + FLT_DIG;")},
    {"stdint.h",
     "#include <stdint.h>\n"
     "#if SIZE_MAX < 5 || INT32_MIN > 0\n#error no\n#endif\n" KERNEL(
         "static_assert(sizeof(int8_t) == 1 && sizeof(uint16_t) == 2 && sizeof(int32_t) == 4 &&"
         "sizeof(uint64_t) == 8 && sizeof(intptr_t) == 8 && sizeof(uintmax_t) == 8, \"\");"
         "x[0] = (float)(UINT32_MAX + INT64_C(5)); x[1] = (float)UINT8_MAX;")},
    {"limits.h", "#include <limits.h>\n" KERNEL("static_assert(CHAR_BIT == 8 && INT_MAX == "
                                                "2147483647 && SCHAR_MIN == -128, \"\");"
                                                "x[0] = (float)UINT_MAX + (float)LLONG_MAX;")},
    {"stddef.h", "#include <stddef.h>\n"
                 "struct S { char a; double b; int c[3]; struct { int d; } e; };\n"
                 "static_assert(offsetof(S, b) == 8 && offsetof(S, c[2]) == 24, \"\");\n"
                 "static_assert(offsetof(S, e.d) == 28, \"\");\n" KERNEL(
                     "nullptr_t n = nullptr; size_t s = 3; ptrdiff_t p = -3; void *v = NULL;"
                     "x[0] = (float)(n == v) + (float)s + (float)p + sizeof(max_align_t);")},
    {"string.h", "#include <string.h>\n" KERNEL("memset(x, 0, 4); memcpy(x + 1, x + 2, 8);")},
    {"stdio.h", "#include <stdio.h>\n" KERNEL("printf(\"%g\\n\", x[0]);")},
    {"stdlib.h", "#include <stdlib.h>\n" KERNEL(
                     "void *p = malloc(8); free(p); x[0] = (float)(abs(-3) + labs(-4L));")},
    {"stdbool.h", "#include <stdbool.h>\n" KERNEL("bool b = x[0] > 1; x[1] = b ? 2 : 3;")},
    {"inttypes.h", "#include <inttypes.h>\n" KERNEL("uint64_t v = 7; int32_t w = 8;"
                                                    "printf(\"%\" PRIx64 \" %\" PRId32, v, w);")},
    {"cinttypes", "#include <cinttypes>\n" KERNEL("std::uint64_t v = 7;"
                                                  "printf(\"%\" PRIu64, v); x[0] = 1;")},
    {"assert.h", "#include <assert.h>\n"
                 "template <int A, int B> __device__ int f() { return A; }\n" KERNEL(
                     "assert(x[0] > 0); assert(f<1, 2>() == 1);") "#define NDEBUG\n"
                                                                  "#include <assert.h>\n"
                                                                  "extern \"C\" __global__ void "
                                                                  "k2() { assert(nowhere); }\n"},
    {"cassert", "#include <cassert>\n" KERNEL("assert(x[0] > 0);")},
    {"cfloat", "#include <cfloat>\n" KERNEL("x[0] = FLT_MAX;")},
    {"climits", "#include <climits>\n" KERNEL("x[0] = (float)INT_MIN;")},
    {"cstddef", "#include <cstddef>\n" KERNEL("std::size_t s = 3; std::nullptr_t n = nullptr;"
                                              "x[0] = (float)s + (n == nullptr);")},
    {"cstdint", "#include <cstdint>\n" KERNEL("std::uint32_t a = 1; std::int_fast64_t b = 2;"
                                              "uint8_t c = 3; x[0] = (float)(a + b + c);")},
    {"cstdio", "#include <cstdio>\n" KERNEL("std::printf(\"%g\\n\", x[0]);")},
    {"cstdlib",
     "#include <cstdlib>\n" KERNEL("void *p = std::malloc(8); std::free(p); x[0] = std::abs(-2);")},
    {"cstring", "#include <cstring>\n" KERNEL("std::memcpy(x, x + 4, 16); std::memset(x, 0, 4);")},
    {"cmath", "#include <cmath>\n"
              "template <class A, class B> struct same { static constexpr bool v = false; };\n"
              "template <class A> struct same<A, A> { static constexpr bool v = true; };\n"
              "static_assert(same<decltype(std::sqrt(1.0f)), float>::v, \"\");\n"
              "static_assert(same<decltype(std::sqrt(1.0)), double>::v, \"\");\n"
              "static_assert(same<decltype(std::abs(1.0f)), float>::v, \"\");\n" KERNEL(
                  "x[0] = std::fma(x[1], x[2], x[3]) + std::pow(x[2], 2.5f) + std::expf(x[4]) +"
                  "std::isnan(x[4]) + std::floor(x[5]) + INFINITY;")},
    {"algorithm", "#include <algorithm>\n" KERNEL(
                      "struct L { __device__ bool operator()(int a, int b) { return a > b; } };"
                      "static_assert(std::clamp(5, 1, 3) == 3, \"\");"
                      "x[0] = std::min(1, 2) + std::max(x[1], x[2]) + std::max(1, 2, L()) +"
                      "std::min(1, 2, L());")},
    {"type_traits", "#include <type_traits>\n#include <utility>\n#include <limits>\n"
                    "#include <tuple>\n#include <array>\n#include <algorithm>\n"
                    "template <class T, std::enable_if_t<std::is_same<T, float>::value, int> = 0>\n"
                    "__device__ T f(T &&x) { return std::move(x); }\n"
                    "static_assert(std::is_same_v<std::decay_t<const int &>, int>, \"\");\n" KERNEL(
                        "x[0] = f<float>(3.0f) + std::numeric_limits<float>::infinity();"
                        "auto p = std::pair<int, float>(1, 2.f); x[2] = p.first;"
                        "float &&r = std::forward<float>(x[3]); x[4] = r; std::swap(x[0], x[1]);"
                        "std::array<int, 3> a{1, 2, 3}; x[5] = a[1] + std::min(1, 2);"
                        "x[6] = std::get<1>(std::make_tuple(1, 2.f));")},
    {"utility", NULL}, /* with type_traits: CCCL's headers take long */
    {"limits", NULL},
    {"tuple", NULL},
    {"array", NULL},
    {"in any order with CCCL's",
     "#include <cuda/std/cmath>\n#include <cmath>\n#include <float.h>\n#include <stdint.h>\n"
     "#include <math.h>\n#include <cuda/std/cstdint>\n#include <cuda/std/climits>\n"
     "#include <limits.h>\n#include <cuda/std/cstddef>\n#include <cstddef>\n" KERNEL(
         "x[0] = std::sqrt(x[1]) + FLT_MAX + (float)INFINITY;")},
    {"before CCCL's", "#include <math.h>\n#include <stdint.h>\n#include <limits.h>\n"
                      "#include <stddef.h>\n#include <assert.h>\n#include <cuda/std/cmath>\n"
                      "#include <cuda/std/cstddef>\n#include <cuda/std/cassert>\n" KERNEL(
                          "x[0] = INFINITY; assert(x[1] > 0);")},
    {"before CUDA's",
     "#include <math.h>\n#include <stdint.h>\n#include <cstring>\n#include <stddef.h>\n"
     "#include <cuda_pipeline.h>\n#include <cuda_awbarrier.h>\n#include <mma.h>\n"
     "#include <cuComplex.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"
     "#include <math_constants.h>\n#include <cuda_runtime.h>\n" KERNEL("x[0] = CUDART_INF_F;")},
};

static void test_built_in_headers(void **state)
{
    (void)state;
    struct build *build = new_build("headers");
    for (size_t i = 0; i < sizeof header_tests / sizeof *header_tests; i++)
        if (header_tests[i].source)
            add_unit(build, arena_printf(&world_arena, "%zu.cu", i), header_tests[i].source);
    run_clean(build);
    for (const struct embed_file *file = embed_headers; file->name; file++) {
        bool tested = false;
        for (size_t i = 0; i < sizeof header_tests / sizeof *header_tests; i++)
            tested |= strcmp(header_tests[i].name, file->name) == 0;
        if (!tested)
            fail_msg("no test of the header '%s'", file->name);
    }
}

static void test_users_headers_come_first(void **state)
{
    (void)state;
    struct build *build = new_build("own");
    put(build->root, "inc/math.h", "#define MINE 1\n");
    put(build->root, "stdint.h", "#define OURS 2\n");
    static const char *const includes[] = {"inc"};
    struct compile_unit *unit = add_unit(
        build, "k.cu", "#include <math.h>\n#include \"stdint.h\"\n" KERNEL("x[0] = MINE + OURS;"));
    unit->includes = includes;
    unit->include_count = 1;
    run_clean(build);
}

static void test_line_ends_and_marks(void **state)
{
    (void)state;
    struct build *build = new_build("marks");
    put(build->root, "bom.h", "\xef\xbb\xbf#define A 1\r\n");
    add_unit(build, "k.cu",
             "\xef\xbb\xbf#include \"bom.h\"\r\n#define B \\\r\n  2\r\n" KERNEL("x[0] = A + B;"));
    run_clean(build);
}

static void expect(const struct build *build, const char *text)
{
    if (!strstr(build->text, text))
        print_message("expected:\n%s\nfound:\n%s\n", text, build->text);
    assert_non_null(strstr(build->text, text));
}

static void test_errors_point_at_the_source(void **state)
{
    (void)state;
    struct build *build = new_build("errors");
    put(build->root, "inc/tmpl.h",
        "template <class T> __device__ T twice(T x)\n{\n"
        "\treturn x.nothing();\n}\n");
    static const char *const includes[] = {"inc"};
    struct compile_unit *unit = add_unit(build, "kernels/bad.cu",
                                         "#include \"tmpl.h\"\n"
                                         "extern \"C\" __global__ void k(float *x)\n{\n"
                                         "    int unused = 3;\n"
                                         "    x[0] = undefined_name;\n"
                                         "    x[1] = twice(3);\n}\n");
    unit->includes = includes;
    unit->include_count = 1;
    unit->loc = (struct loc){"targets/t.lua", 7, 5};
    assert_false(run(build));
    assert_int_equal(build->results[0].status, COMPILE_FAILED);
    expect(build, arena_printf(&world_arena,
                               "kpack: error: %s/kernels/bad.cu:5:12: identifier "
                               "\"undefined_name\" is undefined\n"
                               "     5 |     x[0] = undefined_name;\n"
                               "       |            ^\n",
                               build->root));
    expect(build, arena_printf(&world_arena,
                               "kpack: error: %s/inc/tmpl.h:3:9: expression must have class type",
                               build->root));
    expect(
        build,
        "detected during instantiation of \"T twice(T) [with T=int]\" at line 6 of kernels/bad.cu");
    expect(build, "     3 | \treturn x.nothing();\n       | \t       ^\n");
    expect(build, "kpack: error: targets/t.lua:7:5: 'kernels/bad.cu' does not compile for sm_90a: "
                  "2 errors\n");
    assert_non_null(strstr(build->results[0].log, "2 errors detected in the compilation of"));
}

static void test_shown_from_the_current_folder(void **state)
{
    (void)state;
    struct build *build = new_build("here");
    char *before = getcwd(NULL, 0);
    add_unit(build, "sub/k.cu", "nonsense\n");
    assert_int_equal(chdir(build->root), 0);
    assert_false(run(build));
    expect(build, "kpack: error: sub/k.cu:1:1: this declaration has no storage class");
    assert_int_equal(chdir(before), 0);
    free(before);
}

static void test_warnings(void **state)
{
    (void)state;
    struct build *build = new_build("warnings");
    add_unit(build, "k.cu", KERNEL("int unused = 3;"));
    assert_true(run(build));
    expect(build, "k.cu:1:46: variable \"unused\" was declared but never referenced\n");
    assert_null(strstr(build->text, "Remark"));
    assert_null(strstr(build->results[0].log, "ptxas info"));
}

static void test_refused_headers(void **state)
{
    (void)state;
    struct build *build = new_build("refused");
    assert_int_equal(mkfifo(path_join(&world_arena, build->root, "fifo.h"), 0600), 0);
    add_unit(build, "fifo.cu", "#include \"fifo.h\"\n" KERNEL(""));
    add_unit(build, "gone.cu", "#include <gone.h>\n" KERNEL(""));
    assert_false(run(build));
    expect(build, "note: 'fifo.h' was asked for and not read: it is no regular file");
    expect(build, "fifo.cu:1:18: cannot open source file \"fifo.h\"");
    expect(build, "gone.cu:1:18: cannot open source file \"gone.h\"");
    expect(build, "note: headers were looked for beside the file that includes them, and among");
}

static void test_errors_of_ptxas(void **state)
{
    (void)state;
    struct build *build = new_build("ptxas");
    add_unit(build, "asm.cu", KERNEL("asm volatile(\"nonsense.f32 %0;\" ::\"f\"(x[0]));"));
    build->units[0].loc = (struct loc){"targets/t.lua", 4, 3};
    assert_false(run(build));
    expect(build, "kpack: error: targets/t.lua:4:3: ptxas: Not a name of any known instruction: "
                  "'nonsense' (line ");
}

/* Names of the record lead to the files. */
static void test_paths_of_names(void **state)
{
    (void)state;
    assert_string_equal(compile_path("a/b.h", "/root", &cuda, &world_arena), "/root/a/b.h");
    assert_string_equal(compile_path(COMPILE_CWD "/a/b.h", "/root", &cuda, &world_arena),
                        "/root/a/b.h");
    assert_string_equal(compile_path("/abs/b.h", "/root", &cuda, &world_arena), "/abs/b.h");
    assert_null(compile_path("<kpack>/math.h", "/root", &cuda, &world_arena));
    assert_null(compile_path("<cuda>/no/such.h", "/root", &cuda, &world_arena));
    assert_null(compile_path("<cuda>/cuda_fp16.h", "/root", NULL, &world_arena));
    assert_true(file_is_regular(compile_path("<cuda>/cuda_fp16.h", "/root", &cuda, &world_arena)));
}

static void test_option_errors(void **state)
{
    (void)state;
    struct build *build = new_build("options");
    static const char *const unknown[] = {"--no-such-flag"}, *const dlto[] = {"-dlto"};
    static const char *const two[] = {"-G", "--no-G"};
    static const struct loc two_locs[] = {{"targets/t.lua", 6, 9}, {"targets/t.lua", 3, 5}};
    struct compile_unit *unit = add_unit(build, "k.cu", KERNEL("x[0] = 1;"));
    unit->flags = unknown;
    unit->flag_count = 1;
    unit->loc = (struct loc){"targets/t.lua", 2, 1};
    unit = add_unit(build, "k.cu", NULL);
    unit->flags = two;
    unit->flag_count = 2;
    unit->flag_locs = two_locs;
    unit->loc = (struct loc){"targets/t.lua", 6, 1};
    unit = add_unit(build, "k.cu", NULL);
    unit->flags = dlto;
    unit->flag_count = 1;
    add_unit(build, "k.cu", NULL)->arch = "sm_90z";
    assert_false(run(build));
    expect(build, "targets/t.lua:2:1: unrecognized option --no-such-flag found\n");
    expect(build, "targets/t.lua:3:5: unrecognized option --no-G found\n");
    expect(build, "targets/t.lua:6:1: 'k.cu' does not compile");
    expect(build, "NVRTC made no cubin: a flag asks for something else\n");
    expect(build, "does not know the arch 'sm_90z', expected one of: sm_");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], COMPILE_WORKER_ARG) == 0)
        return compile_worker_main(argc, argv);
    struct diags diags = {0};
    if (!cuda_find(NULL, ".", &world_arena, &cuda, &diags)) {
        printf("1..0 # SKIP no CUDA on this machine\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_what_it_read),
        cmocka_unit_test(test_same_bytes_everywhere),
        cmocka_unit_test(test_same_bytes_in_any_order),
        cmocka_unit_test(test_environment_does_not_count),
        cmocka_unit_test(test_built_in_headers),
        cmocka_unit_test(test_users_headers_come_first),
        cmocka_unit_test(test_line_ends_and_marks),
        cmocka_unit_test(test_errors_point_at_the_source),
        cmocka_unit_test(test_shown_from_the_current_folder),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_refused_headers),
        cmocka_unit_test(test_option_errors),
        cmocka_unit_test(test_errors_of_ptxas),
        cmocka_unit_test(test_paths_of_names),
    };
    return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
