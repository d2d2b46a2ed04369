#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/w8a16.h"

enum {
    A = 0x10000,
    B = 0x20000,
    S = 0x30000,
    C = 0x40000
};

static void test_prefers(void **state)
{
    static const struct {
        uint32_t m, k;
        bool m32, m64;
    } cases[] = {
        {0, 128, false, false},  {1, 128, true, false},  {32, 128, true, false},
        {33, 128, false, true},  {64, 128, false, true}, {65, 128, false, false},
        {1, 0, false, false},    {1, 64, false, false},  {1, 192, false, false},
        {40, 127, false, false}, {40, 0, false, false},  {32, 5248, true, false},
    };
    const kpk_kernel here = {7}, absent = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(w8a16_pipelined_prefers_m32(cases[i].m, cases[i].k, here), cases[i].m32);
        assert_int_equal(w8a16_pipelined_prefers_m64(cases[i].m, cases[i].k, here), cases[i].m64);
        assert_false(w8a16_pipelined_prefers_m32(cases[i].m, cases[i].k, absent));
        assert_false(w8a16_pipelined_prefers_m64(cases[i].m, cases[i].k, absent));
    }
    assert_int_equal(w8a16_m16_smem_bytes(128), 1152);
    assert_int_equal(w8a16_m16_smem_bytes(5120), 41088);
    assert_true(w8a16_m32_is_skinny(16, 5120));
    assert_false(w8a16_m32_is_skinny(17, 5120));
    assert_false(w8a16_m32_is_skinny(16, 5248));
}

static void test_pipe128_rule(void **state)
{
    static const struct {
        bool off;
        uint32_t m, n, k;
        uint64_t id;
        enum w8a16_refusal refusal;
    } cases[] = {
        {false, 256, 128, 128, 1, W8A16_TAKEN},
        {true, 256, 128, 128, 1, W8A16_REFUSED_LEVER},
        {false, 255, 128, 128, 1, W8A16_REFUSED_ROWS},
        {false, 256, 160, 128, 1, W8A16_REFUSED_COLUMNS},
        {false, 256, 0, 128, 1, W8A16_REFUSED_COLUMNS},
        {false, 256, 128, 192, 1, W8A16_REFUSED_K},
        {false, 256, 128, 0, 1, W8A16_REFUSED_K},
        {false, 256, 128, 128, 0, W8A16_REFUSED_ABSENT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(w8a16_pipe128_refusal(cases[i].off, cases[i].m, cases[i].n, cases[i].k,
                                               (kpk_kernel){cases[i].id}),
                         cases[i].refusal);
}

static void test_rows_gate(void **state)
{
    static const struct {
        uint32_t m, n, k, lda, ldc;
        enum w8a16_refusal refusal;
    } cases[] = {
        {1, 128, 128, 128, 128, W8A16_TAKEN},
        {64, 128, 384, 392, 129, W8A16_TAKEN},
        {0, 128, 128, 128, 128, W8A16_REFUSED_ROWS},
        {65, 128, 128, 128, 128, W8A16_REFUSED_ROWS},
        {1, 160, 128, 128, 160, W8A16_REFUSED_COLUMNS},
        {1, 0, 128, 128, 128, W8A16_REFUSED_COLUMNS},
        {1, 128, 192, 192, 128, W8A16_REFUSED_K},
        {1, 128, 0, 0, 128, W8A16_REFUSED_K},
        {1, 128, 256, 128, 128, W8A16_REFUSED_PITCH},
        {1, 128, 128, 132, 128, W8A16_REFUSED_PITCH},
        {1, 128, 128, 128, 127, W8A16_REFUSED_PITCH},
    };
    struct w8a16 ops = {.rows = {{1}, {2}, {3}}, .policy = W8A16_POLICY_CANONICAL};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(w8a16_rows_refusal(&ops, cases[i].m, cases[i].n, cases[i].k, cases[i].lda,
                                            cases[i].ldc),
                         cases[i].refusal);
    ops.rows[1].id = 0;
    assert_int_equal(w8a16_rows_refusal(&ops, 17, 128, 128, 128, 128), W8A16_REFUSED_ABSENT);
    assert_int_equal(w8a16_rows_refusal(&ops, 16, 128, 128, 128, 128), W8A16_TAKEN);
    ops.policy = W8A16_POLICY_ROW_EXACT;
    assert_int_equal(w8a16_rows_refusal(&ops, 0, 0, 0, 0, 0), W8A16_REFUSED_POLICY);
    ops.no_rows = true;
    assert_int_equal(w8a16_rows_refusal(&ops, 0, 0, 0, 0, 0), W8A16_REFUSED_LEVER);
    assert_int_equal(w8a16_rows_entry(16), 0);
    assert_int_equal(w8a16_rows_entry(17), 1);
    assert_int_equal(w8a16_rows_entry(32), 1);
    assert_int_equal(w8a16_rows_entry(33), 2);
}

static void test_policy(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        bool canonical = i & 1, exact = i & 2, asked = i & 4;
        assert_int_equal(w8a16_policy_of(canonical, exact, asked), exact ? W8A16_POLICY_ROW_EXACT
                                                                   : canonical || asked
                                                                       ? W8A16_POLICY_CANONICAL
                                                                       : W8A16_POLICY_TILE);
    }
    for (int i = 0; i <= W8A16_REFUSED_COUNT; i++)
        assert_non_null(w8a16_refusal_text((enum w8a16_refusal)i));
    assert_string_equal(w8a16_refusal_text(W8A16_REFUSED_COUNT), "unknown refusal");
}

static void test_twin_choice(void **state)
{
    static const struct {
        uint32_t m, n, sms;
        enum w8a16_twin twin;
        uint32_t x;
    } cases[] = {
        {1, 8, 132, W8A16_TWIN_16X16, 1},
        {1, 2048, 132, W8A16_TWIN_16X16, 128},
        {16, 8192, 132, W8A16_TWIN_16X64, 128},
        {16, 12288, 132, W8A16_TWIN_16X96, 128},
        {1, 17408, 132, W8A16_TWIN_16X144, 121},
        {17, 2048, 132, W8A16_TWIN_32X16, 128},
        {32, 4096, 132, W8A16_TWIN_32X32, 128},
        {32, 8192, 132, W8A16_TWIN_32X64, 128},
        {32, 12288, 132, W8A16_TWIN_32X96, 128},
        {32, 17408, 132, W8A16_TWIN_32X144, 121},
        {33, 2048, 132, W8A16_TWIN_48X16, 128},
        {49, 2048, 132, W8A16_TWIN_32X32, 128},
        {48, 8192, 132, W8A16_TWIN_64X64, 128},
        {40, 12288, 132, W8A16_TWIN_64X96, 128},
        {48, 17408, 132, W8A16_TWIN_64X136, 128},
        {64, 8192, 132, W8A16_TWIN_64X64, 128},
        {64, 12288, 132, W8A16_TWIN_64X96, 128},
        {64, 17408, 132, W8A16_TWIN_64X136, 128},
        {128, 8192, 132, W8A16_TWIN_128X64, 128},
        {512, 2048, 132, W8A16_TWIN_128X64, 128},
        {2048, 12288, 132, W8A16_TWIN_128X128, 132},
    };
    kpk_kernel shipped[W8A16_TWIN_COUNT];

    (void)state;
    for (int i = 0; i < W8A16_TWIN_COUNT; i++)
        shipped[i].id = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum w8a16_twin twin = w8a16_hopper_twin(shipped, cases[i].m, cases[i].n, cases[i].sms);
        assert_int_equal(twin, cases[i].twin);
        kpk_grid grid = w8a16_hopper_grid(twin, cases[i].m, cases[i].n, cases[i].sms);
        assert_int_equal(grid.x, cases[i].x);
        assert_int_equal(grid.y, 1);
    }
    /* Of those that are shipped alone. */
    shipped[W8A16_TWIN_16X96].id = 0;
    assert_int_equal(w8a16_hopper_twin(shipped, 16, 12288, 132), W8A16_TWIN_32X96);
    for (int i = 0; i < W8A16_TWIN_COUNT; i++)
        shipped[i].id = 0;
    for (int i = 0; i < W8A16_TWIN_COUNT; i++) {
        shipped[i].id = 1;
        assert_int_equal(w8a16_hopper_twin(shipped, 2048, 12288, 132), i);
        assert_int_equal(w8a16_hopper_twin(shipped, 1, 8, 0), i);
        shipped[i].id = 0;
    }
    /* Whole clusters, also where the columns are one tile and the device has an odd count; a device
     * of an unknown size gets every tile at once. */
    assert_int_equal(w8a16_hopper_grid(W8A16_TWIN_128X128, 128, 40, 132).x, 2);
    assert_int_equal(w8a16_hopper_grid(W8A16_TWIN_128X128, 4096, 4096, 7).x, 6);
    assert_int_equal(w8a16_hopper_grid(W8A16_TWIN_64X64, 2048, 12288, 0).x, 6144);
}

static void test_checks(void **state)
{
    static const struct {
        enum w8a16_launcher launcher;
        struct w8a16_args args;
        const char *text; /* NULL: passes */
    } cases[] = {
        {W8A16_M32, {A, B, S, C, 1, 1, 128, 128, 1}, NULL},
        {W8A16_M32,
         {A, B, S, C, 0, 1, 0, 0, 0},
         "w8a16_gemm_pipelined_m32: m=0 has no rows to compute"},
        {W8A16_M32,
         {A, B, S, C, 1, 1, 192, 192, 1},
         "w8a16_gemm_pipelined_m32: K=192 must be a positive multiple of 128 (one FP8 scale block "
         "per K-step)"},
        {W8A16_M32,
         {A, B, S, C, 1, 1, 0, 0, 1},
         "w8a16_gemm_pipelined_m32: K=0 must be a positive multiple of 128 (one FP8 scale block "
         "per K-step)"},
        {W8A16_M32,
         {A, B, S, C, 1, 9, 256, 128, 9},
         "w8a16_gemm_pipelined_m32: row pitches (a=128, c=9) must cover the used extents (k=256, "
         "n=9)"},
        {W8A16_M32,
         {A, B, S, C, 1, 9, 128, 128, 8},
         "w8a16_gemm_pipelined_m32: row pitches (a=128, c=8) must cover the used extents (k=128, "
         "n=9)"},
        {W8A16_M32,
         {A, B, S, C, 1, 9, 128, 132, 9},
         "w8a16_gemm_pipelined_m32: a_row_stride=132 must keep rows 16B-aligned (cp.async A "
         "tile)"},
        {W8A16_M64,
         {A, B, S, C, 0, 1, 128, 128, 1},
         "w8a16_gemm_pipelined_m64: m=0 must be positive and K=128 a positive multiple of 128"},
        {W8A16_M64,
         {A, B, S, C, 3, 1, 100, 128, 1},
         "w8a16_gemm_pipelined_m64: m=3 must be positive and K=100 a positive multiple of 128"},
        {W8A16_M64,
         {A, B, S, C, 3, 9, 128, 132, 9},
         "w8a16_gemm_pipelined_m64: row pitches (a=132, c=9) must cover k=128 / n=9, and a must "
         "keep rows 16B-aligned"},
        {W8A16_M64,
         {A, B, S, C, 3, 9, 128, 120, 9},
         "w8a16_gemm_pipelined_m64: row pitches (a=120, c=9) must cover k=128 / n=9, and a must "
         "keep rows 16B-aligned"},
        {W8A16_M64, {A, B, S, C, 3, 9, 128, 136, 9}, NULL},
        {W8A16_PIPELINED, {A, B, S, C, 3, 9, 128, 128, 9}, NULL},
        {W8A16_PIPELINED,
         {A, B, S, C, 0, 9, 128, 128, 9},
         "w8a16_gemm_pipelined: m=0 has no rows to compute"},
        {W8A16_PIPELINED,
         {A, B, S, C, 3, 0, 128, 128, 0},
         "w8a16_gemm_pipelined: n=0 has no columns to compute"},
        {W8A16_PIPELINED,
         {A, B, S, C, 8388481, 9, 128, 128, 9},
         "w8a16_gemm_pipelined: m=8388481 is more than the grid holds (8388480)"},
        {W8A16_PIPELINED, {A, B, S, C, 8388480, 9, 128, 128, 9}, NULL},
        {W8A16_M32,
         {A, B, S, C, 2097121, 9, 128, 128, 9},
         "w8a16_gemm_pipelined_m32: m=2097121 is more than the grid holds (2097120)"},
        {W8A16_PIPELINED,
         {A + 8, B, S, C, 3, 9, 128, 128, 9},
         "w8a16_gemm_pipelined: input=0x10008 must be an address aligned to 16 bytes"},
        {W8A16_PIPELINED,
         {A, B + 1, S, C, 3, 9, 128, 128, 9},
         "w8a16_gemm_pipelined: weight=0x20001 must be an address aligned to 16 bytes"},
        {W8A16_PIPELINED,
         {A, B, S + 2, C, 3, 9, 128, 128, 9},
         "w8a16_gemm_pipelined: block_scale=0x30002 must be an address aligned to 4 bytes"},
        {W8A16_PIPELINED,
         {A, B, S, C + 2, 3, 9, 128, 128, 9},
         "w8a16_gemm_pipelined: output=0x40002 must be an address aligned to 4 bytes"},
        {W8A16_PIPELINED,
         {A, 0, S, C, 3, 9, 128, 128, 9},
         "w8a16_gemm_pipelined: weight=0x0 must be an address aligned to 16 bytes"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        kpk_status status = w8a16_check(cases[i].launcher, &cases[i].args, text, sizeof text);
        assert_int_equal(status, cases[i].text == NULL ? KPK_OK : KPK_ERR_UNSUPPORTED);
        assert_string_equal(text, cases[i].text == NULL ? "" : cases[i].text);
    }
}

static void test_check_weights(void **state)
{
    uint8_t weight[3 * 128] = {0};
    uint64_t first;

    (void)state;
    for (unsigned code = 0; code < 256; code++)
        weight[code] = (uint8_t)code;
    assert_int_equal(w8a16_check_weights(weight, 3, 128, &first), 2);
    assert_int_equal(first, 0x7f);
    weight[0x7f] = 0;
    assert_int_equal(w8a16_check_weights(weight, 3, 128, &first), 1);
    assert_int_equal(first, 0xff);
    weight[0xff] = 0;
    assert_int_equal(w8a16_check_weights(weight, 3, 128, &first), 0);
    assert_int_equal(first, 0);
    assert_int_equal(w8a16_check_weights(NULL, 0, 0, &first), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefers),       cmocka_unit_test(test_pipe128_rule),
        cmocka_unit_test(test_rows_gate),     cmocka_unit_test(test_policy),
        cmocka_unit_test(test_twin_choice),   cmocka_unit_test(test_checks),
        cmocka_unit_test(test_check_weights),
    };
    return cmocka_run_group_tests_name("w8a16", tests, NULL, NULL);
}
