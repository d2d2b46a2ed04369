#include "compile/ptxas_log.h"

#include <stdbool.h>
#include <string.h>

struct line {
    const char *at, *end;
};

static bool skip(struct line *line, const char *text)
{
    size_t length = strlen(text);
    if ((size_t)(line->end - line->at) < length || memcmp(line->at, text, length) != 0)
        return false;
    line->at += length;
    return true;
}

static void skip_spaces(struct line *line)
{
    while (line->at < line->end && *line->at == ' ')
        line->at++;
}

static bool number(struct line *line, uint32_t *out)
{
    const char *start = line->at;
    uint32_t value = 0;
    for (; line->at < line->end && *line->at >= '0' && *line->at <= '9'; line->at++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint32_t)(*line->at - '0'), &value))
            return false;
    *out = value;
    return line->at > start;
}

static uint32_t sum(uint32_t a, uint32_t b)
{
    uint32_t total;
    return __builtin_add_overflow(a, b, &total) ? UINT32_MAX : total;
}

struct parse {
    struct arena *arena;
    struct ptxas_entry *entries;
    size_t count, cap;
    bool own;               /* the next properties are the entry's own */
    uint32_t stores, loads; /* of functions before any entry: charged to each */
};

static void start_entry(struct parse *parse, const char *name, size_t size)
{
    if (parse->count == parse->cap) {
        size_t cap = parse->cap ? parse->cap * 2 : 8;
        struct ptxas_entry *more = arena_alloc(parse->arena, cap, sizeof *more);
        if (parse->count)
            memcpy(more, parse->entries, parse->count * sizeof *more);
        parse->entries = more;
        parse->cap = cap;
    }
    parse->entries[parse->count++] =
        (struct ptxas_entry){.name = arena_strndup(parse->arena, name, size)};
}

/* "Compiling entry function 'NAME' for 'sm_90a'" */
static bool take_entry(struct parse *parse, struct line line)
{
    if (!skip(&line, "Compiling entry function '"))
        return false;
    static const char tail[] = "' for '";
    const char *end = memmem(line.at, (size_t)(line.end - line.at), tail, sizeof tail - 1);
    if (!end || end == line.at)
        return false;
    start_entry(parse, line.at, (size_t)(end - line.at));
    return true;
}

/* "Function properties for NAME": the entry's own, or those of a function compiled with it. */
static bool take_properties_of(struct parse *parse, struct line line)
{
    if (!skip(&line, "Function properties for ") || line.at == line.end)
        return false;
    size_t size = (size_t)(line.end - line.at);
    const char *name = parse->count ? parse->entries[parse->count - 1].name : "";
    parse->own = strlen(name) == size && memcmp(name, line.at, size) == 0;
    return true;
}

/* "288 bytes stack frame, 28 bytes spill stores, 28 bytes spill loads" */
static bool take_spills(struct parse *parse, struct line line)
{
    uint32_t stack, stores, loads;
    if (!number(&line, &stack) || !skip(&line, " bytes stack frame, ") || !number(&line, &stores) ||
        !skip(&line, " bytes spill stores, ") || !number(&line, &loads) ||
        !skip(&line, " bytes spill loads"))
        return false;
    if (!parse->count) {
        parse->stores = sum(parse->stores, stores);
        parse->loads = sum(parse->loads, loads);
        return true;
    }
    struct ptxas_entry *entry = &parse->entries[parse->count - 1];
    entry->spill_store_bytes = sum(entry->spill_store_bytes, stores);
    entry->spill_load_bytes = sum(entry->spill_load_bytes, loads);
    if (parse->own)
        entry->stack_bytes = stack;
    return true;
}

/* "Used 128 registers, used 1 barriers, 288 bytes cumulative stack size, 512 bytes smem" */
static bool take_used(struct parse *parse, struct line line)
{
    uint32_t value;
    if (!skip(&line, "Used ") || !number(&line, &value) || !skip(&line, " registers"))
        return false;
    struct ptxas_entry none = {0};
    struct ptxas_entry *entry = parse->count ? &parse->entries[parse->count - 1] : &none;
    entry->registers = value;
    while (skip(&line, ", ")) {
        skip(&line, "used ");
        if (!number(&line, &value))
            break;
        if (skip(&line, " barriers"))
            entry->barriers = value;
        else if (skip(&line, " bytes smem"))
            entry->smem_bytes = value;
        else if (skip(&line, " bytes cumulative stack size"))
            entry->stack_bytes = value;
        while (line.at < line.end && *line.at != ',')
            line.at++;
    }
    return true;
}

/* Lines of -v that say nothing we keep. */
static bool is_noise(struct line line)
{
    uint32_t value;
    struct line copy = line;
    if (number(&copy, &value) && skip(&copy, " bytes gmem"))
        return true;
    copy = line;
    return skip(&copy, "Compile time = ") || skip(&copy, "Overriding maximum register limit ") ||
           skip(&copy, "Overriding global maxrregcount ");
}

/* Whether the line is one of ptxas's resource lines, which it then takes. */
static bool take_line(struct parse *parse, struct line line)
{
    if (skip(&line, "ptxas info")) {
        skip_spaces(&line);
        if (!skip(&line, ":"))
            return false;
        skip_spaces(&line);
        return take_entry(parse, line) || take_properties_of(parse, line) ||
               take_used(parse, line) || is_noise(line);
    }
    /* A line that continues the one before: "ptxas         .     8 bytes stack frame, ...". */
    if (skip(&line, "ptxas")) {
        skip_spaces(&line);
        if (!skip(&line, "."))
            return false;
    }
    skip_spaces(&line);
    return take_spills(parse, line);
}

void ptxas_log_read(const char *log, struct arena *arena, struct ptxas_log *out_log,
                    struct str *out_rest)
{
    struct parse parse = {.arena = arena};
    while (*log) {
        const char *end = strchrnul(log, '\n'), *next = *end ? end + 1 : end;
        struct line line = {log, end};
        if (line.end > line.at && line.end[-1] == '\r')
            line.end--;
        if (!take_line(&parse, line))
            str_add(out_rest, log, (size_t)(next - log));
        log = next;
    }
    for (size_t i = 0; i < parse.count; i++) {
        struct ptxas_entry *entry = &parse.entries[i];
        entry->spill_store_bytes = sum(entry->spill_store_bytes, parse.stores);
        entry->spill_load_bytes = sum(entry->spill_load_bytes, parse.loads);
    }
    *out_log = (struct ptxas_log){.entries = parse.entries, .count = parse.count};
}
