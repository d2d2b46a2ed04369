#ifndef IMAGE_SAMPLE_H
#define IMAGE_SAMPLE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"
#include "runtime/kpk_format.h"

/* A small image that has one of everything, its cubins made of noise. The golden file is this
 * image: a change here needs a new one. */

enum {
    SAMPLE_CUBIN = 3000,
};

static inline void sample_noise(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

struct sample {
    uint8_t alpha[SAMPLE_CUBIN], beta_one[SAMPLE_CUBIN], beta_two[SAMPLE_CUBIN / 2];
    struct image_constant constants[3];
    const char *flags[2];
    struct image_object alpha_objects[1], beta_objects[3], gamma_objects[1];
    struct image_entry alpha_entries[2], beta_entries[3];
    struct image_module modules[3];
    struct image_lever levers[4];
    struct image_absent absents[2];
    struct image image;
};

static inline void sample_modules(struct sample *s)
{
    sample_noise(s->alpha, sizeof s->alpha, 1);
    memcpy(s->beta_one, s->alpha, sizeof s->alpha);
    sample_noise(s->beta_one + 1000, 200, 2);
    sample_noise(s->beta_two, sizeof s->beta_two, 3);
    s->constants[0] = (struct image_constant){"TILE_M", 128};
    s->constants[1] = (struct image_constant){"BIAS", -5};
    s->constants[2] = (struct image_constant){"WIDE", INT64_MIN};
    s->flags[0] = "--fmad=false";
    s->flags[1] = "-lineinfo";
    s->alpha_objects[0] = (struct image_object){s->alpha, sizeof s->alpha};
    s->beta_objects[0] = (struct image_object){s->beta_two, sizeof s->beta_two};
    s->beta_objects[1] = (struct image_object){s->beta_one, sizeof s->beta_one};
    s->beta_objects[2] = (struct image_object){s->beta_two, sizeof s->beta_two};
    s->gamma_objects[0] = (struct image_object){s->alpha, sizeof s->alpha};
    s->alpha_entries[0] = (struct image_entry){
        .name = "scale",
        .present = KPK_PRESENT_ALL,
        .block = {256, 2, 1},
        .dynamic_smem = 49152,
        .static_smem = 1040,
        .registers = 128,
        .stack_bytes = 16,
        .spill_bytes = 24,
        .code_bytes = 2048,
    };
    s->alpha_entries[1] = (struct image_entry){.name = "add", .registers = 12, .code_bytes = 512};
    s->beta_entries[0] = (struct image_entry){
        .name = "scale_x2",
        .symbol = "_Z5scaleILi2EEvPf",
        .object = 1,
        .twin_of = "alpha:scale",
        .twin_bits = KPK_TWIN_CLOSE,
        .present = KPK_PRESENT_BLOCK,
        .block = {128, 1, 1},
        .registers = 64,
        .code_bytes = 1024,
    };
    s->beta_entries[1] = (struct image_entry){.name = "add", .object = 0, .code_bytes = 256};
    s->beta_entries[2] = (struct image_entry){.name = "sub_\xc3\xa9",
                                              .object = 2,
                                              .twin_of = "beta:add",
                                              .twin_bits = KPK_TWIN_SAME,
                                              .present = KPK_PRESENT_SPILL};
    s->modules[0] = (struct image_module){
        .name = "alpha",
        .source = "kernels/base/alpha.cu",
        .origin = "base",
        .entries = s->alpha_entries,
        .entry_count = 2,
        .objects = s->alpha_objects,
        .object_count = 1,
        .constants = s->constants,
        .constant_count = 3,
        .flags = s->flags,
        .flag_count = 2,
    };
    s->modules[1] = (struct image_module){
        .name = "gamma",
        .source = "kernels/gamma.cu",
        .origin = "sample",
        .objects = s->gamma_objects,
        .object_count = 1,
    };
    s->modules[2] = (struct image_module){
        .name = "beta",
        .source = "kernels/beta.cu",
        .origin = "sample",
        .entries = s->beta_entries,
        .entry_count = 3,
        .objects = s->beta_objects,
        .object_count = 3,
        .flags = s->flags,
        .flag_count = 1,
    };
}

/* The caller frees it. */
static inline struct sample *sample_new(void)
{
    struct sample *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    sample_modules(s);
    s->levers[0] = (struct image_lever){"fast", "SAMPLE_FAST", KPK_LEVER_SWITCH, true, NULL};
    s->levers[1] = (struct image_lever){"exact", "SAMPLE_EXACT", KPK_LEVER_IS1, false, NULL};
    s->levers[2] = (struct image_lever){"trace", "SAMPLE_TRACE", KPK_LEVER_PRESENCE, false, NULL};
    s->levers[3] = (struct image_lever){"mode", "SAMPLE_MODE", KPK_LEVER_TEXT, false, "auto"};
    s->absents[0] = (struct image_absent){"delta", "mul", "needs tensor memory"};
    s->absents[1] = (struct image_absent){"alpha", "mul", ""};
    s->image = (struct image){
        .target = "sample",
        .arch = "sm_90a",
        .compute_major = 9,
        .min_driver = 13000,
        .nvrtc_major = 13,
        .nvrtc_minor = 0,
        .sm_count = 132,
        .smem_optin = 232448,
        .modules = s->modules,
        .module_count = 3,
        .levers = s->levers,
        .lever_count = 4,
        .absents = s->absents,
        .absent_count = 2,
    };
    return s;
}

#endif
