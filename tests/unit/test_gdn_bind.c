/* gdn_bind against images that differ from the launcher in one constant, block or size: both sides
 * are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../fake/cuda.h"
#include "kpk_build.h"
#include "ops/gdn.h"

enum {
    MODULES = 9,
    MOST_CONSTANTS = 6,
    MOST_ENTRIES = 8
};

#define TILE                                                                                       \
    {"CHUNK", GDN_CHUNK},                                                                          \
    {                                                                                              \
        "K_DIM", GDN_K_DIM                                                                         \
    }
#define V                                                                                          \
    {                                                                                              \
        "V_DIM", GDN_V_DIM                                                                         \
    }
#define PITCHES                                                                                    \
    {"PITCH", GDN_PITCH},                                                                          \
    {                                                                                              \
        "PITCH_T", GDN_PITCH_T                                                                     \
    }

/* What the launcher was built for, sorted by name. */
static const struct {
    const char *name;
    struct build_constant constants[MOST_CONSTANTS];
} modules[MODULES] = {
    {"gated_delta_rule_chunk_tc", {TILE, PITCHES, V}},
    {"gated_delta_rule_fla",
     {{"CHUNK", GDN_CHUNK}, {"DV_BLK", GDN_DV_BLK}, {"K_DIM", GDN_K_DIM}, V}},
    {"gdn_chunk_fwd_o_mma8", {TILE, V}},
    {"gdn_fwd_o_hopper", {TILE, PITCHES, V}},
    {"gdn_fwd_o_persistent", {TILE, V}},
    {"gdn_recompute_wu_hopper", {TILE, PITCHES, {"PITCH_X", GDN_PITCH_X}, V}},
    {"gdn_recompute_wu_registers",
     {TILE, {"K_SLOTS", GDN_WU_K_SLOTS}, V, {"V_SLOTS", GDN_WU_V_SLOTS}}},
    {"gdn_spine_hopper", {TILE, {"STAGES", GDN_SPLIT_STAGES}, V}},
    {"gdn_spine_quarters", {TILE, {"STAGES", GDN_SPLIT_STAGES}, V}},
};

static uint32_t constants_of(uint32_t module)
{
    uint32_t count = 0;

    while (count < MOST_CONSTANTS && modules[module].constants[count].name != NULL)
        count++;
    return count;
}

/* One thing to make wrong; kernel and module below 0: nothing of the kind. */
struct fault {
    int module, constant; /* one more than the launcher's */
    bool missing;         /* not declared at all */
    int kernel;
    uint32_t more_threads, more_rows, more_smem;
};

static char line[512];
static unsigned lines;

static void keep_line(void *user, kpk_severity severity, const char *text)
{
    (void)user;
    assert_int_equal(severity, KPK_ERROR);
    snprintf(line, sizeof line, "%s", text);
    lines++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct build_entry *)a)->name, ((const struct build_entry *)b)->name);
}

/* The entries of a module; returns how many. */
static uint32_t entries_of(const char *module, const struct fault *fault,
                           struct build_entry *entries)
{
    uint32_t count = 0;

    for (int k = 0; k < GDN_KERNEL_COUNT; k++) {
        const struct gdn_entry *entry = gdn_entry_of((enum gdn_kernel)k);
        if (strcmp(entry->module, module) != 0)
            continue;
        entries[count] = (struct build_entry){.name = entry->name,
                                              .block = {entry->block, 1, 1},
                                              .dynamic_smem = entry->smem,
                                              .present = KPK_PRESENT_ALL};
        if (k == fault->kernel) {
            entries[count].block[0] += fault->more_threads;
            entries[count].block[1] += fault->more_rows;
            entries[count].dynamic_smem += fault->more_smem;
        }
        count++;
    }
    qsort(entries, count, sizeof *entries, by_name);
    return count;
}

/* Binds to an image of the whole family with one fault; the message is in `line`. */
static kpk_status bind_with(const struct fault *fault)
{
    static const char *const blobs[MODULES] = {"FAKE a", "FAKE b", "FAKE c", "FAKE d", "FAKE e",
                                               "FAKE f", "FAKE g", "FAKE h", "FAKE i"};
    static const uint32_t objects[MODULES] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    struct build_constant constants[MODULES][MOST_CONSTANTS];
    struct build_entry entries[MODULES][MOST_ENTRIES];
    struct build_module built[MODULES];

    for (uint32_t m = 0; m < MODULES; m++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < constants_of(m); i++) {
            const bool wrong = (int)m == fault->module && (int)i == fault->constant;
            if (wrong && fault->missing)
                continue;
            constants[m][count] = modules[m].constants[i];
            constants[m][count++].value += wrong;
        }
        built[m] = (struct build_module){
            .name = modules[m].name,
            .entries = entries[m],
            .entry_count = entries_of(modules[m].name, fault, entries[m]),
            .objects = &objects[m],
            .object_count = 1,
            .constants = constants[m],
            .constant_count = count,
        };
    }
    const struct build_image image = {.target = "hopper",
                                      .arch = "sm_90a",
                                      .compute_major = 9,
                                      .min_driver = 13000,
                                      .modules = built,
                                      .module_count = MODULES,
                                      .blobs = blobs,
                                      .blob_count = MODULES};
    const kpk_open_desc open = {.symbol = fake_cuda_symbol};
    const struct gdn_desc desc = {.message = keep_line};
    struct build_bytes bytes = build_write(&image);
    struct gdn ops;
    kpk_image *opened;

    fake_cuda_reset();
    lines = 0;
    line[0] = '\0';
    assert_int_equal(kpk_open_memory(bytes.data, bytes.size, &open, &opened), KPK_OK);
    kpk_status status = gdn_bind(opened, &desc, &ops);
    if (status != KPK_OK)
        for (int k = 0; k < GDN_KERNEL_COUNT; k++)
            assert_int_equal(ops.kernels[k].id, 0);
    kpk_close(opened);
    free(bytes.data);
    return status;
}

static const struct fault none = {.module = -1, .kernel = -1};

static void a_matching_image(void **state)
{
    (void)state;
    assert_int_equal(bind_with(&none), KPK_OK);
    assert_int_equal(lines, 0);
}

static void one_constant_at_a_time(void **state)
{
    char want[256];
    unsigned count = 0;

    (void)state;
    for (int m = 0; m < MODULES; m++)
        for (int i = 0; i < (int)constants_of((uint32_t)m); i++, count++) {
            const struct build_constant *constant = &modules[m].constants[i];
            struct fault fault = none;
            fault.module = m;
            fault.constant = i;
            assert_int_equal(bind_with(&fault), KPK_ERR_CONSTANT);
            snprintf(want, sizeof want,
                     "constant '%s' of module '%s' is %d in the image, the launcher was built for "
                     "%d",
                     constant->name, modules[m].name, (int)constant->value + 1,
                     (int)constant->value);
            assert_string_equal(line, want);
            assert_int_equal(lines, 1);
            fault.missing = true;
            assert_int_equal(bind_with(&fault), KPK_ERR_CONSTANT);
            snprintf(want, sizeof want,
                     "module '%s' of the image declares no constant '%s', the launcher was built "
                     "for %d",
                     modules[m].name, constant->name, (int)constant->value);
            assert_string_equal(line, want);
        }
    assert_int_equal(count, 39);
}

static void one_kernel_at_a_time(void **state)
{
    char want[256];

    (void)state;
    for (int k = 0; k < GDN_KERNEL_COUNT; k++) {
        const struct gdn_entry *entry = gdn_entry_of((enum gdn_kernel)k);
        struct fault fault = none;
        fault.kernel = k;
        fault.more_threads = 32;
        assert_int_equal(bind_with(&fault), KPK_ERR_CONSTANT);
        snprintf(want, sizeof want,
                 "the block of '%s:%s' is (%u, 1, 1) in the image, the launcher was built for "
                 "(%u, 1, 1)",
                 entry->module, entry->name, entry->block + 32, entry->block);
        assert_string_equal(line, want);
        fault.more_threads = 0;
        fault.more_rows = 1;
        assert_int_equal(bind_with(&fault), KPK_ERR_CONSTANT);
        fault.more_rows = 0;
        fault.more_smem = 16;
        assert_int_equal(bind_with(&fault), KPK_ERR_CONSTANT);
        snprintf(want, sizeof want,
                 "the dynamic shared memory of '%s:%s' is %u bytes in the image, the launcher was "
                 "built for %u",
                 entry->module, entry->name, entry->smem + 16, entry->smem);
        assert_string_equal(line, want);
        assert_int_equal(lines, 1);
    }
}

static void no_image(void **state)
{
    struct gdn ops;

    (void)state;
    assert_int_equal(gdn_bind(NULL, NULL, &ops), KPK_ERR_ARGUMENT);
    assert_int_equal(gdn_bind(NULL, NULL, NULL), KPK_ERR_ARGUMENT);
}

static void shared_memory(void **state)
{
    static const struct {
        enum gdn_kernel kernel;
        uint32_t smem, block;
    } rows[] = {
        {GDN_WU, 33024, 256},
        {GDN_WU_HOPPER, 79104, 512},
        {GDN_KSPLIT, 99336, 256},
        {GDN_VFUSED, 49412, 256},
        {GDN_PIPE, 99336, 256},
        {GDN_TMA, 99336, 256},
        {GDN_VTILE, 49412, 512},
        {GDN_TC_VBLOCK, 82952, 256},
        {GDN_TCFUSE_X2, 88324, 256},
        {GDN_FWD_O, 98816, 512},
        {GDN_FWD_O_MMA8, 98816, 512},
        {GDN_FWD_O_HOPPER, 97536, 512},
        {GDN_WU_REGISTERS, 110224, 384},
        {GDN_X2_V32, 190648, 448},
        {GDN_X2_V64, 215168, 160},
        {GDN_FWD_O_PERSISTENT, 115232, 128},
    };

    (void)state;
    assert_int_equal(sizeof rows / sizeof *rows, GDN_KERNEL_COUNT);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(gdn_entry_of(rows[i].kernel)->smem, rows[i].smem);
        assert_int_equal(gdn_entry_of(rows[i].kernel)->block, rows[i].block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(a_matching_image),
        cmocka_unit_test(one_constant_at_a_time),
        cmocka_unit_test(one_kernel_at_a_time),
        cmocka_unit_test(no_image),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
