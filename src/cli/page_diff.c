#include <inttypes.h>

#include "cli/html.h"
#include "cli/page.h"

/* "12 registers, 3 removed, ...": how many differences each word of diff's --fail-on covers. */
static void add_counts(struct page *page)
{
    size_t counts[COMPARE_ASPECTS + 1] = {0};
    struct str *html = &page->html;
    for (size_t i = 0; i < page->diff.count; i++)
        counts[page->diff.items[i].aspect]++;
    str_adds(html, "<ul class=\"counts\">\n");
    for (size_t i = 0; i <= COMPARE_ASPECTS; i++) {
        if (!counts[i])
            continue;
        str_adds(html, "<li><b>");
        html_count(html, counts[i]);
        str_addf(html, "</b> %s</li>\n", i == COMPARE_OTHER ? "other" : compare_words[i]);
    }
    str_adds(html, "</ul>\n");
}

static void add_value(struct page *page, const struct compare_value *value)
{
    struct str *html = &page->html;
    switch (value->kind) {
    case COMPARE_NOTHING:
        html_none_cell(html);
        return;
    case COMPARE_TEXT:
        str_adds(html, "<td class=\"text\">");
        break;
    default:
        str_addf(html, "<td class=\"num\" data-v=\"%" PRId64 "\">", value->number);
    }
    html_name(html, compare_value(page->arena, value));
    str_adds(html, "</td>");
}

/* More of it than before is worse. */
static bool is_cost(const struct change *change)
{
    return change->aspect == COMPARE_SPILLS || change->aspect == COMPARE_REGISTERS ||
           change->aspect == COMPARE_SMEM || change->aspect == COMPARE_STACK;
}

static void add_delta(struct page *page, const struct change *change)
{
    struct str *html = &page->html;
    bool both = change->before.kind != COMPARE_NOTHING && change->after.kind != COMPARE_NOTHING;
    str_addf(html, "<td class=\"num%s\"", is_cost(change) && compare_grew(change) ? " grew" : "");
    if (both && change->after.kind != COMPARE_TEXT)
        str_addf(html, " data-v=\"%.0f\"",
                 (double)change->after.number - (double)change->before.number);
    str_adds(html, ">");
    html_text(html, compare_delta(page->arena, change));
    str_adds(html, "</td>");
}

static void add_change(struct page *page, const struct change *change)
{
    struct str *html = &page->html;
    const char *const names[] = {change->module, change->entry};
    str_adds(html, "<tr>");
    for (size_t i = 0; i < 2; i++) {
        str_adds(html, names[i] ? "<td class=\"name\">" : "<td class=\"name none\">");
        html_name(html, names[i] ? names[i] : i ? "" : "image");
        str_adds(html, "</td>");
    }
    str_adds(html, "<th scope=\"row\">");
    html_name(html, change->what);
    str_adds(html, "</th>");
    add_value(page, &change->before);
    add_value(page, &change->after);
    add_delta(page, change);
    str_adds(html, "</tr>\n");
}

void page_diff(struct page *page)
{
    struct str *html = &page->html;
    page_section(page, "diff", "Differences");
    str_adds(html, "<p class=\"note\">From <b>");
    html_name(html, page->labels[0]);
    str_adds(html, "</b> to <b>");
    html_name(html, page->labels[1]);
    str_adds(html, "</b>.</p>\n");
    if (!page->diff.count) {
        str_adds(html, "<p class=\"empty\">The images do not differ.</p>\n</section>\n");
        return;
    }
    add_counts(page);
    page_table(page, "diff", "Differences between the two images", "differences");
    str_adds(html, "<thead>\n<tr><th scope=\"col\">Module</th><th scope=\"col\">Entry</th>"
                   "<th scope=\"col\">What</th><th scope=\"col\" class=\"num\">Before</th>"
                   "<th scope=\"col\" class=\"num\">After</th>"
                   "<th scope=\"col\" class=\"num\">Change</th></tr>\n</thead>\n<tbody>\n");
    for (size_t i = 0; i < page->diff.count; i++)
        add_change(page, &page->diff.items[i]);
    page_end_table(page);
    str_adds(html, "</section>\n");
}
