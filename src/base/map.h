#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>

/* From texts to pointers. Zero-initialise to start; texts and what they lead to are borrowed. */
struct map {
    struct map_slot *slots; /* owned */
    size_t cap, count;
};

/* The pointer of `key`, NULL in a new one, to be set; valid until the next call. */
void **map_at(struct map *map, const char *key);
/* NULL: it was never set. */
void *map_find(const struct map *map, const char *key);
void map_free(struct map *map);

#endif
