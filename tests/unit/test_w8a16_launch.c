#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/w8a16.h"
#include "runtime_fixture.h"

/* ---- An image with the whole family -----------------------------------------------------------
 */

#define ENTRY(text, threads, smem)                                                                 \
    {                                                                                              \
        .name = text, .block = {threads, 1, 1}, .present = KPK_PRESENT_ALL, .dynamic_smem = smem   \
    }

enum {
    HOPPER,
    DECODED,
    FEW,
    PIPE128,
    PIPELINED,
    M32,
    M64,
    ROWS,
    MODULES
};

static struct build_entry hopper_entries[] = {
    ENTRY("w8a16_gemm_hopper_128x128", 384, 230400),
    ENTRY("w8a16_gemm_hopper_128x64", 256, 222208),
};
static struct build_entry decoded_entries[] = {
    ENTRY("w8a16_gemm_hopper_64x136", 512, 205824),
    ENTRY("w8a16_gemm_hopper_64x64", 640, 222208),
    ENTRY("w8a16_gemm_hopper_64x96", 640, 218112),
};
static struct build_entry few_entries[] = {
    ENTRY("w8a16_gemm_hopper_16x144", 640, 222720), ENTRY("w8a16_gemm_hopper_16x16", 320, 214528),
    ENTRY("w8a16_gemm_hopper_16x64", 576, 228352),  ENTRY("w8a16_gemm_hopper_16x96", 832, 217088),
    ENTRY("w8a16_gemm_hopper_32x144", 640, 217088), ENTRY("w8a16_gemm_hopper_32x16", 576, 231424),
    ENTRY("w8a16_gemm_hopper_32x32", 320, 228352),  ENTRY("w8a16_gemm_hopper_32x64", 576, 218112),
    ENTRY("w8a16_gemm_hopper_32x96", 448, 220160),  ENTRY("w8a16_gemm_hopper_48x16", 256, 225792),
};
static struct build_entry pipe128_entries[] = {ENTRY("w8a16_gemm_pipe128", 256, 54272)};
static struct build_entry pipelined_entries[] = {ENTRY("w8a16_gemm_pipelined", 256, 0)};
static struct build_entry m32_entries[] = {ENTRY("w8a16_gemm_pipelined_m32", 256, 44032)};
static struct build_entry m64_entries[] = {ENTRY("w8a16_gemm_pipelined_m64", 256, 0)};
static struct build_entry rows_entries[] = {ENTRY("w8a16_tc_rows_16", 128, 0),
                                            ENTRY("w8a16_tc_rows_32", 128, 0),
                                            ENTRY("w8a16_tc_rows_64", 128, 0)};
static struct build_constant few_constants[] = {{"FP8_BLOCK", 128}, {"GROUP_ROWS", 8}};
static struct build_constant hopper_constants[] = {{"FP8_BLOCK", 128}, {"GROUP_ROWS", 8}};
static struct build_constant decoded_constants[] = {{"FP8_BLOCK", 128}, {"GROUP_ROWS", 8}};
static struct build_constant pipe128_constants[] = {
    {"FP8_BLOCK", 128}, {"GROUP_ROWS", 8}, {"M_TILE", 128}, {"N_TILE", 128}};
static struct build_constant pipelined_constants[] = {
    {"FP8_BLOCK", 128}, {"M_TILE", 128}, {"N_TILE", 32}};
static struct build_constant m32_constants[] = {{"FP8_BLOCK", 128},   {"M_TILE", 32},
                                                {"N_TILE", 32},       {"SKINNY_MAX_K", 5120},
                                                {"SKINNY_MAX_M", 16}, {"SKINNY_N_TILE", 8}};
static struct build_constant m64_constants[] = {{"FP8_BLOCK", 128}, {"M_TILE", 64}, {"N_TILE", 32}};
static struct build_constant rows_constants[] = {{"FP8_BLOCK", 128}, {"N_TILE", 64}};
static const uint32_t objects[MODULES][1] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
static const char *const blobs[] = {"FAKE"
                                    " w8a16_gemm_hopper_128x128"
                                    " w8a16_gemm_hopper_128x64",
                                    "FAKE"
                                    " w8a16_gemm_hopper_64x136"
                                    " w8a16_gemm_hopper_64x64"
                                    " w8a16_gemm_hopper_64x96",
                                    "FAKE"
                                    " w8a16_gemm_hopper_16x144"
                                    " w8a16_gemm_hopper_16x16"
                                    " w8a16_gemm_hopper_16x64"
                                    " w8a16_gemm_hopper_16x96"
                                    " w8a16_gemm_hopper_32x144"
                                    " w8a16_gemm_hopper_32x16"
                                    " w8a16_gemm_hopper_32x32"
                                    " w8a16_gemm_hopper_32x64"
                                    " w8a16_gemm_hopper_32x96"
                                    " w8a16_gemm_hopper_48x16",
                                    "FAKE w8a16_gemm_pipe128",
                                    "FAKE w8a16_gemm_pipelined",
                                    "FAKE w8a16_gemm_pipelined_m32",
                                    "FAKE w8a16_gemm_pipelined_m64",
                                    "FAKE w8a16_tc_rows_16 w8a16_tc_rows_32 w8a16_tc_rows_64"};
static const struct build_lever levers[] = {
    {"canonical_tiers", "METRALE_CANONICAL_TIERS", NULL, KPK_LEVER_IS1, 0},
    {"no_w8a16_pipe128", "METRALE_NO_W8A16_PIPE128", NULL, KPK_LEVER_PRESENCE, 0},
    {"no_w8a16_tc_rows", "METRALE_NO_W8A16_TC_ROWS", NULL, KPK_LEVER_PRESENCE, 0},
    {"row_exact_tiers", "METRALE_ROW_EXACT_TIERS", NULL, KPK_LEVER_IS1, 0},
};

#define MODULE(text, which, lower)                                                                 \
    [which] = {text,                                                                               \
               lower##_entries,                                                                    \
               sizeof lower##_entries / sizeof *lower##_entries,                                   \
               objects[which],                                                                     \
               1,                                                                                  \
               lower##_constants,                                                                  \
               sizeof lower##_constants / sizeof *lower##_constants,                               \
               NULL,                                                                               \
               0}
static const struct build_module all_modules[MODULES] = {
    MODULE("w8a16_gemm_hopper", HOPPER, hopper),
    MODULE("w8a16_gemm_hopper_decoded", DECODED, decoded),
    MODULE("w8a16_gemm_hopper_few", FEW, few),
    MODULE("w8a16_gemm_pipe128", PIPE128, pipe128),
    MODULE("w8a16_gemm_pipelined", PIPELINED, pipelined),
    MODULE("w8a16_gemm_pipelined_m32", M32, m32),
    MODULE("w8a16_gemm_pipelined_m64", M64, m64),
    MODULE("w8a16_tc_rows", ROWS, rows),
};

struct family {
    struct fixture fixture;
    struct w8a16 ops;
    struct w8a16_route route;
};

static int encode_result;
static unsigned encoded;
static struct {
    int type, swizzle;
    uint32_t rank, box[2];
    uint64_t address, dims[2], stride;
} maps[2];

static int fake_encode(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                       const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                       int interleave, int swizzle, int promotion, int fill)
{
    (void)promotion;
    assert_int_equal((uintptr_t)map % 64, 0);
    assert_int_equal(interleave, 0);
    assert_int_equal(fill, 0);
    assert_int_equal(steps[0], 1);
    assert_int_equal(steps[1], 1);
    memset(map, 0xab, 128);
    if (encoded < 2) {
        maps[encoded].type = type;
        maps[encoded].swizzle = swizzle;
        maps[encoded].rank = rank;
        maps[encoded].address = (uint64_t)(uintptr_t)address;
        maps[encoded].stride = strides[0];
        for (int i = 0; i < 2; i++) {
            maps[encoded].dims[i] = dims[i];
            maps[encoded].box[i] = box[i];
        }
    }
    encoded++;
    return encode_result;
}

static void *symbol_with_encode(void *user, const char *name)
{
    if (strcmp(name, "cuTensorMapEncodeTiled") == 0) {
        int (*function)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                        const uint32_t *, const uint32_t *, int, int, int, int) = fake_encode;
        void *address;
        memcpy(&address, &function, sizeof address);
        return address;
    }
    return fake_cuda_symbol(user, name);
}

static void keep(void *user, kpk_severity severity, const char *text)
{
    struct fixture *fixture = user;

    snprintf(fixture->message, sizeof fixture->message, "%s", text);
    fixture->severity = severity;
    fixture->messages++;
}

/* Builds the modules whose bit is set in `shipped`, opens and binds the image, binds the launchers.
 */
static kpk_status ship(struct family *family, unsigned shipped, kpk_symbol_fn symbol,
                       const struct w8a16_desc *ask)
{
    struct build_module modules[MODULES];
    uint32_t count = 0;

    for (unsigned i = 0; i < MODULES; i++)
        if (shipped >> i & 1)
            modules[count++] = all_modules[i];
    const struct build_image image = {
        .target = "family",
        .arch = "sm_90a",
        .compute_major = 9,
        .min_driver = 12040,
        .modules = modules,
        .module_count = count,
        .sm_count = 132,
        .blobs = blobs,
        .blob_count = MODULES,
        .levers = levers,
        .lever_count = sizeof levers / sizeof *levers,
    };
    kpk_close(family->fixture.image);
    free(family->fixture.bytes.data);
    family->fixture.bytes = build_write(&image);
    fake_cuda_reset();
    encoded = 0;
    encode_result = 0;
    kpk_open_desc open = {.message = keep, .message_user = &family->fixture, .symbol = symbol};
    assert_int_equal(kpk_open_memory(family->fixture.bytes.data, family->fixture.bytes.size, &open,
                                     &family->fixture.image),
                     KPK_OK);
    assert_int_equal(kpk_bind(family->fixture.image, 0), KPK_OK);
    struct w8a16_desc desc = ask != NULL ? *ask : (struct w8a16_desc){0};
    desc.message = keep;
    desc.message_user = &family->fixture;
    return w8a16_bind(family->fixture.image, &desc, &family->ops);
}

#define ALL ((1u << MODULES) - 1)
#define NAMED (ALL & ~(1u << HOPPER | 1u << DECODED | 1u << FEW))

static int start(void **state)
{
    static const char *const names[] = {"METRALE_CANONICAL_TIERS", "METRALE_NO_W8A16_PIPE128",
                                        "METRALE_NO_W8A16_TC_ROWS", "METRALE_ROW_EXACT_TIERS"};
    struct family *family = calloc(1, sizeof *family);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    *state = family;
    return family == NULL;
}

static int stop(void **state)
{
    struct family *family = *state;

    kpk_close(family->fixture.image);
    free(family->fixture.bytes.data);
    free(family);
    return (int)fake_cuda_state()->libraries;
}

enum {
    A = 0x10000,
    B = 0x20000,
    S = 0x30000,
    C = 0x40000
};

static const struct fake_launch *last(void)
{
    const struct fake_cuda *fake = fake_cuda_state();

    assert_true(fake->launches > 0);
    return &fake->launch[fake->launches - 1];
}

static void assert_launch(const char *entry, unsigned x, unsigned y, unsigned threads,
                          unsigned smem)
{
    assert_string_equal(last()->entry, entry);
    assert_int_equal(last()->grid[0], x);
    assert_int_equal(last()->grid[1], y);
    assert_int_equal(last()->grid[2], 1);
    assert_int_equal(last()->block[0], threads);
    assert_int_equal(last()->block[1], 1);
    assert_int_equal(last()->smem, smem);
}

/* ---- Binding -----------------------------------------------------------------------------------
 */

static void test_bind(void **state)
{
    struct family *family = *state;

    assert_int_equal(ship(family, ALL, symbol_with_encode, NULL), KPK_OK);
    assert_true(family->ops.m32.id != 0 && family->ops.pipe128.id != 0);
    assert_true(family->ops.rows[2].id != 0 && family->ops.hopper[3].id != 0);
    assert_int_equal(family->ops.policy, W8A16_POLICY_TILE);
    assert_false(family->ops.no_pipe128 || family->ops.no_rows || family->ops.no_twins);
    assert_non_null(family->ops.encode);

    assert_int_equal(ship(family, 1u << PIPELINED, symbol_with_encode, NULL), KPK_OK);
    assert_true(family->ops.pipelined.id != 0);
    assert_true(family->ops.m32.id == 0 && family->ops.hopper[W8A16_TWIN_16X16].id == 0);

    assert_int_equal(w8a16_bind(NULL, NULL, &family->ops), KPK_ERR_ARGUMENT);
    assert_true(family->ops.pipelined.id == 0);
    assert_int_equal(w8a16_bind(family->fixture.image, NULL, NULL), KPK_ERR_ARGUMENT);
}

static void test_levers(void **state)
{
    struct family *family = *state;

    setenv("METRALE_NO_W8A16_PIPE128", "", 1);
    setenv("METRALE_NO_W8A16_TC_ROWS", "0", 1);
    setenv("METRALE_CANONICAL_TIERS", "1", 1);
    assert_int_equal(ship(family, ALL, symbol_with_encode, NULL), KPK_OK);
    assert_true(family->ops.no_pipe128 && family->ops.no_rows);
    assert_int_equal(family->ops.policy, W8A16_POLICY_CANONICAL);
    setenv("METRALE_ROW_EXACT_TIERS", "1", 1);
    assert_int_equal(ship(family, ALL, symbol_with_encode, NULL), KPK_OK);
    assert_int_equal(family->ops.policy, W8A16_POLICY_ROW_EXACT);
    unsetenv("METRALE_ROW_EXACT_TIERS");
    setenv("METRALE_CANONICAL_TIERS", "yes", 1);
    assert_int_equal(ship(family, ALL, symbol_with_encode, NULL), KPK_OK);
    assert_int_equal(family->ops.policy, W8A16_POLICY_TILE);
    const struct w8a16_desc ask = {.canonical = true};
    assert_int_equal(ship(family, ALL, symbol_with_encode, &ask), KPK_OK);
    assert_int_equal(family->ops.policy, W8A16_POLICY_CANONICAL);
}

/* The launchers take an overlay as they take an image: here one module is fixed, the rest falls
 * through. */
static void test_bind_overlay(void **state)
{
    struct family *family = *state;

    assert_int_equal(ship(family, 1u << PIPELINED, fake_cuda_symbol, NULL), KPK_OK);
    kpk_image *fix = family->fixture.image;
    struct build_bytes fix_bytes = family->fixture.bytes;
    family->fixture.image = NULL;
    family->fixture.bytes.data = NULL;
    assert_int_equal(ship(family, NAMED, fake_cuda_symbol, NULL), KPK_OK);
    kpk_image *base = family->fixture.image, *overlay = NULL;
    assert_int_equal(kpk_overlay(base, fix, &overlay), KPK_OK);
    assert_int_equal(kpk_bind(overlay, 0), KPK_OK);
    struct w8a16 ops;
    assert_int_equal(w8a16_bind(overlay, NULL, &ops), KPK_OK);
    assert_true(
        ops.pipelined.id ==
        kpk_resolve(fix, all_modules[PIPELINED].name, all_modules[PIPELINED].entries[0].name).id);
    assert_true(ops.m32.id == family->ops.m32.id && ops.m64.id == family->ops.m64.id);
    assert_true(ops.hopper[0].id == 0);
    assert_int_equal(w8a16_gemm_pipelined(&ops, A, B, S, C, 16, 2048, 512, NULL, &family->route),
                     KPK_OK);
    assert_int_equal(fake_cuda_state()->libraries, 1);
    assert_int_equal(
        w8a16_gemm_pipelined_m32(&ops, A, B, S, C, 32, 2048, 512, NULL, &family->route), KPK_OK);
    assert_int_equal(fake_cuda_state()->libraries, 2);
    kpk_close(overlay);
    kpk_close(fix);
    free(fix_bytes.data);
}

static void test_bind_refuses_constants(void **state)
{
    struct family *family = *state;

    m32_constants[1].value = 64;
    assert_int_equal(ship(family, ALL, symbol_with_encode, NULL), KPK_ERR_CONSTANT);
    m32_constants[1].value = 32;
    assert_message(&family->fixture,
                   "constant 'M_TILE' of module 'w8a16_gemm_pipelined_m32' is 64 in the "
                   "image, the launcher was built for 32");
    assert_true(family->ops.pipelined.id == 0);

    pipe128_constants[1].name = "GROUP_ROWZ";
    assert_int_equal(ship(family, ALL, symbol_with_encode, NULL), KPK_ERR_CONSTANT);
    pipe128_constants[1].name = "GROUP_ROWS";
    assert_message(&family->fixture,
                   "module 'w8a16_gemm_pipe128' of the image declares no constant "
                   "'GROUP_ROWS', the launcher was built for 8");

    m64_entries[0].block[0] = 128;
    assert_int_equal(ship(family, ALL, symbol_with_encode, NULL), KPK_ERR_CONSTANT);
    m64_entries[0].block[0] = 256;
    assert_message(&family->fixture,
                   "the block of 'w8a16_gemm_pipelined_m64:w8a16_gemm_pipelined_m64' is "
                   "(128, 1, 1) in the image, the launcher was built for (256, 1, 1)");

    pipe128_entries[0].dynamic_smem = 54000;
    assert_int_equal(ship(family, ALL, symbol_with_encode, NULL), KPK_ERR_CONSTANT);
    pipe128_entries[0].dynamic_smem = 54272;
    assert_message(&family->fixture,
                   "is 54000 bytes in the image, the launcher was built for 54272");
}

/* ---- Launching ---------------------------------------------------------------------------------
 */

static void test_by_m(void **state)
{
    struct family *family = *state;
    struct w8a16 *ops = &family->ops;
    struct w8a16_route *route = &family->route;
    static const struct {
        uint32_t m, n, k;
        const char *entry;
        unsigned x, y, smem;
        bool skinny;
    } cases[] = {
        {1, 40, 128, "w8a16_gemm_pipelined_m32", 5, 1, 1152, true},
        {16, 4096, 5120, "w8a16_gemm_pipelined_m32", 512, 1, 41088, true},
        {16, 4096, 5248, "w8a16_gemm_pipelined_m32", 128, 1, 44032, false},
        {17, 40, 256, "w8a16_gemm_pipelined_m32", 2, 1, 44032, false},
        {32, 40, 256, "w8a16_gemm_pipelined_m32", 2, 1, 44032, false},
        {33, 40, 256, "w8a16_gemm_pipelined_m64", 2, 1, 0, false},
        {64, 40, 256, "w8a16_gemm_pipelined_m64", 2, 1, 0, false},
        {65, 40, 256, "w8a16_gemm_pipelined", 2, 1, 0, false},
        {255, 128, 256, "w8a16_gemm_pipelined", 4, 2, 0, false},
        {256, 128, 256, "w8a16_gemm_pipe128", 1, 2, 54272, false},
        {257, 384, 256, "w8a16_gemm_pipe128", 3, 3, 54272, false},
        {257, 160, 256, "w8a16_gemm_pipelined", 5, 3, 0, false},
    };

    assert_int_equal(ship(family, NAMED, symbol_with_encode, NULL), KPK_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(w8a16_gemm_pipelined_by_m(ops, A, B, S, C, cases[i].m, cases[i].n,
                                                   cases[i].k, NULL, route),
                         KPK_OK);
        assert_launch(cases[i].entry, cases[i].x, cases[i].y, 256, cases[i].smem);
        assert_string_equal(route->entry, cases[i].entry);
        assert_string_equal(route->module, cases[i].entry);
        assert_int_equal(route->contract, W8A16_CONTRACT_TILE);
        assert_int_equal(route->skinny, cases[i].skinny);
        assert_int_equal(route->twin, W8A16_REFUSED_ABSENT);
        assert_int_equal(route->grid.x, cases[i].x);
    }
    unsigned long launches = fake_cuda_state()->launches;
    assert_int_equal(w8a16_gemm_pipelined_by_m(ops, A, B, S, C, 0, 8, 128, NULL, route), KPK_OK);
    assert_int_equal(w8a16_gemm_pipelined_by_m(ops, A, B, S, C, 8, 0, 128, NULL, NULL), KPK_OK);
    assert_int_equal(fake_cuda_state()->launches, launches);
    assert_int_equal(route->contract, W8A16_NOTHING);
    assert_string_equal(route->entry, "");
    assert_int_equal(w8a16_gemm_pipelined_by_m(NULL, A, B, S, C, 1, 8, 128, NULL, route),
                     KPK_ERR_ARGUMENT);
}

static void test_by_m_with_little(void **state)
{
    struct family *family = *state;
    struct w8a16 *ops = &family->ops;

    assert_int_equal(ship(family, 1u << PIPELINED, symbol_with_encode, NULL), KPK_OK);
    for (uint32_t m = 1; m <= 300; m += 23) {
        assert_int_equal(w8a16_gemm_pipelined_by_m(ops, A, B, S, C, m, 128, 128, NULL, NULL),
                         KPK_OK);
        assert_string_equal(last()->entry, "w8a16_gemm_pipelined");
    }
    assert_int_equal(w8a16_gemm_pipelined_m32(ops, A, B, S, C, 1, 8, 128, NULL, &family->route),
                     KPK_ERR_ABSENT);
    assert_message(&family->fixture,
                   "w8a16_gemm_pipelined_m32: the image does not ship this kernel: ");
    assert_int_equal(family->route.contract, W8A16_NOTHING);
    assert_int_equal(w8a16_gemm_pipelined_m64(ops, A, B, S, C, 1, 8, 128, NULL, NULL),
                     KPK_ERR_ABSENT);
    assert_int_equal(ship(family, 1u << M32, symbol_with_encode, NULL), KPK_OK);
    assert_int_equal(w8a16_gemm_pipelined_by_m(ops, A, B, S, C, 300, 8, 128, NULL, NULL),
                     KPK_ERR_ABSENT);
}

static void test_arguments(void **state)
{
    struct family *family = *state;
    struct w8a16 *ops = &family->ops;
    int mark;
    struct CUstream_st *stream = (struct CUstream_st *)(void *)&mark;

    assert_int_equal(ship(family, NAMED, symbol_with_encode, NULL), KPK_OK);
    assert_int_equal(
        w8a16_gemm_pipelined_m32_strided(ops, A, B, S, C, 20, 40, 128, 136, 41, stream, NULL),
        KPK_OK);
    assert_ptr_equal(last()->stream, stream);
    assert_int_equal(
        w8a16_gemm_pipelined_m64_strided(ops, A, B, S, C, 20, 40, 128, 136, 41, stream, NULL),
        KPK_OK);
    assert_launch("w8a16_gemm_pipelined_m64", 2, 1, 256, 0);
    assert_int_equal(
        w8a16_gemm_pipelined_m32_strided(ops, A, B, S, C, 20, 40, 100, 136, 41, stream, NULL),
        KPK_ERR_UNSUPPORTED);
    assert_message(&family->fixture, "K=100 must be a positive multiple of 128");
    assert_int_equal(w8a16_gemm_pipelined(NULL, A, B, S, C, 1, 1, 128, NULL, NULL),
                     KPK_ERR_ARGUMENT);
    assert_int_equal(w8a16_gemm_pipelined_m32(NULL, A, B, S, C, 1, 1, 128, NULL, NULL),
                     KPK_ERR_ARGUMENT);
    assert_int_equal(w8a16_gemm_pipelined_m64(NULL, A, B, S, C, 1, 1, 128, NULL, NULL),
                     KPK_ERR_ARGUMENT);
    fake_cuda_state()->fail_with[FAKE_cuLaunchKernel] = 700;
    assert_int_equal(w8a16_gemm_pipelined(ops, A, B, S, C, 1, 8, 128, NULL, &family->route),
                     KPK_ERR_DRIVER);
    assert_message(&family->fixture, "w8a16_gemm_pipelined: the launch failed");
    assert_int_equal(family->route.contract, W8A16_NOTHING);
}

static void test_rows_launch(void **state)
{
    struct family *family = *state;
    struct w8a16 *ops = &family->ops;
    struct w8a16_route *route = &family->route;
    const struct w8a16_desc ask = {.canonical = true};
    static const char *const names[] = {"w8a16_tc_rows_16", "w8a16_tc_rows_32", "w8a16_tc_rows_64"};

    assert_int_equal(ship(family, ALL, symbol_with_encode, &ask), KPK_OK);
    for (uint32_t m = 1; m <= 64; m++) {
        assert_int_equal(w8a16_gemm_pipelined_by_m(ops, A, B, S, C, m, 256, 384, NULL, route),
                         KPK_OK);
        assert_launch(names[w8a16_rows_entry(m)], 4, 1, 128, 0);
        assert_int_equal(route->contract, W8A16_CONTRACT_ROWS);
    }
    assert_int_equal(w8a16_gemm_pipelined_m64(ops, A, B, S, C, 8, 256, 384, NULL, route), KPK_OK);
    assert_string_equal(route->entry, "w8a16_tc_rows_16");
    assert_int_equal(w8a16_gemm_pipelined_m32(ops, A, B, S, C, 65, 256, 384, NULL, route), KPK_OK);
    assert_int_equal(route->rows, W8A16_REFUSED_ROWS);
    assert_string_equal(route->entry, "w8a16_gemm_hopper_16x16");

    unsigned long launches = fake_cuda_state()->launches;
    assert_int_equal(w8a16_tc_rows_launch(ops, A, B, S, C, 8, 160, 384, 384, 160, NULL, route),
                     KPK_OK);
    assert_int_equal(route->rows, W8A16_REFUSED_COLUMNS);
    assert_int_equal(route->contract, W8A16_NOTHING);
    assert_int_equal(fake_cuda_state()->launches, launches);
    assert_int_equal(w8a16_tc_rows_launch(ops, A, B, S, C, 8, 256, 384, 392, 257, NULL, route),
                     KPK_OK);
    assert_string_equal(route->entry, "w8a16_tc_rows_16");
    assert_int_equal(w8a16_tc_rows_launch(ops, A + 8, B, S, C, 8, 256, 384, 392, 257, NULL, route),
                     KPK_ERR_UNSUPPORTED);
    assert_message(&family->fixture,
                   "w8a16_tc_rows: input=0x10008 must be an address aligned to 16 bytes");
    assert_int_equal(w8a16_tc_rows_launch(NULL, A, B, S, C, 8, 256, 384, 384, 256, NULL, route),
                     KPK_ERR_ARGUMENT);
    assert_int_equal(w8a16_tc_rows_launch(ops, A, B, S, C, 8, 256, 384, 384, 256, NULL, NULL),
                     KPK_ERR_ARGUMENT);
}

static void test_twins(void **state)
{
    struct family *family = *state;
    struct w8a16 *ops = &family->ops;
    struct w8a16_route *route = &family->route;

    assert_int_equal(ship(family, ALL, symbol_with_encode, NULL), KPK_OK);
    assert_int_equal(
        w8a16_gemm_pipelined_m32_strided(ops, A, B, S, C, 20, 40, 256, 264, 41, NULL, route),
        KPK_OK);
    assert_launch("w8a16_gemm_hopper_16x16", 6, 1, 320, 214528);
    assert_string_equal(route->module, "w8a16_gemm_hopper_few");
    assert_int_equal(route->twin, W8A16_TAKEN);
    assert_int_equal(encoded, 2);
    assert_int_equal(maps[0].type, 0);
    assert_int_equal(maps[0].address, B);
    assert_int_equal(maps[0].dims[0], 256);
    assert_int_equal(maps[0].dims[1], 40);
    assert_int_equal(maps[0].stride, 256);
    assert_int_equal(maps[0].box[0], 128);
    assert_int_equal(maps[0].box[1], 16);
    assert_int_equal(maps[1].type, 9);
    assert_int_equal(maps[1].address, A);
    assert_int_equal(maps[1].dims[0], 256);
    assert_int_equal(maps[1].dims[1], 20);
    assert_int_equal(maps[1].stride, 264 * 2);
    assert_int_equal(maps[1].box[0], 64);
    assert_int_equal(maps[1].box[1], 16);
    assert_int_equal(maps[0].swizzle, 3);
    assert_int_equal(maps[1].swizzle, 3);
    assert_int_equal(maps[1].rank, 2);
    assert_int_equal(w8a16_gemm_pipelined(ops, A, B, S, C, 2048, 256, 256, NULL, route), KPK_OK);
    assert_launch("w8a16_gemm_hopper_64x64", 128, 1, 640, 222208);
    assert_int_equal(w8a16_gemm_pipelined(ops, A, B, S, C, 2048, 12288, 256, NULL, route), KPK_OK);
    assert_launch("w8a16_gemm_hopper_128x128", 132, 1, 384, 230400);

    /* No copy of rows that A does not have. */
    encoded = 0;
    assert_int_equal(w8a16_gemm_pipelined(ops, A, B, S, C, 5, 256, 256, NULL, route), KPK_OK);
    assert_int_equal(maps[1].box[1], 5);

    encode_result = 1;
    assert_int_equal(w8a16_gemm_pipelined(ops, A, B, S, C, 4, 256, 256, NULL, route),
                     KPK_ERR_DRIVER);
    assert_message(&family->fixture,
                   "w8a16_gemm_hopper_16x16: the tensor map of weight (256 x 256, pitch 256) "
                   "was refused with CUDA error 1");

    /* A driver without tensor maps, and a caller who asks: the named kernels. */
    assert_int_equal(ship(family, ALL, fake_cuda_symbol, NULL), KPK_OK);
    assert_int_equal(w8a16_gemm_pipelined(ops, A, B, S, C, 4, 256, 256, NULL, route), KPK_OK);
    assert_string_equal(route->entry, "w8a16_gemm_pipelined");
    assert_int_equal(route->twin, W8A16_REFUSED_DRIVER);
    const struct w8a16_desc ask = {.no_twins = true};
    assert_int_equal(ship(family, ALL, symbol_with_encode, &ask), KPK_OK);
    assert_int_equal(w8a16_gemm_pipelined_by_m(ops, A, B, S, C, 4, 256, 256, NULL, route), KPK_OK);
    assert_string_equal(route->entry, "w8a16_gemm_pipelined_m32");
    assert_int_equal(route->twin, W8A16_REFUSED_ASKED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bind, start, stop),
        cmocka_unit_test_setup_teardown(test_bind_overlay, start, stop),
        cmocka_unit_test_setup_teardown(test_levers, start, stop),
        cmocka_unit_test_setup_teardown(test_bind_refuses_constants, start, stop),
        cmocka_unit_test_setup_teardown(test_by_m, start, stop),
        cmocka_unit_test_setup_teardown(test_by_m_with_little, start, stop),
        cmocka_unit_test_setup_teardown(test_arguments, start, stop),
        cmocka_unit_test_setup_teardown(test_rows_launch, start, stop),
        cmocka_unit_test_setup_teardown(test_twins, start, stop),
    };
    return cmocka_run_group_tests_name("w8a16_launch", tests, NULL, NULL);
}
