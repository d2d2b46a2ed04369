#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/build.h"
#include "cli/outputs.h"

/* ---- A depfile --------------------------------------------------------------------------------
 */

struct names {
    struct arena *arena;
    const char *here; /* the current folder */
    const char **items;
    size_t count, cap;
    struct map known;
};

/* From the current folder where the path lies below it. */
static const char *from_here(const struct names *names, const char *path)
{
    size_t length = strlen(names->here);
    bool below = length > 1 && strncmp(path, names->here, length) == 0 && path[length] == '/';
    return below ? path + length + 1 : path;
}

/* Each path once. */
static void add_name(struct names *names, const char *path)
{
    path = from_here(names, path);
    void **slot = map_at(&names->known, path);
    if (*slot)
        return;
    *slot = (void *)path;
    if (names->count == names->cap) {
        names->cap = names->cap ? names->cap * 2 : 256;
        names->items = mem_resize(names->items, names->cap, sizeof *names->items);
    }
    names->items[names->count++] = path;
}

/* As gcc writes them: make and ninja agree on these. */
static bool add_escaped(const char *name, struct str *out, struct diags *diags)
{
    if (strchr(name, '\n'))
        return diag_error(diags, "a depfile cannot name '%s': it has a line end", name);
    for (const char *at = name; *at; at++) {
        if (*at == ' ' || *at == '\t') {
            for (const char *back = at; back > name && back[-1] == '\\'; back--)
                str_addc(out, '\\');
            str_addc(out, '\\');
        } else if (*at == '$') {
            str_addc(out, '$');
        } else if (*at == '#' || *at == ':') {
            str_addc(out, '\\');
        }
        str_addc(out, *at);
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What the descriptions read, and the folders in which they looked for files. */
static void add_described(struct names *names, const struct watch *watch, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct watch_item *item = &watch->items[i];
        if (item->kind == WATCH_BYTES || item->kind == WATCH_NAMES)
            add_name(names, item->path);
    }
}

static void add_compiled(struct names *names, const struct build_target *build,
                         const struct cuda *cuda)
{
    for (size_t i = 0; i < build->module_count; i++) {
        const struct compile_result *result = build->modules[i].result;
        for (size_t j = 0; j < result->opened_count; j++) {
            const char *path =
                compile_path(result->opened[j].name, build->target->root, cuda, names->arena);
            if (path)
                add_name(names, path);
        }
    }
}

static bool write_rules(const struct names *names, const struct build_target *builds, size_t count,
                        struct str *out, struct diags *diags)
{
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        str_adds(out, i ? " " : "");
        ok = add_escaped(from_here(names, builds[i].path), out, diags);
    }
    str_addc(out, ':');
    for (size_t i = 0; i < names->count && ok; i++) {
        str_adds(out, " \\\n  ");
        ok = add_escaped(names->items[i], out, diags);
    }
    str_addc(out, '\n');
    /* A header that goes must not stop make. */
    for (size_t i = 0; i < names->count && ok; i++) {
        ok = add_escaped(names->items[i], out, diags);
        str_adds(out, ":\n");
    }
    return ok;
}

/* A depfile in place of a source would destroy it. */
static bool is_input(const char *path, const struct names *names, struct diags *diags)
{
    for (size_t i = 0; i < names->count; i++)
        if (file_is_regular(path) && output_same(path, names->items[i]))
            return !diag_error(diags, "will not replace '%s' by a depfile: the build reads it",
                               path);
    return false;
}

bool build_depfile(struct cli *cli, const char *path, const struct build_target *builds,
                   size_t count, const struct cuda *cuda, const struct watch *watch,
                   size_t described)
{
    char *here = getcwd(NULL, 0);
    struct names names = {.arena = &cli->arena, .here = here ? here : ""};
    struct str text = {0};
    bool written;
    add_described(&names, watch, described);
    for (size_t i = 0; i < count; i++)
        add_compiled(&names, &builds[i], cuda);
    if (names.count)
        qsort(names.items, names.count, sizeof *names.items, by_text);
    bool ok = !is_input(path, &names, &cli->diags) &&
              write_rules(&names, builds, count, &text, &cli->diags) &&
              file_update(path, text.data, text.len, &written, &cli->diags);
    str_free(&text);
    map_free(&names.known);
    free(names.items);
    free(here);
    return ok;
}

/* ---- A compilation database -------------------------------------------------------------------
 */

static void add_argument(json_t *arguments, const char *prefix, const char *value)
{
    struct str text = {0};
    str_adds(&text, prefix);
    str_add_printable(&text, value, strlen(value));
    json_array_append_new(arguments, json_string(str_text(&text)));
    str_free(&text);
}

/* Those of NVRTC's flags that clang has too. */
static bool is_shared(const char *flag)
{
    static const char *const prefixes[] = {"-D", "-U", "-I", "-std=", "--std="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (str_starts(flag, prefixes[i]))
            return true;
    return false;
}

static json_t *command(const struct compile_unit *unit, const struct cuda *cuda,
                       const char *cuda_dir)
{
    json_t *object = json_object(), *arguments = json_array();
    static const char *const fixed[] = {"clang++",       "-xcuda",     "--cuda-device-only",
                                        "-fsyntax-only", "-std=c++17", "-Wno-unknown-cuda-version"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        add_argument(arguments, "", fixed[i]);
    add_argument(arguments, "--cuda-gpu-arch=", unit->arch);
    add_argument(arguments, "--cuda-path=", cuda_dir);
    for (size_t i = 0; i < unit->flag_count; i++)
        if (is_shared(unit->flags[i]))
            add_argument(arguments, "", unit->flags[i]);
    for (size_t i = 0; i < unit->define_count; i++)
        add_argument(arguments, "-D", unit->defines[i]);
    for (size_t i = 0; i < unit->include_count; i++)
        add_argument(arguments, "-I", unit->includes[i]);
    for (size_t i = 0; i < cuda->include_count; i++)
        add_argument(arguments, "-isystem", cuda->includes[i]);
    add_argument(arguments, "", unit->source);
    json_object_set_new(object, "directory", json_string(unit->root));
    json_object_set_new(object, "file", json_string(unit->source));
    json_object_set_new(object, "arguments", arguments);
    return object;
}

bool build_commands(struct cli *cli, const char *path, const struct compile_unit *units,
                    size_t count, const struct cuda *cuda)
{
    for (size_t i = 0; i < count; i++) {
        json_t *root = json_string(units[i].root);
        if (!root)
            return diag_error(&cli->diags,
                              "cannot write '%s': the project's folder has a name that is no "
                              "UTF-8, which JSON cannot hold",
                              path);
        json_decref(root);
    }
    json_t *list = json_array();
    struct str text = {0};
    bool written;
    char *dir = realpath(cuda->dir, NULL);
    for (size_t i = 0; i < count; i++)
        if (units[i].way != COMPILE_LINKED || !units[i].kernel_count) /* a source once */
            json_array_append_new(list, command(&units[i], cuda, dir ? dir : cuda->dir));
    char *dumped = json_dumps(list, JSON_INDENT(2));
    if (!dumped)
        BUG("a value that JSON cannot hold");
    str_addf(&text, "%s\n", dumped);
    bool ok = file_update(path, text.data, text.len, &written, &cli->diags);
    str_free(&text);
    free(dumped);
    free(dir);
    json_decref(list);
    return ok;
}
