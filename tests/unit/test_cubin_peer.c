#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "compile/compile.h"
#include "compile/cubin.h"

/* The cubin reader and the ptxas log against NVIDIA's own listing, `cuobjdump -res-usage`, over
 * kernels without and with shared memory, with a stack, and with spills. */

static const char source[] =
    "extern \"C\" __global__ void plain(float *x) { x[threadIdx.x] *= 2.0f; }\n"
    "extern \"C\" __global__ void fixed(float *x)\n"
    "{\n"
    "    __shared__ float s[300];\n"
    "    s[threadIdx.x] = x[threadIdx.x];\n"
    "    __syncthreads();\n"
    "    x[threadIdx.x] = s[299 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void dynamic(float *x)\n"
    "{\n"
    "    extern __shared__ float d[];\n"
    "    d[threadIdx.x] = x[threadIdx.x];\n"
    "    __syncthreads();\n"
    "    x[threadIdx.x] = d[99 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void both(float *x)\n"
    "{\n"
    "    __shared__ __align__(128) float s[100];\n"
    "    extern __shared__ float d[];\n"
    "    d[threadIdx.x] = x[threadIdx.x];\n"
    "    s[threadIdx.x] = x[threadIdx.x + 1];\n"
    "    __syncthreads();\n"
    "    x[threadIdx.x] = d[99 - threadIdx.x] + s[3];\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(256, 2) stack(float *x, int n)\n"
    "{\n"
    "    float a[64];\n"
    "    for (int i = 0; i < 64; i++)\n"
    "        a[i] = x[i];\n"
    "    for (int i = 0; i < n; i++)\n"
    "        a[(i * 7) & 63] += a[i & 63];\n"
    "    x[0] = a[n & 63];\n"
    "}\n"
    "template <int N> __global__ void templated(float *x) { x[N] = 1; }\n"
    "template __global__ void templated<3>(float *);\n"
    /* Sixty-four live values: they fit, unless the registers are capped. */
    "extern \"C\" __global__ void spills(float *x)\n"
    "{\n"
    "    float a[64], s = 0;\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 64; i++)\n"
    "        a[i] = x[i * 32 + threadIdx.x];\n"
    "#pragma unroll\n"
    "    for (int j = 0; j < 4; j++)\n"
    "#pragma unroll\n"
    "        for (int i = 0; i < 64; i++)\n"
    "            a[i] = a[i] * a[(i + j * 5 + 1) & 63] + x[i];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 64; i++) {\n"
    "        s += a[i];\n"
    "        x[i * 33 + threadIdx.x] = a[i];\n"
    "    }\n"
    "    x[0] = s;\n"
    "}\n";

static struct arena arena;
static struct cuda cuda;
static const char *cuobjdump, *work;

struct usage {
    bool found;
    unsigned registers, stack, shared;
};

/* " Function NAME:" and, on the next line, "  REG:8 STACK:0 SHARED:1024 ..." */
static struct usage usage_of(const char *listing, const char *name)
{
    struct usage usage = {0};
    const char *at = strstr(listing, arena_printf(&arena, " Function %s:\n", name));
    if (at)
        usage.found = sscanf(strchr(at, '\n'), " REG:%u STACK:%u SHARED:%u", &usage.registers,
                             &usage.stack, &usage.shared) == 3;
    return usage;
}

static const char *listing_of(const struct compile_result *result)
{
    struct diags diags = {0};
    const char *path = path_join(&arena, work, "k.cubin");
    assert_true(file_publish(path, result->cubin, result->cubin_size, &diags));
    FILE *pipe = popen(arena_printf(&arena, "'%s' -res-usage '%s' 2>&1", cuobjdump, path), "r");
    assert_non_null(pipe);
    char *text = arena_alloc(&arena, 1, 1 << 16);
    size_t size = fread(text, 1, (1 << 16) - 1, pipe);
    text[size] = '\0';
    assert_int_equal(pclose(pipe), 0);
    return text;
}

static const struct compile_spill *spill_of(const struct compile_result *result, const char *name)
{
    for (size_t i = 0; i < result->spill_count; i++)
        if (strcmp(result->spills[i].entry, name) == 0)
            return &result->spills[i];
    fail_msg("no line of ptxas on '%s'", name);
    return NULL;
}

static void compare(const struct compile_result *result, bool capped)
{
    struct diags diags = {0};
    struct cubin cubin;
    assert_true(cubin_read("k", result->cubin, result->cubin_size, &arena, &cubin, &diags));
    assert_int_equal(cubin.count, 7);
    assert_int_equal(result->spill_count, 7);
    const char *listing = listing_of(result);
    for (size_t i = 0; i < cubin.count; i++) {
        const struct cubin_entry *entry = &cubin.entries[i];
        const struct compile_spill *spill = spill_of(result, entry->name);
        struct usage usage = usage_of(listing, entry->name);
        assert_true(usage.found);
        assert_int_equal(entry->registers, usage.registers);
        assert_int_equal(entry->registers, spill->registers);
        assert_int_equal(entry->stack_bytes, usage.stack);
        assert_int_equal(entry->static_smem + (cubin.arch >= 90 ? 1024u : 0u), usage.shared);
        assert_int_equal(entry->static_smem, spill->smem_bytes);
        bool must_spill = capped && strcmp(entry->name, "spills") == 0;
        assert_true(must_spill ? spill->store_bytes > 100 && spill->load_bytes > 100
                               : !spill->store_bytes && !spill->load_bytes);
        assert_true(must_spill ? entry->stack_bytes > 0 && entry->registers == 32 : true);
        assert_true(entry->code_bytes >= 128);
    }
}

static void test_against_cuobjdump(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_121a"};
    static const char *const flags[] = {"--maxrregcount=32"};
    struct compile_unit units[6];
    struct compile_result results[6];
    for (size_t i = 0; i < 6; i++)
        units[i] = (struct compile_unit){
            .name = archs[i % 3],
            .root = work,
            .source = "k.cu",
            .arch = archs[i % 3],
            .flags = flags,
            .flag_count = i / 3,
        };
    struct diags diags = {0};
    struct compile_options options = {.cuda = &cuda, .workers = 2, .unit_timeout = 200};
    assert_true(compile_run(units, 6, &options, &arena, results, &diags));
    for (size_t i = 0; i < 6; i++)
        compare(&results[i], i >= 3);
    diag_free(&diags);
}

/* Spills of a function that ptxas does not inline count for the kernel that calls it. */
static void test_spills_of_called_functions(void **state)
{
    (void)state;
    static const char text[] =
        "__device__ __noinline__ float f(float *x, int n)\n"
        "{\n"
        "    return n <= 0 ? x[0] : f(x + 1, n - 1) * x[n] + f(x + 2, n - 3);\n"
        "}\n"
        "extern \"C\" __global__ void calls(float *x, int n) { x[0] = f(x, n); }\n"
        "extern \"C\" __global__ void alone(float *x) { x[0] = 1; }\n";
    struct diags diags = {0};
    assert_true(file_publish(path_join(&arena, work, "f.cu"), text, strlen(text), &diags));
    struct compile_unit unit = {.name = "f", .root = work, .source = "f.cu", .arch = "sm_90a"};
    struct compile_result result;
    struct compile_options options = {.cuda = &cuda, .workers = 1, .unit_timeout = 200};
    assert_true(compile_run(&unit, 1, &options, &arena, &result, &diags));
    assert_true(spill_of(&result, "calls")->store_bytes > 0);
    assert_int_equal(spill_of(&result, "alone")->store_bytes, 0);
    diag_free(&diags);
}

static int skip_all(const char *reason)
{
    printf("1..0 # SKIP %s\n", reason);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], COMPILE_WORKER_ARG) == 0)
        return compile_worker_main(argc, argv);
    struct diags diags = {0};
    if (!cuda_find(NULL, ".", &arena, &cuda, &diags))
        return skip_all("no CUDA on this machine");
    char path[4096] = "";
    FILE *pipe = popen("tests/tools/fetch-cuda-tool cuobjdump 2>&1", "r");
    if (!pipe || !fgets(path, sizeof path, pipe) || pclose(pipe) != 0)
        return skip_all(strtok(path, "\n") ? path : "no cuobjdump");
    cuobjdump = strtok(path, "\n");
    char folder[] = "/tmp/kpack-peer-XXXXXX";
    work = mkdtemp(folder);
    if (!work || !file_publish(path_join(&arena, work, "k.cu"), source, strlen(source), &diags))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_cuobjdump),
        cmocka_unit_test(test_spills_of_called_functions),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path_join(&arena, work, "k.cu"));
    unlink(path_join(&arena, work, "f.cu"));
    unlink(path_join(&arena, work, "k.cubin"));
    rmdir(work);
    arena_free(&arena);
    return failed;
}
