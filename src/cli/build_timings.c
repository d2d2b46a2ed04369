#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/build.h"

static json_t *lane_name(unsigned worker)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "name", "thread_name", "ph", "M", "pid", 1,
                     "tid", (int)worker, "args", "name", json_sprintf("worker %u", worker));
}

static json_t *unit_event(const struct compile_unit *unit, const struct compile_result *result)
{
    static const char *const words[] = {"not run", "compiled", "failed", "lost"};
    struct str name = {0};
    str_add_printable(&name, unit->name, strlen(unit->name));
    json_t *event = json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:{s:f, s:I}}", "name", str_text(&name), "cat",
        words[result->status], "ph", "X", "pid", 1, "tid", (int)result->worker, "ts",
        (json_int_t)(result->begin * 1e6), "dur", (json_int_t)((result->end - result->begin) * 1e6),
        "args", "seconds", result->seconds, "peak_bytes", (json_int_t)result->peak_bytes);
    str_free(&name);
    return event;
}

bool build_timings(struct cli *cli, const char *path, const struct compile_unit *units,
                   const struct compile_result *results, size_t count)
{
    json_t *events = json_array();
    unsigned workers = 0;
    for (size_t i = 0; i < count; i++)
        if (results[i].status != COMPILE_PENDING && results[i].worker >= workers)
            workers = results[i].worker + 1;
    for (unsigned i = 0; i < workers; i++)
        json_array_append_new(events, lane_name(i));
    for (size_t i = 0; i < count; i++)
        if (results[i].status != COMPILE_PENDING)
            json_array_append_new(events, unit_event(&units[i], &results[i]));
    json_t *trace = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
    char *text = json_dumps(trace, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    if (!text)
        BUG("a value that JSON cannot hold");
    bool ok = file_publish(path, text, strlen(text), &cli->diags);
    free(text);
    json_decref(trace);
    return ok;
}
