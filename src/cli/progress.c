#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/term.h"
#include "cli/machine.h"

bool progress_parse(const char *text, enum progress_mode *out_mode)
{
    *out_mode = term_live(stderr) ? PROGRESS_LIVE : PROGRESS_PLAIN;
    if (!text || strcmp(text, "auto") == 0)
        return true;
    *out_mode = strcmp(text, "plain") == 0 ? PROGRESS_PLAIN : PROGRESS_NONE;
    return *out_mode == PROGRESS_PLAIN || strcmp(text, "none") == 0;
}

static double expected(const struct progress *progress, size_t unit)
{
    double seconds = progress->units[unit].expected_seconds;
    return seconds > 0 ? seconds : progress->typical;
}

static void sum_work(struct progress *progress)
{
    size_t known = 0;
    double sum = 0;
    for (size_t i = 0; i < progress->total; i++) {
        known += progress->units[i].expected_seconds > 0;
        sum += expected(progress, i);
    }
    progress->typical = known ? sum / (double)known : 1;
    progress->work = 0;
    for (size_t i = 0; i < progress->total; i++)
        progress->work += expected(progress, i);
    progress->left = progress->work;
}

void progress_start(struct progress *progress, struct cli *cli, enum progress_mode mode,
                    const struct compile_unit *units, const struct compile_result *results,
                    size_t total)
{
    *progress = (struct progress){
        .cli = cli,
        .mode = mode,
        .units = units,
        .results = results,
        .total = total,
        .start = machine_now(),
        .running = mem_alloc(total, sizeof *progress->running),
    };
    sum_work(progress);
}

void progress_line(const struct progress *progress, double now, unsigned columns, struct str *out)
{
    double elapsed = now - progress->start;
    struct str line = {0};
    str_addf(&line, "[%zu/%zu] %.0f s", progress->done, progress->total, elapsed);
    if (progress->done && elapsed >= 1)
        str_addf(&line, ", about %.0f s left",
                 elapsed / (progress->work - progress->left) * progress->left);
    for (size_t i = 0; i < progress->running_count; i++)
        str_addf(&line, "%s%s", i ? ", " : ": ", progress->units[progress->running[i]].name);
    struct str shown = {0};
    str_add_printable(&shown, str_text(&line), line.len);
    size_t at = 0;
    for (unsigned column = 1; at < shown.len && column < columns; column++)
        at += str_utf8(shown.data + at, shown.len - at);
    str_add(out, str_text(&shown), at);
    str_free(&shown);
    str_free(&line);
}

static void wipe(const struct progress *progress)
{
    if (progress->mode == PROGRESS_LIVE)
        fputs("\r\033[K", stderr);
}

static void draw(const struct progress *progress)
{
    if (progress->mode != PROGRESS_LIVE)
        return;
    struct str line = {0};
    progress_line(progress, machine_now(), term_columns(stderr), &line);
    fprintf(stderr, "\r\033[K%s", str_text(&line));
    fflush(stderr);
    str_free(&line);
}

static void stopped_running(struct progress *progress, size_t unit)
{
    size_t kept = 0;
    for (size_t i = 0; i < progress->running_count; i++)
        if (progress->running[i] != unit)
            progress->running[kept++] = progress->running[i];
    progress->running_count = kept;
}

static void finished(struct progress *progress, size_t unit)
{
    const struct compile_result *result = &progress->results[unit];
    const char *name = progress->units[unit].name;
    stopped_running(progress, unit);
    progress->done++;
    progress->left -= expected(progress, unit);
    wipe(progress);
    cli_flush(progress->cli);
    if (progress->mode == PROGRESS_PLAIN) {
        struct str line = {0};
        str_add_printable(&line, name, strlen(name));
        fprintf(stderr, "[%zu/%zu] %s %s%.1f s\n", progress->done, progress->total, str_text(&line),
                result->status == COMPILE_OK ? "" : "failed after ", result->seconds);
        str_free(&line);
    }
}

void progress_event(void *user, enum compile_event event, size_t unit)
{
    struct progress *progress = user;
    if (event == COMPILE_STARTED && progress->running_count < progress->total)
        progress->running[progress->running_count++] = unit;
    if (event == COMPILE_FINISHED)
        finished(progress, unit);
    draw(progress);
}

void progress_end(struct progress *progress)
{
    wipe(progress);
    free(progress->running);
    progress->running = NULL;
}
