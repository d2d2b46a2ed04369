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
#include "kpk_build.h"
#include "ops/gdn.h"

enum {
    MOST_ENTRIES = 8,
    MOST_MODULES = 8,
    MOST_ARGS = 21,
    MOST_LINES = 16
};

/* ---- The driver's functions that only this launcher uses, and a launch that keeps arguments ----
 */

struct map_call {
    int type, rank;
    uint64_t address, columns, rows, pitch_bytes;
    uint32_t box[2];
    int swizzle;
};

static struct {
    unsigned maps, synchronizations, launches;
    int map_result, synchronize_result;
    unsigned synchronize_fails; /* the call that gives the result; 0: each */
    const char *hidden;         /* a function that the driver lacks */
    struct timespec callback_takes;
    struct map_call map[32];
    uint64_t args[8][MOST_ARGS]; /* of each launch; a tensor map by its first byte */
    char lines[MOST_LINES][512];
    kpk_severity severity[MOST_LINES];
    unsigned line_count;
} seen;

static int fake_encode(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                       const uint64_t *strides, const uint32_t *box,
                       const uint32_t *element_strides, int interleave, int swizzle, int promotion,
                       int fill)
{
    assert_int_equal(interleave + promotion + fill, 0);
    assert_int_equal(element_strides[0] + element_strides[1], 2);
    assert_int_equal((uintptr_t)map % 64, 0);
    memset(map, (int)seen.maps + 1, 128);
    assert_true(seen.maps < sizeof seen.map / sizeof *seen.map);
    seen.map[seen.maps++] = (struct map_call){type,    (int)rank,  (uintptr_t)address, dims[0],
                                              dims[1], strides[0], {box[0], box[1]},   swizzle};
    return seen.map_result;
}

static int fake_synchronize(void *stream)
{
    assert_ptr_equal(stream, (void *)0x77);
    seen.synchronizations++;
    if (seen.synchronize_fails != 0 && seen.synchronizations != seen.synchronize_fails)
        return 0;
    return seen.synchronize_result;
}

/* Parameters in order: p an address, u 32 bits, m a tensor map. */
static const char *parameters_of(const char *entry)
{
    if (strstr(entry, "recompute_wu") != NULL)
        return "pppppppuuuuuuuuuuppu";
    if (strstr(entry, "_tma") != NULL)
        return "pmmmpppuuuuuuuppu";
    if (strstr(entry, "_x2_v64") != NULL)
        return "pmmmmmpppppuuuuuuuppu";
    if (strstr(entry, "delta_h") != NULL)
        return "ppppppppuuuuuuuuuuppu";
    if (strstr(entry, "_persistent") != NULL)
        return "mmmmpppppuuuuuuppu";
    return "pppppppuuuuuuuuuppu";
}

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void *, void **, void **);

static int keep_launch(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned smem, void *stream, void **args,
                       void **extra)
{
    void *symbol = fake_cuda_symbol(NULL, "cuLaunchKernel");
    launch_fn launch;

    memcpy(&launch, &symbol, sizeof symbol);
    int result = launch(kernel, gx, gy, gz, bx, by, bz, smem, stream, args, extra);
    if (result != 0)
        return result; /* not recorded */
    const char *kinds =
        parameters_of(fake_cuda_state()->launch[fake_cuda_state()->launches - 1].entry);
    for (size_t i = 0; kinds[i] != '\0'; i++) {
        const size_t size = kinds[i] == 'p' ? 8 : kinds[i] == 'u' ? 4 : 1;
        memcpy(&seen.args[seen.launches][i], args[i], size);
    }
    seen.launches++;
    return result;
}

static void *symbol_of(void *user, const char *name)
{
    static const char *const names[] = {"cuTensorMapEncodeTiled", "cuStreamSynchronize",
                                        "cuLaunchKernel"};
    void *pointer = NULL;

    if (seen.hidden != NULL && strcmp(name, seen.hidden) == 0)
        return NULL;
    if (strcmp(name, names[0]) == 0) {
        __typeof__(&fake_encode) function = fake_encode;
        memcpy(&pointer, &function, sizeof pointer);
    } else if (strcmp(name, names[1]) == 0) {
        __typeof__(&fake_synchronize) function = fake_synchronize;
        memcpy(&pointer, &function, sizeof pointer);
    } else if (strcmp(name, names[2]) == 0) {
        launch_fn function = keep_launch;
        memcpy(&pointer, &function, sizeof pointer);
    } else {
        pointer = fake_cuda_symbol(user, name);
    }
    return pointer;
}

static void keep_line(void *user, kpk_severity severity, const char *text)
{
    (void)user;
    assert_true(seen.line_count < MOST_LINES);
    seen.severity[seen.line_count] = severity;
    snprintf(seen.lines[seen.line_count++], sizeof seen.lines[0], "%s", text);
    nanosleep(&seen.callback_takes, NULL);
}

static bool said(kpk_severity severity, const char *text)
{
    for (unsigned i = 0; i < seen.line_count; i++)
        if (seen.severity[i] == severity && strcmp(seen.lines[i], text) == 0)
            return true;
    return false;
}

/* ---- An image of all the family, as the targets describe it -----------------------------------
 */

static const char *const lever_envs[] = {"METRALE_GDN_PIPE",
                                         "METRALE_GDN_PREFILL_TC",
                                         "METRALE_GDN_TC_VBLOCK",
                                         "METRALE_GDN_TMA",
                                         "METRALE_GDN_VTILE",
                                         "METRALE_NO_GDN_FWD_O_MMA8",
                                         "METRALE_NO_GDN_PREFILL_TC_REMNANTS"};

struct world {
    struct build_bytes bytes;
    kpk_image *image;
    struct gdn ops;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct build_entry *)a)->name, ((const struct build_entry *)b)->name);
}

/* Builds and opens it. */
static struct world *open_world(void)
{
    static const char *const modules[MOST_MODULES] = {
        "gated_delta_rule_chunk_tc",  "gated_delta_rule_fla", "gdn_chunk_fwd_o_mma8",
        "gdn_fwd_o_hopper",           "gdn_fwd_o_persistent", "gdn_recompute_wu_hopper",
        "gdn_recompute_wu_registers", "gdn_spine_hopper"};
    static const struct build_constant constants[] = {
        {"CHUNK", GDN_CHUNK},         {"DV_BLK", GDN_DV_BLK},   {"K_DIM", GDN_K_DIM},
        {"PITCH", GDN_PITCH},         {"PITCH_T", GDN_PITCH_T}, {"PITCH_X", GDN_PITCH_X},
        {"STAGES", GDN_SPLIT_STAGES}, {"V_DIM", GDN_V_DIM}};
    static const uint32_t objects[MOST_MODULES] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct build_lever levers[] = {
        {"gdn_pipe", "METRALE_GDN_PIPE", "", KPK_LEVER_TEXT, 0},
        {"gdn_prefill_tc", "METRALE_GDN_PREFILL_TC", NULL, KPK_LEVER_SWITCH, 1},
        {"gdn_tc_vblock", "METRALE_GDN_TC_VBLOCK", NULL, KPK_LEVER_IS1, 0},
        {"gdn_tma", "METRALE_GDN_TMA", NULL, KPK_LEVER_IS1, 0},
        {"gdn_vtile", "METRALE_GDN_VTILE", "", KPK_LEVER_TEXT, 0},
        {"no_gdn_fwd_o_mma8", "METRALE_NO_GDN_FWD_O_MMA8", NULL, KPK_LEVER_PRESENCE, 0},
        {"no_gdn_prefill_tc_remnants", "METRALE_NO_GDN_PREFILL_TC_REMNANTS", NULL, KPK_LEVER_IS1,
         0},
    };
    struct build_entry entries[MOST_MODULES][MOST_ENTRIES] = {0};
    char texts[MOST_MODULES][1024];
    const char *blobs[MOST_MODULES];
    struct build_module built[MOST_MODULES];
    struct world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    for (uint32_t m = 0; m < MOST_MODULES; m++) {
        uint32_t count = 0;
        size_t used = (size_t)snprintf(texts[m], sizeof texts[m], "FAKE");
        for (int k = 0; k < GDN_KERNEL_COUNT; k++) {
            const struct gdn_entry *entry = gdn_entry_of((enum gdn_kernel)k);
            if (strcmp(entry->module, modules[m]) != 0)
                continue;
            entries[m][count++] = (struct build_entry){.name = entry->name,
                                                       .block = {entry->block, 1, 1},
                                                       .dynamic_smem = entry->smem,
                                                       .present = KPK_PRESENT_ALL};
            used += (size_t)snprintf(texts[m] + used, sizeof texts[m] - used, " %s", entry->name);
        }
        qsort(entries[m], count, sizeof entries[m][0], by_name);
        blobs[m] = texts[m];
        built[m] = (struct build_module){.name = modules[m],
                                         .entries = entries[m],
                                         .entry_count = count,
                                         .objects = &objects[m],
                                         .object_count = 1,
                                         .constants = constants,
                                         .constant_count = sizeof constants / sizeof *constants};
    }
    const struct build_image image = {.target = "hopper",
                                      .arch = "sm_90a",
                                      .compute_major = 9,
                                      .min_driver = 13000,
                                      .modules = built,
                                      .module_count = MOST_MODULES,
                                      .blobs = blobs,
                                      .blob_count = MOST_MODULES,
                                      .levers = levers,
                                      .lever_count = sizeof levers / sizeof *levers};
    const kpk_open_desc desc = {.message = keep_line, .symbol = symbol_of};

    for (size_t i = 0; i < sizeof lever_envs / sizeof *lever_envs; i++)
        unsetenv(lever_envs[i]);
    fake_cuda_reset();
    memset(&seen, 0, sizeof seen);
    world->bytes = build_write(&image);
    assert_int_equal(kpk_open_memory(world->bytes.data, world->bytes.size, &desc, &world->image),
                     KPK_OK);
    assert_int_equal(kpk_bind(world->image, 0), KPK_OK);
    return world;
}

static void close_world(struct world *world)
{
    kpk_close(world->image);
    free(world->bytes.data);
    free(world);
}

static kpk_status bind(struct world *world)
{
    const struct gdn_desc desc = {.message = keep_line};

    return gdn_bind(world->image, &desc, &world->ops);
}

static kpk_status prefill(struct world *world, const struct gdn_args *args, struct gdn_route *route)
{
    return gdn_prefill_fla(&world->ops, args, (struct CUstream_st *)0x77, route);
}

static void expect_args(unsigned launch, const uint64_t *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (seen.args[launch][i] != want[i])
            fail_msg("launch %u, argument %zu: %#llx, not %#llx", launch, i,
                     (unsigned long long)seen.args[launch][i], (unsigned long long)want[i]);
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
    assert_int_equal(launch->smem, entry->smem);
    assert_ptr_equal(launch->stream, (void *)0x77);
}

/* The maps encoded so far. */
static void expect_maps(const struct map_call *want, unsigned count)
{
    assert_int_equal(seen.maps, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(seen.map[i].address, want[i].address);
        assert_int_equal(seen.map[i].columns, want[i].columns);
        assert_int_equal(seen.map[i].rows, want[i].rows);
        assert_int_equal(seen.map[i].pitch_bytes, want[i].pitch_bytes);
        assert_int_equal(seen.map[i].type, want[i].type);
        assert_int_equal(seen.map[i].rank, want[i].rank);
        assert_int_equal(seen.map[i].swizzle, want[i].swizzle);
        assert_memory_equal(seen.map[i].box, want[i].box, sizeof want[i].box);
    }
}

/* ---- Tests ------------------------------------------------------------------------------------
 */

static void default_launches(void **state)
{
    struct world *world = open_world();
    struct gdn_route route;

    (void)state;
    assert_int_equal(bind(world), KPK_OK);
    assert_int_equal(prefill(world, &good, &route), KPK_OK);
    assert_int_equal(seen.launches, 3);
    expect_launch(0, GDN_WU_REGISTERS, 3, 32, 2);
    EXPECT_ARGS(0, 0x11000, 0x12000, 0x20000, 0x20080, 0x40000, 0x50000, 0x80000, 2, 130, 3, 16, 32,
                128, 128, 8192, 8200, 64, 0, 0x99, 0);
    expect_launch(1, GDN_X2_V64, 64, 2, 1);
    EXPECT_ARGS(1, 0x1000, 1, 2, 3, 4, 5, 0x40000, 0x50000, 0x11000, 0x80000, 0x70000, 2, 130, 3,
                16, 32, 8192, 0, 0, 0x99, 0);
    const struct map_call maps[9] = {
        {9, 2, 0x40000, 128, 2 * 3 * 32 * 64, 256, {64, 64}, 3},
        {9, 2, 0x50000, 128, 2 * 3 * 32 * 64, 256, {64, 64}, 3},
        {9, 2, 0x11000, 16 * 128, 2 * 3 * 64, 8192 * 2, {64, 64}, 3},
        {9, 2, 0x60000, 128, 2 * 3 * 32 * 128, 256, {64, 128}, 3},
        {9, 2, 0x70000, 128, 2 * 3 * 32 * 64, 256, {64, 64}, 3},
        {9, 2, 0x10000, 16 * 128, 2 * 3 * 64, 8192 * 2, {64, 64}, 3},
        {9, 2, 0x11000, 16 * 128, 2 * 3 * 64, 8192 * 2, {64, 64}, 3},
        {9, 2, 0x60000, 128, 2 * 3 * 32 * 128, 256, {64, 128}, 3},
        {9, 2, 0x70000, 128, 2 * 3 * 32 * 64, 256, {64, 64}, 3},
    };
    expect_maps(maps, 9);
    expect_launch(2, GDN_FWD_O_PERSISTENT, 192, 1, 1); /* the image declares no processors */
    EXPECT_ARGS(2, 6, 7, 8, 9, 0x10000, 0x11000, 0x80000, 0x70000, 0x30000, 2, 130, 3, 16, 32, 8192,
                0, 0x99, 0);
    assert_string_equal(route.spine.module, "gdn_spine_hopper");
    assert_int_equal(seen.line_count, 1);
    assert_true(said(KPK_INFO, "GDN state spine: gated_delta_rule_chunk_delta_h_tcfuse_x2_v64"));
    assert_int_equal(seen.synchronizations, 0);

    struct gdn_args varlen = good;
    varlen.is_varlen = varlen.h_state_is_table = true;
    varlen.cu_seqlens = 0x88;
    assert_int_equal(prefill(world, &varlen, NULL), KPK_OK);
    EXPECT_ARGS(4, 0x1000, 10, 11, 12, 13, 14, 0x40000, 0x50000, 0x11000, 0x80000, 0x70000, 2, 130,
                3, 16, 32, 8192, 1, 0x88, 0x99, 1);
    close_world(world);
}

static void tma_launch(void **state)
{
    struct world *world = open_world();
    struct gdn_route route;

    (void)state;
    setenv("METRALE_GDN_PREFILL_TC", "0", 1);
    setenv("METRALE_GDN_TMA", "1", 1);
    assert_int_equal(bind(world), KPK_OK);
    assert_int_equal(prefill(world, &good, &route), KPK_OK);
    expect_launch(0, GDN_WU, 3, 32, 2);
    expect_launch(1, GDN_TMA, 32, 2, 1);
    EXPECT_ARGS(1, 0x1000, 1, 2, 3, 0x80000, 0x60000, 0x70000, 2, 130, 3, 16, 32, 128, 0, 0, 0x99,
                0);
    expect_launch(2, GDN_FWD_O_MMA8, 3, 32, 2);
    const struct map_call maps[3] = {
        {9, 2, 0x40000, 128, 2 * 3 * 32 * 64, 256, {128, 64}, 0},
        {9, 2, 0x50000, 128, 2 * 3 * 32 * 64, 256, {128, 64}, 0},
        {9, 2, 0x11000, 16 * 128, 2 * 130, 8192 * 2, {128, 64}, 0},
    };
    expect_maps(maps, 3);
    seen.map_result = 1;
    seen.maps = 0;
    assert_int_equal(prefill(world, &good, &route), KPK_ERR_DRIVER);
    assert_true(said(KPK_ERROR, "gdn_prefill_fla: the tensor map of W (12288 x 128, pitch 128) was "
                                "refused with CUDA error 1"));
    close_world(world);
}

static void warnings(void **state)
{
    struct world *world = open_world();
    struct gdn_args args = good;

    (void)state;
    setenv("METRALE_GDN_TMA", "1", 1);
    assert_int_equal(bind(world), KPK_OK);
    args.qk_stride = 8196;
    assert_int_equal(prefill(world, &args, NULL), KPK_OK);
    assert_true(said(KPK_WARNING,
                     "METRALE_GDN_PREFILL_TC set but tensor-core spine is NOT running: qk_stride "
                     "is not a multiple of 8 (the K staging uses 16-byte vector loads)"));
    assert_true(said(KPK_WARNING,
                     "METRALE_GDN_TMA=1 but the TMA spine is NOT running: qk_stride is not a "
                     "multiple of 8 (bf16 row pitch must be 16-byte aligned)"));
    assert_true(said(KPK_WARNING, "METRALE_GDN_PREFILL_TC set but "
                                  "gated_delta_rule_recompute_wu_hopper is NOT running: qk_stride "
                                  "is not a multiple of 8 (16-byte loads)"));
    assert_true(said(KPK_WARNING, "METRALE_GDN_PREFILL_TC set but "
                                  "gated_delta_rule_chunk_fwd_o_hopper is NOT running: qk_stride "
                                  "is not a multiple of 8 (16-byte loads)"));
    assert_true(said(KPK_INFO, "GDN state spine: gated_delta_rule_chunk_delta_h_vfused"));
    seen.line_count = 0;
    assert_int_equal(prefill(world, &good, NULL), KPK_OK);
    assert_true(said(KPK_WARNING, "METRALE_GDN_TMA=1 but the TMA spine is NOT running: "
                                  "METRALE_GDN_PREFILL_TC is active and takes precedence"));
    close_world(world);
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
        struct world *world = open_world();
        struct gdn_args args = good;
        setenv(rows[i].name, rows[i].value, 1);
        assert_int_equal(bind(world), KPK_OK);
        args.key += 2;
        assert_int_equal(prefill(world, &args, NULL), KPK_OK);
        assert_int_equal(seen.line_count, rows[i].warnings + 1);
        assert_int_equal(said(KPK_WARNING, "METRALE_GDN_PREFILL_TC set but tensor-core spine is "
                                           "NOT running: key is not 16-byte aligned"),
                         rows[i].warnings);
        assert_true(said(KPK_INFO, "GDN state spine: gated_delta_rule_chunk_delta_h_vfused"));
        close_world(world);
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
        struct world *world = open_world();
        struct gdn_route route;
        setenv("METRALE_GDN_PREFILL_TC", "off", 1);
        setenv(rows[i].name, rows[i].value, 1);
        if (rows[i].other != NULL)
            setenv(rows[i].other, rows[i].other_value, 1);
        assert_int_equal(bind(world), KPK_OK);
        unsetenv(rows[i].name);
        if (rows[i].other != NULL)
            unsetenv(rows[i].other);
        unsetenv("METRALE_GDN_PREFILL_TC");
        assert_int_equal(prefill(world, &good, &route), KPK_OK);
        assert_int_equal(route.wu.kernel, GDN_WU);
        assert_int_equal(route.spine.kernel, rows[i].spine);
        assert_int_equal(route.fwd_o.kernel, rows[i].fwd_o);
        close_world(world);
    }
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        struct world *world = open_world();
        if (switches[i].tc != NULL)
            setenv("METRALE_GDN_PREFILL_TC", switches[i].tc, 1);
        if (switches[i].remnants != NULL)
            setenv("METRALE_NO_GDN_PREFILL_TC_REMNANTS", switches[i].remnants, 1);
        assert_int_equal(bind(world), KPK_OK);
        assert_int_equal(world->ops.levers.tc, switches[i].want_tc);
        assert_int_equal(world->ops.levers.no_remnants, switches[i].want_no_remnants);
        close_world(world);
    }
}

static void profile(void **state)
{
    static const char *const labels[] = {"gdn_fla_recompute_wu", "gdn_fla_chunk_delta_h",
                                         "gdn_fla_chunk_fwd_o"};
    struct world *world = open_world();
    struct gdn_args args = good;

    (void)state;
    assert_int_equal(bind(world), KPK_OK);
    args.profile = true;
    assert_int_equal(prefill(world, &args, NULL), KPK_OK);
    assert_int_equal(seen.synchronizations, 4);
    assert_int_equal(seen.line_count, 4);
    for (unsigned i = 0; i < 3; i++) {
        char start[80];
        const char *line = seen.lines[i + 1];
        snprintf(start, sizeof start, "  SSM prefill [%s] N=130: ", labels[i]);
        assert_memory_equal(line, start, strlen(start));
        assert_string_equal(line + strlen(line) - strlen("µs"), "µs");
    }
    seen.synchronize_result = 700;
    for (unsigned call = 1; call <= 4; call++) { /* before the stages, and after each */
        seen.synchronizations = seen.line_count = 0;
        seen.launches = 0;
        seen.synchronize_fails = call;
        assert_int_equal(prefill(world, &args, NULL), KPK_ERR_DRIVER);
        assert_int_equal(seen.synchronizations, call);
        assert_int_equal(seen.launches, call - 1);
        assert_true(said(KPK_ERROR, "gdn_prefill_fla: cuStreamSynchronize returned CUDA error "
                                    "700"));
    }
    close_world(world);
}

/* Each stage is timed from when the line of the one before has been sent. */
static void profile_leaves_out_the_callback(void **state)
{
    struct world *world = open_world();
    struct gdn_args args = good;

    (void)state;
    assert_int_equal(bind(world), KPK_OK);
    args.profile = true;
    assert_int_equal(prefill(world, &args, NULL), KPK_OK); /* loads the modules */
    seen.line_count = 0;
    seen.callback_takes.tv_nsec = 200 * 1000 * 1000;
    assert_int_equal(prefill(world, &args, NULL), KPK_OK);
    assert_int_equal(seen.line_count, 4);
    for (unsigned i = 1; i < 4; i++) {
        const char *number = strrchr(seen.lines[i], ' ');
        assert_non_null(number);
        assert_in_range(strtoul(number, NULL, 10), 0, 199999);
    }
    close_world(world);
}

static void driver_lacks_functions(void **state)
{
    struct world *world = open_world();
    struct gdn_args args = good;

    (void)state;
    setenv("METRALE_GDN_PREFILL_TC", "0", 1);
    setenv("METRALE_GDN_TMA", "1", 1);
    assert_int_equal(bind(world), KPK_OK);
    seen.hidden = "cuTensorMapEncodeTiled";
    assert_int_equal(prefill(world, &args, NULL), KPK_ERR_NO_DRIVER);
    assert_true(said(KPK_ERROR, "gdn_prefill_fla: the driver has no cuTensorMapEncodeTiled"));
    seen.hidden = "cuStreamSynchronize";
    seen.launches = 0;
    args.profile = true;
    assert_int_equal(prefill(world, &args, NULL), KPK_ERR_NO_DRIVER);
    assert_true(said(KPK_ERROR, "gdn_prefill_fla: the driver has no cuStreamSynchronize"));
    assert_int_equal(seen.launches, 0);
    close_world(world);
}

static void nothing_is_launched(void **state)
{
    struct world *world = open_world();
    struct gdn_args args = good;
    struct gdn_route route;

    (void)state;
    assert_int_equal(bind(world), KPK_OK);
    args.batch = 0;
    assert_int_equal(prefill(world, &args, &route), KPK_OK);
    assert_string_equal(route.wu.entry, "");
    args = good;
    args.seq_len = args.num_chunks = 0;
    assert_int_equal(prefill(world, &args, &route), KPK_OK);
    assert_string_equal(route.spine.entry, "");
    args = good;
    args.is_varlen = true;
    args.cu_seqlens = 0x88;
    args.num_chunks = 0;
    assert_int_equal(prefill(world, &args, &route), KPK_OK);
    assert_string_equal(route.fwd_o.entry, "");
    assert_int_equal(seen.line_count, 0);
    args = good;
    args.num_chunks = 4;
    assert_int_equal(prefill(world, &args, &route), KPK_ERR_UNSUPPORTED);
    assert_true(said(KPK_ERROR, "gdn_prefill_fla: num_chunks=4 must be 3 for seq_len=130"));
    assert_int_equal(gdn_prefill_fla(NULL, &good, NULL, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(gdn_prefill_fla(&world->ops, NULL, NULL, NULL), KPK_ERR_ARGUMENT);
    assert_int_equal(seen.launches, 0);
    close_world(world);
}

static void failing_launches(void **state)
{
    static const enum gdn_kernel kernels[] = {GDN_WU_REGISTERS, GDN_X2_V64, GDN_FWD_O_PERSISTENT};

    (void)state;
    for (unsigned long call = 1; call <= 3; call++) {
        char start[128];
        snprintf(start, sizeof start,
                 "gdn_prefill_fla: launching '%s' failed: ", gdn_entry_of(kernels[call - 1])->name);
        struct world *world = open_world();
        assert_int_equal(bind(world), KPK_OK);
        assert_int_equal(prefill(world, &good, NULL), KPK_OK); /* loads the modules */
        fake_cuda_state()->fail_with[FAKE_cuLaunchKernel] = 700;
        fake_cuda_state()->fail_call[FAKE_cuLaunchKernel] = 3 + call;
        assert_int_equal(prefill(world, &good, NULL), KPK_ERR_DRIVER);
        assert_int_equal(fake_cuda_state()->calls[FAKE_cuLaunchKernel], 3 + call);
        assert_memory_equal(seen.lines[seen.line_count - 1], start, strlen(start));
        close_world(world);
    }
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
        cmocka_unit_test(failing_launches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
