#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/emit.h"
#include "cli/lookup_list.h"
#include "cli/lookup_scan.h"
#include "cli/report.h"

struct collect {
    struct cli *cli;
    struct lookup_scan scan;
    size_t files;
};

static const char *const default_names[] = {"kpk_resolve", "try_target_kernel"};

/* False after a usage error. */
static bool choose_names(struct collect *collect, const char *list)
{
    collect->scan.names = default_names;
    collect->scan.name_count = sizeof default_names / sizeof *default_names;
    if (!list)
        return true;
    struct arena *arena = &collect->cli->arena;
    const char **names = arena_alloc(arena, strlen(list) + 1, sizeof *names);
    size_t count = 0;
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        if (!length) {
            cli_usage(collect->cli, "option '--call' is '%s', expected names joined by commas",
                      list);
            return false;
        }
        names[count++] = arena_strndup(arena, at, length);
        at += length;
        if (!*at)
            break;
    }
    collect->scan.names = names;
    collect->scan.name_count = count;
    return true;
}

static const char *names_text(const struct collect *collect)
{
    const char *text = "";
    for (size_t i = 0; i < collect->scan.name_count; i++)
        text = arena_printf(&collect->cli->arena, "%s%s'%s'", text,
                            !i                                 ? ""
                            : i + 1 < collect->scan.name_count ? ", "
                                                               : " or ",
                            collect->scan.names[i]);
    return text;
}

/* ---- Files ------------------------------------------------------------------------------------
 */

static void scan_file(struct collect *collect, const char *path, enum source_language language)
{
    struct str bytes = {0};
    if (file_read(path, &bytes, &collect->cli->diags)) {
        lookup_scan(&collect->scan, path, language, bytes.data, bytes.len);
        collect->files++;
    }
    str_free(&bytes);
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Sources of the folder and of those in it, in the order of their names' bytes. Links to folders
 * are not followed: they may lead in a circle. */
static void scan_folder(struct collect *collect, const char *path)
{
    struct dirent **names;
    int count = scandir(path, &names, visible, by_bytes);
    if (count < 0) {
        diag_error(&collect->cli->diags, "cannot read '%s': %s", path, strerror(errno));
        return;
    }
    for (int i = 0; i < count; i++) {
        struct stat info;
        const char *inner = path_join(&collect->cli->arena, path, names[i]->d_name);
        enum source_language language = source_language_of(inner);
        if (lstat(inner, &info) != 0)
            diag_error(&collect->cli->diags, "cannot read '%s': %s", inner, strerror(errno));
        else if (S_ISDIR(info.st_mode))
            scan_folder(collect, inner);
        else if (language != SOURCE_NONE && (stat(inner, &info) != 0 || S_ISREG(info.st_mode)))
            scan_file(collect, inner, language);
        free(names[i]);
    }
    free(names);
}

static void scan_word(struct collect *collect, const char *path)
{
    enum source_language language = source_language_of(path);
    if (file_is_dir(path))
        scan_folder(collect, path);
    else if (language != SOURCE_NONE)
        scan_file(collect, path, language);
    else if (access(path, F_OK) != 0)
        diag_error(&collect->cli->diags, "cannot read '%s': %s", path, strerror(errno));
    else
        diag_error(&collect->cli->diags,
                   "'%s' is neither a folder nor a source: expected a name that ends in %s", path,
                   SOURCE_ENDINGS);
}

/* ---- Output -----------------------------------------------------------------------------------
 */

/* Literal ones first, by module and entry; each by file and line. */
static int by_name(const void *a, const void *b)
{
    const struct lookup_call *x = a, *y = b;
    if (!x->entry != !y->entry)
        return x->entry ? -1 : 1;
    int order = x->entry ? strcmp(x->module, y->module) : 0;
    if (!order && x->entry)
        order = strcmp(x->entry, y->entry);
    if (!order)
        order = strcmp(x->file, y->file);
    return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

/* Whether a line of the list would be read as the same two names. */
static bool has_line(const struct lookup_call *call)
{
    struct arena arena = {0};
    struct diags ignored = {0};
    struct lookup_list list;
    const char *line = arena_printf(&arena, "%s:%s # x", call->module, call->entry);
    bool same = lookup_list_parse("", line, strlen(line), &arena, &list, &ignored) &&
                list.count == 1 && strcmp(list.items[0].module, call->module) == 0 &&
                strcmp(list.items[0].entry, call->entry) == 0;
    diag_free(&ignored);
    arena_free(&arena);
    return same;
}

static void print_list(struct collect *collect)
{
    struct arena *arena = &collect->cli->arena;
    for (size_t i = 0; i < collect->scan.count; i++) {
        const struct lookup_call *call = &collect->scan.calls[i];
        const char *file = report_name(arena, call->file);
        if (!call->entry)
            report_line(stdout, "# not literal: %s:%u: %s", file, call->line,
                        report_name(arena, call->text));
        else if (has_line(call))
            printf("%s:%s  # %s:%u\n", call->module, call->entry, file, call->line);
        else
            diag_add(&collect->cli->diags, DIAG_WARNING, (struct loc){call->file, call->line, 0},
                     "the lookup '%s:%s' is left out: no line can hold it; use '--json'",
                     call->module, call->entry);
    }
}

static void print_json(struct collect *collect)
{
    json_t *object = emit_object(), *lookups = emit_array(), *others = emit_array();
    for (size_t i = 0; i < collect->scan.count; i++) {
        const struct lookup_call *call = &collect->scan.calls[i];
        json_t *item = emit_object();
        if (call->entry) {
            emit_set(item, "module", emit_string(call->module));
            emit_set(item, "entry", emit_string(call->entry));
        }
        emit_set(item, "file", emit_string(call->file));
        emit_set(item, "line", emit_count(call->line));
        if (!call->entry)
            emit_set(item, "text", emit_string(call->text));
        emit_append(call->entry ? lookups : others, item);
    }
    emit_set(object, "lookups", lookups);
    emit_set(object, "not_literal", others);
    emit_print(object);
}

enum cli_exit cmd_lookups(struct cli *cli, const struct cli_args *args)
{
    struct collect collect = {.cli = cli};
    if (!choose_names(&collect, args->values[LOOKUPS_CALL]))
        return CLI_USAGE;
    for (size_t i = 0; i < args->word_count; i++)
        scan_word(&collect, args->words[i]);
    if (!cli->diags.errors && !collect.scan.count)
        diag_warning(&cli->diags, "no call of %s in %zu source%s: name the calls with '--call'",
                     names_text(&collect), collect.files, collect.files == 1 ? "" : "s");
    if (collect.scan.count)
        qsort(collect.scan.calls, collect.scan.count, sizeof *collect.scan.calls, by_name);
    if (args->values[LOOKUPS_JSON])
        print_json(&collect);
    else
        print_list(&collect);
    lookup_scan_free(&collect.scan);
    return cli->diags.errors ? CLI_FAILED : CLI_DONE;
}
