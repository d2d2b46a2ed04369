#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "cli/build.h"
#include "cli/code.h"
#include "cli/emit.h"
#include "cli/rebuild.h"
#include "cli/report.h"
#include "cli/view.h"

static void compare(struct view *view, const kpk_entry_info *entry, const char *what,
                    uint64_t recorded, uint64_t found)
{
    if (recorded != found)
        diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                      "entry '%s:%s': the index says %" PRIu64 " %s, its cubin %" PRIu64,
                      entry->module, entry->name, recorded, what, found);
}

static void check_entry(struct view *view, const kpk_entry_info *entry, const struct cubin *cubin)
{
    const struct cubin_entry *found = code_find(cubin, entry->symbol);
    if (!found) {
        diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                      "entry '%s:%s' is in the index but not in its cubin", entry->module,
                      entry->name);
        return;
    }
    compare(view, entry, "registers", entry->registers, found->registers);
    compare(view, entry, "bytes of static shared memory", entry->static_smem, found->static_smem);
    compare(view, entry, "bytes of stack", entry->stack_bytes, found->stack_bytes);
    compare(view, entry, "bytes of code", entry->code_bytes, found->code_bytes);
}

/* Reads one cubin, adds it to the module's digest and checks the entries that it holds. */
static void check_object(struct view *view, const kpk_module_info *module, uint32_t object,
                         struct digest_state *state)
{
    struct code_object read;
    uint32_t index = module->first_object + object;
    bool ok = code_read(view, module->name, index, &read);
    digest_add(state, read.bytes, read.size);
    for (uint32_t i = 0; ok && i < module->entry_count; i++) {
        kpk_entry_info entry = view_entry(view, module->first_entry + i);
        if (entry.object == index)
            check_entry(view, &entry, &read.cubin);
    }
    code_free(&read);
}

static void check_module(struct view *view, uint32_t index)
{
    kpk_module_info module = view_module(view, index);
    struct digest_state state;
    digest_start(&state);
    for (uint32_t i = 0; i < module.object_count; i++)
        check_object(view, &module, i, &state);
    struct digest digest = digest_finish(&state);
    if (memcmp(digest.bytes, module.digest, sizeof digest.bytes) != 0)
        diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                      "module '%s': its recorded digest is not that of its cubins", module.name);
}

static bool check_figures(struct view *view)
{
    size_t errors = view->cli->diags.errors;
    for (uint32_t i = 0; i < view->info.module_count; i++)
        check_module(view, i);
    return view->cli->diags.errors == errors;
}

/* ---- A fresh build beside it ------------------------------------------------------------------
 */

/* The first difference that says more than that sizes differ; NULL: there is none. */
static const struct change *cause(const struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->count; i++)
        if (comparison->items[i].module || comparison->items[i].before.kind != COMPARE_BYTES)
            return &comparison->items[i];
    return NULL;
}

static bool judge(struct view *view, const char *target, const struct rebuild *rebuild)
{
    struct arena *arena = &view->cli->arena;
    const struct change *first = cause(&rebuild->comparison);
    const char *why = first ? compare_text(arena, first)
                            : "with the same content, packed by another kpack or another zstd";
    return rebuild->same ||
           diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                         "a fresh build of '%s' gives other bytes: %s", target, why);
}

static void print_rebuild(struct view *view, const char *target, const struct rebuild *rebuild)
{
    struct arena *arena = &view->cli->arena;
    const char *path = report_name(arena, view->path), *lua = report_name(arena, target);
    if (rebuild->same)
        report_line(stdout, "%s: a fresh build of %s gives the same bytes%s", path, lua,
                    view->info.stamp[0] ? ", its stamp aside" : "");
    if (!rebuild->comparison.count)
        return;
    report_line(stdout, "\nbefore  %s\nafter   a fresh build of %s\n", path, lua);
    compare_print(&rebuild->comparison, stdout);
}

static json_t *rebuild_json(const char *target, const struct rebuild *rebuild)
{
    json_t *object = emit_object();
    emit_set(object, "target", emit_string(target));
    emit_set(object, "same", emit_bool(rebuild->same));
    emit_set(object, "differences", compare_json(&rebuild->comparison));
    return object;
}

static json_t *image_json(const struct view *view, json_t *rebuild)
{
    json_t *object = emit_object();
    emit_set(object, "image", emit_string(view->path));
    emit_set(object, "entries", emit_count(view->info.entry_count));
    emit_set(object, "raw_bytes", emit_count(view->info.raw_bytes));
    emit_set(object, "rebuild", rebuild);
    return object;
}

static void print_intact(const struct view *view)
{
    struct arena *arena = &view->cli->arena;
    report_line(stdout, "%s: every byte is intact; %u of %u entries are as their cubins say (%s)",
                report_name(arena, view->path), view->info.entry_count, view->info.entry_count,
                report_size(arena, view->info.raw_bytes));
}

static bool verify_rebuilt(struct view *view, const char *target, bool json)
{
    struct rebuild rebuild = {0};
    bool ok = view_verify(view) && check_figures(view);
    if (ok && !json)
        print_intact(view);
    fflush(stdout); /* before what the build says */
    ok = ok && rebuild_compare(view, target, &rebuild);
    if (ok && json)
        emit_print(image_json(view, rebuild_json(target, &rebuild)));
    if (ok && !json)
        print_rebuild(view, target, &rebuild);
    ok = ok && judge(view, target, &rebuild);
    rebuild_end(&rebuild);
    return ok;
}

/* Of a bundle its parts, and what lies between them. */
static bool check_file(struct cli *cli, struct view_set *set)
{
    struct view whole;
    if (!set->bundle)
        return view_verify(&set->views[0]);
    bool ok = view_open_file(cli, set->path, NULL, &whole);
    ok = ok && view_verify(&whole);
    view_close(&whole);
    return ok;
}

static bool verify(struct cli *cli, struct view_set *set, bool json)
{
    json_t **values = mem_alloc(set->count, sizeof *values);
    bool ok = check_file(cli, set);
    for (size_t i = 0; i < set->count; i++) {
        bool good = ok && check_figures(&set->views[i]);
        values[i] = good ? image_json(&set->views[i], json_null()) : json_null();
        if (good && !json)
            print_intact(&set->views[i]);
        ok = ok && good;
    }
    json_t *object = view_set_json(set, values);
    free(values);
    if (ok && json)
        emit_print(object);
    else
        json_decref(object);
    if (ok && !json && set->bundle)
        report_line(stdout, "%s: the part table and what lies between the parts are intact",
                    report_name(&cli->arena, set->path));
    return ok;
}

enum cli_exit cmd_verify(struct cli *cli, const struct cli_args *args)
{
    struct view_set set;
    const char *target = args->values[VERIFY_REBUILD];
    bool json = args->values[VERIFY_JSON], ok;
    if (!view_set_open(cli, args->words[0], args->values[VERIFY_TARGET], &set))
        return CLI_FAILED;
    if (target && set.bundle)
        ok = diag_error_at(&cli->diags, (struct loc){.file = set.path},
                           "'--rebuild' is for one target: name the part with '--target'");
    else
        ok = target ? verify_rebuilt(&set.views[0], target, json) : verify(cli, &set, json);
    view_set_close(&set);
    build_end();
    return ok ? CLI_DONE : CLI_FAILED;
}
