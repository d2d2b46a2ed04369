// What the runtime costs without a device, beside a peer for each figure:
//
//   make out/bench/runtime && out/bench/runtime [IMAGE]
//
// open      kpk_open + kpk_close of an image with 10,000 entries, against reading the same index
//           from the same file and putting its entries into a std::unordered_map
// resolve   kpk_resolve, against find in that map: with a std::string key that is at hand already,
//           and with one that is made of the module's and the entry's name in a string that is reused
// launch    kpk_launch over a driver whose cuLaunchKernel does nothing, against calling that
// decode    the first use of everything in IMAGE over a driver that does nothing, against reading
//           the file and ZSTD_decompress of its groups
// alone     the first use of each module of IMAGE by itself, over the same driver
//
// Medians of interleaved rounds.
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench_image.h"
#include "runtime/kpk.h"
#include "runtime/kpk_format.h"

namespace
{

constexpr size_t kModules = 500, kEntries = 20;
constexpr int kRounds = 101;

double now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) * 1e9 + double(time.tv_nsec);
}

double median(std::vector<double> values)
{
    std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
    return values[values.size() / 2];
}

// Each function returns the nanoseconds of one round; they take turns.
std::vector<double> interleave(int rounds, const std::vector<std::function<double()>> &functions)
{
    std::vector<std::vector<double>> times(functions.size());
    for (auto &function : functions)
        function();
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < functions.size(); i++)
            times[i].push_back(functions[i]());
    std::vector<double> medians;
    for (auto &list : times)
        medians.push_back(median(list));
    return medians;
}

void require(bool condition, const char *what)
{
    if (condition)
        return;
    std::fprintf(stderr, "bench: %s failed\n", what);
    std::exit(1);
}

// ---- The peer: a map from "module:entry" to what a launch needs ---------------------------------

struct Entry {
    uint32_t block[3], smem, object;
};
using Map = std::unordered_map<std::string, Entry>;

struct File {
    std::vector<uint8_t> bytes;

    void read_part(int file, uint64_t size)
    {
        size_t start = bytes.size();
        bytes.resize(start + size);
        require(pread(file, bytes.data() + start, size, off_t(start)) == ssize_t(size), "pread");
    }
    const kpk_header &header() const
    {
        return *reinterpret_cast<const kpk_header *>(bytes.data());
    }
    template <class T> const T *table(kpk_section_id id) const
    {
        return reinterpret_cast<const T *>(bytes.data() + header().sections[id].offset);
    }
};

// No digest and no bound is checked here: the peer does less than kpk_open.
void parse(const char *path, Map *map)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    require(file >= 0, "open");
    File image;
    image.read_part(file, sizeof(kpk_header));
    image.read_part(file, image.header().index_size);
    close(file);
    auto entries = image.table<kpk_entry_record>(KPK_SECTION_ENTRIES);
    auto modules = image.table<kpk_module_record>(KPK_SECTION_MODULES);
    auto strings = image.table<char>(KPK_SECTION_STRINGS);
    uint32_t count = image.header().sections[KPK_SECTION_ENTRIES].count;
    map->reserve(count);
    std::string key;
    for (uint32_t i = 0; i < count; i++) {
        const kpk_entry_record &entry = entries[i];
        const kpk_string module = modules[entry.module].name;
        key.assign(strings + module.offset, module.size);
        key += ':';
        key.append(strings + entry.name.offset, entry.name.size);
        Entry made = {{entry.block[0], entry.block[1], entry.block[2]}, entry.dynamic_smem, entry.object};
        map->emplace(key, made);
    }
}

void bench_open(const char *path)
{
    auto ours = [&] {
        double start = now();
        kpk_image *image = nullptr;
        require(kpk_open(path, nullptr, &image) == KPK_OK, "kpk_open");
        double opened = now();
        kpk_close(image);
        return opened - start;
    };
    auto peer = [&] {
        double start = now();
        Map map;
        parse(path, &map);
        double opened = now();
        require(map.size() == kModules * kEntries, "the peer's parse");
        return opened - start;
    };
    auto medians = interleave(kRounds, {ours, peer});
    std::printf("open, %zu entries: kpk_open %.1f us, unordered_map %.1f us, ratio %.3f\n",
                kModules * kEntries, medians[0] / 1e3, medians[1] / 1e3, medians[0] / medians[1]);
}

// ---- Resolve ------------------------------------------------------------------------------------

struct Name {
    std::string module, entry, key;
};

void bench_resolve(const char *path, size_t distinct)
{
    kpk_image *image = nullptr;
    require(kpk_open(path, nullptr, &image) == KPK_OK, "kpk_open");
    Map map;
    parse(path, &map);
    std::vector<Name> names;
    for (uint32_t i = 0; i < kModules * kEntries; i++) {
        kpk_entry_info info;
        require(kpk_get_entry(image, i, &info) == KPK_OK, "kpk_get_entry");
        names.push_back({info.module, info.name, std::string(info.module) + ":" + info.name});
    }
    std::mt19937 random(1);
    std::shuffle(names.begin(), names.end(), random);
    names.resize(distinct);
    const size_t lookups = 20000;
    uint64_t sum = 0;
    auto ours = [&] {
        double start = now();
        for (size_t i = 0, n = 0; i < lookups; i++, n = n + 1 == distinct ? 0 : n + 1)
            sum += kpk_resolve(image, names[n].module.c_str(), names[n].entry.c_str()).id;
        return (now() - start) / double(lookups);
    };
    auto peer = [&] {
        double start = now();
        for (size_t i = 0, n = 0; i < lookups; i++, n = n + 1 == distinct ? 0 : n + 1)
            sum += map.find(names[n].key)->second.object;
        return (now() - start) / double(lookups);
    };
    auto joined = [&] {
        double start = now();
        std::string key;
        for (size_t i = 0, n = 0; i < lookups; i++, n = n + 1 == distinct ? 0 : n + 1) {
            key.assign(names[n].module.c_str());
            key += ':';
            key += names[n].entry.c_str();
            sum += map.find(key)->second.object;
        }
        return (now() - start) / double(lookups);
    };
    auto medians = interleave(kRounds, {ours, peer, joined});
    require(sum != 0, "resolving");
    std::printf("resolve, %zu names in turn: kpk_resolve %.1f ns; unordered_map find, key at hand %.1f ns, ratio %.2f; "
                "key made of the two names %.1f ns, ratio %.2f\n",
                distinct, medians[0], medians[1], medians[0] / medians[1], medians[2], medians[0] / medians[2]);
    kpk_close(image);
}

// ---- A driver that does nothing -----------------------------------------------------------------

extern "C" int nop_launch(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                          void **)
{
    return 0;
}
extern "C" int nop_version(int *version)
{
    *version = 13000;
    return 0;
}
extern "C" int nop_attribute(int *value, int attribute, int)
{
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 232448;
    return 0;
}
extern "C" int nop_out(void **out, void *, void *, void *, unsigned, void *, void *, unsigned)
{
    *out = out;
    return 0;
}
extern "C" int nop_none(void **out)
{
    *out = nullptr;
    return 0;
}
extern "C" int nop(void)
{
    return 0;
}

void *symbol(void *, const char *name)
{
    const std::string text = name;
    if (text == "cuLaunchKernel")
        return reinterpret_cast<void *>(nop_launch);
    if (text == "cuDriverGetVersion")
        return reinterpret_cast<void *>(nop_version);
    if (text == "cuDeviceGetAttribute")
        return reinterpret_cast<void *>(nop_attribute);
    if (text == "cuLibraryLoadData" || text == "cuLibraryGetKernel")
        return reinterpret_cast<void *>(nop_out);
    if (text == "cuCtxGetCurrent")
        return reinterpret_cast<void *>(nop_none);
    return reinterpret_cast<void *>(nop);
}

kpk_image *open_bound(const char *path)
{
    kpk_open_desc desc = {nullptr, nullptr, symbol, nullptr, nullptr, nullptr};
    kpk_image *image = nullptr;
    require(kpk_open(path, &desc, &image) == KPK_OK, "kpk_open");
    require(kpk_bind(image, 0) == KPK_OK, "kpk_bind");
    return image;
}

void bench_launch(const char *path)
{
    kpk_image *image = open_bound(path);
    kpk_entry_info info;
    require(kpk_get_entry(image, 1234, &info) == KPK_OK, "kpk_get_entry");
    const size_t launches = 100000;
    void *args[1] = {nullptr};
    kpk_grid grid = {100, 1, 1};
    int failures = 0;
    auto ours = [&] {
        double start = now();
        for (size_t i = 0; i < launches; i++)
            failures += kpk_launch(image, info.kernel, grid, 0, nullptr, args) != KPK_OK;
        return (now() - start) / double(launches);
    };
    decltype(&nop_launch) volatile pointer = nop_launch;
    auto peer = [&] {
        double start = now();
        for (size_t i = 0; i < launches; i++)
            failures += pointer(image, grid.x, grid.y, grid.z, 256, 1, 1, 1024, nullptr, args, nullptr) != 0;
        return (now() - start) / double(launches);
    };
    auto medians = interleave(kRounds, {ours, peer});
    require(failures == 0, "launching");
    std::printf("launch: kpk_launch %.2f ns, the driver's function alone %.2f ns, added %.2f ns\n", medians[0],
                medians[1], medians[0] - medians[1]);
    kpk_close(image);
}

// ---- First use ----------------------------------------------------------------------------------

void bench_decode(const char *path, int rounds)
{
    kpk_image_info info;
    {
        kpk_image *image = nullptr;
        require(kpk_open(path, nullptr, &image) == KPK_OK, "kpk_open of the image");
        require(kpk_get_image(image, &info) == KPK_OK, "kpk_get_image");
        kpk_close(image);
    }
    auto arch = [&] {
        double start = now();
        kpk_open_desc desc = {nullptr, nullptr, symbol, nullptr, nullptr, nullptr};
        kpk_image *image = nullptr;
        require(kpk_open(path, &desc, &image) == KPK_OK && kpk_bind(image, 0) == KPK_OK, "kpk_bind (an sm_90a image?)");
        require(kpk_preload(image, nullptr, 0) == KPK_OK, "kpk_preload");
        double done = now();
        kpk_close(image);
        return done - start;
    };
    auto peer = [&] {
        double start = now();
        int file = open(path, O_RDONLY | O_CLOEXEC);
        struct stat status;
        require(file >= 0 && fstat(file, &status) == 0, "open");
        File image;
        image.read_part(file, uint64_t(status.st_size));
        close(file);
        auto groups = image.table<kpk_group_record>(KPK_SECTION_GROUPS);
        for (uint32_t i = 0; i < info.group_count; i++) {
            std::vector<uint8_t> raw(groups[i].raw_size);
            require(ZSTD_decompress(raw.data(), raw.size(), image.bytes.data() + groups[i].offset,
                                    groups[i].packed_size) == raw.size(),
                    "ZSTD_decompress");
        }
        return now() - start;
    };
    auto medians = interleave(rounds, {arch, peer});
    std::printf("first use of all %u modules, %.2f MB of cubins in %u groups: open + bind + preload %.2f ms, "
                "read + ZSTD_decompress %.2f ms, ratio %.2f\n",
                info.module_count, double(info.raw_bytes) / 1e6, info.group_count, medians[0] / 1e6, medians[1] / 1e6,
                medians[0] / medians[1]);
}

// The first use of each module alone, everything else open and bound. Two peers: read the cubin's group
// and decode it up to the cubin's end in one go, and the same of a file that holds this cubin alone, packed
// by itself at the writer's level: what a format without groups could do at best.
struct Alone {
    std::string module, entry;
    kpk_blob_info blob;
    kpk_group_info group;
    std::vector<uint8_t> packed;
};

std::vector<Alone> list_modules(const char *path)
{
    kpk_image *image = nullptr;
    require(kpk_open(path, nullptr, &image) == KPK_OK, "kpk_open of the image");
    kpk_image_info info;
    require(kpk_get_image(image, &info) == KPK_OK, "kpk_get_image");
    std::vector<Alone> list;
    for (uint32_t i = 0; i < info.module_count; i++) {
        kpk_module_info module;
        kpk_entry_info entry;
        kpk_object_info object;
        Alone made;
        require(kpk_get_module(image, i, &module) == KPK_OK, "kpk_get_module");
        require(kpk_get_entry(image, module.first_entry, &entry) == KPK_OK, "kpk_get_entry");
        require(kpk_get_object(image, entry.object, &object) == KPK_OK, "kpk_get_object");
        require(kpk_get_blob(image, object.blob, &made.blob) == KPK_OK, "kpk_get_blob");
        require(kpk_get_group(image, made.blob.group, &made.group) == KPK_OK, "kpk_get_group");
        made.module = module.name;
        made.entry = entry.name;
        std::vector<uint8_t> cubin(made.blob.size);
        require(kpk_read_blob(image, object.blob, cubin.data(), cubin.size()) == KPK_OK, "kpk_read_blob");
        made.packed.resize(ZSTD_compressBound(cubin.size()));
        made.packed.resize(ZSTD_compress(made.packed.data(), made.packed.size(), cubin.data(), cubin.size(), 19));
        list.push_back(made);
    }
    kpk_close(image);
    return list;
}

// Reads packed bytes and decodes the first `size` of them, into memory of its own.
double read_and_decode(int file, uint64_t offset, size_t packed_size, size_t size)
{
    double start = now();
    auto packed = static_cast<uint8_t *>(std::malloc(packed_size));
    auto raw = static_cast<uint8_t *>(std::malloc(size));
    require(pread(file, packed, packed_size, off_t(offset)) == ssize_t(packed_size), "pread");
    ZSTD_DCtx *context = ZSTD_createDCtx();
    ZSTD_inBuffer in = {packed, packed_size, 0};
    ZSTD_outBuffer out = {raw, size, 0};
    while (out.pos < size)
        require(!ZSTD_isError(ZSTD_decompressStream(context, &out, &in)), "ZSTD_decompressStream");
    ZSTD_freeDCtx(context);
    std::free(raw);
    std::free(packed);
    return now() - start;
}

void bench_alone(const char *path, int rounds)
{
    std::vector<Alone> list = list_modules(path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    char alone_path[] = "/tmp/kpk-bench-alone-XXXXXX";
    int alone = mkstemp(alone_path);
    require(file >= 0 && alone >= 0, "opening the files");
    unlink(alone_path);
    std::vector<double> ratios, alone_ratios;
    for (const Alone &module : list) {
        require(pwrite(alone, module.packed.data(), module.packed.size(), 0) == ssize_t(module.packed.size()),
                "writing a file");
        auto ours = [&] {
            kpk_image *image = open_bound(path);
            kpk_kernel kernel = kpk_resolve(image, module.module.c_str(), module.entry.c_str());
            void *function = nullptr;
            double start = now();
            require(kpk_function(image, kernel, &function) == KPK_OK, "kpk_function");
            double spent = now() - start;
            kpk_close(image);
            return spent;
        };
        auto peer = [&] {
            return read_and_decode(file, module.group.offset, module.group.packed_size,
                                   module.blob.offset + module.blob.size);
        };
        auto by_itself = [&] { return read_and_decode(alone, 0, module.packed.size(), module.blob.size); };
        auto medians = interleave(rounds, {ours, peer, by_itself});
        std::printf("first use of %s alone, %llu bytes at %llu of %llu: %.0f us; read + decode so far %.0f us, ratio "
                    "%.2f; packed by itself %.0f us, ratio %.2f\n",
                    module.module.c_str(), (unsigned long long)module.blob.size,
                    (unsigned long long)module.blob.offset, (unsigned long long)module.group.raw_size,
                    medians[0] / 1e3, medians[1] / 1e3, medians[0] / medians[1], medians[2] / 1e3,
                    medians[0] / medians[2]);
        ratios.push_back(medians[0] / medians[1]);
        alone_ratios.push_back(medians[0] / medians[2]);
    }
    std::printf("first use of one module alone, median of %zu: %.2f of read + decode so far, %.2f of packed by itself\n",
                list.size(), median(ratios), median(alone_ratios));
    close(file);
    close(alone);
}

} // namespace

int main(int argc, char **argv)
{
    size_t size = 0;
    void *bytes = bench_image(kModules, kEntries, &size);
    require(bytes != nullptr, "writing the image");
    char path[] = "/tmp/kpk-bench-XXXXXX";
    int file = mkstemp(path);
    require(file >= 0 && write(file, bytes, size) == ssize_t(size), "writing the file");
    close(file);
    std::free(bytes);
    bench_open(path);
    bench_resolve(path, 64);
    bench_resolve(path, kModules * kEntries);
    bench_launch(path);
    bench_decode(path, 21);
    if (argc > 1) {
        bench_decode(argv[1], 21);
        bench_alone(argv[1], 41);
    }
    unlink(path);
    return 0;
}
