/* gdn_bind and gdn_prefill_fla over a fake driver: what is launched, with which arguments, and what
 * is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../fake/cuda.h"
#include "gdn_sample.h"
#include "gdn_world.h"

static void expect_args(unsigned launch, const uint64_t *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (gdn_seen.args[launch][i] != want[i])
            fail_msg("launch %u, argument %zu: %#llx, not %#llx", launch, i,
                     (unsigned long long)gdn_seen.args[launch][i], (unsigned long long)want[i]);
}

#define EXPECT_ARGS(launch, ...)                                                                   \
    do {                                                                                           \
        const uint64_t want[] = {__VA_ARGS__};                                                     \
        expect_args(launch, want, sizeof want / sizeof *want);                                     \
    } while (0)

static void expect_launch(unsigned index, enum gdn_kernel kernel, unsigned x, unsigned y,
                          unsigned z)
{
    const struct fake_launch *launch = &fake_cuda_state()->launch[index];
    const struct gdn_entry *entry = gdn_entry_of(kernel);

    assert_string_equal(launch->entry, entry->name);
    assert_int_equal(launch->grid[0], x);
    assert_int_equal(launch->grid[1], y);
    assert_int_equal(launch->grid[2], z);
    assert_int_equal(launch->block[0], entry->block);
    assert_int_equal(launch->block[1], 1);
    assert_int_equal(launch->block[2], 1);
    assert_int_equal(launch->smem, entry->smem);
    assert_ptr_equal(launch->stream, (void *)0x77);
}

/* Which of the launches from `first` on overlap the one before. */
static void expect_overlaps(unsigned first, bool wu, bool spine, bool fwd_o)
{
    const struct fake_launch *launch = &fake_cuda_state()->launch[first];

    assert_int_equal(launch[0].overlapped, wu);
    assert_int_equal(launch[1].overlapped, spine);
    assert_int_equal(launch[2].overlapped, fwd_o);
}

/* The maps encoded so far. */
static void expect_maps(const struct gdn_map_call *want, unsigned count)
{
    assert_int_equal(gdn_seen.maps, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(gdn_seen.map[i].address, want[i].address);
        assert_int_equal(gdn_seen.map[i].columns, want[i].columns);
        assert_int_equal(gdn_seen.map[i].rows, want[i].rows);
        assert_int_equal(gdn_seen.map[i].pitch_bytes, want[i].pitch_bytes);
        assert_int_equal(gdn_seen.map[i].type, want[i].type);
        assert_int_equal(gdn_seen.map[i].rank, want[i].rank);
        assert_int_equal(gdn_seen.map[i].swizzle, want[i].swizzle);
        assert_memory_equal(gdn_seen.map[i].box, want[i].box, sizeof want[i].box);
    }
}

/* ---- Tests ------------------------------------------------------------------------------------
 */

/* By halves of v, and by quarters where one wave holds them. */
static void default_launches(void **state)
{
    static const struct {
        enum gdn_kernel spine;
        uint32_t processors, blocks, rows, columns;
        int swizzle;
    } cases[] = {{GDN_X2_V64, 255, 64, 64, 64, 3}, {GDN_X2_V32, 256, 128, 64, 32, 2}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t rows = cases[i].rows, columns = cases[i].columns;
        const int swizzle = cases[i].swizzle;
        struct gdn_world *world = gdn_world_open();
        struct gdn_route route;
        char spine[128];
        assert_int_equal(gdn_world_bind(world), KPK_OK);
        world->ops.sm_count = cases[i].processors; /* the image declares none */
        assert_int_equal(gdn_world_prefill(world, &good, &route), KPK_OK);
        assert_int_equal(gdn_seen.launches, 3);
        expect_overlaps(0, false, true, true);
        expect_launch(0, GDN_WU_REGISTERS, 192, 1, 1);
        EXPECT_ARGS(0, 1, 2, 3, 4, 0x11000, 0x12000, 0x20000, 0x20080, 0x40000, 0x50000, 0x80000, 2,
                    130, 3, 16, 32, 8192, 8200, 64, 0, 0x99, 0);
        expect_launch(1, cases[i].spine, cases[i].blocks, 2, 1);
        EXPECT_ARGS(1, 0x1000, 5, 7, 6, 10, 8, 9, 0x40000, 0x50000, 0x11000, 0x80000, 0x70000, 2,
                    130, 3, 16, 32, 8192, 0, 0, 0x99, 0);
        const struct gdn_map_call maps[14] = {
            {9, 2, 0x11000, 16 * 128, 2 * 3 * 64, 8192 * 2, {64, 64}, 3},
            {9, 2, 0x12000, 32 * 128, 2 * 3 * 64, 8200 * 2, {64, 64}, 3},
            {9, 2, 0x40000, 128, 2 * 3 * 32 * 64, 256, {64, 64}, 3},
            {9, 2, 0x50000, 128, 2 * 3 * 32 * 64, 256, {64, 64}, 3},
            {9, 2, 0x40000, 128, 2 * 3 * 32 * 64, 256, {64, rows}, 3},
            {9, 2, 0x11000, 16 * 128, 2 * 3 * 64, 8192 * 2, {64, rows}, 3},
            {9, 2, 0x50000, 128, 2 * 3 * 32 * 64, 256, {columns, 64}, swizzle},
            {9, 2, 0x60000, 128, 2 * 3 * 32 * 128, 256, {columns, 128}, swizzle},
            {9, 2, 0x70000, 128, 2 * 3 * 32 * 64, 256, {columns, 64}, swizzle},
            {7, 2, 0x80000, 64, 2 * 3 * 32, 256, {64, 1}, 0},
            {9, 2, 0x10000, 16 * 128, 2 * 3 * 64, 8192 * 2, {64, 64}, 3},
            {9, 2, 0x11000, 16 * 128, 2 * 3 * 64, 8192 * 2, {64, 64}, 3},
            {9, 2, 0x60000, 128, 2 * 3 * 32 * 128, 256, {64, 128}, 3},
            {9, 2, 0x70000, 128, 2 * 3 * 32 * 64, 256, {64, 64}, 3},
        };
        expect_maps(maps, 14);
        expect_launch(2, GDN_FWD_O_PERSISTENT, 192, 1, 1);
        EXPECT_ARGS(2, 11, 12, 13, 14, 0x10000, 0x11000, 0x80000, 0x70000, 0x30000, 2, 130, 3, 16,
                    32, 8192, 0, 0x99, 0);
        assert_string_equal(route.spine.module, gdn_entry_of(cases[i].spine)->module);
        assert_int_equal(gdn_seen.line_count, 1);
        snprintf(spine, sizeof spine, "GDN state spine: %s", gdn_entry_of(cases[i].spine)->name);
        assert_true(gdn_said(KPK_INFO, spine));
        assert_int_equal(gdn_seen.synchronizations, 0);

        struct gdn_args varlen = good;
        varlen.is_varlen = varlen.h_state_is_table = true;
        varlen.cu_seqlens = 0x88;
        assert_int_equal(gdn_world_prefill(world, &varlen, NULL), KPK_OK);
        EXPECT_ARGS(4, 0x1000, 19, 21, 20, 24, 22, 23, 0x40000, 0x50000, 0x11000, 0x80000, 0x70000,
                    2, 130, 3, 16, 32, 8192, 1, 0x88, 0x99, 1);
        gdn_world_close(world);
    }
}

static void tma_launch(void **state)
{
    struct gdn_world *world = gdn_world_open();
    struct gdn_route route;

    (void)state;
    setenv("METRALE_GDN_PREFILL_TC", "0", 1);
    setenv("METRALE_GDN_TMA", "1", 1);
    assert_int_equal(gdn_world_bind(world), KPK_OK);
    assert_int_equal(gdn_world_prefill(world, &good, &route), KPK_OK);
    expect_launch(0, GDN_WU, 3, 32, 2);
    expect_launch(1, GDN_TMA, 32, 2, 1);
    EXPECT_ARGS(1, 0x1000, 1, 2, 3, 0x80000, 0x60000, 0x70000, 2, 130, 3, 16, 32, 128, 0, 0, 0x99,
                0);
    expect_launch(2, GDN_FWD_O_MMA8, 3, 32, 2);
    expect_overlaps(0, false, false, false);
    const struct gdn_map_call maps[3] = {
        {9, 2, 0x40000, 128, 2 * 3 * 32 * 64, 256, {128, 64}, 0},
        {9, 2, 0x50000, 128, 2 * 3 * 32 * 64, 256, {128, 64}, 0},
        {9, 2, 0x11000, 16 * 128, 2 * 130, 8192 * 2, {128, 64}, 0},
    };
    expect_maps(maps, 3);
    gdn_seen.map_result = 1;
    gdn_seen.maps = 0;
    assert_int_equal(gdn_world_prefill(world, &good, &route), KPK_ERR_DRIVER);
    assert_true(gdn_said(KPK_ERROR,
                         "gdn_prefill_fla: the tensor map of W (12288 x 128, pitch 128) was "
                         "refused with CUDA error 1"));
    gdn_world_close(world);
}

static void warnings(void **state)
{
    struct gdn_world *world = gdn_world_open();
    struct gdn_args args = good;

    (void)state;
    setenv("METRALE_GDN_TMA", "1", 1);
    assert_int_equal(gdn_world_bind(world), KPK_OK);
    args.qk_stride = 8196;
    assert_int_equal(gdn_world_prefill(world, &args, NULL), KPK_OK);
    assert_true(gdn_said(
        KPK_WARNING, "METRALE_GDN_PREFILL_TC set but tensor-core spine is NOT running: qk_stride "
                     "is not a multiple of 8 (the K staging uses 16-byte vector loads)"));
    assert_true(gdn_said(KPK_WARNING,
                         "METRALE_GDN_TMA=1 but the TMA spine is NOT running: qk_stride is not a "
                         "multiple of 8 (bf16 row pitch must be 16-byte aligned)"));
    assert_true(gdn_said(KPK_WARNING,
                         "METRALE_GDN_PREFILL_TC set but "
                         "gated_delta_rule_recompute_wu_hopper is NOT running: qk_stride "
                         "is not a multiple of 8 (16-byte loads)"));
    assert_true(gdn_said(KPK_WARNING,
                         "METRALE_GDN_PREFILL_TC set but "
                         "gated_delta_rule_chunk_fwd_o_hopper is NOT running: qk_stride "
                         "is not a multiple of 8 (16-byte loads)"));
    assert_true(gdn_said(KPK_INFO, "GDN state spine: gated_delta_rule_chunk_delta_h_vfused"));
    gdn_seen.line_count = 0;
    assert_int_equal(gdn_world_prefill(world, &good, NULL), KPK_OK);
    assert_true(gdn_said(KPK_WARNING, "METRALE_GDN_TMA=1 but the TMA spine is NOT running: "
                                      "METRALE_GDN_PREFILL_TC is active and takes precedence"));
    gdn_world_close(world);
}

/* Nothing is said of kernels that no lever asks for. */
static void no_warnings(void **state)
{
    static const struct {
        const char *name, *value;
        unsigned warnings; /* of the spine that was asked for */
    } rows[] = {{"METRALE_GDN_PREFILL_TC", "0", 0}, {"METRALE_NO_GDN_PREFILL_TC_REMNANTS", "1", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gdn_world *world = gdn_world_open();
        struct gdn_args args = good;
        setenv(rows[i].name, rows[i].value, 1);
        assert_int_equal(gdn_world_bind(world), KPK_OK);
        args.key += 2;
        assert_int_equal(gdn_world_prefill(world, &args, NULL), KPK_OK);
        assert_int_equal(gdn_seen.line_count, rows[i].warnings + 1);
        assert_int_equal(gdn_said(KPK_WARNING,
                                  "METRALE_GDN_PREFILL_TC set but tensor-core spine is "
                                  "NOT running: key is not 16-byte aligned"),
                         rows[i].warnings);
        assert_true(gdn_said(KPK_INFO, "GDN state spine: gated_delta_rule_chunk_delta_h_vfused"));
        gdn_world_close(world);
    }
}

static void levers_are_read_at_bind(void **state)
{
    static const struct {
        const char *name, *value, *other, *other_value;
        enum gdn_kernel spine, fwd_o;
    } rows[] = {
        {"METRALE_GDN_PIPE", "0", NULL, NULL, GDN_VFUSED, GDN_FWD_O_MMA8},
        {"METRALE_GDN_VTILE", "1", NULL, NULL, GDN_VTILE, GDN_FWD_O_MMA8},
        {"METRALE_GDN_VTILE", "1", "METRALE_GDN_PIPE", "1", GDN_PIPE, GDN_FWD_O_MMA8},
        {"METRALE_GDN_VTILE", "0", NULL, NULL, GDN_KSPLIT, GDN_FWD_O_MMA8},
        {"METRALE_GDN_TC_VBLOCK", "1", NULL, NULL, GDN_PIPE, GDN_FWD_O_MMA8},
        {"METRALE_GDN_TC_VBLOCK", "1", "METRALE_GDN_VTILE", "0", GDN_TC_VBLOCK, GDN_FWD_O_MMA8},
        {"METRALE_GDN_TC_VBLOCK", "yes", "METRALE_GDN_VTILE", "0", GDN_KSPLIT, GDN_FWD_O_MMA8},
        {"METRALE_NO_GDN_FWD_O_MMA8", "", NULL, NULL, GDN_PIPE, GDN_FWD_O},
        {"METRALE_NO_GDN_FWD_O_MMA8", "0", NULL, NULL, GDN_PIPE, GDN_FWD_O},
        {"METRALE_GDN_TMA", "1", NULL, NULL, GDN_TMA, GDN_FWD_O_MMA8},
        {"METRALE_GDN_TMA", "yes", NULL, NULL, GDN_PIPE, GDN_FWD_O_MMA8},
    };
    static const struct {
        const char *tc, *remnants;
        bool want_tc, want_no_remnants;
    } switches[] = {
        {NULL, NULL, true, false},    {"", "1", true, true},          {"1", "", true, false},
        {"0", "0", false, false},     {"false", "yes", false, false}, {"off", "1", false, true},
        {"no", "true", false, false}, {"2", NULL, true, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gdn_world *world = gdn_world_open();
        struct gdn_route route;
        setenv("METRALE_GDN_PREFILL_TC", "off", 1);
        setenv(rows[i].name, rows[i].value, 1);
        if (rows[i].other != NULL)
            setenv(rows[i].other, rows[i].other_value, 1);
        assert_int_equal(gdn_world_bind(world), KPK_OK);
        unsetenv(rows[i].name);
        if (rows[i].other != NULL)
            unsetenv(rows[i].other);
        unsetenv("METRALE_GDN_PREFILL_TC");
        assert_int_equal(gdn_world_prefill(world, &good, &route), KPK_OK);
        assert_int_equal(route.wu.kernel, GDN_WU);
        assert_int_equal(route.spine.kernel, rows[i].spine);
        assert_int_equal(route.fwd_o.kernel, rows[i].fwd_o);
        gdn_world_close(world);
    }
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        struct gdn_world *world = gdn_world_open();
        if (switches[i].tc != NULL)
            setenv("METRALE_GDN_PREFILL_TC", switches[i].tc, 1);
        if (switches[i].remnants != NULL)
            setenv("METRALE_NO_GDN_PREFILL_TC_REMNANTS", switches[i].remnants, 1);
        assert_int_equal(gdn_world_bind(world), KPK_OK);
        assert_int_equal(world->ops.levers.tc, switches[i].want_tc);
        assert_int_equal(world->ops.levers.no_remnants, switches[i].want_no_remnants);
        gdn_world_close(world);
    }
}

static void profile(void **state)
{
    static const char *const labels[] = {"gdn_fla_recompute_wu", "gdn_fla_chunk_delta_h",
                                         "gdn_fla_chunk_fwd_o"};
    struct gdn_world *world = gdn_world_open();
    struct gdn_args args = good;

    (void)state;
    assert_int_equal(gdn_world_bind(world), KPK_OK);
    args.profile = true;
    assert_int_equal(gdn_world_prefill(world, &args, NULL), KPK_OK);
    assert_int_equal(gdn_seen.synchronizations, 4);
    assert_int_equal(gdn_seen.line_count, 4);
    for (unsigned i = 0; i < 3; i++) {
        char start[80];
        const char *line = gdn_seen.lines[i + 1];
        snprintf(start, sizeof start, "  SSM prefill [%s] N=130: ", labels[i]);
        assert_memory_equal(line, start, strlen(start));
        assert_string_equal(line + strlen(line) - strlen("µs"), "µs");
    }
    gdn_seen.synchronize_result = 700;
    for (unsigned call = 1; call <= 4; call++) { /* before the stages, and after each */
        gdn_seen.synchronizations = gdn_seen.line_count = 0;
        gdn_seen.launches = 0;
        gdn_seen.synchronize_fails = call;
        assert_int_equal(gdn_world_prefill(world, &args, NULL), KPK_ERR_DRIVER);
        assert_int_equal(gdn_seen.synchronizations, call);
        assert_int_equal(gdn_seen.launches, call - 1);
        assert_true(gdn_said(KPK_ERROR, "gdn_prefill_fla: cuStreamSynchronize returned CUDA error "
                                        "700"));
    }
    gdn_world_close(world);
}

/* Each stage is timed from when the line of the one before has been sent. */
static void profile_leaves_out_the_callback(void **state)
{
    struct gdn_world *world = gdn_world_open();
    struct gdn_args args = good;

    (void)state;
    assert_int_equal(gdn_world_bind(world), KPK_OK);
    args.profile = true;
    assert_int_equal(gdn_world_prefill(world, &args, NULL), KPK_OK); /* loads the modules */
    gdn_seen.line_count = 0;
    gdn_seen.callback_takes.tv_nsec = 200 * 1000 * 1000;
    assert_int_equal(gdn_world_prefill(world, &args, NULL), KPK_OK);
    assert_int_equal(gdn_seen.line_count, 4);
    for (unsigned i = 1; i < 4; i++) {
        const char *number = strrchr(gdn_seen.lines[i], ' ');
        assert_non_null(number);
        assert_in_range(strtoul(number, NULL, 10), 0, 199999);
    }
    gdn_world_close(world);
}

static void driver_lacks_functions(void **state)
{
    struct gdn_world *world = gdn_world_open();
    struct gdn_args args = good;

    (void)state;
    setenv("METRALE_GDN_PREFILL_TC", "0", 1);
    setenv("METRALE_GDN_TMA", "1", 1);
    assert_int_equal(gdn_world_bind(world), KPK_OK);
    gdn_seen.hidden = "cuTensorMapEncodeTiled";
    assert_int_equal(gdn_world_prefill(world, &args, NULL), KPK_ERR_NO_DRIVER);
    assert_true(gdn_said(KPK_ERROR, "gdn_prefill_fla: the driver has no cuTensorMapEncodeTiled"));
    gdn_seen.hidden = "cuStreamSynchronize";
    gdn_seen.launches = 0;
    args.profile = true;
    assert_int_equal(gdn_world_prefill(world, &args, NULL), KPK_ERR_NO_DRIVER);
    assert_true(gdn_said(KPK_ERROR, "gdn_prefill_fla: the driver has no cuStreamSynchronize"));
    assert_int_equal(gdn_seen.launches, 0);
    gdn_world_close(world);
}

static void nothing_is_launched(void **state)
{
    struct gdn_world *world = gdn_world_open();
    struct gdn_args args = good;
    struct gdn_route route;

    (void)state;
    assert_int_equal(gdn_world_bind(world), KPK_OK);
    args.batch = 0;
    assert_int_equal(gdn_world_prefill(world, &args, &route), KPK_OK);
    assert_string_equal(route.wu.entry, "");
    args = good;
    args.seq_len = args.num_chunks = 0;
    assert_int_equal(gdn_world_prefill(world, &args, &route), KPK_OK);
    assert_string_equal(route.spine.entry, "");
    args = good;
    args.is_varlen = true;
    args.cu_seqlens = 0x88;
    args.num_chunks = 0;
    assert_int_equal(gdn_world_prefill(world, &args, &route), KPK_OK);
    assert_string_equal(route.fwd_o.entry, "");
    assert_int_equal(gdn_seen.line_count, 0);
    args = good;
    args.num_chunks = 4;
    assert_int_equal(gdn_world_prefill(world, &args, &route), KPK_ERR_UNSUPPORTED);
    assert_true(gdn_said(KPK_ERROR, "gdn_prefill_fla: num_chunks=4 must be 3 for seq_len=130"));
    assert_int_equal(gdn_prefill_fla(NULL, &good, NULL, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(gdn_prefill_fla(&world->ops, NULL, NULL, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(gdn_seen.launches, 0);
    gdn_world_close(world);
}

/* Then each kernel begins after the one before. */
static void driver_without_attributes(void **state)
{
    struct gdn_world *world = gdn_world_open();

    (void)state;
    assert_int_equal(gdn_world_bind(world), KPK_OK);
    gdn_seen.hidden = "cuLaunchKernelEx";
    assert_int_equal(gdn_world_prefill(world, &good, NULL), KPK_OK);
    assert_int_equal(fake_cuda_state()->calls[FAKE_cuLaunchKernel], 3);
    expect_launch(0, GDN_WU_REGISTERS, 192, 1, 1);
    expect_launch(1, GDN_X2_V64, 64, 2, 1);
    expect_launch(2, GDN_FWD_O_PERSISTENT, 192, 1, 1);
    expect_overlaps(0, false, false, false);
    gdn_world_close(world);
}

static void failing_launches(void **state)
{
    static const struct {
        enum gdn_kernel kernel;
        enum fake_function function;
        unsigned long call;
        const char *said;
    } cases[] = {
        {GDN_WU_REGISTERS, FAKE_cuLaunchKernel, 2, NULL},
        {GDN_X2_V64, FAKE_cuLaunchKernelEx, 3,
         "cuLaunchKernelEx of 'gated_delta_rule_chunk_delta_h_tcfuse_x2_v64' returned CUDA error "
         "700"},
        {GDN_FWD_O_PERSISTENT, FAKE_cuLaunchKernelEx, 4,
         "cuLaunchKernelEx of 'gated_delta_rule_chunk_fwd_o_persistent' returned CUDA error 700"},
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char start[128];
        struct fake_cuda *fake = fake_cuda_state();
        snprintf(start, sizeof start,
                 "gdn_prefill_fla: launching '%s' failed: ", gdn_entry_of(cases[i].kernel)->name);
        struct gdn_world *world = gdn_world_open();
        assert_int_equal(gdn_world_bind(world), KPK_OK);
        assert_int_equal(gdn_world_prefill(world, &good, NULL), KPK_OK); /* loads the modules */
        fake->fail_with[cases[i].function] = 700;
        fake->fail_call[cases[i].function] = cases[i].call;
        assert_int_equal(gdn_world_prefill(world, &good, NULL), KPK_ERR_DRIVER);
        assert_int_equal(fake->calls[cases[i].function], cases[i].call);
        assert_memory_equal(gdn_seen.lines[gdn_seen.line_count - 1], start, strlen(start));
        assert_true(cases[i].said == NULL || gdn_said(KPK_ERROR, cases[i].said));
        gdn_world_close(world);
    }
}

static void first_use_in_a_capture(void **state)
{
    struct gdn_world *world = gdn_world_open();
    struct fake_cuda *fake = fake_cuda_state();

    (void)state;
    assert_int_equal(gdn_world_bind(world), KPK_OK);
    fake->fail_with[FAKE_cuLibraryLoadData] = 900;
    fake->fail_call[FAKE_cuLibraryLoadData] = 2; /* the spine's */
    assert_int_equal(gdn_world_prefill(world, &good, NULL), KPK_ERR_CAPTURE);
    assert_int_equal(gdn_seen.launches, 1);
    for (int error = 900; error <= 901; error++) {
        fake->fail_with[FAKE_cuLaunchKernelEx] = error;
        assert_int_equal(gdn_world_prefill(world, &good, NULL), KPK_ERR_CAPTURE);
    }
    fake->fail_with[FAKE_cuLaunchKernelEx] = 0;
    assert_int_equal(gdn_world_prefill(world, &good, NULL), KPK_OK);
    gdn_world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_launches),
        cmocka_unit_test(tma_launch),
        cmocka_unit_test(no_warnings),
        cmocka_unit_test(warnings),
        cmocka_unit_test(levers_are_read_at_bind),
        cmocka_unit_test(profile),
        cmocka_unit_test(nothing_is_launched),
        cmocka_unit_test(profile_leaves_out_the_callback),
        cmocka_unit_test(driver_lacks_functions),
        cmocka_unit_test(driver_without_attributes),
        cmocka_unit_test(failing_launches),
        cmocka_unit_test(first_use_in_a_capture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
