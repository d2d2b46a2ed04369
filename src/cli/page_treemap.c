#include <stdlib.h>
#include <string.h>

#include "cli/html.h"
#include "cli/page.h"
#include "cli/report.h"
#include "cli/treemap.h"

enum {
    COLOURS = 8, /* .c0 to .c7 of the style */
    LABEL_LINES = 6,
};

/* Sizes in the drawing's units. */
static const double inset = 5, letter = 0.61 /* of a fixed-width font's size */;

struct drawing {
    const char *class; /* "wide", "narrow" */
    double width, height, font;
};

static const struct drawing drawings[] = {{"wide", 1200, 500, 13}, {"narrow", 420, 640, 13}};

struct cell {
    struct size_part part;            /* name NULL: what belongs to no entry */
    const struct size_module *module; /* NULL: the file's header and index */
};

static int largest_first(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->part.packed != y->part.packed)
        return x->part.packed > y->part.packed ? -1 : 1;
    if (!x->part.name || !y->part.name)
        return (x->part.name == NULL) - (y->part.name == NULL);
    return strcmp(x->part.name, y->part.name);
}

/* Sorts, leaves out what takes nothing, and lays the rest out. */
static size_t lay_out(struct cell *cells, size_t count, struct treemap_box frame,
                      struct treemap_box *out_boxes)
{
    qsort(cells, count, sizeof *cells, largest_first);
    while (count && !cells[count - 1].part.packed)
        count--;
    uint64_t *weights = mem_alloc(count, sizeof *weights);
    for (size_t i = 0; i < count; i++)
        weights[i] = cells[i].part.packed;
    treemap_layout(weights, count, frame, out_boxes);
    free(weights);
    return count;
}

/* ---- Labels -----------------------------------------------------------------------------------
 */

/* Where a line of at most `room` letters ends: all of the text, behind its last '_', or within a
 * word that is too long. */
static size_t line_end(const char *text, size_t room)
{
    size_t length = strlen(text), end = room;
    if (length <= room)
        return length;
    while (end && text[end - 1] != '_')
        end--;
    if (end)
        return end;
    for (end = room; end && ((unsigned char)text[end] & 0xc0) == 0x80;)
        end--;
    return end;
}

static void add_line(struct str *html, const char *class, double x, double y, const char *text,
                     const char *tail)
{
    str_addf(html, "<text%s x=\"%.1f\" y=\"%.1f\">", class, x, y);
    html_text(html, text);
    str_addf(html, "%s</text>", tail);
}

/* As much of the name as fits, over lines, and below it the size. `top` is left free. */
static void add_label(struct page *page, const struct drawing *drawing, struct treemap_box box,
                      double top, const char *name, uint64_t packed)
{
    struct str *html = &page->html;
    double step = drawing->font * 1.2, y = box.y + inset + top;
    double wide = (box.width - 2 * inset) / (drawing->font * letter);
    double high = (box.height - 2 * inset - top) / step;
    if (wide < 5 || high < 1)
        return;
    size_t room = (size_t)wide, lines = high < LABEL_LINES ? (size_t)high : LABEL_LINES, line = 0;
    char *shown = report_name(page->arena, name);
    for (; *shown && line < lines; line++) {
        size_t end = line_end(shown, room);
        bool cut = shown[end] && line + 1 == lines;
        if (cut && end == room)
            end = line_end(shown, room - 1);
        y += step;
        add_line(html, "", box.x + inset, y - step / 4,
                 arena_strndup(page->arena, shown, end ? end : strlen(shown)),
                 cut ? "&hellip;" : "");
        shown += end ? end : strlen(shown);
    }
    const char *size = report_size(page->arena, packed);
    if (line < lines && strlen(size) <= room)
        add_line(html, " class=\"size\"", box.x + inset, y + step * 3 / 4, size, "");
}

/* ---- Cells ------------------------------------------------------------------------------------
 */

static const char *cell_name(struct page *page, const struct cell *cell)
{
    if (!cell->module)
        return "header and index";
    if (!cell->part.name)
        return arena_printf(page->arena, "%s: rest of the cubin", cell->module->all.name);
    return arena_printf(page->arena, "%s:%s", cell->module->all.name, cell->part.name);
}

/* Where the cell's row is. */
static const char *cell_row(struct page *page, size_t image, const struct cell *cell)
{
    if (!cell->module)
        return arena_printf(page->arena, "i%zu", image + 1);
    return arena_printf(page->arena, "%c%zu-%u", cell->part.name ? 'e' : 'm', image + 1,
                        cell->part.name ? cell->part.index : cell->module->all.index);
}

static void add_cell(struct page *page, size_t image, const struct cell *cell,
                     struct treemap_box box)
{
    struct str *html = &page->html, count = {0};
    uint64_t file = page->views[image].info.file_bytes;
    html_count(&count, cell->part.packed);
    str_addf(&count, " B, %.1f%% of the file; ", 100.0 * (double)cell->part.packed / (double)file);
    html_count(&count, cell->part.raw);
    str_adds(&count, " B raw");
    str_addf(html, "<a class=\"cell%s\" href=\"#%s\" aria-label=\"", cell->part.name ? "" : " rest",
             cell_row(page, image, cell));
    html_text(html, cell_name(page, cell));
    str_addf(html,
             ", %s\"><rect x=\"%.4f\" y=\"%.4f\" width=\"%.4f\" height=\"%.4f\" "
             "data-bytes=\"%llu\"/><title>",
             str_text(&count), box.x, box.y, box.width, box.height,
             (unsigned long long)cell->part.packed);
    html_text(html, cell_name(page, cell));
    str_addf(html, "\n%s</title>", str_text(&count));
    str_free(&count);
}

/* The module's name on its first cells, and a ground that hides the edges between them. */
static void add_tab(struct page *page, const struct drawing *drawing, struct treemap_box frame,
                    const char *name)
{
    double advance = drawing->font * letter, step = drawing->font * 1.2;
    size_t room = (size_t)((frame.width - 2 * inset) / advance);
    const char *shown = report_cut(page->arena, report_name(page->arena, name), room);
    double width = (double)strlen(shown) * advance + 2 * inset;
    str_addf(&page->html,
             "<rect class=\"tab\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
             frame.x + 2, frame.y + 2, (width < frame.width ? width : frame.width) - 4, step + 1);
    add_line(&page->html, " class=\"module\"", frame.x + inset, frame.y + inset + step * 3 / 4,
             shown, "");
}

/* The module's name on top, in a line that its cells leave free, when there is room for it. */
static void add_module(struct page *page, size_t image, const struct drawing *drawing,
                       const struct size_module *module, struct treemap_box frame, size_t colour)
{
    struct str *html = &page->html;
    double step = drawing->font * 1.2;
    bool named = frame.width > 8 * drawing->font * letter && frame.height > step + 2 * inset;
    struct cell *cells = mem_alloc(module->part_count, sizeof *cells);
    struct treemap_box *boxes = mem_alloc(module->part_count, sizeof *boxes);
    for (uint32_t i = 0; i < module->part_count; i++)
        cells[i] = (struct cell){module->parts[i], module};
    size_t count = lay_out(cells, module->part_count, frame, boxes);
    str_addf(html, "<g class=\"c%zu\">\n", colour % COLOURS);
    for (size_t i = 0; i < count; i++) {
        bool under = named && boxes[i].y - frame.y < step + inset;
        add_cell(page, image, &cells[i], boxes[i]);
        add_label(page, drawing, boxes[i], under ? step : 0,
                  cells[i].part.name ? cells[i].part.name : "rest", cells[i].part.packed);
        str_adds(html, "</a>\n");
    }
    str_addf(html, "<rect class=\"edge\" x=\"%.4f\" y=\"%.4f\" width=\"%.4f\" height=\"%.4f\"/>",
             frame.x, frame.y, frame.width, frame.height);
    if (named)
        add_tab(page, drawing, frame, module->all.name);
    str_adds(html, "</g>\n");
    free(cells);
    free(boxes);
}

static void draw(struct page *page, size_t image, const struct drawing *drawing)
{
    struct str *html = &page->html;
    const struct sizes *sizes = &page->sizes[image];
    struct cell *cells = mem_alloc((size_t)sizes->count + 1, sizeof *cells);
    struct treemap_box *boxes = mem_alloc((size_t)sizes->count + 1, sizeof *boxes);
    for (uint32_t i = 0; i < sizes->count; i++)
        cells[i] = (struct cell){sizes->modules[i].all, &sizes->modules[i]};
    cells[sizes->count].part.raw = cells[sizes->count].part.packed = sizes->index;
    str_addf(
        html,
        "<svg class=\"map %s\" viewBox=\"0 0 %.0f %.0f\" role=\"group\" aria-label=\"Bytes of ",
        drawing->class, drawing->width, drawing->height);
    html_text(html, page->labels[image]);
    str_addf(html, " by module and entry\" font-size=\"%.0f\">\n", drawing->font);
    struct treemap_box whole = {0, 0, drawing->width, drawing->height};
    size_t count = lay_out(cells, (size_t)sizes->count + 1, whole, boxes);
    for (size_t i = 0; i < count; i++) {
        if (cells[i].module) {
            add_module(page, image, drawing, cells[i].module, boxes[i], i);
            continue;
        }
        add_cell(page, image, &cells[i], boxes[i]);
        add_label(page, drawing, boxes[i], 0, "index", cells[i].part.packed);
        str_adds(html, "</a>\n");
    }
    str_adds(html, "</svg>\n");
    free(cells);
    free(boxes);
}

void page_treemap(struct page *page, size_t image)
{
    struct str *html = &page->html;
    str_adds(html, "<figure>\n<figcaption>");
    html_name(html, page->labels[image]);
    str_addf(html, " <span>%s on disk</span></figcaption>\n",
             report_size(page->arena, page->views[image].info.file_bytes));
    for (size_t i = 0; i < sizeof drawings / sizeof *drawings; i++)
        draw(page, image, &drawings[i]);
    str_adds(html, "</figure>\n");
}
