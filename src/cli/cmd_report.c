#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/outputs.h"
#include "cli/page.h"
#include "cli/report.h"

static const struct output_kind made_by_us = {
    "a report made by kpack", NULL,
    "<!DOCTYPE html>\n<html lang=\"en\">\n<!-- Made by kpack report"};

/* The target's name, with its image's number when another image has the same. */
static const char *label_of(const struct page *page, size_t image)
{
    const char *target = page->views[image].info.target;
    bool alone = true;
    for (size_t i = 0; i < page->count; i++)
        alone = alone && (i == image || strcmp(page->views[i].info.target, target) != 0);
    return alone ? target : arena_printf(page->arena, "%s %zu", target, image + 1);
}

static bool gather(struct page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        page->labels[i] = label_of(page, i);
        sizes_of(&page->views[i], &page->sizes[i]);
    }
    bool ok = twins_of(page->views, page->count, &page->twins);
    page->compared = ok && page->count == 2;
    return ok && (!page->compared || compare_images(&page->views[0], &page->views[1], &page->diff));
}

static bool publish(struct cli *cli, const char *path, const struct str *html)
{
    bool written;
    if (!output_replaces(path, &made_by_us, &cli->diags) ||
        !file_update(path, html->data, html->len, &written, &cli->diags))
        return false;
    report_line(stdout, "%s: %s%s", report_name(&cli->arena, path),
                report_size(&cli->arena, html->len), written ? "" : ", unchanged");
    return true;
}

enum cli_exit cmd_report(struct cli *cli, const struct cli_args *args)
{
    const char *path = args->values[REPORT_FILE];
    size_t count = args->word_count;
    bool ok = true;
    if (!path)
        return cli_usage(cli, "'kpack report' needs '-o FILE'");
    struct page page = {
        .arena = &cli->arena,
        .views = arena_alloc(&cli->arena, count, sizeof *page.views),
        .labels = arena_alloc(&cli->arena, count, sizeof *page.labels),
        .sizes = arena_alloc(&cli->arena, count, sizeof *page.sizes),
    };
    while (ok && page.count < count) {
        ok = view_open(cli, args->words[page.count], &page.views[page.count]);
        page.count += ok;
    }
    if (ok && (ok = gather(&page)))
        page_write(&page);
    ok = ok && publish(cli, path, &page.html);
    str_free(&page.html);
    compare_free(&page.diff);
    twins_free(&page.twins);
    while (page.count) {
        sizes_free(&page.sizes[--page.count]);
        view_close(&page.views[page.count]);
    }
    return ok ? CLI_DONE : CLI_FAILED;
}
