#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "cli/emit.h"
#include "cli/entry_table.h"

static void print_head(const struct view *view)
{
    const kpk_image_info *info = &view->info;
    struct arena *arena = &view->cli->arena;
    report_line(stdout, "%s: target %s, %s, compute %u.%u, NVRTC %u.%u, driver %u.%u or newer",
                report_name(arena, view->path), report_name(arena, info->target),
                report_name(arena, info->arch), info->compute_major, info->compute_minor,
                info->nvrtc_major, info->nvrtc_minor, info->min_driver / 1000,
                info->min_driver % 1000 / 10);
}

static int wider(int width, const char *text)
{
    return (int)strlen(text) > width ? (int)strlen(text) : width;
}

static void print_levers(const struct view *view)
{
    struct arena *arena = &view->cli->arena;
    int names = 0, variables = 0;
    for (uint32_t i = 0; i < view->info.lever_count; i++) {
        kpk_lever lever = view_lever(view, i);
        names = wider(names, report_name(arena, lever.name));
        variables = wider(variables, report_name(arena, lever.env));
    }
    if (view->info.lever_count)
        printf("\nlevers\n");
    for (uint32_t i = 0; i < view->info.lever_count; i++) {
        kpk_lever lever = view_lever(view, i);
        const char *value =
            lever.kind == KPK_TEXT
                ? arena_printf(arena, "'%s'", report_name(arena, lever.default_text))
            : lever.default_on ? "on"
                               : "off";
        report_line(stdout, "  %-*s  %-*s  %-8s  %s", names, report_name(arena, lever.name),
                    variables, report_name(arena, lever.env), view_lever_kind(lever.kind), value);
    }
}

static void print_absents(const struct view *view)
{
    struct arena *arena = &view->cli->arena;
    if (view->info.absent_count)
        printf("\nexpected absent\n");
    for (uint32_t i = 0; i < view->info.absent_count; i++) {
        kpk_absent_info absent = view_absent(view, i);
        report_line(stdout, "  %s%s%s%s%s", report_name(arena, absent.module),
                    absent.entry[0] ? ":" : "", report_name(arena, absent.entry),
                    absent.reason[0] ? ": " : "", report_name(arena, absent.reason));
    }
}

static void print_image(const struct view *view)
{
    const kpk_image_info *info = &view->info;
    struct arena *arena = &view->cli->arena;
    struct table table = {0};
    print_head(view);
    if (info->stamp[0])
        report_line(stdout, "stamp: %s", view_stamp(view, arena));
    putchar('\n');
    entry_table_head(&table);
    for (uint32_t i = 0; i < info->module_count; i++) {
        kpk_module_info module = view_module(view, i);
        entry_table_module(&table, view, i);
        for (uint32_t j = 0; j < module.entry_count; j++) {
            kpk_entry_info entry = view_entry(view, module.first_entry + j);
            entry_table_add(&table, &entry);
        }
    }
    table_print(&table, stdout);
    table_free(&table);
    print_levers(view);
    print_absents(view);
    report_line(
        stdout, "\ntotal: %u module%s, %u entr%s, %u cubin%s in %u group%s, %s raw, %s on disk",
        info->module_count, info->module_count == 1 ? "" : "s", info->entry_count,
        info->entry_count == 1 ? "y" : "ies", info->blob_count, info->blob_count == 1 ? "" : "s",
        info->group_count, info->group_count == 1 ? "" : "s", report_size(arena, info->raw_bytes),
        report_size(arena, info->file_bytes));
}

static void print_images(const struct view_set *set)
{
    view_set_head(set);
    for (size_t i = 0; i < set->count; i++) {
        if (i)
            putchar('\n');
        print_image(&set->views[i]);
    }
}

enum cli_exit cmd_list(struct cli *cli, const struct cli_args *args)
{
    struct view_set set;
    if (!view_set_open(cli, args->words[0], args->values[LIST_TARGET], &set))
        return CLI_FAILED;
    if (args->values[LIST_JSON])
        view_set_print_json(&set, view_image_json);
    else
        print_images(&set);
    view_set_close(&set);
    return CLI_DONE;
}
