#include "gdn_world.h"

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
#include "kpk_build.h"

enum {
    MOST_ENTRIES = 8,
    MOST_MODULES = 9,
};

struct gdn_seen gdn_seen;

/* ---- The driver's functions that only this launcher uses, and a launch that keeps arguments ----
 */

static int fake_encode(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                       const uint64_t *strides, const uint32_t *box,
                       const uint32_t *element_strides, int interleave, int swizzle, int promotion,
                       int fill)
{
    assert_int_equal(interleave + promotion + fill, 0);
    assert_int_equal(element_strides[0] + element_strides[1], 2);
    assert_int_equal((uintptr_t)map % 64, 0);
    memset(map, (int)gdn_seen.maps + 1, 128);
    assert_true(gdn_seen.maps < sizeof gdn_seen.map / sizeof *gdn_seen.map);
    gdn_seen.map[gdn_seen.maps++] =
        (struct gdn_map_call){type,    (int)rank,  (uintptr_t)address, dims[0],
                              dims[1], strides[0], {box[0], box[1]},   swizzle};
    return gdn_seen.map_result;
}

static int fake_synchronize(void *stream)
{
    assert_ptr_equal(stream, (void *)0x77);
    gdn_seen.synchronizations++;
    if (gdn_seen.synchronize_fails != 0 && gdn_seen.synchronizations != gdn_seen.synchronize_fails)
        return 0;
    return gdn_seen.synchronize_result;
}

/* Parameters in order: p an address, u 32 bits, m a tensor map. */
static const char *parameters_of(const char *entry)
{
    if (strstr(entry, "recompute_wu_registers") != NULL)
        return "mmmmpppppppuuuuuuuuppu";
    if (strstr(entry, "recompute_wu") != NULL)
        return "pppppppuuuuuuuuuuppu";
    if (strstr(entry, "_tma") != NULL)
        return "pmmmpppuuuuuuuppu";
    if (strstr(entry, "_x2_v32") != NULL || strstr(entry, "_x2_v64") != NULL)
        return "pmmmmmmpppppuuuuuuuppu";
    if (strstr(entry, "delta_h") != NULL)
        return "ppppppppuuuuuuuuuuppu";
    if (strstr(entry, "_persistent") != NULL)
        return "mmmmpppppuuuuuuppu";
    return "pppppppuuuuuuuuuppu";
}

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void *, void **, void **);
typedef int (*launch_ex_fn)(const void *, void *, void **, void **);

/* After a launch that gave `result`. */
static int keep_arguments(int result, void **args)
{
    if (result != 0)
        return result; /* not recorded */
    const char *kinds =
        parameters_of(fake_cuda_state()->launch[fake_cuda_state()->launches - 1].entry);
    for (size_t i = 0; kinds[i] != '\0'; i++) {
        const size_t size = kinds[i] == 'p' ? 8 : kinds[i] == 'u' ? 4 : 1;
        memcpy(&gdn_seen.args[gdn_seen.launches][i], args[i], size);
    }
    gdn_seen.launches++;
    return result;
}

static int keep_launch(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned smem, void *stream, void **args,
                       void **extra)
{
    void *symbol = fake_cuda_symbol(NULL, "cuLaunchKernel");
    launch_fn launch;

    memcpy(&launch, &symbol, sizeof symbol);
    return keep_arguments(launch(kernel, gx, gy, gz, bx, by, bz, smem, stream, args, extra), args);
}

static int keep_launch_ex(const void *config, void *kernel, void **args, void **extra)
{
    void *symbol = fake_cuda_symbol(NULL, "cuLaunchKernelEx");
    launch_ex_fn launch;

    memcpy(&launch, &symbol, sizeof symbol);
    return keep_arguments(launch(config, kernel, args, extra), args);
}

static void *symbol_of(void *user, const char *name)
{
    static const char *const names[] = {"cuTensorMapEncodeTiled", "cuStreamSynchronize",
                                        "cuLaunchKernel", "cuLaunchKernelEx"};
    void *pointer = NULL;

    if (gdn_seen.hidden != NULL && strcmp(name, gdn_seen.hidden) == 0)
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
    } else if (strcmp(name, names[3]) == 0) {
        launch_ex_fn function = keep_launch_ex;
        memcpy(&pointer, &function, sizeof pointer);
    } else {
        pointer = fake_cuda_symbol(user, name);
    }
    return pointer;
}

static void keep_line(void *user, kpk_severity severity, const char *text)
{
    (void)user;
    assert_true(gdn_seen.line_count < GDN_MOST_LINES);
    gdn_seen.severity[gdn_seen.line_count] = severity;
    snprintf(gdn_seen.lines[gdn_seen.line_count++], sizeof gdn_seen.lines[0], "%s", text);
    nanosleep(&gdn_seen.callback_takes, NULL);
}

bool gdn_said(kpk_severity severity, const char *text)
{
    for (unsigned i = 0; i < gdn_seen.line_count; i++)
        if (gdn_seen.severity[i] == severity && strcmp(gdn_seen.lines[i], text) == 0)
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

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct build_entry *)a)->name, ((const struct build_entry *)b)->name);
}

struct gdn_world *gdn_world_open(void)
{
    static const char *const modules[MOST_MODULES] = {
        "gated_delta_rule_chunk_tc",  "gated_delta_rule_fla", "gdn_chunk_fwd_o_mma8",
        "gdn_fwd_o_hopper",           "gdn_fwd_o_persistent", "gdn_recompute_wu_hopper",
        "gdn_recompute_wu_registers", "gdn_spine_quarters",   "gdn_spine_hopper"};
    static const struct build_constant constants[] = {
        {"CHUNK", GDN_CHUNK},        {"DV_BLK", GDN_DV_BLK},       {"K_DIM", GDN_K_DIM},
        {"K_SLOTS", GDN_WU_K_SLOTS}, {"PITCH", GDN_PITCH},         {"PITCH_T", GDN_PITCH_T},
        {"PITCH_X", GDN_PITCH_X},    {"STAGES", GDN_SPLIT_STAGES}, {"V_DIM", GDN_V_DIM},
        {"V_SLOTS", GDN_WU_V_SLOTS}};
    static const uint32_t objects[MOST_MODULES] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
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
    struct gdn_world *world = calloc(1, sizeof *world);

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
    memset(&gdn_seen, 0, sizeof gdn_seen);
    world->bytes = build_write(&image);
    assert_int_equal(kpk_open_memory(world->bytes.data, world->bytes.size, &desc, &world->image),
                     KPK_OK);
    assert_int_equal(kpk_bind(world->image, 0), KPK_OK);
    return world;
}

void gdn_world_close(struct gdn_world *world)
{
    kpk_close(world->image);
    free(world->bytes.data);
    free(world);
}

kpk_status gdn_world_bind(struct gdn_world *world)
{
    const struct gdn_desc desc = {.message = keep_line};

    return gdn_bind(world->image, &desc, &world->ops);
}

kpk_status gdn_world_prefill(struct gdn_world *world, const struct gdn_args *args,
                             struct gdn_route *route)
{
    return gdn_prefill_fla(&world->ops, args, (struct CUstream_st *)0x77, route);
}
