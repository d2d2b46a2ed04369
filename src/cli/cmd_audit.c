#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/emit.h"
#include "cli/fail_on.h"
#include "cli/lookup_list.h"
#include "cli/report.h"
#include "cli/view.h"

enum answer {
    ANSWERED,
    DECLARED_ABSENT,
    UNDECLARED,
    ANSWERS,
};

static const char *const answer_words[ANSWERS] = {"answered", "absent", "undeclared"};

enum {
    FAIL_UNDECLARED,
    FAIL_UNUSED,
    FAIL_WORDS,
};

static const char *const fail_words[FAIL_WORDS] = {"undeclared", "unused"};

struct audit {
    struct view *view;
    bool bundle; /* of which the view is a part */
    const struct lookup_list *list;
    enum answer *answers; /* by lookup; owned */
    const char **reasons; /* of those that are not answered, "" when none is given; owned */
    bool *used;           /* by entry; owned */
    size_t counts[ANSWERS], unused;
};

/* ---- The audit --------------------------------------------------------------------------------
 */

static bool find_entry(const struct view *view, const struct lookup *lookup, uint32_t *out_entry)
{
    uint32_t index;
    if (kpk_find_module(view->image, lookup->module, &index) != KPK_OK)
        return false;
    kpk_module_info module = view_module(view, index);
    for (uint32_t i = 0; i < module.entry_count; i++) {
        *out_entry = module.first_entry + i;
        if (strcmp(view_entry(view, *out_entry).name, lookup->entry) == 0)
            return true;
    }
    return false;
}

static bool declared_absent(const struct view *view, const struct lookup *lookup,
                            const char **out_reason)
{
    for (uint32_t i = 0; i < view->info.absent_count; i++) {
        kpk_absent_info absent = view_absent(view, i);
        if (strcmp(absent.module, lookup->module) == 0 &&
            strcmp(absent.entry, lookup->entry) == 0) {
            *out_reason = absent.reason;
            return true;
        }
    }
    return false;
}

static enum answer answer(struct audit *audit, const struct lookup *lookup, const char **out_reason)
{
    uint32_t entry;
    *out_reason = "";
    if (find_entry(audit->view, lookup, &entry)) {
        audit->used[entry] = true;
        return ANSWERED;
    }
    if (declared_absent(audit->view, lookup, out_reason))
        return DECLARED_ABSENT;
    *out_reason = view_absence(audit->view, lookup->module, lookup->entry);
    return UNDECLARED;
}

static void run_audit(struct audit *audit)
{
    uint32_t entries = audit->view->info.entry_count;
    audit->answers = mem_alloc(audit->list->count, sizeof *audit->answers);
    audit->reasons = mem_alloc(audit->list->count, sizeof *audit->reasons);
    audit->used = mem_alloc(entries, sizeof *audit->used);
    for (size_t i = 0; i < audit->list->count; i++) {
        audit->answers[i] = answer(audit, &audit->list->items[i], &audit->reasons[i]);
        audit->counts[audit->answers[i]]++;
    }
    for (uint32_t i = 0; i < entries; i++)
        audit->unused += !audit->used[i];
}

static void free_audit(struct audit *audit)
{
    free(audit->answers);
    free(audit->reasons);
    free(audit->used);
}

/* ---- Output -----------------------------------------------------------------------------------
 */

static void add_lookup(struct table *table, const struct audit *audit, size_t index)
{
    struct arena *arena = &table->arena;
    const struct lookup *lookup = &audit->list->items[index];
    const char *name =
        report_name(arena, arena_printf(arena, "%s:%s", lookup->module, lookup->entry));
    table_row(table,
              (const char *[]){arena_printf(arena, "  %s", name),
                               answer_words[audit->answers[index]],
                               lookup->count ? arena_printf(arena, "%" PRIu64, lookup->count) : ""},
              3);
    if (audit->reasons[index][0])
        table_text(table, arena_printf(arena, "    %s", report_name(arena, audit->reasons[index])));
    if (lookup->place[0] && audit->answers[index] == UNDECLARED)
        table_text(table,
                   arena_printf(arena, "    asked for at %s", report_name(arena, lookup->place)));
}

static void print_audit(struct audit *audit, const char *list)
{
    const struct view *view = audit->view;
    struct arena *arena = &view->cli->arena;
    struct table table = {0};
    report_line(stdout, "%s: target %s, %s; lookups of %s\n", report_name(arena, view->path),
                report_name(arena, view->info.target), report_name(arena, view->info.arch),
                report_name(arena, list));
    table_row(&table, (const char *[]){"lookups", "answer", "count"}, 3);
    for (size_t i = 0; i < audit->list->count; i++)
        add_lookup(&table, audit, i);
    if (audit->unused)
        table_text(&table, "shipped, and nobody asks for it");
    for (uint32_t i = 0; i < view->info.entry_count; i++) {
        kpk_entry_info entry = view_entry(view, i);
        const char *name = arena_printf(arena, "%s:%s", entry.module, entry.name);
        if (!audit->used[i])
            table_row(
                &table,
                (const char *[]){arena_printf(arena, "  %s", report_name(arena, name)), "unused"},
                2);
    }
    table_print(&table, stdout);
    table_free(&table);
    report_line(stdout,
                "\ntotal: %zu lookup%s, %zu answered, %zu declared absent, %zu undeclared; %zu of "
                "%u entries unused",
                audit->list->count, audit->list->count == 1 ? "" : "s", audit->counts[ANSWERED],
                audit->counts[DECLARED_ABSENT], audit->counts[UNDECLARED], audit->unused,
                view->info.entry_count);
}

static json_t *audit_json(const struct audit *audit, json_t *failed)
{
    const struct view *view = audit->view;
    json_t *object = emit_object(), *lookups = emit_array(), *unused = emit_array();
    for (size_t i = 0; i < audit->list->count; i++) {
        const struct lookup *lookup = &audit->list->items[i];
        json_t *item = emit_object();
        emit_set(item, "module", emit_string(lookup->module));
        emit_set(item, "entry", emit_string(lookup->entry));
        emit_set(item, "answer", emit_string(answer_words[audit->answers[i]]));
        emit_set(item, "reason", emit_string_or_null(audit->reasons[i]));
        emit_set(item, "count", emit_count_or_null(lookup->count, lookup->count));
        emit_set(item, "place", emit_string_or_null(lookup->place));
        emit_append(lookups, item);
    }
    for (uint32_t i = 0; i < view->info.entry_count; i++) {
        kpk_entry_info entry = view_entry(view, i);
        if (audit->used[i])
            continue;
        json_t *item = emit_object();
        emit_set(item, "module", emit_string(entry.module));
        emit_set(item, "entry", emit_string(entry.name));
        emit_append(unused, item);
    }
    emit_set(object, "target", emit_string(view->info.target));
    emit_set(object, "arch", emit_string(view->info.arch));
    emit_set(object, "lookups", lookups);
    emit_set(object, "unused", unused);
    emit_set(object, "failed", json_incref(failed));
    return object;
}

/* The words that fail, and their errors: one for each undeclared lookup, one for all unused
 * entries. A new reference. */
static json_t *judge(struct audit *audit, const char *const *fail_on, const char *list)
{
    struct cli *cli = audit->view->cli;
    json_t *failed = emit_array();
    bool undeclared = fail_on[FAIL_UNDECLARED] && audit->counts[UNDECLARED];
    for (size_t i = 0; undeclared && i < audit->list->count; i++) {
        const struct lookup *lookup = &audit->list->items[i];
        if (audit->answers[i] == UNDECLARED)
            diag_error_at(&cli->diags, (struct loc){list, lookup->line, 0},
                          "'%s:%s' is neither shipped nor declared absent%s%s: %s", lookup->module,
                          lookup->entry, audit->bundle ? " by " : "",
                          audit->bundle ? audit->view->path : "", audit->reasons[i]);
    }
    if (undeclared)
        emit_append(failed, emit_string(fail_words[FAIL_UNDECLARED]));
    if (!fail_on[FAIL_UNUSED] || !audit->unused)
        return failed;
    uint32_t first = 0;
    while (audit->used[first])
        first++;
    kpk_entry_info entry = view_entry(audit->view, first);
    diag_error_at(&cli->diags, (struct loc){.file = audit->view->path},
                  "%zu entr%s shipped, and no lookup asks for %s: '%s:%s'%s", audit->unused,
                  audit->unused == 1 ? "y is" : "ies are", audit->unused == 1 ? "it" : "them",
                  entry.module, entry.name, audit->unused == 1 ? "" : " is the first");
    emit_append(failed, emit_string(fail_words[FAIL_UNUSED]));
    return failed;
}

static bool audit_all(struct view_set *set, const struct lookup_list *list, const char *path,
                      const char *const *fail_on, bool json)
{
    json_t **values = mem_alloc(set->count, sizeof *values);
    bool ok = true;
    if (!json)
        view_set_head(set);
    for (size_t i = 0; i < set->count; i++) {
        struct audit audit = {.view = &set->views[i], .bundle = set->bundle, .list = list};
        run_audit(&audit);
        json_t *failed = judge(&audit, fail_on, path);
        if (json)
            values[i] = audit_json(&audit, failed);
        if (!json && i)
            putchar('\n');
        if (!json)
            print_audit(&audit, path);
        ok = ok && json_array_size(failed) == 0;
        json_decref(failed);
        free_audit(&audit);
    }
    if (json)
        emit_print(view_set_json(set, values));
    free(values);
    return ok;
}

enum cli_exit cmd_audit(struct cli *cli, const struct cli_args *args)
{
    struct lookup_list list = {0};
    struct view_set set;
    struct str bytes = {0};
    const char *fail_on[FAIL_WORDS], *path = args->values[AUDIT_LOOKUPS];
    const char *text = args->values[AUDIT_FAIL_ON] ? args->values[AUDIT_FAIL_ON] : "undeclared";
    if (!path)
        return cli_usage(cli, "'kpack audit' needs '--lookups=FILE': what the engine asks for");
    if (!fail_on_parse(cli, text, fail_words, FAIL_WORDS, NULL, fail_on))
        return CLI_USAGE;
    bool ok = file_read(path, &bytes, &cli->diags) &&
              lookup_list_parse(path, bytes.data, bytes.len, &cli->arena, &list, &cli->diags);
    str_free(&bytes);
    if (!ok || !view_set_open(cli, args->words[0], args->values[AUDIT_TARGET], &set))
        return CLI_FAILED;
    if (!list.count)
        diag_add(
            &cli->diags, DIAG_WARNING, (struct loc){.file = path},
            "no lookup in this list, so nothing is checked: 'kpack lookups --call' finds calls "
            "of other names than kpk_resolve");
    ok = audit_all(&set, &list, path, fail_on, args->values[AUDIT_JSON]);
    view_set_close(&set);
    return ok ? CLI_DONE : CLI_FAILED;
}
