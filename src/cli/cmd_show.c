#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/str.h"
#include "cli/emit.h"
#include "cli/entry_table.h"

static void print_objects(const struct view *view, const kpk_module_info *module)
{
    struct arena *arena = &view->cli->arena;
    for (uint32_t i = 0; i < module->object_count; i++) {
        uint32_t index;
        kpk_blob_info blob = view_object_blob(view, module->first_object + i, &index);
        kpk_group_info group = view_group(view, blob.group);
        report_line(stdout, "  cubin of %s, number %u, in group %u (%s packed to %s)",
                    report_size(arena, blob.size), index, blob.group,
                    report_size(arena, group.raw_size), report_size(arena, group.packed_size));
    }
}

static void print_module(const struct view *view, uint32_t index)
{
    struct arena *arena = &view->cli->arena;
    kpk_module_info module = view_module(view, index);
    struct digest digest;
    struct str text = {0};
    memcpy(digest.bytes, module.digest, sizeof digest.bytes);
    digest_hex(&digest, &text);
    report_line(stdout, "module %s", report_name(arena, module.name));
    report_line(stdout, "  source %s, declared by target %s", report_name(arena, module.source),
                report_name(arena, module.origin));
    report_line(stdout, "  digest %s", str_text(&text));
    str_free(&text);
    for (uint32_t i = 0; i < module.constant_count; i++) {
        int64_t value;
        const char *name = view_constant(view, index, i, &value);
        report_line(stdout, "  constant %s = %lld", report_name(arena, name), (long long)value);
    }
    for (uint32_t i = 0; i < module.flag_count; i++)
        report_line(stdout, "  flag %s", report_name(arena, view_flag(view, index, i)));
    print_objects(view, &module);
    struct table table = {0};
    entry_table_head(&table);
    for (uint32_t i = 0; i < module.entry_count; i++) {
        kpk_entry_info entry = view_entry(view, module.first_entry + i);
        entry_table_add(&table, &entry);
    }
    putchar('\n');
    table_print(&table, stdout);
    table_free(&table);
}

static void print_entry(struct arena *arena, const kpk_entry_info *entry)
{
    report_line(stdout, "entry %s:%s", report_name(arena, entry->module),
                report_name(arena, entry->name));
    if (strcmp(entry->symbol, entry->name) != 0)
        report_line(stdout, "  symbol                 %s", report_name(arena, entry->symbol));
    printf("  block                  %s\n", view_block(entry, arena));
    printf("  dynamic shared memory  %s\n",
           entry->has_dynamic_smem ? arena_printf(arena, "%u B", entry->dynamic_smem) : "-");
    printf("  static shared memory   %u B\n", entry->static_smem);
    printf("  registers per thread   %u\n", entry->registers);
    printf("  spills in the code     %s\n",
           entry->has_spill ? arena_printf(arena, "%u B", entry->spill_bytes) : "-");
    printf("  stack per thread       %u B\n", entry->stack_bytes);
    printf("  code                   %llu B\n", (unsigned long long)entry->code_bytes);
    if (entry->bits != KPK_BITS_NONE)
        report_line(stdout, "  twin of                %s (%s)", report_name(arena, entry->twin_of),
                    entry->bits == KPK_BITS_SAME ? "same bits" : "close");
}

static void print_found(const struct view *view, const struct view_named *found)
{
    if (found->named)
        print_entry(&view->cli->arena, &found->entry);
    else
        print_module(view, found->module);
}

static json_t *found_json(const struct view *view, const struct view_named *found)
{
    return found->named ? view_entry_json(&found->entry) : view_module_json(view, found->module);
}

/* What is not in one part may be in another: an error only when it is in none. */
static bool show(const struct view_set *set, const char *word, bool json)
{
    json_t **values = mem_alloc(set->count, sizeof *values);
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct view *view = &set->views[i];
        struct view_named found;
        bool there = !view_seek(view, word, &found);
        if (json)
            values[i] = there ? found_json(view, &found) : json_null();
        if (there && !json && set->bundle)
            report_line(stdout, "%s%s\n", count ? "\n" : "",
                        report_name(&view->cli->arena, view->path));
        if (there && !json)
            print_found(view, &found);
        count += there;
    }
    if (count && json)
        emit_print(view_set_json(set, values));
    for (size_t i = 0; !count && i < set->count; i++) {
        struct view_named found;
        view_find(&set->views[i], word, &found);
    }
    free(values);
    return count;
}

enum cli_exit cmd_show(struct cli *cli, const struct cli_args *args)
{
    struct view_set set;
    if (!view_set_open(cli, args->words[0], args->values[LIST_TARGET], &set))
        return CLI_FAILED;
    bool ok = show(&set, args->words[1], args->values[LIST_JSON]);
    view_set_close(&set);
    return ok ? CLI_DONE : CLI_FAILED;
}
