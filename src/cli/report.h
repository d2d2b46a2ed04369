#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"

/* Tables and figures for people: at most REPORT_COLUMNS wide, aligned, names made harmless. */

enum {
    REPORT_COLUMNS = 120,
    TABLE_CELLS = 16,
};

/* A table whose first column holds names (left) and whose others hold figures (right). */
struct table {
    struct arena arena; /* owns the cells */
    size_t columns;
    struct table_row *rows; /* owned */
    size_t count, cap;
};

/* `cells` are copied; one that is NULL stays empty. */
void table_row(struct table *table, const char *const cells[], size_t count);

/* A line of its own between rows; it takes no part in the columns. */
void table_text(struct table *table, const char *text);

/* A name too long for its column stands on a line above its figures. */
void table_print(const struct table *table, FILE *stream);
void table_free(struct table *table);

/* "0", "512 B", "48.0 KiB", "1.5 MiB"; in the arena. */
char *report_size(struct arena *arena, uint64_t bytes);

/* With bytes that would drive a terminal escaped; in the arena. */
char *report_name(struct arena *arena, const char *name);

/* At most `columns` columns of the text, the last three "..." when that cuts it; in the arena. */
char *report_cut(struct arena *arena, const char *text, size_t columns);

/* Prints one line, cut to REPORT_COLUMNS with "..." when longer. */
void report_line(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
