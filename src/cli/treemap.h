#ifndef CLI_TREEMAP_H
#define CLI_TREEMAP_H

#include <stddef.h>
#include <stdint.h>

/* A squarified treemap: rectangles that tile a frame, their areas in the ratio of their weights,
 * as near to squares as rows of them allow. (Bruls, Huizing, van Wijk: "Squarified Treemaps".) */

struct treemap_box {
    double x, y, width, height;
};

/* Weights are greater than 0, the largest first. The first box has the frame's top left corner. */
void treemap_layout(const uint64_t *weights, size_t count, struct treemap_box frame,
                    struct treemap_box *out_boxes);

#endif
