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

/* Two files are compared as diff does it, and so are the parts of a bundle that has two. */
static void pair_up(struct page *page, const struct view_set *sets, size_t set_count)
{
    struct view_pair two = {page->views, page->views + 1}, *pairs = &two;
    bool files = set_count == 2;
    if (!files && page->count != 2)
        return;
    page->pair_count = files ? view_set_pairs(page->arena, &sets[0], &sets[1], &pairs) : 1;
    page->pairs = arena_alloc(page->arena, page->pair_count, sizeof *page->pairs);
    for (size_t i = 0; i < page->pair_count; i++)
        page->pairs[i].views = pairs[i];
    bool parts = files && (sets[0].bundle || sets[1].bundle);
    page->before = parts ? sets[0].path : page->labels[0];
    page->after = parts ? sets[1].path : page->labels[1];
}

static bool gather(struct page *page, const struct view_set *sets, size_t set_count)
{
    for (size_t i = 0; i < page->count; i++) {
        page->labels[i] = label_of(page, i);
        sizes_of(&page->views[i], &page->sizes[i]);
    }
    bool ok = twins_of(page->views, page->count, &page->twins);
    if (ok)
        pair_up(page, sets, set_count);
    for (size_t i = 0; ok && i < page->pair_count; i++) {
        struct view_pair pair = page->pairs[i].views;
        if (pair.before && pair.after)
            ok = compare_images(pair.before, pair.after, &page->pairs[i].diff);
    }
    return ok;
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

/* Opens every file; a bundle's parts count as images of their own. */
static bool open_all(struct cli *cli, const struct cli_args *args, struct view_set *sets,
                     size_t *out_opened, struct page *page)
{
    *out_opened = 0;
    for (size_t i = 0; i < args->word_count; i++) {
        if (!view_set_open(cli, args->words[i], args->values[REPORT_TARGET], &sets[i]))
            return false;
        *out_opened += 1;
        page->count += sets[i].count;
    }
    page->views = arena_alloc(&cli->arena, page->count, sizeof *page->views);
    page->labels = arena_alloc(&cli->arena, page->count, sizeof *page->labels);
    page->sizes = arena_alloc(&cli->arena, page->count, sizeof *page->sizes);
    size_t at = 0;
    for (size_t i = 0; i < args->word_count; i++)
        for (size_t j = 0; j < sets[i].count; j++)
            page->views[at++] = sets[i].views[j];
    return true;
}

enum cli_exit cmd_report(struct cli *cli, const struct cli_args *args)
{
    const char *path = args->values[REPORT_FILE];
    if (!path)
        return cli_usage(cli, "'kpack report' needs '-o FILE'");
    struct page page = {.arena = &cli->arena};
    struct view_set *sets = arena_alloc(&cli->arena, args->word_count, sizeof *sets);
    size_t opened;
    bool ok = open_all(cli, args, sets, &opened, &page) && gather(&page, sets, args->word_count);
    if (ok)
        page_write(&page);
    ok = ok && publish(cli, path, &page.html);
    str_free(&page.html);
    for (size_t i = 0; i < page.pair_count; i++)
        compare_free(&page.pairs[i].diff);
    twins_free(&page.twins);
    for (size_t i = 0; page.sizes && i < page.count; i++)
        sizes_free(&page.sizes[i]);
    while (opened)
        view_set_close(&sets[--opened]);
    return ok ? CLI_DONE : CLI_FAILED;
}
