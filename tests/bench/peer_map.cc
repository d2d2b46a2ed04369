#include "peer_map.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <unordered_map>
#include <vector>

extern "C" {
#include "driver.h"
}
#include "runtime/kpk_format.h"

namespace
{

struct Entry {
    uint32_t block[3], smem, object;
};

struct File {
    std::vector<uint8_t> bytes;

    void read_part(int file, uint64_t size)
    {
        size_t start = bytes.size();
        bytes.resize(start + size);
        if (pread(file, bytes.data() + start, size, off_t(start)) != ssize_t(size))
            bench_fail("the peer cannot read");
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

uint64_t sink;

} // namespace

struct peer_map {
    std::unordered_map<std::string, Entry> entries;
    std::vector<std::string> keys;
};

peer_map *peer_map_open(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        bench_fail("%s: the peer cannot open it", path);
    auto map = new peer_map;
    File image;
    image.read_part(file, sizeof(kpk_header));
    image.read_part(file, image.header().index_size);
    close(file);
    auto entries = image.table<kpk_entry_record>(KPK_SECTION_ENTRIES);
    auto modules = image.table<kpk_module_record>(KPK_SECTION_MODULES);
    auto strings = image.table<char>(KPK_SECTION_STRINGS);
    uint32_t count = image.header().sections[KPK_SECTION_ENTRIES].count;
    map->entries.reserve(count);
    std::string key;
    for (uint32_t i = 0; i < count; i++) {
        const kpk_entry_record &entry = entries[i];
        const kpk_string module = modules[entry.module].name;
        key.assign(strings + module.offset, module.size);
        key += ':';
        key.append(strings + entry.name.offset, entry.name.size);
        Entry made = {{entry.block[0], entry.block[1], entry.block[2]}, entry.dynamic_smem, entry.object};
        map->entries.emplace(key, made);
    }
    return map;
}

size_t peer_map_size(const peer_map *map)
{
    return map->entries.size();
}

void peer_map_close(peer_map *map)
{
    delete map;
}

void peer_map_keys(peer_map *map, const peer_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        map->keys.push_back(names[i].key);
}

void peer_map_find(const peer_map *map, size_t count, size_t lookups)
{
    for (size_t i = 0, n = 0; i < lookups; i++, n = n + 1 == count ? 0 : n + 1)
        sink += map->entries.find(map->keys[n])->second.object;
}

void peer_map_find_joined(const peer_map *map, const peer_name *names, size_t count, size_t lookups)
{
    std::string key;
    for (size_t i = 0, n = 0; i < lookups; i++, n = n + 1 == count ? 0 : n + 1) {
        key.assign(names[n].module);
        key += ':';
        key += names[n].entry;
        sink += map->entries.find(key)->second.object;
    }
}
