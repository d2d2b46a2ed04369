#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/jobserver.h"
#include "base/str.h"
#include "cli/build.h"
#include "cli/outputs.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "compile/recall.h"
#include "compile/schedule.h"

enum {
    JOBS_MAX = 1024,
    TIMEOUT_DEFAULT = 600,
    TIMEOUT_MAX = 7 * 24 * 3600,
};

struct options {
    const char *file, *out, *cuda, *cache, *depfile, *commands, *timings;
    unsigned jobs, timeout; /* jobs 0: one per core */
    bool keep_going, verbose, quiet, stamp, no_cache, dry_run;
    const char *carried; /* the stamp that the image carries; NULL: none, or one made by `stamp` */
    enum progress_mode progress;
};

struct run {
    struct cli *cli;
    struct options options;
    struct build_target *builds;
    size_t build_count;
    struct compile_unit *units; /* of all targets together */
    struct compile_result *results;
    size_t unit_count;
    size_t *todo, todo_count; /* units that the cache does not have; these are they: */
    struct compile_unit *todo_units;
    struct jobserver jobs;
    struct cuda cuda;
    struct cache cache;
    struct recall recall;
    struct build_record record;
    size_t described; /* items of its watch that the descriptions made */
    unsigned workers;
    uint64_t memory;
    double start;
};

/* ---- Signals ----------------------------------------------------------------------------------
 */

static volatile int stop_signal;

static void on_signal(int signal)
{
    stop_signal = signal;
}

bool build_stopped(void)
{
    return stop_signal != 0;
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal}, old;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        /* One that was ignored when we started, as under nohup, stays ignored. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

/* Ends as a process does that never caught the signal, so that shells and make see it. */
static void die_by(int number)
{
    fprintf(stderr, "kpack: stopped by signal %d (%s)\n", number, strsignal(number));
    fflush(NULL);
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- Options ----------------------------------------------------------------------------------
 */

static bool parse_number(struct cli *cli, const char *option, const char *text, unsigned most,
                         unsigned *out_value)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value < 1 || value > most) {
        cli_usage(cli, "option '%s' is '%s', expected a whole number from 1 to %u", option, text,
                  most);
        return false;
    }
    *out_value = (unsigned)value;
    return true;
}

static bool parse_options(struct run *run, const struct cli_args *args)
{
    struct options *options = &run->options;
    const char *const *values = args->values;
    *options = (struct options){
        .file = values[BUILD_FILE],
        .out = values[BUILD_OUT],
        .cuda = values[BUILD_CUDA],
        .timeout = TIMEOUT_DEFAULT,
        .keep_going = values[BUILD_KEEP_GOING],
        .verbose = values[BUILD_VERBOSE],
        .quiet = values[BUILD_QUIET],
        .stamp = values[BUILD_STAMP],
        .cache = values[BUILD_CACHE],
        .no_cache = values[BUILD_NO_CACHE],
        .dry_run = values[BUILD_DRY_RUN],
        .depfile = values[BUILD_DEPFILE],
        .commands = values[BUILD_COMMANDS],
        .timings = values[BUILD_TIMINGS],
    };
    if (values[BUILD_JOBS] &&
        !parse_number(run->cli, "-j", values[BUILD_JOBS], JOBS_MAX, &options->jobs))
        return false;
    if (values[BUILD_UNIT_TIMEOUT] &&
        !parse_number(run->cli, "--unit-timeout", values[BUILD_UNIT_TIMEOUT], TIMEOUT_MAX,
                      &options->timeout))
        return false;
    if (!progress_parse(values[BUILD_PROGRESS], &options->progress)) {
        cli_usage(run->cli, "option '--progress' is '%s', expected auto, plain or none",
                  values[BUILD_PROGRESS]);
        return false;
    }
    if (options->quiet)
        options->progress = PROGRESS_NONE;
    if (options->file && args->word_count > 1) {
        cli_usage(run->cli, "option '-o' names one image, but there are %zu targets: use '--out'",
                  args->word_count);
        return false;
    }
    if (options->file && options->out) {
        cli_usage(run->cli, "options '-o' and '--out' exclude each other");
        return false;
    }
    if (options->cache && options->no_cache) {
        cli_usage(run->cli, "options '--cache' and '--no-cache' exclude each other");
        return false;
    }
    if (!machine_memory(&run->memory)) {
        cli_usage(run->cli, "KPACK_MEM is '%s', expected a size such as 8G, 512M or 1073741824",
                  getenv("KPACK_MEM"));
        return false;
    }
    return true;
}

/* ---- Targets and paths ------------------------------------------------------------------------
 */

/* The path without the current folder's part. */
static const char *shown_path(struct cli *cli, const char *path)
{
    char *here = getcwd(NULL, 0);
    size_t length = here ? strlen(here) : 0;
    bool under = length > 1 && strncmp(path, here, length) == 0 && path[length] == '/';
    free(here);
    return report_name(&cli->arena, under ? path + length + 1 : path);
}

/* Whether a file may be made in the folder, found out before minutes of compiling. */
static bool check_folder(struct cli *cli, const char *folder)
{
    if (!file_is_dir(folder))
        return diag_error(&cli->diags, "cannot write into '%s': %s", folder,
                          access(folder, F_OK) == 0 ? "it is no folder"
                          : errno == ENOENT
                              ? "it does not exist; make it, or use '--out', which does"
                              : strerror(errno));
    if (access(folder, W_OK | X_OK) != 0)
        return diag_error(&cli->diags, "cannot write into '%s': %s", folder, strerror(errno));
    return true;
}

static bool choose_path(struct run *run, struct build_target *build)
{
    struct arena *arena = &run->cli->arena;
    const struct options *options = &run->options;
    const char *folder;
    if (options->file) {
        build->path = options->file;
        folder = path_dir(arena, options->file);
    } else {
        folder = options->out ? options->out : path_join(arena, build->target->root, "out");
        build->path = path_join(arena, folder, arena_printf(arena, "%s.kpk", build->target->name));
        if (!file_make_dirs(folder, &run->cli->diags))
            return false;
    }
    build->shown = shown_path(run->cli, build->path);
    if (access(build->path, F_OK) == 0 && !file_is_regular(build->path))
        return diag_error(&run->cli->diags, "cannot write '%s': it is %s", build->path,
                          file_is_dir(build->path) ? "a folder" : "no regular file");
    struct diags *diags = &run->cli->diags;
    return check_folder(run->cli, folder) && output_replaces(build->path, &output_image, diags) &&
           output_replaces(build_sidecar_path(arena, build), &output_sidecar, diags);
}

static bool paths_differ(struct run *run, const struct build_target *build)
{
    for (const struct build_target *other = run->builds; other < build; other++)
        if (other->path && strcmp(other->path, build->path) == 0)
            return diag_error(&run->cli->diags, "'%s' and '%s' would both write '%s'",
                              other->target->path, build->target->path, build->shown);
    return true;
}

/* All that the build writes, against one another. */
static bool check_outputs(struct run *run)
{
    struct arena *arena = &run->cli->arena;
    const struct options *options = &run->options;
    const char *const extra[] = {options->depfile, options->commands, options->timings};
    const char **paths = arena_alloc(arena, 2 * run->build_count + 3, sizeof *paths);
    size_t count = 0;
    for (size_t i = 0; i < 3; i++)
        if (extra[i])
            paths[count++] = extra[i];
    for (size_t i = 0; i < run->build_count && count; i++) {
        if (options->dry_run)
            break;
        paths[count++] = run->builds[i].path;
        paths[count++] = build_sidecar_path(arena, &run->builds[i]);
    }
    struct diags *diags = &run->cli->diags;
    return outputs_apart(paths, count, diags) &&
           (!options->commands || output_replaces(options->commands, &output_json, diags)) &&
           (!options->timings || output_replaces(options->timings, &output_trace, diags));
}

/* Loads every target; with -k those that load go on. */
static bool load_targets(struct run *run, const struct cli_args *args)
{
    struct cli *cli = run->cli;
    run->builds = arena_alloc(&cli->arena, args->word_count, sizeof *run->builds);
    for (size_t i = 0; i < args->word_count; i++) {
        struct build_target *build = &run->builds[run->build_count];
        watch_start(&run->record.watch);
        build->target = target_load(args->words[i], &cli->arena, &cli->diags);
        watch_stop();
        if (!build->target)
            continue;
        build->ok = run->options.dry_run || (choose_path(run, build) && paths_differ(run, build));
        run->build_count += build->ok;
    }
    run->described = run->record.watch.count;
    bool apart = check_outputs(run);
    cli_flush(cli);
    return apart && run->build_count && (run->options.keep_going || !cli->diags.errors);
}

static bool make_units(struct run *run)
{
    struct arena *arena = &run->cli->arena;
    struct build_units *lists = arena_alloc(arena, run->build_count, sizeof *lists);
    bool ok = true;
    for (size_t i = 0; i < run->build_count; i++) {
        struct build_target *build = &run->builds[i];
        ok &= build_units(build->target, &run->cuda, arena, &lists[i], &run->cli->diags);
        build->unit_count = lists[i].count;
        run->unit_count += build->unit_count;
    }
    run->units = arena_alloc(arena, run->unit_count, sizeof *run->units);
    run->results = arena_alloc(arena, run->unit_count, sizeof *run->results);
    size_t base = 0;
    for (size_t i = 0; i < run->build_count; i++) {
        struct build_target *build = &run->builds[i];
        const size_t *first = lists[i].first;
        memcpy(run->units + base, lists[i].items, build->unit_count * sizeof *run->units);
        build->module_count = build->target->module_count;
        build->modules = arena_alloc(arena, build->module_count, sizeof *build->modules);
        for (size_t j = 0; j < build->module_count; j++)
            build->modules[j] = (struct build_module){
                .declared = &build->target->modules[j],
                .unit = &run->units[base + first[j]],
                .result = &run->results[base + first[j]],
                .unit_count = first[j + 1] - first[j],
            };
        base += build->unit_count;
    }
    cli_flush(run->cli);
    return ok;
}

/* ---- Compiling --------------------------------------------------------------------------------
 */

static void open_cache(struct run *run, const struct cli_args *args)
{
    struct cli *cli = run->cli;
    const struct options *options = &run->options;
    const char *folder = options->no_cache ? NULL : build_cache_folder(cli, options->cache);
    if (folder)
        cache_open(&run->cache, folder, &cli->diags);
    cli_flush(cli);
    /* With -v a build says what it does, and a stamp is of the present commit. */
    bool recorded = run->cache.folder && !options->verbose && !options->stamp && !options->timings;
    build_record_start(&run->record, recorded ? &run->cache : NULL, args);
}

static bool find_cuda(struct run *run)
{
    struct cli *cli = run->cli;
    watch_start(&run->record.watch);
    bool ok = cuda_find(run->options.cuda, run->builds[0].target->root, &cli->arena, &run->cuda,
                        &cli->diags) &&
              recall_open(&run->recall, &run->cache, &run->cuda, &cli->diags);
    watch_stop();
    return ok;
}

/* Takes what the cache has; the rest is to do. */
static void look_up(struct run *run)
{
    struct cli *cli = run->cli;
    run->todo = arena_alloc(&cli->arena, run->unit_count, sizeof *run->todo);
    run->todo_units = arena_alloc(&cli->arena, run->unit_count, sizeof *run->todo_units);
    for (size_t i = 0; i < run->unit_count && !build_stopped(); i++) {
        if (recall_find(&run->recall, &run->units[i], &cli->arena, &run->results[i], &cli->diags))
            continue;
        recall_expect(&run->recall, &run->units[i]);
        run->todo_units[run->todo_count] = run->units[i];
        run->todo[run->todo_count++] = i;
    }
    cli_flush(cli);
}

static void choose_workers(struct run *run)
{
    unsigned most = run->options.jobs ? run->options.jobs : machine_cores();
    run->workers = (unsigned)schedule_width(run->todo_units, run->todo_count, run->memory, most);
}

struct compiling {
    struct run *run;
    struct progress progress;
    const struct compile_result *results;
};

/* A unit is kept as soon as it is done, so that a build that is stopped has not run for nothing. */
static void compile_event(void *user, enum compile_event event, size_t unit)
{
    struct compiling *compiling = user;
    struct run *run = compiling->run;
    if (event == COMPILE_FINISHED && compiling->results[unit].status == COMPILE_OK)
        recall_keep(&run->recall, &run->todo_units[unit], &compiling->results[unit],
                    &run->cli->diags);
    progress_event(&compiling->progress, event, unit);
}

/* Once, however many units it holds of. */
static void say_scanned(const struct run *run, const struct compile_result *results)
{
    for (size_t i = 0; i < run->todo_count && run->options.verbose; i++)
        if (results[i].inputs != COMPILE_SEEN) {
            fprintf(stderr,
                    "kpack: what this NVRTC reads of '%s' cannot be watched: its headers are what "
                    "its text "
                    "may include, rather too many than too few\n",
                    report_name(&run->cli->arena, run->todo_units[i].name));
            return;
        }
}

static void compile(struct run *run)
{
    struct arena *arena = &run->cli->arena;
    const struct compile_unit *units = run->todo_units;
    struct compile_result *results = arena_alloc(arena, run->todo_count, sizeof *results);
    struct compiling compiling = {.run = run, .results = results};
    progress_start(&compiling.progress, run->cli, run->options.progress, units, results,
                   run->todo_count);
    struct compile_options options = {
        .cuda = &run->cuda,
        .workers = run->workers,
        .unit_timeout = run->options.timeout,
        .worker_memory = run->memory,
        .memory = run->memory,
        .jobs = run->jobs.in >= 0 ? &run->jobs : NULL,
        .keep_going = run->options.keep_going,
        .event = compile_event,
        .event_user = &compiling,
        .stop = &stop_signal,
    };
    compile_run(units, run->todo_count, &options, arena, results, &run->cli->diags);
    progress_end(&compiling.progress);
    for (size_t i = 0; i < run->todo_count; i++)
        run->results[run->todo[i]] = results[i];
    say_scanned(run, results);
    if (run->options.timings)
        build_timings(run->cli, run->options.timings, units, results, run->todo_count);
    if (!build_stopped()) /* what an interrupted worker says is no news */
        cli_flush(run->cli);
}

/* Reads and checks what was compiled; errors of one target do not hide those of the next. */
static void check(struct run *run)
{
    for (size_t i = 0; i < run->build_count; i++) {
        struct build_target *build = &run->builds[i];
        for (size_t j = 0; j < build->module_count; j++)
            for (size_t k = 0; k < build->modules[j].unit_count; k++)
                build->ok &= build->modules[j].result[k].status == COMPILE_OK;
        if (build->ok || run->options.keep_going)
            build->ok &= build_check(run->cli, build, run->options.verbose);
    }
    cli_flush(run->cli);
}

static void publish(struct run *run)
{
    for (size_t i = 0; i < run->build_count && !build_stopped(); i++) {
        struct build_target *build = &run->builds[i];
        if (!build->ok)
            continue;
        build->ok = build_publish(run->cli, build, run->options.stamp, run->options.carried);
        cli_flush(run->cli);
        if (build->ok && !run->options.quiet)
            printf("%s%s\n", build_line(run->cli, build), build->written ? "" : ", unchanged");
    }
}

static void say_tools(const struct run *run, bool reached)
{
    const struct cuda *cuda = &run->cuda;
    if (!run->options.verbose)
        return;
    fprintf(stderr, "kpack: NVRTC %s, found by %s; %u worker%s\n",
            report_name(&run->cli->arena, cuda->nvrtc), cuda->found_by, run->workers,
            run->workers == 1 ? "" : "s");
    if (!reached)
        fprintf(stderr,
                "kpack: make's jobserver cannot be reached: begin the recipe's line with '+'\n");
}

static void summary(const struct run *run)
{
    size_t done = 0;
    for (size_t i = 0; i < run->unit_count; i++)
        done += run->results[i].status == COMPILE_OK;
    build_summary(done, run->unit_count, run->unit_count - run->todo_count,
                  machine_now() - run->start, run->todo_count ? run->workers : 0);
}

/* So that the next build may see at once that nothing has changed. */
static void keep_record(struct run *run, const struct cli_args *args)
{
    if (!run->record.cache || run->cli->diags.errors)
        return;
    struct build_record *record = &run->record;
    record->entries =
        arena_alloc(&run->cli->arena, run->unit_count * RECALL_ENTRIES, sizeof *record->entries);
    for (size_t i = 0; i < run->unit_count; i++) {
        if (!recall_watch(&run->recall, &run->units[i], &run->results[i], &record->watch))
            return;
        recall_entries(&run->recall, &run->units[i], &run->results[i],
                       record->entries + record->entry_count);
        record->entry_count += RECALL_ENTRIES;
    }
    build_record_keep(&run->record, run->cli, args, run->builds, run->build_count);
}

static enum cli_exit dry_run(struct run *run)
{
    struct key_field old, new;
    struct cli *cli = run->cli;
    for (size_t i = 0; i < run->unit_count; i++)
        if (recall_explain(&run->recall, &run->units[i], &cli->arena, &old, &new) != RECALL_HIT)
            printf("%s\n", report_name(&cli->arena, run->units[i].name));
    return cli->diags.errors ? CLI_FAILED : CLI_DONE;
}

/* What make, ninja and editors asked for, once the images are there. */
static void write_depfile(struct run *run)
{
    if (run->options.depfile && !run->cli->diags.errors)
        build_depfile(run->cli, run->options.depfile, run->builds, run->build_count, &run->cuda,
                      &run->record.watch, run->described);
}

static enum cli_exit build_all(struct run *run, const struct cli_args *args)
{
    struct cli *cli = run->cli;
    if (!find_cuda(run) || !make_units(run))
        return CLI_FAILED;
    if (run->options.dry_run)
        return dry_run(run);
    if (run->options.commands &&
        !build_commands(cli, run->options.commands, run->units, run->unit_count, &run->cuda))
        return CLI_FAILED;
    look_up(run);
    choose_workers(run);
    say_tools(run, jobserver_open(&run->jobs, getenv("MAKEFLAGS")));
    if (!build_stopped())
        compile(run);
    if (!build_stopped())
        check(run);
    if (!build_stopped() && (run->options.keep_going || !cli->diags.errors)) {
        for (size_t i = 0; i < run->build_count && run->record.cache; i++)
            build_record_git(&run->record, &run->builds[i]);
        publish(run);
    }
    if (build_stopped())
        return CLI_FAILED;
    write_depfile(run);
    keep_record(run, args);
    if (!run->options.quiet)
        summary(run);
    return cli->diags.errors ? CLI_FAILED : CLI_DONE;
}

enum cli_exit build_run(struct cli *cli, const struct cli_args *args, const char *stamp)
{
    struct run run = {.cli = cli, .start = machine_now(), .jobs = {.in = -1, .out = -1}};
    if (!parse_options(&run, args))
        return CLI_USAGE;
    run.options.carried = stamp;
    catch_signals();
    open_cache(&run, args);
    enum cli_exit exit = CLI_DONE;
    if (!build_record_holds(&run.record, cli, run.options.dry_run, run.options.quiet))
        exit = load_targets(&run, args) ? build_all(&run, args) : CLI_FAILED;
    jobserver_close(&run.jobs);
    recall_close(&run.recall);
    build_record_free(&run.record);
    cache_close(&run.cache);
    return exit;
}

void build_end(void)
{
    if (build_stopped())
        die_by(stop_signal);
}

enum cli_exit cmd_build(struct cli *cli, const struct cli_args *args)
{
    enum cli_exit exit = build_run(cli, args, NULL);
    build_end();
    return exit;
}
