/* How well and how fast groups of each size pack and decode the cubins given:
 *
 *   groups FATBIN_BYTES CUBIN...
 *
 * FATBIN_BYTES: what the same cubins take as size-mode fatbins, each by itself. Prints a table:
 * cap, groups, packed bytes, their ratio to the fatbins', the ratio of a whole image of one module
 * per cubin (its file less 4 KiB), seconds of planning and of packing on all processors, and for a
 * first use of one cubin alone (median, mean and worst of all): the bytes decoded until it is
 * complete, in its own bytes, and the time of that, in the time that it takes when packed by
 * itself. The first row packs each cubin by itself. Then a table of zstd's levels over the groups
 * of the writer's cap, each group one plain frame: packed bytes, seconds of packing on one
 * processor, decoding in MB/s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ZSTD_STATIC_LINKING_ONLY /* for ZSTD_d_stableOutBuffer */
#include <zstd.h>

#include "base/file.h"
#include "compile/cubin.h"
#include "image/groups.h"
#include "image/image.h"

enum {
    ROUNDS = 15
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

/* Decodes block by block until `size` bytes are there; returns how many are then. */
static size_t decode(ZSTD_DCtx *context, const struct group *group, void *out, size_t size)
{
    size_t wanted = ZSTD_initDStream(context), taken = 0;
    ZSTD_DCtx_setParameter(context, ZSTD_d_stableOutBuffer, 1);
    ZSTD_outBuffer raw = {out, group->raw_size, 0};
    while (raw.pos < size) {
        ZSTD_inBuffer in = {(const char *)group->packed + taken, wanted, 0};
        wanted = ZSTD_decompressStream(context, &raw, &in);
        if (ZSTD_isError(wanted)) {
            fprintf(stderr, "groups: %s\n", ZSTD_getErrorName(wanted));
            exit(1);
        }
        taken += in.pos;
    }
    return raw.pos;
}

/* Seconds to decode the first `size` bytes, into memory of its own. */
static double time_decode(const struct group *group, size_t size, size_t *out_decoded)
{
    double start = now();
    void *out = malloc(group->raw_size);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    *out_decoded = decode(context, group, out, size);
    ZSTD_freeDCtx(context);
    free(out);
    return now() - start;
}

/* Median of the time for a cubin that ends at `end` in the time for it by itself, in turns. */
static double compare(const struct group *group, size_t end, const struct group *alone,
                      size_t *out_decoded)
{
    double times[2][ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        times[0][round] = time_decode(alone, alone->raw_size, out_decoded);
        times[1][round] = time_decode(group, end, out_decoded);
    }
    for (int i = 0; i < 2; i++)
        qsort(times[i], ROUNDS, sizeof *times[i], by_value);
    return times[1][ROUNDS / 2] / times[0][ROUNDS / 2];
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

/* Median, mean and worst. */
static void print_spread(double *values, size_t count)
{
    double sum = 0;
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    printf(" %.2f, %.2f, %.2f |", values[count / 2], sum / (double)count, values[count - 1]);
}

static void measure(const struct group_item *items, const struct image_module *modules,
                    size_t count, size_t cap, double fatbins, const struct group **alone)
{
    struct grouping grouping;
    struct diags diags = {0};
    double *bytes = mem_alloc(count, sizeof *bytes), *times = mem_alloc(count, sizeof *times);
    double start = now(), packed_bytes = 0;
    groups_plan(items, count, cap, &grouping);
    double planned = now();
    if (!groups_pack(items, &grouping, &diags))
        exit(1);
    double packed = now();
    for (size_t g = 0, at = 0; g < grouping.count; g++) {
        const struct group *group = &grouping.groups[g];
        packed_bytes += (double)group->packed_size;
        for (size_t i = 0, end = 0, decoded; i < group->count; i++, at++) {
            size_t item = grouping.order[group->first + i];
            end += items[item].size;
            times[at] = compare(group, end, alone[item], &decoded);
            bytes[at] = (double)decoded / (double)items[item].size;
        }
    }
    if (cap > 1)
        printf("| %zu KiB |", cap / 1024);
    else
        printf("| each alone |");
    printf(" %zu | %.0f | %.3f | %.3f | %.2f + %.1f |", grouping.count, packed_bytes,
           packed_bytes / fatbins, (image_bytes(modules, count, cap) - 4096) / fatbins,
           planned - start, packed - planned);
    print_spread(bytes, count);
    print_spread(times, count);
    putchar('\n');
    fflush(stdout);
    groups_free(&grouping);
    free(bytes);
    free(times);
}

/* Packs every group's bytes at a level; returns the packed bytes. */
static size_t pack_level(const struct grouping *grouping, void *const *raw, int level,
                         void **packed, size_t *packed_sizes, double *out_seconds)
{
    size_t sum = 0;
    double start = now();
    for (size_t g = 0; g < grouping->count; g++) {
        size_t size = grouping->groups[g].raw_size;
        packed_sizes[g] = ZSTD_compress(packed[g], ZSTD_compressBound(size), raw[g], size, level);
        if (ZSTD_isError(packed_sizes[g])) {
            fprintf(stderr, "groups: %s\n", ZSTD_getErrorName(packed_sizes[g]));
            exit(1);
        }
        sum += packed_sizes[g];
    }
    *out_seconds = now() - start;
    return sum;
}

static double decode_speed(const struct grouping *grouping, void *const *raw, void *const *packed,
                           const size_t *packed_sizes)
{
    double times[ROUNDS], bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (size_t g = 0; g < grouping->count; g++)
            if (ZSTD_decompress(raw[g], grouping->groups[g].raw_size, packed[g], packed_sizes[g]) !=
                grouping->groups[g].raw_size)
                exit(1);
        times[round] = now() - start;
    }
    for (size_t g = 0; g < grouping->count; g++)
        bytes += (double)grouping->groups[g].raw_size;
    qsort(times, ROUNDS, sizeof *times, by_value);
    return bytes / times[ROUNDS / 2] / 1e6;
}

static void print_levels(const struct group_item *items, size_t count, double fatbins)
{
    static const int levels[] = {1, 3, 6, 9, 12, 15, 17, 19, 22};
    struct grouping grouping;
    struct diags diags = {0};
    groups_plan(items, count, IMAGE_GROUP_CAP, &grouping);
    if (!groups_pack(items, &grouping, &diags))
        exit(1);
    void **raw = mem_alloc(grouping.count, sizeof *raw);
    void **packed = mem_alloc(grouping.count, sizeof *packed);
    size_t *sizes = mem_alloc(grouping.count, sizeof *sizes), decoded;
    for (size_t g = 0; g < grouping.count; g++) {
        const struct group *group = &grouping.groups[g];
        raw[g] = mem_alloc(group->raw_size, 1);
        packed[g] = mem_alloc(ZSTD_compressBound(group->raw_size), 1);
        ZSTD_DCtx *context = ZSTD_createDCtx();
        decoded = decode(context, group, raw[g], group->raw_size);
        ZSTD_freeDCtx(context);
        if (decoded != group->raw_size)
            exit(1);
    }
    puts("\n| level | packed bytes | of the fatbins | pack s | decode MB/s |");
    puts("|---|---|---|---|---|");
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        double seconds;
        size_t sum = pack_level(&grouping, raw, levels[i], packed, sizes, &seconds);
        printf("| %d | %zu | %.3f | %.2f | %.0f |\n", levels[i], sum, (double)sum / fatbins,
               seconds, decode_speed(&grouping, raw, packed, sizes));
    }
    for (size_t g = 0; g < grouping.count; g++) {
        free(raw[g]);
        free(packed[g]);
    }
    free(raw);
    free(packed);
    free(sizes);
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
    puts("| cap | groups | packed bytes | of the fatbins | image | plan + pack s | bytes decoded | "
         "time |");
    puts("|---|---|---|---|---|---|---|---|");
    struct grouping singles;
    struct diags diags = {0};
    groups_plan(items, count, 1, &singles);
    if (!groups_pack(items, &singles, &diags))
        return 1;
    const struct group **alone = mem_alloc(count, sizeof *alone);
    for (size_t i = 0; i < count; i++)
        alone[singles.order[i]] = &singles.groups[i];
    static const size_t caps[] = {1, 64, 96, 128, 192, 256, 512, 1024, 1 << 20};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        measure(items, modules, count, caps[i] == 1 ? 1 : caps[i] * 1024, fatbins, alone);
    print_levels(items, count, fatbins);
    free(alone);
    groups_free(&singles);
    arena_free(&arena);
    free(items);
    return 0;
}
