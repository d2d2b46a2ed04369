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

static struct row *add(struct page *page, struct rows *rows, size_t image, const char *value)
{
    struct row *row = &rows->items[rows->count++];
    row->values = arena_alloc(page->arena, page->count, sizeof *row->values);
    row->values[image] = value;
    return row;
}

static const char *default_of(struct page *page, const kpk_lever *lever)
{
    if (lever->kind != KPK_TEXT)
        return lever->default_on ? "on" : "off";
    return arena_printf(page->arena, "'%s'", lever->default_text);
}

static void print_rows(struct page *page, const struct rows *rows, size_t keys)
{
    struct str *html = &page->html;
    for (size_t i = 0; i < rows->count; i++) {
        str_adds(html, "<tr>");
        for (size_t j = 0; j < keys; j++) {
            str_addf(html, j ? "<td class=\"name\">" : "<th scope=\"row\" class=\"name\">");
            html_name(html, rows->items[i].keys[j]);
            str_adds(html, j ? "</td>" : "</th>");
        }
        for (size_t j = 0; j < page->count; j++) {
            const char *value = rows->items[i].values[j];
            str_adds(html, value ? "<td class=\"state\">" : "<td class=\"state none\">&ndash;");
            html_text(html, value ? value : "");
            str_adds(html, "</td>");
        }
        str_adds(html, "</tr>\n");
    }
    page_end_table(page);
}

void page_levers(struct page *page)
{
    struct str *html = &page->html;
    struct rows rows = {0};
    size_t most = 0;
    for (size_t i = 0; i < page->count; i++)
        most += page->views[i].info.lever_count;
    rows.items = mem_alloc(most, sizeof *rows.items);
    for (size_t i = 0; i < page->count; i++)
        for (uint32_t j = 0; j < page->views[i].info.lever_count; j++) {
            kpk_lever lever = view_lever(&page->views[i], j);
            struct row *row = add(page, &rows, i, default_of(page, &lever));
            row->keys[0] = lever.name;
            row->keys[1] = lever.env;
            row->keys[2] = view_lever_kind(lever.kind);
        }
    join(&rows, page->count);
    page_section(page, "levers", "Levers");
    if (rows.count) {
        str_adds(html,
                 "<p class=\"note\">Run-time choices with each target&rsquo;s default, which the "
                 "environment variable overrides.</p>\n");
        page_table(page, "levers", "Levers and their defaults", NULL);
        str_adds(html,
                 "<thead>\n<tr><th scope=\"col\">Lever</th><th scope=\"col\">Variable</th><th "
                 "scope=\"col\">Kind</th>");
        page_image_heads(page);
        str_adds(html, "</tr>\n</thead>\n<tbody>\n");
        print_rows(page, &rows, 3);
    } else {
        str_adds(html, "<p class=\"empty\">No lever.</p>\n");
    }
    str_adds(html, "</section>\n");
    free(rows.items);
}

void page_absent(struct page *page)
{
    struct str *html = &page->html;
    struct rows rows = {0};
    size_t most = 0;
    for (size_t i = 0; i < page->count; i++)
        most += page->views[i].info.absent_count;
    rows.items = mem_alloc(most, sizeof *rows.items);
    for (size_t i = 0; i < page->count; i++)
        for (uint32_t j = 0; j < page->views[i].info.absent_count; j++) {
            kpk_absent_info absent = view_absent(&page->views[i], j);
            struct row *row = add(page, &rows, i, "declared");
            row->keys[0] = arena_printf(page->arena, "%s%s%s", absent.module,
                                        absent.entry[0] ? ":" : "", absent.entry);
            row->keys[1] = absent.reason;
            row->keys[2] = "";
        }
    join(&rows, page->count);
    page_section(page, "absent", "Expected absent");
    if (rows.count) {
        str_adds(html,
                 "<p class=\"note\">What an image declares that it does not ship, and why.</p>\n");
        page_table(page, "absent", "Expected absences", NULL);
        str_adds(
            html,
            "<thead>\n<tr><th scope=\"col\">Module or entry</th><th scope=\"col\">Reason</th>");
        page_image_heads(page);
        str_adds(html, "</tr>\n</thead>\n<tbody>\n");
        print_rows(page, &rows, 2);
    } else {
        str_adds(html, "<p class=\"empty\">No image declares any.</p>\n");
    }
    str_adds(html, "</section>\n");
    free(rows.items);
}
