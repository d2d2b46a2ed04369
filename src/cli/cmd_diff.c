#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare.h"
#include "cli/emit.h"
#include "cli/fail_on.h"

struct limits {
    const char *words[COMPARE_ASPECTS]; /* NULL: not named */
    double size_percent;
};

static bool parse_limits(struct cli *cli, const char *text, struct limits *out_limits)
{
    if (!fail_on_parse(cli, text, compare_words, COMPARE_ASPECTS, compare_words[COMPARE_SIZE],
                       out_limits->words))
        return false;
    const char *value = out_limits->words[COMPARE_SIZE];
    char *end;
    if (!value || !value[0])
        return true;
    out_limits->size_percent = strtod(value, &end);
    /* Digits alone, where strtod takes signs, exponents and more. */
    if (strspn(value, "0123456789.") == strlen(value) - 1 && end > value && strcmp(end, "%") == 0 &&
        isfinite(out_limits->size_percent))
        return true;
    cli_usage(cli, "option '--fail-on' has 'size=%s', expected a share such as 'size=5%%'", value);
    return false;
}

static bool fails(const struct limits *limits, const struct change *change)
{
    if (change->aspect >= COMPARE_ASPECTS || !limits->words[change->aspect])
        return false;
    double before = (double)change->before.number, after = (double)change->after.number;
    switch (change->aspect) {
    case COMPARE_SPILLS:
    case COMPARE_REGISTERS:
    case COMPARE_SMEM:
    case COMPARE_STACK:
        return compare_grew(change);
    case COMPARE_SIZE:
        return after > before * (1 + limits->size_percent / 100);
    default:
        return true;
    }
}

/* One error per word: how many differences it found, and the first. */
static json_t *judge(struct cli *cli, const char *path, const struct limits *limits,
                     const struct comparison *comparison)
{
    json_t *failed = emit_array();
    for (size_t aspect = 0; aspect < COMPARE_ASPECTS; aspect++) {
        const struct change *first = NULL;
        size_t count = 0;
        for (size_t i = 0; i < comparison->count; i++) {
            const struct change *change = &comparison->items[i];
            if (change->aspect != aspect || !fails(limits, change))
                continue;
            first = first ? first : change;
            count++;
        }
        if (!first)
            continue;
        emit_append(failed, emit_string(compare_words[aspect]));
        diag_error_at(&cli->diags, (struct loc){.file = path}, "'--fail-on %s': %s%s",
                      compare_words[aspect], compare_text(&cli->arena, first),
                      count > 1 ? arena_printf(&cli->arena, ", and %zu more", count - 1) : "");
    }
    return failed;
}

static void print_side(const char *side, const struct view *view)
{
    struct arena *arena = &view->cli->arena;
    const kpk_image_info *info = &view->info;
    report_line(stdout, "%s  %s: %s, %s, %u module%s, %u entr%s, %s", side,
                report_name(arena, view->path), report_name(arena, info->target),
                report_name(arena, info->arch), info->module_count,
                info->module_count == 1 ? "" : "s", info->entry_count,
                info->entry_count == 1 ? "y" : "ies", report_size(arena, info->file_bytes));
}

static json_t *side_json(const struct view *view)
{
    if (!view)
        return json_null();
    json_t *object = emit_object();
    emit_set(object, "image", emit_string(view->path));
    emit_set(object, "target", emit_string(view->info.target));
    emit_set(object, "arch", emit_string(view->info.arch));
    emit_set(object, "modules", emit_count(view->info.module_count));
    emit_set(object, "entries", emit_count(view->info.entry_count));
    emit_set(object, "file_bytes", emit_count(view->info.file_bytes));
    return object;
}

static void print_table(const struct view *before, const struct view *after,
                        const struct comparison *comparison)
{
    print_side("before", before);
    print_side("after ", after);
    if (comparison->count) {
        putchar('\n');
        compare_print(comparison, stdout);
    }
    printf("\n%zu difference%s\n", comparison->count, comparison->count == 1 ? "" : "s");
}

static json_t *pair_json(const struct view *before, const struct view *after, json_t *differences,
                         json_t *failed)
{
    json_t *object = emit_object();
    emit_set(object, "before", side_json(before));
    emit_set(object, "after", side_json(after));
    emit_set(object, "differences", differences);
    emit_set(object, "failed", json_incref(failed));
    return object;
}

/* What the command works on. */
struct diff {
    struct cli *cli;
    struct limits limits;
    bool json;
    json_t *parts; /* by target; NULL: two images */
    size_t printed;
};

static void emit_pair(const struct diff *diff, const char *target, json_t *object)
{
    if (diff->parts)
        emit_set(diff->parts, target, object);
    else
        emit_print(object);
}

static bool compare(struct diff *diff, struct view *before, struct view *after)
{
    struct comparison comparison;
    bool ok = compare_images(before, after, &comparison);
    if (ok) {
        json_t *failed = judge(diff->cli, after->path, &diff->limits, &comparison);
        if (diff->json)
            emit_pair(diff, after->info.target,
                      pair_json(before, after, compare_json(&comparison), failed));
        else
            print_table(before, after, &comparison);
        ok = json_array_size(failed) == 0;
        json_decref(failed);
    }
    compare_free(&comparison);
    return ok;
}

/* A part that one side has alone; the other is NULL. */
static bool compare_alone(struct diff *diff, const struct view *before, const struct view *after)
{
    const struct view *view = before ? before : after;
    enum compare_aspect aspect = before ? COMPARE_REMOVED : COMPARE_ADDED;
    const char *word = compare_words[aspect];
    json_t *failed = emit_array();
    bool fail = diff->limits.words[aspect];
    if (fail) {
        emit_append(failed, emit_string(word));
        diag_error_at(&diff->cli->diags, (struct loc){.file = view->path},
                      "'--fail-on %s': target '%s' is %s as a whole", word, view->info.target,
                      word);
    }
    if (diff->json)
        emit_pair(diff, view->info.target, pair_json(before, after, emit_array(), failed));
    else
        print_side(word, view);
    json_decref(failed);
    return !fail;
}

static bool compare_pairs(struct diff *diff, const struct view_set *before,
                          const struct view_set *after)
{
    struct view_pair *pairs;
    size_t count = view_set_pairs(&diff->cli->arena, before, after, &pairs);
    bool ok = true;
    for (size_t i = 0; i < count; i++) {
        if (diff->printed++ && !diff->json)
            putchar('\n');
        if (pairs[i].before && pairs[i].after)
            ok &= compare(diff, pairs[i].before, pairs[i].after);
        else
            ok &= compare_alone(diff, pairs[i].before, pairs[i].after);
    }
    return ok;
}

static bool compare_sets(struct diff *diff, const struct view_set *before,
                         const struct view_set *after)
{
    if (!before->bundle && !after->bundle)
        return compare_pairs(diff, before, after);
    json_t *object = emit_object();
    diff->parts = emit_object();
    emit_set(object, "parts", diff->parts);
    bool ok = compare_pairs(diff, before, after);
    /* As with two images, nothing is printed of what could not be compared. */
    if (diff->json && json_object_size(diff->parts) == diff->printed)
        emit_print(object);
    else
        json_decref(object);
    return ok;
}

enum cli_exit cmd_diff(struct cli *cli, const struct cli_args *args)
{
    struct diff diff = {.cli = cli, .json = args->values[DIFF_JSON]};
    struct view_set before, after;
    const char *target = args->values[DIFF_TARGET];
    if (!parse_limits(cli, args->values[DIFF_FAIL_ON], &diff.limits))
        return CLI_USAGE;
    if (!view_set_open(cli, args->words[0], target, &before))
        return CLI_FAILED;
    bool ok = view_set_open(cli, args->words[1], target, &after);
    if (ok) {
        ok = compare_sets(&diff, &before, &after);
        view_set_close(&after);
    }
    view_set_close(&before);
    return ok ? CLI_DONE : CLI_FAILED;
}
