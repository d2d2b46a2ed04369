#ifndef GDN_WORLD_H
#define GDN_WORLD_H

/* An image of all the GDN family over the fake driver, which keeps what the launcher gives it. */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "kpk_build.h"
#include "ops/gdn.h"

enum {
    GDN_MOST_ARGS = 22,
    GDN_MOST_LINES = 16,
};

struct gdn_map_call {
    int type, rank;
    uint64_t address, columns, rows, pitch_bytes;
    uint32_t box[2];
    int swizzle;
};

extern struct gdn_seen {
    unsigned maps, synchronizations, launches;
    int map_result, synchronize_result;
    unsigned synchronize_fails; /* the call that gives the result; 0: each */
    const char *hidden;         /* a function that the driver lacks */
    struct timespec callback_takes;
    struct gdn_map_call map[64];
    uint64_t args[8][GDN_MOST_ARGS]; /* of each launch; a tensor map by its first byte */
    char lines[GDN_MOST_LINES][512];
    kpk_severity severity[GDN_MOST_LINES];
    unsigned line_count;
} gdn_seen;

struct gdn_world {
    struct build_bytes bytes;
    kpk_image *image;
    struct gdn ops;
};

/* Builds the image and opens it. */
struct gdn_world *gdn_world_open(void);
void gdn_world_close(struct gdn_world *world);
kpk_status gdn_world_bind(struct gdn_world *world);
kpk_status gdn_world_prefill(struct gdn_world *world, const struct gdn_args *args,
                             struct gdn_route *route);

/* Whether the launcher has said this line. */
bool gdn_said(kpk_severity severity, const char *text);

#endif
