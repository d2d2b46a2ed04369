#ifndef CLI_ENTRY_TABLE_H
#define CLI_ENTRY_TABLE_H

#include "cli/report.h"
#include "cli/view.h"

/* The rows that list and show print for entries. */

void entry_table_head(struct table *table);
/* A row of figures, and a line of its own for the twin. */
void entry_table_add(struct table *table, const kpk_entry_info *entry);
/* The module's lines: name and source, then constants. */
void entry_table_module(struct table *table, const struct view *view, uint32_t module);

#endif
