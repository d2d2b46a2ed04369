#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/build.h"
#include "cli/report.h"
#include "compile/recall.h"

static bool is(const struct key_field *field, const char *type)
{
    return field->type && strcmp(field->type, type) == 0;
}

/* Whether the value is a digest: the name holds a readable file. */
static bool is_file(const struct key_field *field)
{
    return strlen(field->value) == (size_t)2 * DIGEST_SIZE;
}

static void say_file(const struct key_field *old, const struct key_field *new, struct str *out)
{
    const char *what = is(new, "source") ? "source" : is(new, "header") ? "header" : "file";
    if (!is_file(new))
        str_addf(out, "%s '%s' is %s now", what, new->name,
                 strcmp(new->value, "nothing") == 0 ? "gone" : new->value);
    else if (is(old, "missing"))
        str_addf(out, "file '%s', looked for in vain before, is there now", new->name);
    else
        str_addf(out, "%s '%s' has changed", what, new->name);
}

static void say_value(const struct key_field *old, const struct key_field *new, struct str *out)
{
    const struct key_field *any = new->type ? new : old;
    const char *what = any->name[0] ? any->name : any->value;
    if (!old->type)
        str_addf(out, "%s '%s' is new", any->type, what);
    else if (!new->type)
        str_addf(out, "%s '%s' is gone", any->type, what);
    else if (new->name[0])
        str_addf(out, "%s '%s' is %s, was %s", any->type, what, new->value, old->value);
    else
        str_addf(out, "%s '%s' was '%s'", any->type, new->value, old->value);
}

static void say_difference(const struct key_field *old, const struct key_field *new,
                           struct str *out)
{
    if (is(new, "kpack"))
        str_adds(out, "it was compiled by a kpack that works another way");
    else if (is(new, "NVRTC"))
        str_adds(out, "it was compiled by another NVRTC");
    else if (is(new, "source") || is(new, "header") || is(new, "missing"))
        say_file(old, new, out);
    else
        say_value(old, new, out);
}

static void explain(struct cli *cli, struct recall *recall, const struct compile_unit *unit)
{
    struct key_field old, new;
    struct str text = {0};
    switch (recall_explain(recall, unit, &cli->arena, &old, &new)) {
    case RECALL_HIT:
        str_adds(&text, "hit");
        break;
    case RECALL_NEW:
        str_adds(&text, "no compile of it is known");
        break;
    case RECALL_LOST:
        str_adds(&text, "its result is no longer in the cache");
        break;
    case RECALL_CHANGED:
        say_difference(&old, &new, &text);
        break;
    }
    printf("%s: %s\n", report_name(&cli->arena, unit->name),
           report_name(&cli->arena, str_text(&text)));
    str_free(&text);
}

static bool find_module(struct cli *cli, const struct target *target, const char *name)
{
    const char **names = arena_alloc(&cli->arena, target->module_count, sizeof *names);
    for (size_t i = 0; i < target->module_count; i++) {
        names[i] = target->modules[i].name;
        if (strcmp(names[i], name) == 0)
            return true;
    }
    const char *nearest = str_nearest(name, names, target->module_count);
    return diag_error(&cli->diags, "target '%s' has no module '%s'%s%s%s", target->name, name,
                      nearest ? " (did you mean '" : "", nearest ? nearest : "",
                      nearest ? "'?)" : "");
}

enum cli_exit cmd_explain(struct cli *cli, const struct cli_args *args)
{
    const char *module = args->word_count > 1 ? args->words[1] : NULL;
    const char *folder = build_cache_folder(cli, args->values[EXPLAIN_CACHE]);
    struct target *target = target_load(args->words[0], &cli->arena, &cli->diags);
    struct cuda cuda;
    struct cache cache = {.folder = folder, .read_only = true};
    struct recall recall;
    if (!target || (module && !find_module(cli, target, module)) ||
        !cuda_find(args->values[EXPLAIN_CUDA], target->root, &cli->arena, &cuda, &cli->diags) ||
        !recall_open(&recall, &cache, &cuda, &cli->diags))
        return CLI_FAILED;
    struct build_units units;
    if (!build_units(target, &cuda, &cli->arena, &units, &cli->diags))
        return CLI_FAILED;
    for (size_t i = 0; i < target->module_count; i++)
        if (!module || strcmp(target->modules[i].name, module) == 0)
            for (size_t j = units.first[i]; j < units.first[i + 1]; j++)
                explain(cli, &recall, &units.items[j]);
    recall_close(&recall);
    return CLI_DONE;
}
