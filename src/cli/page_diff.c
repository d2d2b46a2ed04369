#include <inttypes.h>

#include "cli/html.h"
#include "cli/page.h"

/* What a pair with one side alone comes to; NULL for one that was compared. */
static const struct change *lone_change(const struct page_pair *pair)
{
    static const struct compare_value shipped = {.kind = COMPARE_TEXT, .text = "shipped"};
    static const struct change added = {
        .aspect = COMPARE_ADDED, .what = "target", .after = shipped};
    static const struct change removed = {
        .aspect = COMPARE_REMOVED, .what = "target", .before = shipped};
    if (pair->views.before && pair->views.after)
        return NULL;
    return pair->views.before ? &removed : &added;
}

static size_t count_changes(const struct page *page, size_t counts[COMPARE_ASPECTS + 1])
{
    size_t sum = 0;
    for (size_t i = 0; i < page->pair_count; i++) {
        const struct comparison *diff = &page->pairs[i].diff;
        const struct change *lone = lone_change(&page->pairs[i]);
        for (size_t j = 0; j < diff->count; j++)
            counts[diff->items[j].aspect]++;
        if (lone)
            counts[lone->aspect]++;
        sum += diff->count + (lone != NULL);
    }
    return sum;
}

/* "12 registers, 3 removed, ...": how many differences each word of diff's --fail-on covers. */
static void add_counts(struct str *html, const size_t counts[COMPARE_ASPECTS + 1])
{
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

static void add_change(struct page *page, size_t pair, const struct change *change)
{
    struct str *html = &page->html;
    const struct view_pair *views = &page->pairs[pair].views;
    const char *const names[] = {change->module, change->entry};
    str_addf(html, "<tr data-image=\"%zu\">", pair + 1);
    if (page->pair_count > 1) {
        str_adds(html, "<td class=\"target\">");
        html_name(html, (views->before ? views->before : views->after)->info.target);
        str_adds(html, "</td>");
    }
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

static void add_changes(struct page *page)
{
    for (size_t i = 0; i < page->pair_count; i++) {
        const struct page_pair *pair = &page->pairs[i];
        const struct change *lone = lone_change(pair);
        if (lone)
            add_change(page, i, lone);
        for (size_t j = 0; j < pair->diff.count; j++)
            add_change(page, i, &pair->diff.items[j]);
    }
}

void page_diff(struct page *page)
{
    struct str *html = &page->html;
    size_t counts[COMPARE_ASPECTS + 1] = {0};
    page_section(page, "diff", "Differences");
    str_adds(html, "<p class=\"note\">From <b>");
    html_name(html, page->before);
    str_adds(html, "</b> to <b>");
    html_name(html, page->after);
    str_addf(html, "</b>%s.</p>\n", page->pair_count > 1 ? ", target by target" : "");
    if (!count_changes(page, counts)) {
        str_adds(html, "<p class=\"empty\">The images do not differ.</p>\n</section>\n");
        return;
    }
    add_counts(html, counts);
    page_table(page, "diff",
               page->pair_count > 1 ? "Differences by target"
                                    : "Differences between the two images",
               "differences");
    str_addf(html,
             "<thead>\n<tr>%s<th scope=\"col\">Module</th><th scope=\"col\">Entry</th>"
             "<th scope=\"col\">What</th><th scope=\"col\" class=\"num\">Before</th>"
             "<th scope=\"col\" class=\"num\">After</th>"
             "<th scope=\"col\" class=\"num\">Change</th></tr>\n</thead>\n<tbody>\n",
             page->pair_count > 1 ? "<th scope=\"col\">Target</th>" : "");
    add_changes(page);
    page_end_table(page);
    str_adds(html, "</section>\n");
}
