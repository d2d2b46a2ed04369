#include "compile/nvrtc_log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "compile/compile.h"

struct line {
    const char *at;
    size_t size;
};

static const struct {
    const char *word;
    enum diag_level level;
} severities[] = {
    {"error", DIAG_ERROR},
    {"catastrophic error", DIAG_ERROR},
    {"internal error", DIAG_ERROR},
    {"command-line error", DIAG_ERROR},
    {"warning", DIAG_WARNING},
    {"remark", DIAG_NOTE},
    {"note", DIAG_NOTE},
};

/* "error: ..." or "error #20-D: ..." at `at`; returns where the message starts, NULL when it is
 * something else. */
static const char *severity(const char *at, const char *end, enum diag_level *out_level)
{
    for (size_t i = 0; i < sizeof severities / sizeof *severities; i++) {
        size_t length = strlen(severities[i].word);
        if ((size_t)(end - at) <= length || memcmp(at, severities[i].word, length) != 0)
            continue;
        const char *colon = at + length;
        if (*colon == ' ' && colon + 1 < end && colon[1] == '#')
            while (colon < end && *colon != ':')
                colon++;
        if (colon >= end || *colon != ':')
            continue;
        *out_level = severities[i].level;
        colon++;
        while (colon < end && *colon == ' ')
            colon++;
        return colon;
    }
    return NULL;
}

struct item {
    enum diag_level level;
    const char *file; /* NULL: none */
    size_t file_size;
    uint32_t line, col;
    struct str text; /* the message, then what else belongs to it */
    struct line shown, caret;
};

/* "ptxas fatal   : MESSAGE" or "ptxas INPUT, line 27; error   : MESSAGE", the line being the PTX's.
 */
static bool parse_ptxas_head(const char *at, const char *end, struct item *out)
{
    static const struct {
        const char *word;
        enum diag_level level;
    } words[] = {{"fatal", DIAG_ERROR},
                 {"error", DIAG_ERROR},
                 {"warning", DIAG_WARNING},
                 {"info", DIAG_NOTE}};
    const char *semicolon = memmem(at, (size_t)(end - at), "; ", 2);
    const char *line = semicolon ? memmem(at, (size_t)(semicolon - at), ", line ", 7) : NULL;
    const char *word = line ? semicolon + 2 : at;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i].word);
        if ((size_t)(end - word) < length || memcmp(word, words[i].word, length) != 0)
            continue;
        const char *colon = word + length;
        while (colon < end && *colon == ' ')
            colon++;
        if (end - colon < 2 || colon[0] != ':' || colon[1] != ' ')
            continue;
        out->level = words[i].level;
        str_adds(&out->text, "ptxas: ");
        str_add(&out->text, colon + 2, (size_t)(end - colon - 2));
        if (line)
            str_addf(&out->text, " (line %.*s of the PTX)", (int)(semicolon - line - 7), line + 7);
        return true;
    }
    return false;
}

/* A head without a place in a source: "nvrtc: error: MESSAGE", or ptxas's. */
static bool parse_plain_head(struct line line, struct item *out)
{
    static const char nvrtc[] = "nvrtc: ", ptxas[] = "ptxas ";
    const char *end = line.at + line.size;
    if (line.size > sizeof ptxas - 1 && memcmp(line.at, ptxas, sizeof ptxas - 1) == 0)
        return parse_ptxas_head(line.at + sizeof ptxas - 1, end, out);
    if (line.size <= sizeof nvrtc - 1 || memcmp(line.at, nvrtc, sizeof nvrtc - 1) != 0)
        return false;
    const char *message = severity(line.at + sizeof nvrtc - 1, end, &out->level);
    if (message)
        str_add(&out->text, message, (size_t)(end - message));
    return message != NULL;
}

/* "FILE(LINE): error: MESSAGE"; the file's name may hold anything. */
static bool parse_head(struct line line, struct item *out)
{
    const char *end = line.at + line.size;
    for (const char *open = line.at; (open = memchr(open, '(', (size_t)(end - open))); open++) {
        const char *at = open + 1;
        uint64_t number = 0;
        for (; at < end && *at >= '0' && *at <= '9' && number < UINT32_MAX; at++)
            number = number * 10 + (uint64_t)(*at - '0');
        if (at == open + 1 || open == line.at || end - at < 3 || memcmp(at, "): ", 3) != 0)
            continue;
        const char *message = severity(at + 3, end, &out->level);
        if (!message)
            continue;
        out->file = line.at;
        out->file_size = (size_t)(open - line.at);
        out->line = number < UINT32_MAX ? (uint32_t)number : 0;
        str_add(&out->text, message, (size_t)(end - message));
        return true;
    }
    return parse_plain_head(line, out);
}

static bool is_blank(struct line line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.at[i] != ' ' && line.at[i] != '\t')
            return false;
    return true;
}

static bool is_caret(struct line line)
{
    return line.size && line.at[line.size - 1] == '^' &&
           is_blank((struct line){line.at, line.size - 1});
}

/* What NVRTC adds at the end of a log and what our own summary says better. */
static bool is_summary(struct line line)
{
    static const char *const parts[] = {
        "detected in the compilation of",
        "Remark: The warnings can be suppressed",
        "Compilation terminated.",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (memmem(line.at, line.size, parts[i], strlen(parts[i])))
            return true;
    return false;
}

/* A name as NVRTC knows it -> one that can be read from the current folder. */
static const char *readable(const char *name, const char *root, const struct cuda *cuda,
                            struct arena *arena)
{
    const char *full = compile_path(name, root, cuda, arena);
    if (!full)
        return name;
    char *here = getcwd(NULL, 0);
    size_t length = here ? strlen(here) : 0;
    if (length > 1 && strncmp(full, here, length) == 0 && full[length] == '/')
        full += length + 1;
    free(here);
    return full;
}

struct output {
    const char *root;
    const struct cuda *cuda;
    struct loc place;
    struct diags *diags;
    size_t errors;
};

static void finish(struct output *output, struct item *item)
{
    struct arena arena = {0};
    struct loc loc = output->place;
    if (item->file) {
        char *name = arena_strndup(&arena, item->file, item->file_size);
        loc = (struct loc){readable(name, output->root, output->cuda, &arena), item->line, 0};
    }
    /* The line is shown from the file itself when it can be; NVRTC indents its copy by two. */
    bool shown = item->file && file_is_regular(loc.file) && item->caret.size > 2;
    if (shown) {
        loc.col = (uint32_t)item->caret.size - 2;
    } else if (item->caret.size) {
        str_addc(&item->text, '\n');
        str_add(&item->text, item->shown.at, item->shown.size);
        str_addc(&item->text, '\n');
        str_add(&item->text, item->caret.at, item->caret.size);
    }
    diag_add_text(output->diags, item->level, loc, str_text(&item->text));
    output->errors += item->level == DIAG_ERROR;
    str_free(&item->text);
    arena_free(&arena);
}

static bool next_line(const char **log, struct line *out)
{
    if (!**log)
        return false;
    const char *end = strchrnul(*log, '\n');
    *out = (struct line){*log, (size_t)(end - *log)};
    if (out->size && out->at[out->size - 1] == '\r')
        out->size--;
    *log = *end ? end + 1 : end;
    return true;
}

static void add_line(struct str *text, struct line line)
{
    if (text->len)
        str_addc(text, '\n');
    str_add(text, line.at, line.size);
}

/* The lines that belong to the head: all are indented. */
static const char *parse_body(const char *log, struct item *item)
{
    struct line line, before = {0};
    for (const char *next = log; next_line(&next, &line); log = next) {
        if (is_blank(line) || (line.at[0] != ' ' && line.at[0] != '\t'))
            break;
        if (is_caret(line) && before.at && !item->caret.size) {
            item->shown = before;
            item->caret = line;
            before = (struct line){0};
            continue;
        }
        if (before.at)
            add_line(&item->text, before);
        before = line;
    }
    if (before.at)
        add_line(&item->text, before);
    return log;
}

size_t nvrtc_log_add(const char *log, const char *root, const struct cuda *cuda, struct loc place,
                     struct diags *diags)
{
    struct output output = {.root = root, .cuda = cuda, .place = place, .diags = diags};
    struct str rest = {0};
    struct line line;
    while (next_line(&log, &line)) {
        struct item item = {0};
        if (parse_head(line, &item)) {
            log = parse_body(log, &item);
            finish(&output, &item);
        } else if (!is_blank(line) && !is_summary(line)) {
            add_line(&rest, line);
        }
    }
    if (rest.len)
        diag_add_text(diags, DIAG_NOTE, place, rest.data);
    str_free(&rest);
    return output.errors;
}
