#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/emit.h"
#include "cli/report.h"
#include "cli/twins.h"

enum {
    COVERAGE_IMAGES = 12 /* that one table has room for */
};

struct coverage {
    struct cli *cli;
    struct view_set sets[COVERAGE_IMAGES];
    size_t set_count;
    struct view views[COVERAGE_IMAGES]; /* of all sets; the sets own what they hold */
    size_t count;
    struct twins twins;
};

static const char *twin_cell(const struct twin *twin, size_t image)
{
    if (twin->states[image] == TWIN_ABSENT)
        return "-";
    if (twin->states[image] == TWIN_POINTLESS)
        return "equal";
    return twin->bits[image] == KPK_BITS_SAME ? "same" : "close";
}

static size_t twins_in(const struct twin_parent *parent, size_t image)
{
    size_t count = 0;
    for (size_t i = 0; i < parent->twin_count; i++)
        count += parent->twins[i].states[image] != TWIN_ABSENT;
    return count;
}

/* ---- The table --------------------------------------------------------------------------------
 */

static void add_heads(struct table *table, const struct coverage *coverage, const char *first)
{
    const char *cells[TABLE_CELLS] = {first};
    for (size_t i = 0; i < coverage->count; i++)
        cells[i + 1] = arena_printf(&table->arena, "%zu", i + 1);
    table_row(table, cells, coverage->count + 1);
}

static void add_parent(struct table *table, const struct coverage *coverage,
                       const struct twin_parent *parent)
{
    struct arena *arena = &table->arena;
    const char *cells[TABLE_CELLS] = {report_name(arena, parent->name)};
    for (size_t i = 0; i < coverage->count; i++)
        cells[i + 1] = parent->shipped[i] ? arena_printf(arena, "%zu", twins_in(parent, i)) : "-";
    table_row(table, cells, coverage->count + 1);
    for (size_t i = 0; i < parent->twin_count; i++) {
        cells[0] = arena_printf(arena, "  %s", report_name(arena, parent->twins[i].name));
        for (size_t j = 0; j < coverage->count; j++)
            cells[j + 1] = twin_cell(&parent->twins[i], j);
        table_row(table, cells, coverage->count + 1);
    }
}

static void print_parents(const struct coverage *coverage)
{
    struct table table = {0};
    size_t alone = 0;
    add_heads(&table, coverage, "parents, twins");
    for (size_t i = 0; i < coverage->twins.parent_count; i++) {
        if (coverage->twins.parents[i].twin_count)
            add_parent(&table, coverage, &coverage->twins.parents[i]);
        else
            alone++;
    }
    if (alone)
        table_text(&table, "without a twin in any image");
    for (size_t i = 0; i < coverage->twins.parent_count; i++)
        if (!coverage->twins.parents[i].twin_count)
            add_parent(&table, coverage, &coverage->twins.parents[i]);
    table_print(&table, stdout);
    table_free(&table);
}

static void print_constants(const struct coverage *coverage)
{
    struct table table = {0};
    struct arena *arena = &table.arena;
    if (!coverage->twins.constant_count)
        return;
    putchar('\n');
    add_heads(&table, coverage, "constants that differ");
    for (size_t i = 0; i < coverage->twins.constant_count; i++) {
        const struct twin_constant *constant = &coverage->twins.constants[i];
        const char *cells[TABLE_CELLS] = {
            report_name(arena, arena_printf(arena, "%s: %s", constant->module, constant->name))};
        for (size_t j = 0; j < coverage->count; j++)
            cells[j + 1] =
                constant->present[j] ? arena_printf(arena, "%" PRId64, constant->values[j]) : "-";
        table_row(&table, cells, coverage->count + 1);
    }
    table_print(&table, stdout);
    table_free(&table);
}

static void print_coverage(const struct coverage *coverage)
{
    struct arena *arena = &coverage->cli->arena;
    for (size_t i = 0; i < coverage->count; i++) {
        const struct view *view = &coverage->views[i];
        report_line(stdout, "%zu  %s: %s, %s, %u entr%s", i + 1, report_name(arena, view->path),
                    report_name(arena, view->info.target), report_name(arena, view->info.arch),
                    view->info.entry_count, view->info.entry_count == 1 ? "y" : "ies");
    }
    printf("\n-: not shipped; same, close: a twin with the same or with close bits; equal: a twin "
           "with its parent's code\n\n");
    print_parents(coverage);
    print_constants(coverage);
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static json_t *twin_json(const struct coverage *coverage, const struct twin *twin)
{
    json_t *object = emit_object(), *images = emit_array();
    emit_set(object, "twin", emit_string(twin->name));
    for (size_t i = 0; i < coverage->count; i++) {
        json_t *state = json_null();
        if (twin->states[i] != TWIN_ABSENT) {
            state = emit_object();
            emit_set(state, "bits", emit_string(twin->bits[i] == KPK_BITS_SAME ? "same" : "close"));
            emit_set(state, "equal_code", emit_bool(twin->states[i] == TWIN_POINTLESS));
        }
        emit_append(images, state);
    }
    emit_set(object, "images", images);
    return object;
}

static json_t *parent_json(const struct coverage *coverage, const struct twin_parent *parent)
{
    json_t *object = emit_object(), *shipped = emit_array(), *twins = emit_array();
    for (size_t i = 0; i < coverage->count; i++)
        emit_append(shipped, emit_bool(parent->shipped[i]));
    for (size_t i = 0; i < parent->twin_count; i++)
        emit_append(twins, twin_json(coverage, &parent->twins[i]));
    emit_set(object, "parent", emit_string(parent->name));
    emit_set(object, "shipped", shipped);
    emit_set(object, "twins", twins);
    return object;
}

static json_t *constant_json(const struct coverage *coverage, const struct twin_constant *constant)
{
    json_t *object = emit_object(), *values = emit_array();
    for (size_t i = 0; i < coverage->count; i++)
        emit_append(values, constant->present[i] ? emit_integer(constant->values[i]) : json_null());
    emit_set(object, "module", emit_string(constant->module));
    emit_set(object, "constant", emit_string(constant->name));
    emit_set(object, "values", values);
    return object;
}

static void print_json(const struct coverage *coverage)
{
    const struct twins *twins = &coverage->twins;
    json_t *object = emit_object(), *images = emit_array();
    json_t *parents = emit_array(), *constants = emit_array();
    for (size_t i = 0; i < coverage->count; i++) {
        const struct view *view = &coverage->views[i];
        json_t *image = emit_object();
        emit_set(image, "image", emit_string(view->path));
        emit_set(image, "target", emit_string(view->info.target));
        emit_set(image, "arch", emit_string(view->info.arch));
        emit_append(images, image);
    }
    for (size_t i = 0; i < twins->parent_count; i++)
        emit_append(parents, parent_json(coverage, &twins->parents[i]));
    for (size_t i = 0; i < twins->constant_count; i++)
        emit_append(constants, constant_json(coverage, &twins->constants[i]));
    emit_set(object, "images", images);
    emit_set(object, "parents", parents);
    emit_set(object, "constants", constants);
    emit_print(object);
}

/* ---- The command ------------------------------------------------------------------------------
 */

static void judge(struct coverage *coverage)
{
    for (size_t i = 0; i < coverage->count; i++)
        for (size_t j = 0; j < coverage->twins.parent_count; j++) {
            const struct twin_parent *parent = &coverage->twins.parents[j];
            for (size_t k = 0; k < parent->twin_count; k++)
                if (parent->twins[k].states[i] == TWIN_POINTLESS)
                    diag_error_at(&coverage->cli->diags,
                                  (struct loc){.file = coverage->views[i].path},
                                  "twin '%s' has the machine code of its parent '%s': one of them "
                                  "is enough",
                                  parent->twins[k].name, parent->name);
        }
}

/* A bundle's parts count as images of their own. */
static bool open_all(struct coverage *coverage, const struct cli_args *args)
{
    struct view *views = coverage->views;
    for (size_t i = 0; i < args->word_count; i++) {
        struct view_set *set = &coverage->sets[i];
        if (!view_set_open(coverage->cli, args->words[i], args->values[LIST_TARGET], set))
            return false;
        coverage->set_count++;
        if (set->count > COVERAGE_IMAGES - coverage->count)
            return diag_error(&coverage->cli->diags,
                              "more than %d images, with the parts of "
                              "bundles: '--target' takes one part of each",
                              COVERAGE_IMAGES);
        for (size_t j = 0; j < set->count; j++)
            views[coverage->count++] = set->views[j];
    }
    return true;
}

enum cli_exit cmd_coverage(struct cli *cli, const struct cli_args *args)
{
    struct coverage coverage = {.cli = cli};
    if (args->word_count > COVERAGE_IMAGES)
        return cli_usage(cli, "'kpack coverage' takes %d images at most, not %zu", COVERAGE_IMAGES,
                         args->word_count);
    bool ok =
        open_all(&coverage, args) && twins_of(coverage.views, coverage.count, &coverage.twins);
    if (ok) {
        judge(&coverage);
        if (args->values[LIST_JSON])
            print_json(&coverage);
        else
            print_coverage(&coverage);
    }
    twins_free(&coverage.twins);
    while (coverage.set_count)
        view_set_close(&coverage.sets[--coverage.set_count]);
    return ok && !cli->diags.errors ? CLI_DONE : CLI_FAILED;
}
