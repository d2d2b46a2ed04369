#include "cli/entry_table.h"

#include <string.h>

#include "base/str.h"

void entry_table_head(struct table *table)
{
    table_row(table,
              (const char *[]){"module, entries", "block", "dynamic", "static", "regs", "spill",
                               "stack", "code"},
              8);
}

void entry_table_add(struct table *table, const kpk_entry_info *entry)
{
    struct arena *arena = &table->arena;
    const char *name = report_name(arena, entry->name);
    table_row(table,
              (const char *[]){
                  arena_printf(arena, "  %s", name), view_block(entry, arena),
                  entry->has_dynamic_smem ? report_size(arena, entry->dynamic_smem) : "-",
                  report_size(arena, entry->static_smem),
                  arena_printf(arena, "%u", entry->registers),
                  entry->has_spill ? report_size(arena, entry->spill_bytes) : "-",
                  report_size(arena, entry->stack_bytes), report_size(arena, entry->code_bytes)},
              8);
    if (entry->bits != KPK_BITS_NONE)
        table_text(table,
                   arena_printf(arena, "    twin of %s (%s)", report_name(arena, entry->twin_of),
                                entry->bits == KPK_BITS_SAME ? "same bits" : "close"));
}

void entry_table_module(struct table *table, const struct view *view, uint32_t index)
{
    struct arena *arena = &table->arena;
    kpk_module_info module = view_module(view, index);
    table_text(table, arena_printf(arena, "%s  %s", report_name(arena, module.name),
                                   report_name(arena, module.source)));
    struct str line = {0};
    for (uint32_t i = 0; i < module.constant_count; i++) {
        int64_t value;
        const char *name = view_constant(view, index, i, &value);
        char *text = arena_printf(arena, " %s=%lld", report_name(arena, name), (long long)value);
        if (line.len && line.len + strlen(text) > REPORT_COLUMNS) {
            table_text(table, str_text(&line));
            str_clear(&line);
        }
        str_addf(&line, "%s%s", line.len ? "" : "   ", text);
    }
    if (line.len)
        table_text(table, str_text(&line));
    str_free(&line);
}
