/* The GDN launcher's rules: every refusal in its order and words, and the route. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gdn_sample.h"
#include "ops/gdn.h"

static const char tile[] =
    "head/chunk differs from the compile-time tile (K_DIM=V_DIM=128, CHUNK=64)";
static const char absent[] = "kernel absent from this image";

static void expect(const char *got, const char *want)
{
    if (want == NULL)
        assert_null(got);
    else {
        assert_non_null(got);
        assert_string_equal(got, want);
    }
}

static void tc_spine_refusals(void **state)
{
    static const char stride[] =
        "qk_stride is not a multiple of 8 (the K staging uses 16-byte vector loads)";
    static const struct {
        bool requested, present;
        uint32_t k, v, chunk, qk;
        const char *want;
    } rows[] = {
        {true, true, 128, 128, 64, 8192, NULL},   {false, false, 64, 64, 32, 8191, "not requested"},
        {true, false, 64, 64, 32, 8191, absent},  {true, true, 64, 128, 64, 8191, tile},
        {true, true, 128, 64, 64, 8191, tile},    {true, true, 128, 128, 32, 8191, tile},
        {true, true, 128, 128, 64, 8191, stride}, {true, true, 128, 128, 64, 8196, stride},
        {true, true, 128, 128, 64, 8, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(gdn_tc_spine_reject(rows[i].requested, rows[i].present, rows[i].k, rows[i].v,
                                   rows[i].chunk, rows[i].qk),
               rows[i].want);
}

static void tma_refusals(void **state)
{
    static const char differs[] =
        "head/chunk differs from the compile-time tile the descriptors encode";
    static const char stride[] =
        "qk_stride is not a multiple of 8 (bf16 row pitch must be 16-byte aligned)";
    static const struct {
        bool requested, tc, present, varlen;
        uint32_t k, v, chunk, qk;
        const char *want;
    } rows[] = {
        {true, false, true, false, 128, 128, 64, 8192, NULL},
        {false, true, false, true, 64, 64, 32, 1, "not requested"},
        {true, true, false, true, 64, 64, 32, 1,
         "METRALE_GDN_PREFILL_TC is active and takes precedence"},
        {true, false, false, true, 64, 64, 32, 1, absent},
        {true, false, true, true, 64, 64, 32, 1,
         "varlen: choff comes from cu_chunks, so the descriptor's flat row count is unknown "
         "host-side"},
        {true, false, true, false, 64, 128, 64, 1, differs},
        {true, false, true, false, 128, 64, 64, 1, differs},
        {true, false, true, false, 128, 128, 128, 1, differs},
        {true, false, true, false, 128, 128, 64, 8188, stride},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect(gdn_tma_reject(rows[i].requested, rows[i].tc, rows[i].present, rows[i].varlen,
                              rows[i].k, rows[i].v, rows[i].chunk, rows[i].qk),
               rows[i].want);
}

static void twin_and_scalar_refusals(void **state)
{
    (void)state;
    expect(gdn_twin_reject(true, false, true, 128, 128, 64), NULL);
    expect(gdn_twin_reject(false, true, false, 64, 128, 64), "not requested");
    expect(gdn_twin_reject(true, true, false, 64, 128, 64),
           "METRALE_NO_GDN_PREFILL_TC_REMNANTS=1 pins the parent");
    expect(gdn_twin_reject(true, false, false, 64, 128, 64), absent);
    expect(gdn_twin_reject(true, false, true, 64, 128, 64), tile);
    expect(gdn_twin_reject(true, false, true, 128, 64, 64), tile);
    expect(gdn_twin_reject(true, false, true, 128, 128, 65), tile);

    expect(gdn_mma8_reject(false, true, false, 128, 128), NULL);
    expect(gdn_mma8_reject(true, false, true, 64, 128), "the Hopper twin runs");
    expect(gdn_mma8_reject(false, false, true, 64, 128),
           "head differs from the compile-time tile (K_DIM=V_DIM=128)");
    expect(gdn_mma8_reject(false, true, false, 128, 64),
           "head differs from the compile-time tile (K_DIM=V_DIM=128)");
    expect(gdn_mma8_reject(false, false, true, 128, 128), absent);
    expect(gdn_mma8_reject(false, true, true, 128, 128), "METRALE_NO_GDN_FWD_O_MMA8 is set");

    expect(gdn_fused_reject(false, true), NULL);
    expect(gdn_fused_reject(true, false), absent);
    expect(gdn_fused_reject(true, true), "METRALE_GDN_VTILE=0");

    expect(gdn_tc_vblock_reject(true, true, 32767), NULL);
    expect(gdn_tc_vblock_reject(false, false, 32768), absent);
    expect(gdn_tc_vblock_reject(false, true, 32768), "not requested");
    expect(gdn_tc_vblock_reject(true, true, 32768),
           "the batch exceeds the grid (two blocks of rows a sequence)");
}

static void fused_levers(void **state)
{
    static const struct {
        const char *vtile, *pipe;
        enum gdn_fused want;
    } rows[] = {
        {"", "", GDN_FUSED_PIPE},     {"", "1", GDN_FUSED_PIPE},   {"", "0", GDN_FUSED_VFUSED},
        {"1", "", GDN_FUSED_VTILE},   {"1", "1", GDN_FUSED_PIPE},  {"1", "0", GDN_FUSED_VTILE},
        {"0", "", GDN_FUSED_PIPE},    {"yes", "", GDN_FUSED_PIPE}, {"", "no", GDN_FUSED_PIPE},
        {"0", "0", GDN_FUSED_VFUSED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(gdn_fused_of(rows[i].vtile, rows[i].pipe), rows[i].want);
}

static void vector_refusals(void **state)
{
    (void)state;
    expect(gdn_vector_reject(4096, 4096, 4096, 8192, 8192), NULL);
    expect(gdn_vector_reject(0, 4096, 0, 8192, 1), NULL);
    expect(gdn_vector_reject(4098, 4098, 4098, 8191, 8191),
           "qk_stride is not a multiple of 8 (16-byte loads)");
    expect(gdn_vector_reject(4098, 4098, 4098, 8192, 8191), "key is not 16-byte aligned");
    expect(gdn_vector_reject(4104, 4096, 4098, 8192, 8191), "query is not 16-byte aligned");
    expect(gdn_vector_reject(4096, 4096, 4098, 8192, 8192),
           "value or v_stride is not 4-byte aligned");
    expect(gdn_vector_reject(4096, 4096, 4096, 8192, 8191),
           "value or v_stride is not 4-byte aligned");
    expect(gdn_wide_value_reject(4096, 8192), NULL);
    expect(gdn_wide_value_reject(4104, 8192), "value or v_stride is not 16-byte aligned");
    expect(gdn_wide_value_reject(4096, 8196), "value or v_stride is not 16-byte aligned");
}

/* ---- The route ---- */

static struct gdn all_kernels(bool tc)
{
    struct gdn ops = {.levers = {.tc = tc}};

    for (int i = 0; i < GDN_KERNEL_COUNT; i++)
        ops.kernels[i].id = (uint64_t)i + 1;
    return ops;
}

static struct gdn_route chosen(const struct gdn *ops, const struct gdn_args *args)
{
    struct gdn_route route;
    char text[256];

    assert_int_equal(gdn_choose(ops, args, &route, text, sizeof text), KPK_OK);
    return route;
}

static void expect_route(const struct gdn *ops, const struct gdn_args *args, enum gdn_kernel wu,
                         enum gdn_kernel spine, enum gdn_kernel fwd_o)
{
    struct gdn_route route = chosen(ops, args);

    assert_int_equal(route.wu.kernel, wu);
    assert_int_equal(route.spine.kernel, spine);
    assert_int_equal(route.fwd_o.kernel, fwd_o);
}

static void default_routes(void **state)
{
    struct gdn hopper = all_kernels(true), gb10 = all_kernels(false);
    struct gdn_args args = good;

    (void)state;
    expect_route(&hopper, &args, GDN_WU_REGISTERS, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    gb10.kernels[GDN_WU_REGISTERS].id = gb10.kernels[GDN_X2_V64].id = 0;
    gb10.kernels[GDN_X2_V32].id = 0;
    gb10.kernels[GDN_WU_HOPPER].id = gb10.kernels[GDN_FWD_O_HOPPER].id = 0;
    gb10.kernels[GDN_FWD_O_PERSISTENT].id = 0;
    gb10.kernels[GDN_TCFUSE_X2].id = 0;
    expect_route(&gb10, &args, GDN_WU, GDN_PIPE, GDN_FWD_O_MMA8);
    args.is_varlen = true;
    args.cu_seqlens = 0x90000;
    expect_route(&hopper, &args, GDN_WU_REGISTERS, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    expect_route(&gb10, &args, GDN_WU, GDN_PIPE, GDN_FWD_O_MMA8);
}

/* Blocks of a quarter of v, one a multiprocessor, while one wave holds them. */
static void quarters_of_v(void **state)
{
    struct gdn ops = all_kernels(true);
    struct gdn_args args = good;

    (void)state;
    ops.sm_count = 132;
    args.batch = 1;
    args.nk = 1;
    args.nv = 33;
    expect_route(&ops, &args, GDN_WU_REGISTERS, GDN_X2_V32, GDN_FWD_O_PERSISTENT);
    assert_int_equal(chosen(&ops, &args).spine.grid.x, 132);
    assert_int_equal(chosen(&ops, &args).spine.grid.y, 1);
    args.nv = 34;
    expect_route(&ops, &args, GDN_WU_REGISTERS, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    expect(chosen(&ops, &args).x2_quarters, "four blocks a head are more than the multiprocessors");
    assert_int_equal(chosen(&ops, &args).spine.grid.x, 68);
    args.nv = 16;
    args.batch = 2;
    expect_route(&ops, &args, GDN_WU_REGISTERS, GDN_X2_V32, GDN_FWD_O_PERSISTENT);
    assert_int_equal(chosen(&ops, &args).spine.grid.y, 2);
    args.batch = 3;
    expect_route(&ops, &args, GDN_WU_REGISTERS, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    args.batch = 2;
    ops.levers.tma = true;
    expect(chosen(&ops, &args).tma, "METRALE_GDN_PREFILL_TC is active and takes precedence");
    ops.kernels[GDN_X2_V32].id = 0;
    expect_route(&ops, &args, GDN_WU_REGISTERS, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    expect(chosen(&ops, &args).x2_quarters, absent);
}

static void lever_routes(void **state)
{
    struct gdn_args args = good;
    struct gdn ops = all_kernels(true);

    (void)state;
    ops.levers.no_remnants = true;
    expect_route(&ops, &args, GDN_WU, GDN_X2_V64, GDN_FWD_O_MMA8);
    ops.levers.no_mma8 = true;
    expect_route(&ops, &args, GDN_WU, GDN_X2_V64, GDN_FWD_O);
    ops.levers.tma = true;
    expect_route(&ops, &args, GDN_WU, GDN_X2_V64, GDN_FWD_O);
    assert_string_equal(chosen(&ops, &args).tma,
                        "METRALE_GDN_PREFILL_TC is active and takes precedence");
    ops.kernels[GDN_X2_V64].id = 0;
    expect_route(&ops, &args, GDN_WU, GDN_TCFUSE_X2, GDN_FWD_O);
    assert_string_equal(chosen(&ops, &args).tma,
                        "METRALE_GDN_PREFILL_TC is active and takes precedence");

    ops = all_kernels(false);
    ops.levers.tma = true;
    expect_route(&ops, &args, GDN_WU, GDN_TMA, GDN_FWD_O_MMA8);
    args.key += 8;
    expect_route(&ops, &args, GDN_WU, GDN_VFUSED, GDN_FWD_O);
    expect(chosen(&ops, &args).tma, "key is not 16-byte aligned");
    args.key -= 8;
    args.is_varlen = true;
    expect_route(&ops, &args, GDN_WU, GDN_PIPE, GDN_FWD_O_MMA8);
    expect(chosen(&ops, &args).tma, "varlen: choff comes from cu_chunks, so the descriptor's flat "
                                    "row count is unknown host-side");
    args.is_varlen = false;
    ops.levers.tma = false;
    ops.levers.fused = GDN_FUSED_VFUSED;
    expect_route(&ops, &args, GDN_WU, GDN_VFUSED, GDN_FWD_O_MMA8);
    ops.levers.fused = GDN_FUSED_VTILE;
    expect_route(&ops, &args, GDN_WU, GDN_VTILE, GDN_FWD_O_MMA8);
    assert_int_equal(chosen(&ops, &args).spine.block, 512);
    ops.levers.vtile_off = true;
    expect_route(&ops, &args, GDN_WU, GDN_KSPLIT, GDN_FWD_O_MMA8);
    ops.levers.tc_vblock = true;
    expect_route(&ops, &args, GDN_WU, GDN_TC_VBLOCK, GDN_FWD_O_MMA8);
    assert_int_equal(chosen(&ops, &args).spine.grid.y, 4);
    assert_int_equal(chosen(&ops, &args).spine.smem, 82952);
}

/* Kernels vanish one by one, the preferred first: the next one answers, and at last an error that
 * names what is missing. */
static void fallbacks(void **state)
{
    static const enum gdn_kernel spines[] = {GDN_X2_V64, GDN_TCFUSE_X2, GDN_TMA,
                                             GDN_PIPE,   GDN_TC_VBLOCK, GDN_KSPLIT};
    struct gdn_args args = good;
    struct gdn ops = all_kernels(true);
    struct gdn_route route;
    char text[256];

    (void)state;
    ops.levers.tma = ops.levers.tc_vblock = true;
    for (size_t i = 0; i < sizeof spines / sizeof *spines; i++) {
        expect_route(&ops, &args, GDN_WU_REGISTERS, spines[i], GDN_FWD_O_PERSISTENT);
        ops.kernels[spines[i]].id = 0;
    }
    assert_int_equal(gdn_choose(&ops, &args, &route, text, sizeof text), KPK_ERR_ABSENT);
    assert_string_equal(text, "gdn_prefill_fla: the image does not ship "
                              "'gated_delta_rule_fla:gated_delta_rule_chunk_delta_h_ksplit', "
                              "the only kernel left for its stage");
    ops = all_kernels(true);
    ops.kernels[GDN_WU_REGISTERS].id = 0;
    expect_route(&ops, &args, GDN_WU_HOPPER, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    expect(chosen(&ops, &args).wu_registers, absent);
    ops.kernels[GDN_FWD_O_PERSISTENT].id = 0;
    expect_route(&ops, &args, GDN_WU_HOPPER, GDN_X2_V64, GDN_FWD_O_HOPPER);
    expect(chosen(&ops, &args).fwd_o_persistent, absent);
    ops.kernels[GDN_WU_HOPPER].id = ops.kernels[GDN_FWD_O_HOPPER].id = 0;
    expect_route(&ops, &args, GDN_WU, GDN_X2_V64, GDN_FWD_O_MMA8);
    ops.kernels[GDN_FWD_O_MMA8].id = 0;
    expect_route(&ops, &args, GDN_WU, GDN_X2_V64, GDN_FWD_O);
    ops.kernels[GDN_FWD_O].id = 0;
    assert_int_equal(gdn_choose(&ops, &args, &route, text, sizeof text), KPK_ERR_ABSENT);
    ops.kernels[GDN_FWD_O].id = 1;
    ops.kernels[GDN_WU].id = 0;
    assert_int_equal(gdn_choose(&ops, &args, &route, text, sizeof text), KPK_ERR_ABSENT);
}

static void unaligned_rows_take_the_scalar_kernels(void **state)
{
    struct gdn ops = all_kernels(true);
    struct gdn_args args = good;

    (void)state;
    args.key += 2;
    expect_route(&ops, &args, GDN_WU, GDN_VFUSED, GDN_FWD_O);
    assert_string_equal(chosen(&ops, &args).fused, "key is not 16-byte aligned");
    assert_string_equal(chosen(&ops, &args).tc_vblock, "key is not 16-byte aligned");
    ops.levers.fused = GDN_FUSED_VFUSED; /* what runs is what was asked for */
    expect(chosen(&ops, &args).fused, NULL);
    ops.levers.fused = GDN_FUSED_PIPE;
    args = good;
    args.qk_stride += 4;
    expect_route(&ops, &args, GDN_WU, GDN_VFUSED, GDN_FWD_O);
    assert_string_equal(chosen(&ops, &args).tcfuse_x2, "qk_stride is not a multiple of 8 (the K "
                                                       "staging uses 16-byte vector loads)");
    args = good;
    args.query += 8;
    expect_route(&ops, &args, GDN_WU_REGISTERS, GDN_X2_V64, GDN_FWD_O);
    args = good;
    args.value += 2;
    expect_route(&ops, &args, GDN_WU, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    args = good;
    args.v_stride += 1;
    expect_route(&ops, &args, GDN_WU, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    args = good;
    args.value += 8;
    expect_route(&ops, &args, GDN_WU_HOPPER, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    args = good;
    args.v_stride += 4;
    expect_route(&ops, &args, GDN_WU_HOPPER, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    assert_string_equal(chosen(&ops, &args).wu_registers,
                        "value or v_stride is not 16-byte aligned");
    args.v_stride += 1;
    ops.kernels[GDN_VFUSED].id = 0;
    args.key += 2;

    struct gdn_route route;
    char text[256];
    assert_int_equal(gdn_choose(&ops, &args, &route, text, sizeof text), KPK_ERR_ABSENT);
}

static void split_spine(void **state)
{
    struct gdn ops = all_kernels(true);
    struct gdn_args args = good;

    (void)state;
    expect_route(&ops, &args, GDN_WU_REGISTERS, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    assert_int_equal(chosen(&ops, &args).spine.grid.x, 64);
    assert_int_equal(chosen(&ops, &args).spine.grid.y, 2);
    args.batch = 1;
    args.num_chunks = 0x7FFFFFFF / 128 / 32;
    expect_route(&ops, &args, GDN_WU_REGISTERS, GDN_X2_V64, GDN_FWD_O_PERSISTENT);
    args.num_chunks++;
    expect_route(&ops, &args, GDN_WU_HOPPER, GDN_TCFUSE_X2, GDN_FWD_O_HOPPER);
    expect(chosen(&ops, &args).wu_registers,
           "the scratch has more rows than a descriptor's coordinate counts");
    expect(chosen(&ops, &args).x2_halves,
           "the scratch has more rows than a descriptor's coordinate counts");
    expect(chosen(&ops, &args).fwd_o_persistent,
           "the scratch has more rows than a descriptor's coordinate counts");
    args = good;
    ops.kernels[GDN_X2_V64].id = 0;
    expect_route(&ops, &args, GDN_WU_REGISTERS, GDN_TCFUSE_X2, GDN_FWD_O_PERSISTENT);
    expect(chosen(&ops, &args).x2_halves, "kernel absent from this image");
}

static void persistent_grids(void **state)
{
    static const struct {
        uint32_t chunks, sm_count, want;
    } rows[] = {{4, 132, 256}, {5, 132, 264}, {1000, 132, 264}, {5, 0, 320}, {1, 1, 2}};
    struct gdn ops = all_kernels(true);
    struct gdn_args args = good;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ops.sm_count = rows[i].sm_count;
        args.num_chunks = rows[i].chunks;
        const struct gdn_route route = chosen(&ops, &args);
        assert_int_equal(route.wu.kernel, GDN_WU_REGISTERS);
        assert_int_equal(route.wu.grid.x, rows[i].want);
        assert_int_equal(route.wu.grid.y * route.wu.grid.z, 1);
        assert_int_equal(route.fwd_o.kernel, GDN_FWD_O_PERSISTENT);
        assert_int_equal(route.fwd_o.grid.x, rows[i].want);
        assert_int_equal(route.fwd_o.grid.y * route.fwd_o.grid.z, 1);
    }
}

static void tma_row_limit(void **state)
{
    struct gdn ops = all_kernels(false);
    struct gdn_args args = good;

    (void)state;
    ops.levers.tma = true;
    args.batch = 1;
    args.num_chunks = 0x7FFFFFFF / 64 / 32;
    expect_route(&ops, &args, GDN_WU, GDN_TMA, GDN_FWD_O_MMA8);
    args.num_chunks++;
    expect_route(&ops, &args, GDN_WU, GDN_PIPE, GDN_FWD_O_MMA8);
    expect(chosen(&ops, &args).tma,
           "the scratch has more rows than a descriptor's coordinate counts");
}

static void vblock_batch_limit(void **state)
{
    struct gdn ops = all_kernels(false);
    struct gdn_args args = good;

    (void)state;
    ops.levers.vtile_off = ops.levers.tc_vblock = true;
    args.batch = 32767;
    expect_route(&ops, &args, GDN_WU, GDN_TC_VBLOCK, GDN_FWD_O_MMA8);
    assert_int_equal(chosen(&ops, &args).spine.grid.y, 65534);
    args.batch = 32768;
    expect_route(&ops, &args, GDN_WU, GDN_KSPLIT, GDN_FWD_O_MMA8);
    expect(chosen(&ops, &args).tc_vblock,
           "the batch exceeds the grid (two blocks of rows a sequence)");
}

static void route_lines(void **state)
{
    struct gdn ops = all_kernels(true);
    struct gdn_args args = good;
    struct gdn_route route, none = {.wu = {.entry = ""}};
    char line[1024], cut[40];

    (void)state;
    ops.sm_count = 4 * args.batch * args.nv;
    route = chosen(&ops, &args);
    gdn_route_line(&route, line, sizeof line);
    assert_string_equal(line, "gdn_prefill_fla: gated_delta_rule_recompute_wu_registers -> "
                              "gated_delta_rule_chunk_delta_h_tcfuse_x2_v32 -> "
                              "gated_delta_rule_chunk_fwd_o_persistent");
    ops = all_kernels(false);
    route = chosen(&ops, &args);
    int length = gdn_route_line(&route, line, sizeof line);
    assert_string_equal(line, "gdn_prefill_fla: gated_delta_rule_recompute_wu -> "
                              "gated_delta_rule_chunk_delta_h_pipe -> "
                              "gated_delta_rule_chunk_fwd_o_mma8; not "
                              "gated_delta_rule_recompute_wu_registers: not requested, not "
                              "gated_delta_rule_recompute_wu_hopper: not requested, not "
                              "_tcfuse_x2 by quarters of v: not requested, not "
                              "_tcfuse_x2 by halves of v: not requested, not "
                              "_tcfuse_x2: not requested, not _tma: not requested, not "
                              "gated_delta_rule_chunk_fwd_o_persistent: not requested, not "
                              "gated_delta_rule_chunk_fwd_o_hopper: not requested");
    assert_int_equal(length, strlen(line));
    assert_int_equal(gdn_route_line(&route, cut, sizeof cut), length);
    assert_int_equal(gdn_route_line(&route, NULL, 0), length);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, line, sizeof cut - 1);
    route = (struct gdn_route){.wu.entry = "1",
                               .spine.entry = "2",
                               .fwd_o.entry = "3",
                               .wu_registers = "a",
                               .wu_hopper = "b",
                               .x2_quarters = "q",
                               .x2_halves = "c",
                               .tcfuse_x2 = "d",
                               .tma = "e",
                               .fused = "f",
                               .tc_vblock = "g",
                               .fwd_o_persistent = "h",
                               .fwd_o_hopper = "i",
                               .mma8 = "j"};
    gdn_route_line(&route, line, sizeof line);
    assert_string_equal(line, "gdn_prefill_fla: 1 -> 2 -> 3; not "
                              "gated_delta_rule_recompute_wu_registers: a, not "
                              "gated_delta_rule_recompute_wu_hopper: b, not "
                              "_tcfuse_x2 by quarters of v: q, not "
                              "_tcfuse_x2 by halves of v: c, not _tcfuse_x2: d, not _tma: e, not "
                              "fused: f, not _tc_vblock: g, not "
                              "gated_delta_rule_chunk_fwd_o_persistent: h, not "
                              "gated_delta_rule_chunk_fwd_o_hopper: i, not "
                              "gated_delta_rule_chunk_fwd_o_mma8: j");
    gdn_route_line(&none, line, sizeof line);
    assert_string_equal(line, "gdn_prefill_fla: nothing to launch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tc_spine_refusals),
        cmocka_unit_test(tma_refusals),
        cmocka_unit_test(twin_and_scalar_refusals),
        cmocka_unit_test(fused_levers),
        cmocka_unit_test(vector_refusals),
        cmocka_unit_test(default_routes),
        cmocka_unit_test(quarters_of_v),
        cmocka_unit_test(lever_routes),
        cmocka_unit_test(fallbacks),
        cmocka_unit_test(unaligned_rows_take_the_scalar_kernels),
        cmocka_unit_test(tma_row_limit),
        cmocka_unit_test(vblock_batch_limit),
        cmocka_unit_test(split_spine),
        cmocka_unit_test(persistent_grids),
        cmocka_unit_test(route_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
