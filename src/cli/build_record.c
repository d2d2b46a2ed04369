#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/str.h"
#include "cache/cache_key.h"
#include "cache/record.h"
#include "cli/build.h"
#include "cli/git.h"
#include "cli/machine.h"
#include "cli/report.h"

/* Options that change what is written or where. */
static const size_t deciding[] = {BUILD_FILE,  BUILD_OUT,     BUILD_CUDA,
                                  BUILD_STAMP, BUILD_DEPFILE, BUILD_COMMANDS};

void build_record_start(struct build_record *record, struct cache *cache,
                        const struct cli_args *args)
{
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    struct str key = {0};
    struct arena arena = {0};
    struct stat info;
    char *here = getcwd(NULL, 0);
    *record = (struct build_record){.cache = here ? cache : NULL};
    key_add(&key, "build with entries", KPACK_VERSION, here ? here : "");
    free(here);
    for (size_t i = 0; i < sizeof deciding / sizeof *deciding; i++) {
        const char *value = args->values[deciding[i]];
        key_add(&key, "option", value ? "given" : "", value ? value : "");
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        key_add(&key, "variable", variables[i], value ? value : "");
    }
    for (size_t i = 0; i < args->word_count; i++)
        key_add(&key, "target", "", args->words[i]);
    record->key = key_digest(&key);
    str_free(&key);
    watch_init(&record->watch);
    const char *self = proc_self(&arena);
    watch_start(&record->watch);
    if (stat(self, &info) == 0)
        watch_note_stamp(self, &info);
    watch_stop();
    arena_free(&arena);
}

void build_record_free(struct build_record *record)
{
    watch_free(&record->watch);
}

void build_record_git(struct build_record *record, const struct build_target *build)
{
    size_t count;
    const char **files = git_files(build->target->root, &record->watch.arena, &count);
    for (size_t i = 0; i < count; i++)
        watch_path(&record->watch, files[i]);
}

/* ---- What the build said ----------------------------------------------------------------------
 */

const char *build_line(struct cli *cli, const struct build_target *build)
{
    return arena_printf(&cli->arena, "%s: %zu unit%s, %s raw, %s packed", build->shown,
                        build->unit_count, build->unit_count == 1 ? "" : "s",
                        report_size(&cli->arena, build->stats.raw_bytes),
                        report_size(&cli->arena, build->stats.file_bytes));
}

void build_summary(size_t done, size_t units, size_t hits, double seconds, unsigned workers)
{
    printf("%zu of %zu unit%s in %.1f s", done, units, units == 1 ? "" : "s", seconds);
    if (workers)
        printf(" with %u worker%s", workers, workers == 1 ? "" : "s");
    if (hits)
        printf(", %zu from the cache", hits);
    printf("\n");
}

static void add_said(struct cli *cli, const struct build_target *builds, size_t count,
                     struct str *out)
{
    struct str number = {0};
    size_t units = 0;
    for (size_t i = 0; i < cli->diags.count; i++) {
        const struct diag *diag = &cli->diags.items[i];
        str_clear(&number);
        str_addf(&number, "%d %" PRIu32 " %" PRIu32 " ", diag->level, diag->loc.line,
                 diag->loc.col);
        str_adds(&number, diag->message);
        key_add(out, "message", diag->loc.file ? diag->loc.file : "", number.data);
    }
    for (size_t i = 0; i < count; i++) {
        key_add(out, "line", "", build_line(cli, &builds[i]));
        units += builds[i].unit_count;
    }
    str_clear(&number);
    str_addf(&number, "%zu", units);
    key_add(out, "units", "", number.data);
    str_free(&number);
}

static void say_message(struct cli *cli, const struct key_field *field)
{
    struct loc loc = {.file = field->name[0] ? field->name : NULL};
    int level = 0, used = 0;
    if (sscanf(field->value, "%d %" SCNu32 " %" SCNu32 " %n", &level, &loc.line, &loc.col, &used) ==
        3)
        diag_add_text(&cli->diags, level == DIAG_NOTE ? DIAG_NOTE : DIAG_WARNING, loc,
                      field->value + used);
}

static void say(struct cli *cli, const struct str *said, bool quiet)
{
    struct key_field field;
    for (size_t at = 0; key_next(said, &at, &field);)
        if (strcmp(field.type, "message") == 0)
            say_message(cli, &field);
    cli_flush(cli);
    for (size_t at = 0; !quiet && key_next(said, &at, &field);) {
        size_t units = strtoul(field.value, NULL, 10);
        if (strcmp(field.type, "line") == 0)
            printf("%s, unchanged\n", field.value);
        else if (strcmp(field.type, "units") == 0)
            build_summary(units, units, units, 0, 0);
    }
}

bool build_record_holds(struct build_record *record, struct cli *cli, bool silent, bool quiet)
{
    struct str said = {0};
    bool holds = record->cache && record_holds(record->cache, &record->key, &said);
    if (holds && !silent)
        say(cli, &said, quiet);
    str_free(&said);
    return holds;
}

void build_record_keep(struct build_record *record, struct cli *cli, const struct cli_args *args,
                       const struct build_target *builds, size_t count)
{
    struct str said = {0};
    if (!watch_settle(&record->watch))
        return;
    for (size_t i = 0; i < count; i++) {
        watch_written(&record->watch, builds[i].path, &builds[i].image_digest);
        watch_written(&record->watch, build_sidecar_path(&cli->arena, &builds[i]),
                      &builds[i].sidecar_digest);
    }
    const char *others[] = {args->values[BUILD_DEPFILE], args->values[BUILD_COMMANDS]};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i])
            watch_path(&record->watch, others[i]);
    add_said(cli, builds, count, &said);
    record_put(record->cache, &record->key, &record->watch, record->entries, record->entry_count,
               &said);
    str_free(&said);
}
