#include "base/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void diag_add_text(struct diags *diags, enum diag_level level, struct loc loc, const char *text)
{
    if (diags->count == diags->cap) {
        diags->cap = diags->cap ? diags->cap * 2 : 8;
        diags->items = mem_resize(diags->items, diags->cap, sizeof *diags->items);
    }
    diags->items[diags->count++] = (struct diag){
        .level = level,
        .loc = {loc.file ? arena_strdup(&diags->arena, loc.file) : NULL, loc.line, loc.col},
        .message = arena_strdup(&diags->arena, text),
    };
    diags->errors += level == DIAG_ERROR;
}

static void add(struct diags *diags, enum diag_level level, struct loc loc, const char *format,
                va_list args)
{
    struct str text = {0}, line = {0};
    str_addv(&text, format, args);
    for (const char *at = str_text(&text), *end; *at; at = end) {
        end = strchrnul(at, '\n');
        str_add(&line, at, (size_t)(end - at));
        if (*end) {
            str_add_printable(&line, end, 1);
            end++;
        }
    }
    diag_add_text(diags, level, loc, str_text(&line));
    str_free(&text);
    str_free(&line);
}

void diag_add(struct diags *diags, enum diag_level level, struct loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(diags, level, loc, format, args);
    va_end(args);
}

bool diag_error(struct diags *diags, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(diags, DIAG_ERROR, (struct loc){0}, format, args);
    va_end(args);
    return false;
}

bool diag_error_at(struct diags *diags, struct loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(diags, DIAG_ERROR, loc, format, args);
    va_end(args);
    return false;
}

void diag_warning(struct diags *diags, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(diags, DIAG_WARNING, (struct loc){0}, format, args);
    va_end(args);
}

/* The line's text without its end, false when it cannot be had. */
static bool source_line(struct loc loc, struct str *out)
{
    struct stat info;
    if (stat(loc.file, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    FILE *file = fopen(loc.file, "rb");
    if (!file)
        return false;
    uint32_t line = 1;
    int byte;
    while (line < loc.line && (byte = getc(file)) != EOF)
        line += byte == '\n';
    while (line == loc.line && (byte = getc(file)) != EOF && byte != '\n' && out->len < 400)
        str_addc(out, (char)byte);
    fclose(file);
    if (out->len && out->data[out->len - 1] == '\r')
        out->data[--out->len] = '\0';
    return line == loc.line && out->len > 0;
}

/* Adds the line as a terminal may see it, and to `blanks` what is as wide as the bytes before
 * `caret`: one column for a code point, four for a byte that is shown as \xNN. A tab stays a tab in
 * both; a byte order mark has no width and is left out. */
static void add_shown(const char *line, size_t size, size_t caret, struct str *shown,
                      struct str *blanks)
{
    size_t step;
    for (size_t i = 0; i < size; i += step) {
        size_t before = shown->len;
        step = str_utf8(line + i, size - i);
        step = step ? step : 1;
        if (step == 3 && memcmp(line + i, "\xEF\xBB\xBF", 3) == 0)
            continue;
        if (line[i] == '\t')
            str_addc(shown, '\t');
        else
            str_add_printable(shown, line + i, step);
        size_t columns = shown->len - before == step ? 1 : shown->len - before;
        for (; i < caret && columns; columns--)
            str_addc(blanks, line[i] == '\t' ? '\t' : ' ');
    }
}

static void add_caret(struct loc loc, bool colour, struct str *out)
{
    struct str line = {0}, shown = {0}, blanks = {0};
    if (loc.file && loc.line && loc.col && source_line(loc, &line) && loc.col <= line.len + 1) {
        add_shown(line.data, line.len, loc.col - 1, &shown, &blanks);
        str_addf(out, "%6u | %s\n       | %s%s\n", loc.line, str_text(&shown), str_text(&blanks),
                 colour ? "\033[1;32m^\033[0m" : "^");
    }
    str_free(&line);
    str_free(&shown);
    str_free(&blanks);
}

void diag_render(const struct diags *diags, size_t first, bool colour, struct str *out)
{
    static const char *const words[] = {"error", "warning", "note"};
    static const char *const codes[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};
    for (size_t i = first; i < diags->count; i++) {
        const struct diag *item = &diags->items[i];
        str_addf(out, "kpack: %s%s:%s ", colour ? codes[item->level] : "", words[item->level],
                 colour ? "\033[0m" : "");
        if (item->loc.file) {
            str_add_printable(out, item->loc.file, strlen(item->loc.file));
            if (item->loc.line)
                str_addf(out, ":%u", item->loc.line);
            if (item->loc.line && item->loc.col)
                str_addf(out, ":%u", item->loc.col);
            str_adds(out, ": ");
        }
        const char *rest = item->message;
        for (const char *end; (end = strchr(rest, '\n')); rest = end + 1) {
            str_add_printable(out, rest, (size_t)(end - rest));
            str_addc(out, '\n');
        }
        str_add_printable(out, rest, strlen(rest));
        str_addc(out, '\n');
        add_caret(item->loc, colour, out);
    }
}

void diag_free(struct diags *diags)
{
    free(diags->items);
    arena_free(&diags->arena);
    *diags = (struct diags){0};
}
