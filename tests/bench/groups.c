/* How well and how fast groups of each size pack and decode the cubins given:
 *
 *   groups FATBIN_BYTES CUBIN...
 *
 * FATBIN_BYTES: what the same cubins take as size-mode fatbins, each by itself. Prints a table:
 * cap, groups, packed bytes, their ratio to the fatbins', the ratio of a whole image of one module
 * per cubin (its file less 4 KiB), seconds of planning and of packing on all processors,
 * decode speed, and for a first use of one cubin alone (mean over all) the time to decode its whole
 * group, and to decode until it is complete. The first row packs each cubin by itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zstd.h>

#include "base/file.h"
#include "compile/cubin.h"
#include "image/groups.h"
#include "image/image.h"

enum {
    ROUNDS = 5
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Decodes until `size` bytes are there. */
static void decode(ZSTD_DCtx *context, const struct group *group, void *out, size_t size)
{
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    ZSTD_inBuffer in = {group->packed, group->packed_size, 0};
    ZSTD_outBuffer raw = {out, size, 0};
    while (raw.pos < size) {
        size_t status = ZSTD_decompressStream(context, &raw, &in);
        if (ZSTD_isError(status)) {
            fprintf(stderr, "groups: %s\n", ZSTD_getErrorName(status));
            exit(1);
        }
    }
}

/* Median seconds to decode the first `size` bytes, into memory that is fresh each time. */
static double time_decode(const struct group *group, size_t size)
{
    double times[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        void *out = malloc(size);
        if (size == group->raw_size) {
            if (ZSTD_decompress(out, size, group->packed, group->packed_size) != size)
                exit(1);
        } else {
            ZSTD_DCtx *context = ZSTD_createDCtx();
            decode(context, group, out, size);
            ZSTD_freeDCtx(context);
        }
        free(out);
        times[round] = now() - start;
    }
    qsort(times, ROUNDS, sizeof *times, by_value);
    return times[ROUNDS / 2];
}

/* One module per cubin, with what its ELF says of its entries. */
static struct image_module *make_modules(char **paths, const struct group_item *items, size_t count,
                                         struct arena *arena)
{
    struct image_module *modules = arena_alloc(arena, count, sizeof *modules);
    struct image_object *objects = arena_alloc(arena, count, sizeof *objects);
    for (size_t i = 0; i < count; i++) {
        struct cubin cubin;
        struct diags diags = {0};
        if (!cubin_read(paths[i], items[i].bytes, items[i].size, arena, &cubin, &diags)) {
            fprintf(stderr, "groups: %s\n", diags.items[0].message);
            exit(1);
        }
        struct image_entry *entries = arena_alloc(arena, cubin.count, sizeof *entries);
        for (size_t e = 0; e < cubin.count; e++)
            entries[e] = (struct image_entry){.name = cubin.entries[e].name,
                                              .registers = cubin.entries[e].registers,
                                              .code_bytes = cubin.entries[e].code_bytes};
        objects[i] = (struct image_object){items[i].bytes, items[i].size};
        modules[i] = (struct image_module){.name = path_stem(arena, paths[i]),
                                           .source = "corpus.cu",
                                           .origin = "corpus",
                                           .entries = entries,
                                           .entry_count = cubin.count,
                                           .objects = &objects[i],
                                           .object_count = 1};
    }
    return modules;
}

static double image_bytes(const struct image_module *modules, size_t count, size_t cap)
{
    struct image image = {
        .target = "corpus", .arch = "sm_90a", .modules = modules, .module_count = count};
    struct str out = {0};
    struct image_stats stats;
    struct diags diags = {0};
    if (!image_write(&image, cap, &out, &stats, &diags)) {
        fprintf(stderr, "groups: %s\n", diags.items[0].message);
        exit(1);
    }
    str_free(&out);
    return (double)stats.file_bytes;
}

static void measure(const struct group_item *items, const struct image_module *modules,
                    size_t count, size_t cap, double fatbins)
{
    struct grouping grouping;
    struct diags diags = {0};
    double start = now();
    groups_plan(items, count, cap, &grouping);
    double planned = now();
    if (!groups_pack(items, &grouping, &diags))
        exit(1);
    double packed = now();
    double bytes = 0, raw = 0, whole = 0, part = 0, all = 0;
    for (size_t g = 0; g < grouping.count; g++) {
        const struct group *group = &grouping.groups[g];
        double seconds = time_decode(group, group->raw_size);
        bytes += (double)group->packed_size;
        raw += (double)group->raw_size;
        all += seconds;
        whole += seconds * (double)group->count;
        size_t end = 0;
        for (size_t i = 0; i < group->count; i++) {
            end += items[grouping.order[group->first + i]].size;
            part += time_decode(group, end);
        }
    }
    if (cap > 1)
        printf("| %zu KiB |", cap / 1024);
    else
        printf("| each alone |");
    double each = 1e6 / (double)count;
    printf(" %zu | %.0f | %.3f | %.3f | %.2f + %.1f | %.0f | %.0f | %.0f |\n", grouping.count,
           bytes, bytes / fatbins, (image_bytes(modules, count, cap) - 4096) / fatbins,
           planned - start, packed - planned, raw / all / 1e6, whole * each, part * each);
    fflush(stdout);
    groups_free(&grouping);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: groups FATBIN_BYTES CUBIN...\n", stderr);
        return 2;
    }
    size_t count = (size_t)argc - 2, raw = 0;
    struct group_item *items = mem_alloc(count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        struct str bytes = {0};
        struct diags diags = {0};
        if (!file_read(argv[i + 2], &bytes, &diags)) {
            fprintf(stderr, "groups: %s\n", diags.items[0].message);
            return 1;
        }
        items[i] = (struct group_item){bytes.data, bytes.len};
        raw += bytes.len;
    }
    double fatbins = strtod(argv[1], NULL);
    struct arena arena = {0};
    struct image_module *modules = make_modules(argv + 2, items, count, &arena);
    printf("%zu cubins, %zu bytes; as size-mode fatbins %.0f\n\n", count, raw, fatbins);
    puts("| cap | groups | packed bytes | of the fatbins | image | plan + pack s | decode MB/s | "
         "whole "
         "group "
         "us | until complete us |");
    puts("|---|---|---|---|---|---|---|---|---|");
    static const size_t caps[] = {1, 128, 256, 512, 768, 1024, 2048, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        measure(items, modules, count, caps[i] == 1 ? 1 : caps[i] * 1024, fatbins);
    arena_free(&arena);
    free(items);
    return 0;
}
