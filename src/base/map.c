#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct map_slot {
    const char *key; /* NULL: free */
    uint64_t hash;
    void *value;
};

/* FNV-1a, folded: the low bits choose the slot. */
static uint64_t hash_of(const char *key)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 0x100000001b3;
    return hash ^ hash >> 32;
}

static struct map_slot *find(const struct map *map, const char *key, uint64_t hash)
{
    size_t at = (size_t)hash & (map->cap - 1);
    while (map->slots[at].key &&
           (map->slots[at].hash != hash || strcmp(map->slots[at].key, key) != 0))
        at = (at + 1) & (map->cap - 1);
    return &map->slots[at];
}

static void grow(struct map *map)
{
    struct map wider = {.cap = map->cap ? map->cap * 2 : 64};
    wider.slots = mem_alloc(wider.cap, sizeof *wider.slots);
    wider.count = map->count;
    for (size_t i = 0; i < map->cap; i++)
        if (map->slots[i].key)
            *find(&wider, map->slots[i].key, map->slots[i].hash) = map->slots[i];
    free(map->slots);
    *map = wider;
}

void **map_at(struct map *map, const char *key)
{
    if (map->count * 4 >= map->cap * 3)
        grow(map);
    uint64_t hash = hash_of(key);
    struct map_slot *slot = find(map, key, hash);
    if (!slot->key) {
        *slot = (struct map_slot){key, hash, NULL};
        map->count++;
    }
    return &slot->value;
}

void *map_find(const struct map *map, const char *key)
{
    return map->cap ? find(map, key, hash_of(key))->value : NULL;
}

void map_free(struct map *map)
{
    free(map->slots);
    *map = (struct map){0};
}
