#include <inttypes.h>

#include "cli/html.h"
#include "cli/page.h"
#include "cli/report.h"

struct counts {
    uint32_t twins, same, spilling, unknown;
};

static struct counts count_entries(const struct view *view)
{
    struct counts counts = {0};
    for (uint32_t i = 0; i < view->info.entry_count; i++) {
        kpk_entry_info entry = view_entry(view, i);
        counts.twins += entry.bits != KPK_BITS_NONE;
        counts.same += entry.bits == KPK_BITS_SAME;
        counts.spilling += entry.has_spill && entry.spill_bytes != 0;
        counts.unknown += !entry.has_spill;
    }
    return counts;
}

/* One of the figures that stand large. */
static void add_figure(struct str *html, const char *name, const char *value, bool warn)
{
    str_addf(html, "<div%s><dt>%s</dt><dd>%s</dd></div>\n", warn ? " class=\"warn\"" : "", name,
             value);
}

static void add_fact(struct str *html, const char *name, const char *value)
{
    str_addf(html, "<div><dt>%s</dt><dd>", name);
    html_text(html, value);
    str_adds(html, "</dd></div>\n");
}

static char *count_text(struct arena *arena, uint64_t value)
{
    struct str text = {0};
    html_count(&text, value);
    char *copy = arena_strdup(arena, str_text(&text));
    str_free(&text);
    return copy;
}

static void add_figures(struct page *page, size_t image, const struct counts *counts)
{
    const kpk_image_info *info = &page->views[image].info;
    struct str *html = &page->html;
    struct arena *arena = page->arena;
    str_adds(html, "<dl class=\"figures\">\n");
    add_figure(html, "On disk", report_size(arena, info->file_bytes), false);
    add_figure(html, info->module_count == 1 ? "Module" : "Modules",
               count_text(arena, info->module_count), false);
    add_figure(html, info->entry_count == 1 ? "Entry" : "Entries",
               count_text(arena, info->entry_count), false);
    add_figure(html, "Spilling", count_text(arena, counts->spilling), counts->spilling != 0);
    str_adds(html, "</dl>\n");
}

static const char *device_text(struct arena *arena, const kpk_image_info *info)
{
    const char *count =
        info->sm_count ? arena_printf(arena, "%u multiprocessors", info->sm_count) : "";
    const char *smem = info->smem_optin ? arena_printf(arena, "%s shared memory per block",
                                                       report_size(arena, info->smem_optin))
                                        : "";
    if (!count[0] && !smem[0])
        return "not declared";
    return arena_printf(arena, "%s%s%s", count, count[0] && smem[0] ? ", " : "", smem);
}

static const char *twins_text(struct arena *arena, const struct counts *counts)
{
    if (!counts->twins)
        return "none";
    return arena_printf(arena, "%u: %u with the same bits, %u with close ones", counts->twins,
                        counts->same, counts->twins - counts->same);
}

static void add_facts(struct page *page, size_t image, const struct counts *counts)
{
    const struct view *view = &page->views[image];
    const kpk_image_info *info = &view->info;
    struct str *html = &page->html;
    struct arena *arena = page->arena;
    str_adds(html, "<dl class=\"facts\">\n");
    add_fact(html, "Architecture",
             arena_printf(arena, "%s, compute %u.%u", info->arch, info->compute_major,
                          info->compute_minor));
    add_fact(html, "Device", device_text(arena, info));
    add_fact(html, "Driver",
             arena_printf(arena, "%u.%u or newer", info->min_driver / 1000,
                          info->min_driver % 1000 / 10));
    add_fact(html, "NVRTC", arena_printf(arena, "%u.%u", info->nvrtc_major, info->nvrtc_minor));
    add_fact(html, "File",
             arena_printf(arena, "%s B, %s B of them header and index",
                          count_text(arena, info->file_bytes),
                          count_text(arena, page->sizes[image].index)));
    add_fact(html, "Cubins",
             arena_printf(arena, "%s in %s group%s, %s B raw", count_text(arena, info->blob_count),
                          count_text(arena, info->group_count), info->group_count == 1 ? "" : "s",
                          count_text(arena, info->raw_bytes)));
    add_fact(html, "Twins", twins_text(arena, counts));
    if (counts->unknown)
        add_fact(html, "Spills not known",
                 arena_printf(arena, "of %u entr%s", counts->unknown,
                              counts->unknown == 1 ? "y" : "ies"));
    add_fact(html, "Format", arena_printf(arena, "version %u", info->format_version));
    if (info->stamp[0])
        add_fact(html, "Stamp", view_stamp(view, arena));
    str_adds(html, "</dl>\n");
}

void page_summary(struct page *page)
{
    struct str *html = &page->html;
    page_section(page, "summary", "Summary");
    str_adds(html, "<div class=\"cards\">\n");
    for (size_t i = 0; i < page->count; i++) {
        struct counts counts = count_entries(&page->views[i]);
        str_adds(html, "<article class=\"card\">\n<h3>");
        html_name(html, page->labels[i]);
        str_adds(html, " <span class=\"badge\">");
        html_name(html, page->views[i].info.arch);
        str_adds(html, "</span></h3>\n<p class=\"path\">");
        html_name(html, page->views[i].path);
        str_adds(html, "</p>\n");
        add_figures(page, i, &counts);
        add_facts(page, i, &counts);
        str_adds(html, "</article>\n");
    }
    str_adds(html, "</div>\n");
    if (page->twins.pointless)
        str_addf(html,
                 "<p class=\"note warn\">%zu twin%s the machine code of %s parent: see <a "
                 "href=\"#twins\">twins</a>.</p>\n",
                 page->twins.pointless, page->twins.pointless == 1 ? " has" : "s have",
                 page->twins.pointless == 1 ? "its" : "their");
    str_adds(html, "</section>\n");
}
