#include "bench_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/image.h"
#include "runtime/kpk_format.h"

enum {
    CUBIN_SIZE = 4096,
};

static void add_module(struct arena *arena, struct image_module *module, size_t index,
                       size_t entry_count)
{
    static const char *const families[] = {"gated_delta_rule_chunk", "w8a16_gemm_pipelined",
                                           "paged_attention_decode", "moe_grouped_gemm_fp8"};
    const char *family = families[index % 4];
    struct image_entry *entries = arena_alloc(arena, entry_count, sizeof *entries);
    for (size_t i = 0; i < entry_count; i++) {
        entries[i] = (struct image_entry){
            .name =
                arena_printf(arena, "%s_k128_v%zu_stage%zu_variant_%zu", family, index, i % 5, i),
            .present = KPK_PRESENT_BLOCK | KPK_PRESENT_DYNAMIC_SMEM,
            .block = {256, 1, 1},
            .dynamic_smem = 1024,
            .registers = 128,
            .code_bytes = 4096,
        };
    }
    /* As compressible as code: half of it repeats. */
    unsigned char *cubin = arena_alloc(arena, CUBIN_SIZE, 1);
    unsigned long random = index + 1;
    for (size_t i = 0; i < CUBIN_SIZE; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        cubin[i] = i % 16 < 8 ? (unsigned char)(random >> 56) : (unsigned char)(i / 16);
    }
    memcpy(cubin,
           "\x7f"
           "ELF",
           4);
    struct image_object *object = arena_alloc(arena, 1, sizeof *object);
    *object = (struct image_object){.cubin = cubin, .size = CUBIN_SIZE};
    *module = (struct image_module){
        .name = arena_printf(arena, "%s_%zu", family, index),
        .source = "kernels/bench.cu",
        .origin = "bench",
        .entries = entries,
        .entry_count = entry_count,
        .objects = object,
        .object_count = 1,
    };
}

void *bench_image(size_t modules, size_t entries, size_t *out_size)
{
    struct arena arena = {0};
    struct diags diags = {0};
    struct str bytes = {0};
    struct image image = {
        .target = "bench",
        .arch = "sm_90a",
        .compute_major = 9,
        .min_driver = 12040,
        .nvrtc_major = 13,
        .module_count = modules,
    };
    struct image_module *list = arena_alloc(&arena, modules, sizeof *list);
    for (size_t i = 0; i < modules; i++)
        add_module(&arena, &list[i], i, entries);
    image.modules = list;
    struct image_stats stats;
    bool ok = image_write(&image, 0, &bytes, &stats, &diags);
    for (size_t i = 0; i < diags.count; i++)
        fprintf(stderr, "%s\n", diags.items[i].message);
    arena_free(&arena);
    diag_free(&diags);
    *out_size = bytes.len;
    if (ok)
        return bytes.data;
    str_free(&bytes);
    return NULL;
}
