#ifndef PEER_MAP_H
#define PEER_MAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an engine would write instead of an index in the file: a std::unordered_map from
 * "module:entry" to what a launch needs. */
struct peer_map;

struct peer_name {
    const char *module, *entry, *key; /* key: "module:entry" */
};

/* Reads the image's index and puts its entries into a map; no digest and no bound is checked, which
 * is less than kpk_open does. Ends the program when it cannot. */
struct peer_map *peer_map_open(const char *path);
size_t peer_map_size(const struct peer_map *map);
void peer_map_close(struct peer_map *map);

/* Makes std::strings of the names' keys, for peer_map_find. */
void peer_map_keys(struct peer_map *map, const struct peer_name *names, size_t count);

/* Looks the first `count` names up in turn, `lookups` times in all, by keys that are std::strings
 * already, or by one that is made of the two names each time. */
void peer_map_find(const struct peer_map *map, size_t count, size_t lookups);
void peer_map_find_joined(const struct peer_map *map, const struct peer_name *names, size_t count,
                          size_t lookups);

#ifdef __cplusplus
}
#endif

#endif
