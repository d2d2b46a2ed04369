#include <inttypes.h>

#include "cli/html.h"
#include "cli/page.h"

static void add_head(struct page *page)
{
    struct str *html = &page->html;
    str_adds(html, "<thead>\n<tr>");
    if (page->count > 1)
        str_adds(html, "<th scope=\"col\">Target</th>");
    str_adds(html,
             "<th scope=\"col\">Module</th><th scope=\"col\">Entry</th>"
             "<th scope=\"col\" class=\"num\">Block</th>"
             "<th scope=\"col\" class=\"num\" title=\"per thread\">Registers</th>"
             "<th scope=\"col\" class=\"num\" title=\"bytes of stores and loads in the "
             "code\">Spills,&nbsp;"
             "B</th>"
             "<th scope=\"col\" class=\"num\" title=\"shared memory of the code\">Static "
             "smem,&nbsp;B</th>"
             "<th scope=\"col\" class=\"num\" title=\"shared memory of the launch\">Dynamic "
             "smem,&nbsp;B</th>"
             "<th scope=\"col\" class=\"num\" title=\"per thread\">Stack,&nbsp;B</th>"
             "<th scope=\"col\" class=\"num\">Code,&nbsp;B</th><th scope=\"col\">Twin</th></tr>\n"
             "</thead>\n<tbody>\n");
}

static void add_block(struct page *page, const kpk_entry_info *entry)
{
    uint64_t threads = (uint64_t)entry->block.x * entry->block.y * entry->block.z;
    if (!entry->has_block) {
        html_none_cell(&page->html);
        return;
    }
    str_addf(&page->html, "<td class=\"num\" data-v=\"%" PRIu64 "\">%s</td>", threads,
             view_block(entry, page->arena));
}

static void count_or_none(struct str *html, bool known, uint64_t value)
{
    if (known)
        html_count_cell(html, value);
    else
        html_none_cell(html);
}

static void add_spill(struct str *html, const kpk_entry_info *entry)
{
    if (!entry->has_spill || !entry->spill_bytes) {
        count_or_none(html, entry->has_spill, 0);
        return;
    }
    str_addf(html, "<td class=\"num spill\" data-v=\"%u\">", entry->spill_bytes);
    html_count(html, entry->spill_bytes);
    str_adds(html, "</td>");
}

static void add_row(struct page *page, size_t image, uint32_t index)
{
    struct str *html = &page->html;
    kpk_entry_info entry = view_entry(&page->views[image], index);
    str_addf(html, "<tr id=\"e%zu-%" PRIu32 "\" data-image=\"%zu\">", image + 1, index, image + 1);
    if (page->count > 1) {
        str_adds(html, "<td class=\"target\">");
        html_name(html, page->labels[image]);
        str_adds(html, "</td>");
    }
    str_adds(html, "<td class=\"name\">");
    html_name(html, entry.module);
    str_adds(html, "</td><th scope=\"row\" class=\"name\">");
    html_name(html, entry.name);
    str_adds(html, "</th>");
    add_block(page, &entry);
    html_count_cell(html, entry.registers);
    add_spill(html, &entry);
    html_count_cell(html, entry.static_smem);
    count_or_none(html, entry.has_dynamic_smem, entry.dynamic_smem);
    html_count_cell(html, entry.stack_bytes);
    html_count_cell(html, entry.code_bytes);
    if (entry.bits == KPK_BITS_NONE) {
        str_adds(html, "<td class=\"none\">&ndash;</td></tr>\n");
        return;
    }
    str_addf(html, "<td class=\"name twin\"><span class=\"tag\">%s</span> ",
             entry.bits == KPK_BITS_SAME ? "same" : "close");
    html_name(html, entry.twin_of);
    str_adds(html, "</td></tr>\n");
}

void page_entries(struct page *page)
{
    page_section(page, "entries", "Entries");
    page_table(page, "entries", "Entries and their resources", "entries");
    add_head(page);
    for (size_t i = 0; i < page->count; i++)
        for (uint32_t j = 0; j < page->views[i].info.entry_count; j++)
            add_row(page, i, j);
    page_end_table(page);
    str_adds(&page->html, "</section>\n");
}
