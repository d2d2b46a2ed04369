#include "cli/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct table_row {
    const char *text; /* NULL: cells */
    const char *cells[TABLE_CELLS];
};

/* Columns that UTF-8 text takes, one per code point. */
static size_t width(const char *text)
{
    size_t columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

static struct table_row *add_row(struct table *table)
{
    if (table->count == table->cap) {
        table->cap = table->cap ? table->cap * 2 : 16;
        table->rows = mem_resize(table->rows, table->cap, sizeof *table->rows);
    }
    table->rows[table->count] = (struct table_row){0};
    return &table->rows[table->count++];
}

void table_row(struct table *table, const char *const cells[], size_t count)
{
    if (count > TABLE_CELLS)
        BUG("more cells than TABLE_CELLS");
    struct table_row *row = add_row(table);
    for (size_t i = 0; i < count; i++)
        row->cells[i] = arena_strdup(&table->arena, cells[i] ? cells[i] : "");
    if (count > table->columns)
        table->columns = count;
}

void table_text(struct table *table, const char *text)
{
    add_row(table)->text = arena_strdup(&table->arena, text);
}

/* Bytes that the first `columns` columns of UTF-8 text take. */
static size_t prefix(const struct str *text, size_t columns)
{
    size_t at = 0;
    for (; columns && at < text->len; columns--) {
        size_t step = str_utf8(text->data + at, text->len - at);
        at += step ? step : 1;
    }
    return at;
}

static void cut(struct str *line, size_t columns)
{
    if (width(str_text(line)) <= columns)
        return;
    line->len = prefix(line, columns - 3);
    str_adds(line, "...");
}

char *report_cut(struct arena *arena, const char *text, size_t columns)
{
    struct str line = {0};
    str_adds(&line, text);
    cut(&line, columns);
    char *copy = arena_strdup(arena, str_text(&line));
    str_free(&line);
    return copy;
}

void report_line(FILE *stream, const char *format, ...)
{
    struct str line = {0};
    va_list args;
    va_start(args, format);
    str_addv(&line, format, args);
    va_end(args);
    cut(&line, REPORT_COLUMNS);
    while (line.len && line.data[line.len - 1] == ' ')
        line.data[--line.len] = '\0';
    fprintf(stream, "%s\n", str_text(&line));
    str_free(&line);
}

static const char *cell(const struct table_row *row, size_t column)
{
    return row->cells[column] ? row->cells[column] : "";
}

static void print_row(const struct table_row *row, const size_t *widths, size_t columns,
                      FILE *stream)
{
    struct str line = {0};
    const char *name = cell(row, 0);
    if (width(name) > widths[0]) {
        report_line(stream, "%s", name);
        name = "";
    }
    str_adds(&line, name);
    for (size_t i = width(name); i < widths[0]; i++)
        str_addc(&line, ' ');
    for (size_t column = 1; column < columns; column++) {
        for (size_t i = width(cell(row, column)); i < widths[column] + 2; i++)
            str_addc(&line, ' ');
        str_adds(&line, cell(row, column));
    }
    report_line(stream, "%s", str_text(&line));
    str_free(&line);
}

void table_print(const struct table *table, FILE *stream)
{
    size_t widths[TABLE_CELLS] = {0}, figures = 0;
    for (size_t i = 0; i < table->count; i++)
        for (size_t column = 0; column < table->columns; column++)
            if (width(cell(&table->rows[i], column)) > widths[column])
                widths[column] = width(cell(&table->rows[i], column));
    for (size_t column = 1; column < table->columns; column++)
        figures += widths[column] + 2;
    size_t room = figures < REPORT_COLUMNS ? REPORT_COLUMNS - figures : 0;
    if (widths[0] > room)
        widths[0] = room;
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].text)
            report_line(stream, "%s", table->rows[i].text);
        else
            print_row(&table->rows[i], widths, table->columns, stream);
    }
}

void table_free(struct table *table)
{
    free(table->rows);
    arena_free(&table->arena);
    *table = (struct table){0};
}

char *report_size(struct arena *arena, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (!bytes)
        return arena_strdup(arena, "0");
    if (bytes < 1024)
        return arena_printf(arena, "%u B", (unsigned)bytes);
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    return arena_printf(arena, "%.1f %s", value, units[unit]);
}

char *report_name(struct arena *arena, const char *name)
{
    struct str text = {0};
    str_add_printable(&text, name, strlen(name));
    char *copy = arena_strdup(arena, str_text(&text));
    str_free(&text);
    return copy;
}
