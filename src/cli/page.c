#include "cli/page.h"

#include <string.h>

#include "base/embed.h"
#include "cli/html.h"
#include "cli/report.h"

/* The build has put it there. */
static const char *embedded(const char *name)
{
    const struct embed_file *file = embed_report;
    while (file->name && strcmp(file->name, name) != 0)
        file++;
    if (!file->name)
        BUG("a file of the report's page is not embedded");
    return file->data;
}

void page_section(struct page *page, const char *id, const char *title)
{
    str_addf(&page->html,
             "<section id=\"%s\" aria-labelledby=\"%s-title\">\n<h2 id=\"%s-title\">%s</h2>\n", id,
             id, id, title);
}

void page_table(struct page *page, const char *id, const char *label, const char *tools)
{
    if (tools)
        str_addf(&page->html,
                 "<div class=\"tools\" data-of=\"%s-table\" data-rows=\"%s\" hidden></div>\n", id,
                 tools);
    str_addf(&page->html,
             "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">\n"
             "<table id=\"%s-table\"%s>\n",
             label, id, tools ? " class=\"sortable\"" : "");
}

void page_end_table(struct page *page)
{
    str_adds(&page->html, "</tbody>\n</table>\n</div>\n");
}

void page_image_heads(struct page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        str_adds(&page->html, "<th scope=\"col\" class=\"image\">");
        html_name(&page->html, page->labels[i]);
        str_adds(&page->html, "</th>");
    }
}

static void add_labels(struct page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        str_adds(&page->html, i ? ", " : "");
        html_text(&page->html, page->labels[i]);
    }
}

/* The page asks nothing of the network, and runs nothing but its own script. */
static void add_head(struct page *page)
{
    struct str *html = &page->html;
    str_addf(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<!-- Made by kpack report " KPACK_VERSION
        " -->\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'sha256-%s'; script-src 'sha256-%s'; base-uri 'none'; form-action 'none'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
        page_style_digest, page_script_digest);
    add_labels(page);
    str_addf(html, ": kernel image report</title>\n<style>%s</style>\n</head>\n",
             embedded("page.css"));
}

static void add_banner(struct page *page)
{
    static const char *const names[][2] = {
        {"summary", "Summary"},        {"diff", "Differences"}, {"bytes", "Bytes"},
        {"entries", "Entries"},        {"twins", "Twins"},      {"levers", "Levers"},
        {"absent", "Expected absent"},
    };
    struct str *html = &page->html;
    str_adds(html, "<body>\n<a class=\"skip\" href=\"#entries\">Skip to the entries</a>\n"
                   "<header>\n<div class=\"bar\">\n<p class=\"brand\">kpack report</p>\n<h1>");
    add_labels(page);
    str_adds(html, "</h1>\n<nav aria-label=\"Sections\">\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (page->pair_count || strcmp(names[i][0], "diff") != 0)
            str_addf(html, "<a href=\"#%s\">%s</a>\n", names[i][0], names[i][1]);
    str_adds(html, "</nav>\n</div>\n</header>\n<main>\n");
}

void page_write(struct page *page)
{
    add_head(page);
    add_banner(page);
    page_summary(page);
    if (page->pair_count)
        page_diff(page);
    page_bytes(page);
    page_entries(page);
    page_twins(page);
    page_levers(page);
    page_absent(page);
    str_addf(&page->html,
             "</main>\n<footer>\n<p>Made by kpack " KPACK_VERSION
             " from the image%s alone; &ndash; is what an image "
             "does not say.</p>\n</footer>\n<script>%s</script>\n"
             "</body>\n</html>\n",
             page->count == 1 ? "" : "s", embedded("page.js"));
}
