#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "cli/emit.h"
#include "cli/report.h"
#include "cli/sizes.h"

enum {
    BAR_COLUMNS = 20
};

#define REST "rest of the cubin" /* what belongs to no entry: symbols, constants, line numbers */

static const char *percent(struct arena *arena, uint64_t part, uint64_t whole)
{
    return arena_printf(arena, "%.1f%%", whole ? 100.0 * (double)part / (double)whole : 0.0);
}

/* Whole columns, at least one for what is not 0. */
static const char *bar(struct arena *arena, uint64_t part, uint64_t most)
{
    char text[BAR_COLUMNS + 1];
    int filled = most ? (int)((double)part / (double)most * BAR_COLUMNS + 0.5) : 0;
    if (part && !filled)
        filled = 1;
    memset(text, ' ', BAR_COLUMNS);
    memset(text, '#', (size_t)filled);
    text[BAR_COLUMNS] = '\0';
    return arena_strdup(arena, text);
}

static void add_row(struct table *table, const char *name, uint64_t raw, uint64_t packed,
                    uint64_t file, const char *tail)
{
    struct arena *arena = &table->arena;
    table_row(table,
              (const char *[]){name, report_size(arena, raw), report_size(arena, packed),
                               percent(arena, packed, file), tail},
              5);
}

static void print_sizes(const struct view *view, const struct sizes *sizes)
{
    struct table table = {0};
    struct arena *arena = &table.arena;
    uint64_t file = view->info.file_bytes, most = sizes->count ? sizes->modules[0].all.packed : 0;
    table_row(&table, (const char *[]){"module, entries", "raw", "packed", "share", ""}, 5);
    for (uint32_t i = 0; i < sizes->count; i++) {
        const struct size_module *module = &sizes->modules[i];
        add_row(&table, report_name(arena, module->all.name), module->all.raw, module->all.packed,
                file, bar(arena, module->all.packed, most));
        for (uint32_t j = 0; j < module->part_count; j++) {
            const struct size_part *part = &module->parts[j];
            const char *name = part->name ? report_name(arena, part->name) : REST;
            add_row(&table, arena_printf(arena, "  %s", name), part->raw, part->packed, file, "");
        }
    }
    add_row(&table, "header and index", sizes->index, sizes->index, file, "");
    table_print(&table, stdout);
    table_free(&table);
    report_line(stdout, "\ntotal: %s raw, %s on disk",
                report_size(&view->cli->arena, view->info.raw_bytes),
                report_size(&view->cli->arena, file));
}

static void set_bytes(json_t *object, uint64_t raw, uint64_t packed)
{
    emit_set(object, "raw_bytes", emit_count(raw));
    emit_set(object, "packed_bytes", emit_count(packed));
}

static json_t *module_json(const struct size_module *module)
{
    json_t *object = emit_object(), *entries = emit_array(), *rest = json_null();
    for (uint32_t i = 0; i < module->part_count; i++) {
        const struct size_part *part = &module->parts[i];
        json_t *item = emit_object();
        if (part->name)
            emit_set(item, "name", emit_string(part->name));
        set_bytes(item, part->raw, part->packed);
        if (part->name)
            emit_append(entries, item);
        else
            rest = item;
    }
    emit_set(object, "name", emit_string(module->all.name));
    set_bytes(object, module->all.raw, module->all.packed);
    emit_set(object, "entries", entries);
    emit_set(object, "rest", rest);
    return object;
}

static json_t *image_json(const struct view *view)
{
    struct sizes computed, *sizes = &computed;
    sizes_of(view, sizes);
    json_t *object = emit_object(), *modules = emit_array();
    for (uint32_t i = 0; i < sizes->count; i++)
        emit_append(modules, module_json(&sizes->modules[i]));
    emit_set(object, "raw_bytes", emit_count(view->info.raw_bytes));
    emit_set(object, "file_bytes", emit_count(view->info.file_bytes));
    emit_set(object, "index_bytes", emit_count(sizes->index));
    emit_set(object, "modules", modules);
    sizes_free(sizes);
    return object;
}

static void print_images(const struct view_set *set)
{
    view_set_head(set);
    for (size_t i = 0; i < set->count; i++) {
        const struct view *view = &set->views[i];
        struct sizes sizes;
        sizes_of(view, &sizes);
        if (set->bundle)
            report_line(stdout, "%s%s", i ? "\n" : "", report_name(&view->cli->arena, view->path));
        print_sizes(view, &sizes);
        sizes_free(&sizes);
    }
}

enum cli_exit cmd_size(struct cli *cli, const struct cli_args *args)
{
    struct view_set set;
    if (!view_set_open(cli, args->words[0], args->values[LIST_TARGET], &set))
        return CLI_FAILED;
    if (args->values[LIST_JSON])
        view_set_print_json(&set, image_json);
    else
        print_images(&set);
    view_set_close(&set);
    return CLI_DONE;
}
