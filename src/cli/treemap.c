#include "cli/treemap.h"

#include <stdbool.h>

/* The worst ratio of sides among boxes of a row along `side`, whose areas are `sum` together, the
 * largest `most` and the smallest `least`. */
static double worst(double sum, double most, double least, double side)
{
    double wide = side * side * most / (sum * sum), tall = sum * sum / (side * side * least);
    return wide > tall ? wide : tall;
}

/* How many boxes the next row takes: as long as that makes none of them narrower. */
static size_t row_length(const uint64_t *weights, size_t count, double scale, double side,
                         double *out_sum)
{
    double most = (double)weights[0] * scale, sum = most, ratio = worst(sum, most, most, side);
    size_t length = 1;
    for (; length < count; length++) {
        double area = (double)weights[length] * scale;
        double next = worst(sum + area, most, area, side);
        if (next > ratio)
            break;
        ratio = next;
        sum += area;
    }
    *out_sum = sum;
    return length;
}

/* Tiles a strip from its top or from its left. */
static void lay_row(const uint64_t *weights, size_t count, double scale, struct treemap_box strip,
                    bool downwards, struct treemap_box *out_boxes)
{
    for (size_t i = 0; i < count; i++) {
        double area = (double)weights[i] * scale;
        struct treemap_box *box = &out_boxes[i];
        *box = strip;
        if (downwards) {
            box->height = i + 1 < count ? area / strip.width : strip.height;
            strip.y += box->height;
            strip.height -= box->height;
        } else {
            box->width = i + 1 < count ? area / strip.height : strip.width;
            strip.x += box->width;
            strip.width -= box->width;
        }
    }
}

void treemap_layout(const uint64_t *weights, size_t count, struct treemap_box frame,
                    struct treemap_box *out_boxes)
{
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += (double)weights[i];
    double scale = frame.width * frame.height / total;
    while (count) {
        double sum;
        bool downwards = frame.width >= frame.height; /* the row stands along the shorter side */
        double side = downwards ? frame.height : frame.width;
        size_t length = row_length(weights, count, scale, side, &sum);
        struct treemap_box strip = frame;
        if (length < count && downwards)
            strip.width = sum / side;
        else if (length < count)
            strip.height = sum / side;
        lay_row(weights, length, scale, strip, downwards, out_boxes);
        if (downwards) {
            frame.x += strip.width;
            frame.width -= strip.width;
        } else {
            frame.y += strip.height;
            frame.height -= strip.height;
        }
        weights += length;
        out_boxes += length;
        count -= length;
    }
}
