#include <inttypes.h>

#include "cli/html.h"
#include "cli/page.h"
#include "cli/report.h"

static void add_share(struct page *page, uint64_t part, uint64_t whole)
{
    double share = whole ? 100.0 * (double)part / (double)whole : 0;
    str_addf(&page->html,
             "<td class=\"num share\" data-v=\"%" PRIu64
             "\"><svg class=\"meter\" viewBox=\"0 0 100 8\" "
             "preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"%.1f\" "
             "height=\"8\"/></svg>"
             "<span>%.1f%%</span></td>",
             part, share, share);
}

static void add_labels(struct page *page, size_t image)
{
    if (page->count == 1)
        return;
    str_adds(&page->html, "<td class=\"target\">");
    html_name(&page->html, page->labels[image]);
    str_adds(&page->html, "</td>");
}

/* Kept on one line, where it fits. */
static void add_word(struct str *html, const char *word)
{
    str_adds(html, "<span class=\"word\">");
    html_text(html, word);
    str_adds(html, "</span> ");
}

static void add_module(struct page *page, size_t image, const struct size_module *module)
{
    struct str *html = &page->html;
    const struct view *view = &page->views[image];
    kpk_module_info info = view_module(view, module->all.index);
    str_addf(html, "<tr id=\"m%zu-%" PRIu32 "\" data-image=\"%zu\">", image + 1, module->all.index,
             image + 1);
    add_labels(page, image);
    str_adds(html, "<th scope=\"row\" class=\"name\">");
    html_name(html, info.name);
    str_adds(html, "</th><td class=\"name small\">");
    html_name(html, info.source);
    str_adds(html, "</td><td class=\"name small\">");
    for (uint32_t i = 0; i < info.constant_count; i++) {
        int64_t value;
        const char *name = view_constant(view, module->all.index, i, &value);
        add_word(html, arena_printf(page->arena, "%s=%" PRId64, name, value));
    }
    for (uint32_t i = 0; i < info.flag_count; i++)
        add_word(html, view_flag(view, module->all.index, i));
    str_adds(html, "</td>");
    html_count_cell(html, info.entry_count);
    html_count_cell(html, module->all.raw);
    html_count_cell(html, module->all.packed);
    add_share(page, module->all.packed, view->info.file_bytes);
    str_adds(html, "</tr>\n");
}

static void add_index(struct page *page, size_t image)
{
    struct str *html = &page->html;
    str_addf(html, "<tr id=\"i%zu\" data-image=\"%zu\">", image + 1, image + 1);
    add_labels(page, image);
    str_adds(html, "<th scope=\"row\">header and index</th>");
    for (int i = 0; i < 3; i++)
        html_none_cell(html);
    html_count_cell(html, page->sizes[image].index);
    html_count_cell(html, page->sizes[image].index);
    add_share(page, page->sizes[image].index, page->views[image].info.file_bytes);
    str_adds(html, "</tr>\n");
}

void page_bytes(struct page *page)
{
    struct str *html = &page->html;
    page_section(page, "bytes", "Bytes");
    str_adds(
        html,
        "<p class=\"note\">What takes a file&rsquo;s bytes, by module and entry. Modules share "
        "packed groups: each has its part of them, by raw size. "
        "<b>Rest</b> is what belongs to no entry: symbols, constants in memory, line "
        "tables.</p>\n");
    for (size_t i = 0; i < page->count; i++)
        page_treemap(page, i);
    str_adds(html, "<h3>Modules</h3>\n");
    page_table(page, "modules", "Modules and what they take", "modules");
    str_adds(html, "<thead>\n<tr>");
    if (page->count > 1)
        str_adds(html, "<th scope=\"col\">Target</th>");
    str_adds(html,
             "<th scope=\"col\">Module</th><th scope=\"col\">Source</th>"
             "<th scope=\"col\">Constants, flags</th><th scope=\"col\" class=\"num\">Entries</th>"
             "<th scope=\"col\" class=\"num\">Raw,&nbsp;B</th><th scope=\"col\" "
             "class=\"num\">Packed,&nbsp;B</th>"
             "<th scope=\"col\" class=\"num\">Share of file</th></tr>\n</thead>\n<tbody>\n");
    for (size_t i = 0; i < page->count; i++) {
        for (uint32_t j = 0; j < page->sizes[i].count; j++)
            add_module(page, i, &page->sizes[i].modules[j]);
        add_index(page, i);
    }
    page_end_table(page);
    str_adds(html, "</section>\n");
}
