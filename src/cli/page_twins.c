#include <inttypes.h>

#include "cli/html.h"
#include "cli/page.h"

static void add_name(struct str *html, const char *class, const char *name)
{
    str_addf(html, "<th scope=\"row\" class=\"name%s\">", class);
    html_name(html, name);
    str_adds(html, "</th>");
}

static void add_twin_cell(struct str *html, const struct twin *twin, size_t image)
{
    if (twin->states[image] == TWIN_ABSENT)
        str_adds(html, "<td class=\"state none\">&ndash;</td>");
    else if (twin->states[image] == TWIN_POINTLESS)
        str_adds(html, "<td class=\"state\"><span class=\"tag warn\">equal code</span></td>");
    else
        str_addf(html, "<td class=\"state\"><span class=\"tag\">%s</span></td>",
                 twin->bits[image] == KPK_BITS_SAME ? "same" : "close");
}

static void add_parent(struct page *page, const struct twin_parent *parent)
{
    struct str *html = &page->html;
    str_addf(html, "<tr%s>", parent->twin_count ? " class=\"parent\"" : "");
    add_name(html, "", parent->name);
    for (size_t i = 0; i < page->count; i++)
        str_adds(html, parent->shipped[i] ? "<td class=\"state\">shipped</td>"
                                          : "<td class=\"state none\">&ndash;</td>");
    str_adds(html, "</tr>\n");
    for (size_t i = 0; i < parent->twin_count; i++) {
        str_adds(html, "<tr>");
        add_name(html, " inner", parent->twins[i].name);
        for (size_t j = 0; j < page->count; j++)
            add_twin_cell(html, &parent->twins[i], j);
        str_adds(html, "</tr>\n");
    }
}

static size_t parents_with_twins(const struct twins *twins)
{
    size_t count = 0;
    for (size_t i = 0; i < twins->parent_count; i++)
        count += twins->parents[i].twin_count != 0;
    return count;
}

/* The parents that have twins, or those that have none. */
static void add_parents(struct page *page, bool with, const char *head)
{
    str_addf(&page->html, "<thead>\n<tr><th scope=\"col\">%s</th>", head);
    page_image_heads(page);
    str_adds(&page->html, "</tr>\n</thead>\n<tbody>\n");
    for (size_t i = 0; i < page->twins.parent_count; i++)
        if ((page->twins.parents[i].twin_count != 0) == with)
            add_parent(page, &page->twins.parents[i]);
    page_end_table(page);
}

static void add_constants(struct page *page)
{
    struct str *html = &page->html;
    str_adds(html, "<h3>Constants that differ</h3>\n");
    page_table(page, "constants", "Constants that differ between images", NULL);
    str_adds(html, "<thead>\n<tr><th scope=\"col\">Module</th><th scope=\"col\">Constant</th>");
    page_image_heads(page);
    str_adds(html, "</tr>\n</thead>\n<tbody>\n");
    for (size_t i = 0; i < page->twins.constant_count; i++) {
        const struct twin_constant *constant = &page->twins.constants[i];
        str_adds(html, "<tr><td class=\"name\">");
        html_name(html, constant->module);
        str_adds(html, "</td>");
        add_name(html, "", constant->name);
        for (size_t j = 0; j < page->count; j++)
            if (constant->present[j])
                str_addf(html, "<td class=\"num\">%" PRId64 "</td>", constant->values[j]);
            else
                html_none_cell(html);
        str_adds(html, "</tr>\n");
    }
    page_end_table(page);
}

void page_twins(struct page *page)
{
    struct str *html = &page->html;
    size_t with = parents_with_twins(&page->twins);
    page_section(page, "twins", "Twins");
    str_adds(html,
             "<p class=\"note\">A twin may stand in for its parent: with the <b>same</b> bits, or "
             "with <b>close</b> ones. A twin with its parent&rsquo;s machine code "
             "(<b>equal code</b>) has no point.</p>\n");
    if (with) {
        page_table(page, "twins", "Twins by parent and target", NULL);
        add_parents(page, true, "Parent, twins");
    } else {
        str_adds(html, "<p class=\"empty\">No image ships a twin.</p>\n");
    }
    if (with < page->twins.parent_count) {
        str_adds(html, "<h3>Entries without a twin</h3>\n");
        page_table(page, "alone", "Entries without a twin in any image", NULL);
        add_parents(page, false, "Entry");
    }
    if (page->twins.constant_count)
        add_constants(page);
    str_adds(html, "</section>\n");
}
