#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "compile/cubin.h"
#include "image/image.h"
#include "runtime/kpk_format.h"
#include "../unit/image_sample.h"
#include "sample_described.h"

/* sample_image KIND FILE [CUBIN]: writes an image for the tests of the command line.
 *
 *   sample   one of everything, its cubins noise
 *   hostile  names that would drive a terminal, names that are long
 *   bare     one module, and no lists
 *   real     CUBIN and what its ELF says
 *   wrong    the same with every figure one too high, and an entry that the cubin lacks
 *
 * sample_image described FILE JSON: the image of sample_described.h.
 */

static void publish_capped(const struct image *image, size_t group_cap, const char *path)
{
    struct diags diags = {0};
    struct image_stats stats;
    struct str bytes = {0}, text = {0};
    if (!image_write(image, group_cap, &bytes, &stats, &diags) ||
        !file_publish(path, bytes.data, bytes.len, &diags)) {
        diag_render(&diags, 0, false, &text);
        fputs(str_text(&text), stderr);
        exit(1);
    }
    str_free(&bytes);
    str_free(&text);
    diag_free(&diags);
}

static void publish(const struct image *image, const char *path)
{
    publish_capped(image, 0, path);
}

static void write_hostile(const char *path)
{
    char lengthy[301] = "";
    memset(lengthy, 'n', sizeof lengthy - 1);
    struct sample *sample = sample_new();
    struct image *image = &sample->image;
    sample->alpha_entries[1].name = "\033[31mred\nline\tbell\a";
    sample->beta_entries[1].name = lengthy;
    sample->beta_entries[1].twin_of = NULL;
    sample->beta_entries[2].twin_of = "beta:\033[2Jclear";
    sample->modules[2].source = "kernels/\r\n\xc2\x9b"
                                "31m.cu";
    sample->levers[3].text = "\033]0;title\a";
    sample->absents[0].reason = lengthy;
    image->target = "sam\bple";
    publish(image, path);
    free(sample);
}

static void write_bare(const char *path)
{
    struct sample *sample = sample_new();
    sample->image.modules = &sample->modules[1];
    sample->image.module_count = 1;
    sample->image.lever_count = sample->image.absent_count = 0;
    publish(&sample->image, path);
    free(sample);
}

static void write_real(const char *path, const char *cubin_path, unsigned wrong)
{
    struct arena arena = {0};
    struct diags diags = {0};
    struct str bytes = {0};
    struct cubin cubin;
    if (!file_read(cubin_path, &bytes, &diags) ||
        !cubin_read(cubin_path, bytes.data, bytes.len, &arena, &cubin, &diags))
        exit(1);
    struct image_entry *entries = arena_alloc(&arena, cubin.count + 1, sizeof *entries);
    for (size_t i = 0; i < cubin.count; i++) {
        bool mangled = str_starts(cubin.entries[i].name, "_Z");
        entries[i] = (struct image_entry){
            .name = mangled ? "templated" : cubin.entries[i].name,
            .symbol = cubin.entries[i].name,
            .registers = cubin.entries[i].registers + wrong,
            .static_smem = cubin.entries[i].static_smem + wrong,
            .stack_bytes = cubin.entries[i].stack_bytes + wrong,
            .code_bytes = cubin.entries[i].code_bytes + wrong,
        };
    }
    entries[cubin.count].name = "nowhere";
    struct image_object object = {bytes.data, bytes.len};
    struct image_module module = {
        .name = "resources",
        .source = "kernels/resources.cu",
        .origin = "real",
        .entries = entries,
        .entry_count = cubin.count + wrong,
        .objects = &object,
        .object_count = 1,
    };
    struct image image = {
        .target = "real",
        .arch = "sm_90a",
        .compute_major = 9,
        .min_driver = 13000,
        .nvrtc_major = 13,
        .modules = &module,
        .module_count = 1,
    };
    publish(&image, path);
    str_free(&bytes);
    arena_free(&arena);
}

int main(int argc, char **argv)
{
    const char *kind = argc > 2 ? argv[1] : "";
    if (strcmp(kind, "sample") == 0) {
        struct sample *sample = sample_new();
        publish(&sample->image, argv[2]);
        free(sample);
    } else if (strcmp(kind, "hostile") == 0) {
        write_hostile(argv[2]);
    } else if (strcmp(kind, "bare") == 0) {
        write_bare(argv[2]);
    } else if (argc > 3 && (strcmp(kind, "real") == 0 || strcmp(kind, "wrong") == 0)) {
        write_real(argv[2], argv[3], kind[0] == 'w');
    } else if (argc > 3 && strcmp(kind, "described") == 0) {
        struct arena arena = {0};
        size_t group_cap;
        struct image image = describe_image(argv[3], &arena, &group_cap);
        publish_capped(&image, group_cap, argv[2]);
        arena_free(&arena);
    } else {
        fprintf(stderr, "usage: sample_image sample|hostile|bare|real|wrong FILE [CUBIN]\n"
                        "       sample_image described FILE JSON\n");
        return 2;
    }
    return 0;
}
