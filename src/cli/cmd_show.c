#include "cli/cli.h"

#include <stdio.h>
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

enum cli_exit cmd_show(struct cli *cli, const struct cli_args *args)
{
    bool json = args->values[LIST_JSON], named;
    struct view view;
    if (!view_open(cli, args->words[0], &view))
        return CLI_FAILED;
    uint32_t module;
    kpk_entry_info entry;
    bool ok = view_find(&view, args->words[1], &module, &named, &entry);
    if (ok && json)
        emit_print(named ? view_entry_json(&entry) : view_module_json(&view, module));
    else if (ok && named)
        print_entry(&cli->arena, &entry);
    else if (ok)
        print_module(&view, module);
    view_close(&view);
    return ok ? CLI_DONE : CLI_FAILED;
}
