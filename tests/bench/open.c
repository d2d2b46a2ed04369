/* What the runtime costs without a device, beside a peer for each figure:
 *
 *   make out/bench/open && out/bench/open [IMAGE]
 *
 * open      kpk_open of an image with 10,000 entries, against reading the same index from the same
 *           file and putting its entries into a std::unordered_map
 * resolve   kpk_resolve, and kpk_resolve through an overlay whose front has one module, against
 *           find in that map: with a std::string key that is at hand already, and with one that is
 *           made of the two names in a string that is reused
 * launch    kpk_launch, also through an overlay, over a driver whose cuLaunchKernel does nothing,
 *           against calling that
 * memory    heap bytes after open, after bind, after the first use of everything, against the map's
 * all       the first use of everything in IMAGE over that driver, against reading the file and
 *           ZSTD_decompress of its groups
 * alone     the first use of each module of IMAGE by itself, over the same driver
 *
 * Medians of interleaved rounds.
 */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "bench_image.h"
#include "driver.h"
#include "peer_map.h"
#include "runtime/kpk.h"

enum {
    MODULES = 500,
    ENTRIES = 20,
    NAMES = MODULES * ENTRIES,
    ROUNDS = 101,
    LOOKUPS = 20000,
    LAUNCHES = 100000,
    WAYS = 4, /* most figures in one turn */
    LEVEL = 19,
    ALL = MODULES, /* more modules than IMAGE has */
};

/* ---- A driver that does nothing ---- */

static int nop(void)
{
    return 0;
}

static int nop_launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned smem, void *stream, void **args,
                      void **extra)
{
    (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz;
    (void)smem, (void)stream, (void)args, (void)extra;
    return 0;
}

static int nop_version(int *version)
{
    *version = 13000;
    return 0;
}

static int nop_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 232448;
    return 0;
}

/* cuLibraryLoadData and cuLibraryGetKernel: what comes out is a pointer that is not NULL. */
static int nop_out(void **out)
{
    *out = out;
    return 0;
}

static int nop_none(void **out)
{
    *out = NULL;
    return 0;
}

static void *symbol(void *user, const char *name)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } table[] = {
        {"cuLaunchKernel", (void (*)(void))nop_launch},
        {"cuDriverGetVersion", (void (*)(void))nop_version},
        {"cuDeviceGetAttribute", (void (*)(void))nop_attribute},
        {"cuLibraryLoadData", (void (*)(void))nop_out},
        {"cuLibraryGetKernel", (void (*)(void))nop_out},
        {"cuCtxGetCurrent", (void (*)(void))nop_none},
    };
    void (*function)(void) = (void (*)(void))nop;
    void *address;
    (void)user;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0)
            function = table[i].function;
    memcpy(&address, &function, sizeof address);
    return address;
}

static kpk_image *open_bound(const char *path)
{
    kpk_open_desc desc = {.symbol = symbol};
    kpk_image *image;
    bench_must((int)kpk_open(path, &desc, &image), "kpk_open");
    bench_must((int)kpk_bind(image, 0), "kpk_bind: an image for sm_90a is needed");
    return image;
}

/* ---- Turns ---- */

struct turns {
    double times[WAYS][ROUNDS];
};

/* Runs the ways in turns, once more than counted; each returns the ns of one round. */
static void take_turns(int rounds, double (*const *ways)(void), int count, double *out_medians)
{
    static struct turns turns;
    for (int round = -1; round < rounds; round++)
        for (int way = 0; way < count; way++)
            turns.times[way][round < 0 ? 0 : round] = ways[way]();
    for (int way = 0; way < count; way++)
        out_medians[way] = bench_median(turns.times[way], (size_t)rounds);
}

static const char *path; /* of the image in question */

/* ---- Open ---- */

static double open_ours(void)
{
    kpk_image *image;
    double start = bench_now();
    bench_must((int)kpk_open(path, NULL, &image), "kpk_open");
    double spent = bench_now() - start;
    kpk_close(image);
    return spent;
}

static double open_map(void)
{
    double start = bench_now();
    struct peer_map *map = peer_map_open(path);
    double spent = bench_now() - start;
    if (peer_map_size(map) != NAMES)
        bench_fail("the peer's map has %zu entries", peer_map_size(map));
    peer_map_close(map);
    return spent;
}

static void bench_open(void)
{
    double (*const ways[])(void) = {open_ours, open_map};
    double ns[2];
    take_turns(ROUNDS, ways, 2, ns);
    printf("open, %d entries: kpk_open %.1f us, unordered_map %.1f us, ratio %.3f\n", NAMES,
           ns[0] / 1e3, ns[1] / 1e3, ns[0] / ns[1]);
}

/* ---- Resolve ---- */

static struct {
    kpk_image *image, *overlay;
    struct peer_map *map;
    struct peer_name names[NAMES]; /* in random order */
    size_t distinct;
    uint64_t sum;
} look;

static void resolve_in(kpk_image *image, size_t lookups)
{
    for (size_t i = 0, n = 0; i < lookups; i++, n = n + 1 == look.distinct ? 0 : n + 1)
        look.sum += kpk_resolve(image, look.names[n].module, look.names[n].entry).id;
}

/* The names are looked up once before, for what the way before has left in the caches. */
#define RESOLVE_WAY(name, call)                                                                    \
    static double name(void)                                                                       \
    {                                                                                              \
        size_t lookups = look.distinct;                                                            \
        call;                                                                                      \
        double start = bench_now();                                                                \
        lookups = LOOKUPS;                                                                         \
        call;                                                                                      \
        return (bench_now() - start) / LOOKUPS;                                                    \
    }
RESOLVE_WAY(resolve_ours, resolve_in(look.image, lookups))
RESOLVE_WAY(resolve_overlay, resolve_in(look.overlay, lookups))
RESOLVE_WAY(resolve_map, peer_map_find(look.map, look.distinct, lookups))
RESOLVE_WAY(resolve_joined, peer_map_find_joined(look.map, look.names, look.distinct, lookups))

static void shuffle_names(void)
{
    uint64_t random = 1;
    for (uint32_t i = 0; i < NAMES; i++) {
        kpk_entry_info info;
        char key[256];
        bench_must((int)kpk_get_entry(look.image, i, &info), "kpk_get_entry");
        snprintf(key, sizeof key, "%s:%s", info.module, info.name);
        look.names[i] = (struct peer_name){info.module, info.name, strdup(key)};
    }
    for (size_t i = NAMES - 1; i > 0; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t other = (size_t)(random >> 33) % (i + 1);
        struct peer_name name = look.names[i];
        look.names[i] = look.names[other];
        look.names[other] = name;
    }
}

static void bench_resolve(const char *front_path)
{
    /* The index and the map in turn: each way finds the caches full of the other. */
    double (*const ways[])(void) = {resolve_ours, resolve_map, resolve_overlay, resolve_joined};
    static const size_t distinct[] = {64, NAMES};
    kpk_image *front;
    bench_must((int)kpk_open(path, NULL, &look.image), "kpk_open");
    bench_must((int)kpk_open(front_path, NULL, &front), "kpk_open of the front");
    bench_must((int)kpk_overlay(look.image, front, &look.overlay), "kpk_overlay");
    look.map = peer_map_open(path);
    shuffle_names();
    peer_map_keys(look.map, look.names, NAMES);
    for (size_t i = 0; i < 2; i++) {
        double ns[WAYS];
        look.distinct = distinct[i];
        take_turns(ROUNDS, ways, WAYS, ns);
        printf("resolve, %zu names in turn: kpk_resolve %.1f ns; unordered_map find, key at hand "
               "%.1f ns, ratio %.2f; key made of the two names %.1f ns, ratio %.2f; through an "
               "overlay %+.1f ns\n",
               look.distinct, ns[0], ns[1], ns[0] / ns[1], ns[3], ns[0] / ns[3], ns[2] - ns[0]);
    }
    if (look.sum == 0)
        bench_fail("nothing was resolved");
    for (size_t i = 0; i < NAMES; i++)
        free((void *)(uintptr_t)look.names[i].key);
    peer_map_close(look.map);
    kpk_close(look.overlay);
    kpk_close(front);
    kpk_close(look.image);
}

/* ---- Launch ---- */

static struct {
    kpk_image *image, *overlay;
    kpk_kernel kernel;
    int (*volatile bare)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void *, void **, void **);
    int failures;
} call = {.bare = nop_launch};

static double launch_in(kpk_image *image)
{
    void *args[1] = {NULL};
    double start = bench_now();
    for (int i = 0; i < LAUNCHES; i++)
        call.failures +=
            kpk_launch(image, call.kernel, (kpk_grid){100, 1, 1}, 0, NULL, args) != KPK_OK;
    return (bench_now() - start) / LAUNCHES;
}

static double launch_ours(void)
{
    return launch_in(call.image);
}

static double launch_overlay(void)
{
    return launch_in(call.overlay);
}

static double launch_bare(void)
{
    void *args[1] = {NULL};
    double start = bench_now();
    for (int i = 0; i < LAUNCHES; i++)
        call.failures += call.bare(&call, 100, 1, 1, 256, 1, 1, 1024, NULL, args, NULL);
    return (bench_now() - start) / LAUNCHES;
}

static void bench_launch(const char *front_path)
{
    double (*const ways[])(void) = {launch_ours, launch_bare, launch_overlay};
    double ns[3];
    kpk_entry_info info;
    kpk_image *front = open_bound(front_path);
    call.image = open_bound(path);
    bench_must((int)kpk_overlay(call.image, front, &call.overlay), "kpk_overlay");
    bench_must((int)kpk_get_entry(call.image, 1234, &info), "kpk_get_entry");
    call.kernel = info.kernel;
    take_turns(ROUNDS, ways, 3, ns);
    if (call.failures != 0)
        bench_fail("%d launches failed", call.failures);
    printf("launch: kpk_launch %.2f ns, the driver's function alone %.2f ns, added %.2f ns; "
           "through an overlay %+.2f ns\n",
           ns[0], ns[1], ns[0] - ns[1], ns[2] - ns[0]);
    kpk_close(call.overlay);
    kpk_close(call.image);
    kpk_close(front);
}

/* ---- Memory ---- */

static double heap(void)
{
    struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd) / 1024;
}

static void bench_memory(void)
{
    kpk_open_desc desc = {.symbol = symbol};
    kpk_image *image;
    kpk_image_info info;
    double before = heap();
    bench_must((int)kpk_open(path, &desc, &image), "kpk_open");
    double opened = heap() - before;
    bench_must((int)kpk_bind(image, 0), "kpk_bind");
    double bound = heap() - before;
    kpk_entry_info entry;
    void *function;
    bench_must((int)kpk_get_entry(image, 0, &entry), "kpk_get_entry");
    bench_must((int)kpk_function(image, entry.kernel, &function), "kpk_function");
    double one = heap() - before;
    bench_must((int)kpk_preload(image, NULL, 0), "kpk_preload");
    double used = heap() - before;
    bench_must((int)kpk_get_image(image, &info), "kpk_get_image");
    char target[64];
    snprintf(target, sizeof target, "%s", info.target);
    kpk_close(image);
    double closed = heap() - before;
    struct peer_map *map = peer_map_open(path);
    printf("memory, %s, %u entries, KiB: after open %.0f, bind %.0f, a first use %.0f, the use of "
           "all %.0f, close %.0f; unordered_map %.0f; the file has %.0f, its cubins %.0f\n",
           target, info.entry_count, opened, bound, one, used, closed, heap() - before - closed,
           (double)info.file_bytes / 1024, (double)info.raw_bytes / 1024);
    peer_map_close(map);
}

/* ---- First use of everything ---- */

static kpk_group_info groups[ALL];
static kpk_image_info described;

static double use_all(void)
{
    double start = bench_now();
    kpk_image *image = open_bound(path);
    bench_must((int)kpk_preload(image, NULL, 0), "kpk_preload");
    double spent = bench_now() - start;
    kpk_close(image);
    return spent;
}

static double decode_all(void)
{
    double start = bench_now();
    size_t size;
    uint8_t *bytes = bench_read(path, &size);
    for (uint32_t i = 0; i < described.group_count; i++) {
        size_t wanted = groups[i].raw_size;
        void *raw = malloc(wanted);
        if (raw == NULL ||
            ZSTD_decompress(raw, wanted, bytes + groups[i].offset, groups[i].packed_size) != wanted)
            bench_fail("ZSTD_decompress of group %u", i);
        free(raw);
    }
    free(bytes);
    return bench_now() - start;
}

static void bench_all(void)
{
    double (*const ways[])(void) = {use_all, decode_all};
    double ns[2];
    kpk_image *image;
    bench_must((int)kpk_open(path, NULL, &image), "kpk_open");
    bench_must((int)kpk_get_image(image, &described), "kpk_get_image");
    if (described.group_count > ALL)
        bench_fail("%u groups", described.group_count);
    for (uint32_t i = 0; i < described.group_count; i++)
        bench_must((int)kpk_get_group(image, i, &groups[i]), "kpk_get_group");
    kpk_close(image);
    take_turns(21, ways, 2, ns);
    printf("first use of all %u modules, %.2f MB of cubins in %u groups: open + bind + preload "
           "%.2f ms, read + ZSTD_decompress %.2f ms, ratio %.2f\n",
           described.module_count, (double)described.raw_bytes / 1e6, described.group_count,
           ns[0] / 1e6, ns[1] / 1e6, ns[0] / ns[1]);
}

/* ---- First use of each module alone ---- */

/* The module in turn. Two peers: read the cubin's group and decode it up to the cubin's end in one
 * go, and the same of a file that holds this cubin alone, packed by itself at the writer's level:
 * what a format without groups could do at best. */
static struct {
    kpk_entry_info entry;
    kpk_blob_info blob;
    kpk_group_info group;
    int image_file, alone_file;
    size_t alone_size;
} one;

/* Reads packed bytes and decodes the first `size` of them, into memory of its own. */
static double read_and_decode(int file, uint64_t offset, size_t packed_size, size_t size)
{
    double start = bench_now();
    void *packed = malloc(packed_size), *raw = malloc(size);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (pread(file, packed, packed_size, (off_t)offset) != (ssize_t)packed_size)
        bench_fail("pread");
    ZSTD_inBuffer in = {packed, packed_size, 0};
    ZSTD_outBuffer out = {raw, size, 0};
    while (out.pos < size)
        if (ZSTD_isError(ZSTD_decompressStream(context, &out, &in)))
            bench_fail("ZSTD_decompressStream");
    ZSTD_freeDCtx(context);
    free(raw);
    free(packed);
    return bench_now() - start;
}

static double alone_ours(void)
{
    kpk_image *image = open_bound(path);
    kpk_kernel kernel = kpk_resolve(image, one.entry.module, one.entry.name);
    void *function = NULL;
    double start = bench_now();
    bench_must((int)kpk_function(image, kernel, &function), "kpk_function");
    double spent = bench_now() - start;
    kpk_close(image);
    return spent;
}

static double alone_so_far(void)
{
    return read_and_decode(one.image_file, one.group.offset, one.group.packed_size,
                           one.blob.offset + one.blob.size);
}

static double alone_by_itself(void)
{
    return read_and_decode(one.alone_file, 0, one.alone_size, one.blob.size);
}

/* Describes the module and packs its cubin into the file. */
static void choose(kpk_image *image, uint32_t index)
{
    kpk_module_info module;
    kpk_object_info object;
    bench_must((int)kpk_get_module(image, index, &module), "kpk_get_module");
    bench_must((int)kpk_get_entry(image, module.first_entry, &one.entry), "kpk_get_entry");
    bench_must((int)kpk_get_object(image, one.entry.object, &object), "kpk_get_object");
    bench_must((int)kpk_get_blob(image, object.blob, &one.blob), "kpk_get_blob");
    bench_must((int)kpk_get_group(image, one.blob.group, &one.group), "kpk_get_group");
    size_t room = ZSTD_compressBound(one.blob.size);
    void *cubin = malloc(one.blob.size), *packed = malloc(room);
    bench_must((int)kpk_read_blob(image, object.blob, cubin, one.blob.size), "kpk_read_blob");
    one.alone_size = ZSTD_compress(packed, room, cubin, one.blob.size, LEVEL);
    if (pwrite(one.alone_file, packed, one.alone_size, 0) != (ssize_t)one.alone_size)
        bench_fail("writing a file");
    free(packed);
    free(cubin);
}

static void bench_alone(void)
{
    double (*const ways[])(void) = {alone_ours, alone_so_far, alone_by_itself};
    static double so_far[ALL], by_itself[ALL];
    char alone_path[] = "/tmp/kpk-bench-alone-XXXXXX";
    kpk_image *image;
    kpk_image_info info;
    bench_must((int)kpk_open(path, NULL, &image), "kpk_open");
    bench_must((int)kpk_get_image(image, &info), "kpk_get_image");
    one.image_file = open(path, O_RDONLY | O_CLOEXEC);
    one.alone_file = mkstemp(alone_path);
    if (one.image_file < 0 || one.alone_file < 0 || info.module_count > ALL)
        bench_fail("opening the files of %u modules", info.module_count);
    unlink(alone_path);
    for (uint32_t i = 0; i < info.module_count; i++) {
        double ns[3];
        choose(image, i);
        take_turns(info.module_count > 64 ? 5 : 41, ways, 3, ns);
        so_far[i] = ns[0] / ns[1];
        by_itself[i] = ns[0] / ns[2];
        if (info.module_count <= 64)
            printf("first use of %s alone, %llu bytes at %llu of %llu: %.0f us; read + decode so "
                   "far %.0f us, ratio %.2f; packed by itself %.0f us, ratio %.2f\n",
                   one.entry.module, (unsigned long long)one.blob.size,
                   (unsigned long long)one.blob.offset, (unsigned long long)one.group.raw_size,
                   ns[0] / 1e3, ns[1] / 1e3, so_far[i], ns[2] / 1e3, by_itself[i]);
    }
    printf("first use of one module alone, median of %u: %.2f of read + decode so far, %.2f of "
           "packed by itself\n",
           info.module_count, bench_median(so_far, info.module_count),
           bench_median(by_itself, info.module_count));
    close(one.image_file);
    close(one.alone_file);
    kpk_close(image);
}

/* ---- */

/* Writes a generated image; the path is a copy. */
static char *generate(size_t modules, size_t entries)
{
    char name[] = "/tmp/kpk-bench-XXXXXX";
    size_t size = 0;
    void *bytes = bench_image(modules, entries, &size);
    int file = mkstemp(name);
    if (bytes == NULL || file < 0 || write(file, bytes, size) != (ssize_t)size)
        bench_fail("writing an image");
    close(file);
    free(bytes);
    return strdup(name);
}

int main(int argc, char **argv)
{
    char *large = generate(MODULES, ENTRIES), *front = generate(1, 1);
    path = large;
    bench_open();
    bench_resolve(front);
    bench_launch(front);
    bench_memory();
    if (argc > 1) {
        path = argv[1];
        bench_memory();
        bench_all();
        bench_alone();
    }
    unlink(large);
    unlink(front);
    free(large);
    free(front);
    return 0;
}
