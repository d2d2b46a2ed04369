#ifndef OPS_W8A16_RULES_H
#define OPS_W8A16_RULES_H

#include "ops/w8a16.h"

/* The tile of a Hopper twin. */
struct w8a16_hopper_tile {
    uint32_t rows, columns;
    uint32_t cluster; /* blocks side by side that share rows of A */
    uint32_t cost;    /* of 128 of K, relative to the others */
};

extern const struct w8a16_hopper_tile w8a16_hopper_tiles[W8A16_TWIN_COUNT];

/* Tiles that cover an extent. */
static inline uint32_t w8a16_tiles(uint32_t extent, uint32_t tile)
{
    return extent / tile + (extent % tile != 0);
}

#endif
