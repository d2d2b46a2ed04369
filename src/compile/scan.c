#include "compile/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "compile/file_layer.h"

struct scan {
    struct arena arena;
    struct map seen;
    const char **queue; /* owned: files that are there, in the order found */
    size_t count, cap;
    const char *const *options;
    size_t option_count;
    bool known;
    bool all; /* the file at hand may look for a name's next one */
};

/* Behind spaces and comments. */
static const char *skip_blanks(const char *at)
{
    for (;;) {
        at += strspn(at, " \t");
        const char *end = at[0] == '/' && at[1] == '*' ? strstr(at + 2, "*/") : NULL;
        if (!end)
            return at;
        at = end + 2;
    }
}

/* What follows the next #include or __has_include; NULL at the end. */
static const char *next_include(const char *at)
{
    while ((at = strpbrk(at, "#%_"))) {
        const char *word = *at == '#' ? at + 1 : at[0] == '%' && at[1] == ':' ? at + 2 : NULL;
        const char *name = word ? skip_blanks(word) : NULL;
        if (name && str_starts(name, "include"))
            return skip_blanks(name + strcspn(name, " \t\"</\n"));
        if (str_starts(at, "__has_include")) {
            name = skip_blanks(at + strcspn(at, " \t(\n"));
            return *name == '(' ? skip_blanks(name + 1) : name;
        }
        at++;
    }
    return NULL;
}

bool scan_has_includes(const char *text)
{
    return next_include(text) != NULL;
}

/* True when the file is there: it is then read once, whatever asks for it. */
static bool try_file(struct scan *scan, const char *name)
{
    static char there, missing;
    const struct str *bytes;
    void **slot = map_at(&scan->seen, name);
    if (*slot)
        return *slot == &there;
    *slot = layer_read(name, &bytes) == 0 ? &there : &missing;
    if (*slot == &missing)
        return false;
    if (scan->count == scan->cap) {
        scan->cap = scan->cap ? scan->cap * 2 : 64;
        scan->queue = mem_resize(scan->queue, scan->cap, sizeof *scan->queue);
    }
    scan->queue[scan->count++] = arena_strdup(&scan->arena, name);
    return true;
}

static void find(struct scan *scan, const char *includer, const char *name, bool quoted)
{
    const char *folder = path_dir(&scan->arena, includer);
    bool found = *name == '/' && try_file(scan, name);
    if (*name == '/')
        return;
    if (quoted)
        found =
            try_file(scan, strcmp(folder, ".") == 0 ? name : path_join(&scan->arena, folder, name));
    for (size_t i = 0; i < scan->option_count && (!found || scan->all); i++)
        if (str_starts(scan->options[i], "-I"))
            found |= try_file(scan, path_join(&scan->arena, scan->options[i] + 2, name));
}

/* The text with continued lines joined, which may split a directive. */
static char *joined(struct arena *arena, const struct str *text)
{
    char *copy = arena_strndup(arena, str_text(text), text->len), *to = copy;
    for (const char *from = copy; *from;) {
        size_t skip = strncmp(from, "\\\n", 2) == 0 ? 2 : strncmp(from, "\\\r\n", 3) == 0 ? 3 : 0;
        if (skip)
            from += skip;
        else
            *to++ = *from++;
    }
    *to = '\0';
    return copy;
}

static void scan_file(struct scan *scan, const char *path)
{
    const struct str *bytes;
    struct arena passing = {0};
    if (layer_read(path, &bytes) != 0)
        return;
    const char *at = joined(&passing, bytes);
    scan->known &= strlen(str_text(bytes)) == bytes->len; /* what follows a NUL is not read here */
    scan->all = strstr(at, "include_next") != NULL;
    while ((at = next_include(at))) {
        char close = *at == '"' ? '"' : '>';
        size_t length =
            *at == '"' || *at == '<' ? strcspn(at + 1, close == '"' ? "\"\n" : ">\n") : 0;
        if (length && at[1 + length] == close)
            find(scan, path, arena_strndup(&scan->arena, at + 1, length), *at == '"');
        else
            scan->known = false;
    }
    arena_free(&passing);
}

bool scan_includes(const char *source, const char *const *options, size_t option_count)
{
    static const char *const forced[] = {"--pre-include=", "-include="};
    struct scan scan = {.options = options, .option_count = option_count, .known = true};
    try_file(&scan, source);
    for (size_t i = 0; i < option_count; i++)
        for (size_t j = 0; j < sizeof forced / sizeof *forced; j++)
            if (str_starts(options[i], forced[j]))
                find(&scan, source, options[i] + strlen(forced[j]), true);
    for (size_t i = 0; i < scan.count; i++)
        scan_file(&scan, scan.queue[i]);
    bool known = scan.known;
    free(scan.queue);
    map_free(&scan.seen);
    arena_free(&scan.arena);
    return known;
}

const char **scan_real_options(const char *const *options, size_t count,
                               const char *const *cuda_folders, size_t folder_count,
                               struct arena *arena, size_t *out_count)
{
    static const char cuda[] = "-I" COMPILE_CUDA_ROOT, built_in[] = "-I" COMPILE_HEADERS_ROOT;
    const char **real = arena_alloc(arena, count * (folder_count + 1), sizeof *real);
    *out_count = 0;
    for (size_t i = 0; i < count; i++) {
        bool of_cuda = str_starts(options[i], cuda);
        for (size_t j = 0; of_cuda && j < folder_count; j++)
            real[(*out_count)++] =
                arena_printf(arena, "-I%s%s", cuda_folders[j], options[i] + sizeof cuda - 1);
        if (!of_cuda && !str_starts(options[i], built_in))
            real[(*out_count)++] = options[i];
    }
    return real;
}
