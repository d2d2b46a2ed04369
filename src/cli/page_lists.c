#include <stdlib.h>
#include <string.h>

#include "cli/html.h"
#include "cli/page.h"

/* Levers and expected absences of all images: each is listed once, with what each image says. */

struct row {
    const char *keys[3]; /* what makes rows the same, and their order */
    const char **values; /* by image; NULL: it does not say */
};

struct rows {
    struct row *items; /* owned */
    size_t count;
};

static int by_keys(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = 0;
    for (size_t i = 0; i < 3 && order == 0; i++)
        order = strcmp(x->keys[i], y->keys[i]);
    return order;
}

/* Sorts, and makes one row of those with the same keys. */
static void join(struct rows *rows, size_t images)
{
    size_t kept = 0;
    if (rows->count)
        qsort(rows->items, rows->count, sizeof *rows->items, by_keys);
    for (size_t i = 0; i < rows->count; i++) {
        if (!kept || by_keys(&rows->items[kept - 1], &rows->items[i]) != 0) {
            rows->items[kept++] = rows->items[i];
            continue;
        }
        for (size_t j = 0; j < images; j++)
            if (rows->items[i].values[j])
                rows->items[kept - 1].values[j] = rows->items[i].values[j];
    }
    rows->count = kept;
}

/* What a list says of one image's item: its keys, and the value. */
struct list {
    const char *id, *title, *note, *empty, *label;
    const char *heads[3]; /* of the keys; NULL: no such column */
    uint32_t (*count)(const kpk_image_info *info);
    const char *(*read)(struct page *page, size_t image, uint32_t index, const char *out_keys[3]);
};

static uint32_t lever_count(const kpk_image_info *info)
{
    return info->lever_count;
}

static const char *read_lever(struct page *page, size_t image, uint32_t index,
                              const char *out_keys[3])
{
    kpk_lever lever = view_lever(&page->views[image], index);
    out_keys[0] = lever.name;
    out_keys[1] = lever.env;
    out_keys[2] = view_lever_kind(lever.kind);
    if (lever.kind == KPK_TEXT)
        return arena_printf(page->arena, "'%s'", lever.default_text);
    return lever.default_on ? "on" : "off";
}

static uint32_t absent_count(const kpk_image_info *info)
{
    return info->absent_count;
}

static const char *read_absent(struct page *page, size_t image, uint32_t index,
                               const char *out_keys[3])
{
    kpk_absent_info absent = view_absent(&page->views[image], index);
    out_keys[0] = arena_printf(page->arena, "%s%s%s", absent.module, absent.entry[0] ? ":" : "",
                               absent.entry);
    out_keys[1] = absent.reason;
    out_keys[2] = "";
    return "declared";
}

/* The rows of all images; `items` is the caller's to free. */
static struct rows collect(struct page *page, const struct list *list)
{
    struct rows rows = {0};
    size_t most = 0;
    for (size_t i = 0; i < page->count; i++)
        most += list->count(&page->views[i].info);
    rows.items = mem_alloc(most, sizeof *rows.items);
    for (size_t i = 0; i < page->count; i++)
        for (uint32_t j = 0; j < list->count(&page->views[i].info); j++) {
            struct row *row = &rows.items[rows.count++];
            row->values = arena_alloc(page->arena, page->count, sizeof *row->values);
            row->values[i] = list->read(page, i, j, row->keys);
        }
    join(&rows, page->count);
    return rows;
}

static void add_row(struct page *page, const struct list *list, const struct row *row)
{
    struct str *html = &page->html;
    str_adds(html, "<tr>");
    for (size_t i = 0; i < 3 && list->heads[i]; i++) {
        str_adds(html, i ? "<td class=\"name\">" : "<th scope=\"row\" class=\"name\">");
        html_name(html, row->keys[i]);
        str_adds(html, i ? "</td>" : "</th>");
    }
    for (size_t i = 0; i < page->count; i++) {
        const char *value = row->values[i];
        str_adds(html, value ? "<td class=\"state\">" : "<td class=\"state none\">&ndash;");
        html_text(html, value ? value : "");
        str_adds(html, "</td>");
    }
    str_adds(html, "</tr>\n");
}

static void add_list(struct page *page, const struct list *list)
{
    struct str *html = &page->html;
    struct rows rows = collect(page, list);
    page_section(page, list->id, list->title);
    if (rows.count) {
        str_addf(html, "<p class=\"note\">%s</p>\n", list->note);
        page_table(page, list->id, list->label, NULL);
        str_adds(html, "<thead>\n<tr>");
        for (size_t i = 0; i < 3 && list->heads[i]; i++)
            str_addf(html, "<th scope=\"col\">%s</th>", list->heads[i]);
        page_image_heads(page);
        str_adds(html, "</tr>\n</thead>\n<tbody>\n");
        for (size_t i = 0; i < rows.count; i++)
            add_row(page, list, &rows.items[i]);
        page_end_table(page);
    } else {
        str_addf(html, "<p class=\"empty\">%s</p>\n", list->empty);
    }
    str_adds(html, "</section>\n");
    free(rows.items);
}

void page_levers(struct page *page)
{
    static const struct list list = {
        .id = "levers",
        .title = "Levers",
        .note = "Run-time choices with each target&rsquo;s default, which the environment variable "
                "overrides.",
        .empty = "No lever.",
        .label = "Levers and their defaults",
        .heads = {"Lever", "Variable", "Kind"},
        .count = lever_count,
        .read = read_lever,
    };
    add_list(page, &list);
}

void page_absent(struct page *page)
{
    static const struct list list = {
        .id = "absent",
        .title = "Expected absent",
        .note = "What an image declares that it does not ship, and why.",
        .empty = "No image declares any.",
        .label = "Expected absences",
        .heads = {"Module or entry", "Reason"},
        .count = absent_count,
        .read = read_absent,
    };
    add_list(page, &list);
}
