#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/code.h"
#include "cli/fatbin.h"
#include "cli/outputs.h"
#include "cli/report.h"

/* The object that the word names; a split module has several, one per entry. */
static bool choose_object(const struct view *view, const char *word, const struct view_named *found,
                          uint32_t *out_object)
{
    kpk_module_info info = view_module(view, found->module), *module = &info;
    *out_object = found->named ? found->entry.object : module->first_object;
    if (found->named || module->object_count == 1)
        return true;
    const char *first = module->entry_count ? view_entry(view, module->first_entry).name : "ENTRY";
    return diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                         "module '%s' has %u cubins, one for each entry: name an entry, "
                         "such as '%s:%s'",
                         module->name, module->object_count, word, first);
}

/* A name out of an image must not lead out of the current folder, nor drive a terminal later. */
static bool plain_name(const char *name)
{
    struct str shown = {0};
    str_add_printable(&shown, name, strlen(name));
    bool plain = name[0] != '.' && name[0] != '-' && !strchr(name, '/') &&
                 strcmp(str_text(&shown), name) == 0;
    str_free(&shown);
    return plain;
}

/* NAME.ENDING, in the current folder. */
static const char *default_path(struct cli *cli, const char *from, const char *name,
                                const char *ending)
{
    if (plain_name(name))
        return arena_printf(&cli->arena, "%s%s", name, ending);
    diag_error_at(&cli->diags, (struct loc){.file = from},
                  "'%s' is no safe file name: name the file with '-o'", name);
    return NULL;
}

/* MODULE, or MODULE.ENTRY of a module with several cubins. */
static const char *cubin_name(const struct view *view, const struct view_named *found)
{
    kpk_module_info module = view_module(view, found->module);
    return module.object_count == 1
               ? module.name
               : arena_printf(&view->cli->arena, "%s.%s", module.name, found->entry.name);
}

static bool publish(struct cli *cli, const char *path, const void *bytes, size_t size)
{
    if (!file_publish(path, bytes, size, &cli->diags))
        return false;
    report_line(stdout, "%s: %s", report_name(&cli->arena, path), report_size(&cli->arena, size));
    return true;
}

static bool extract_cubin(struct view *view, const char *word, const char *path)
{
    struct cli *cli = view->cli;
    uint32_t object;
    struct view_named found;
    struct code_object code;
    if (!view_find(view, word, &found) || !choose_object(view, word, &found, &object))
        return false;
    if (!path)
        path = default_path(cli, view->path, cubin_name(view, &found), output_cubin.ending);
    if (!path || !output_spares(path, &view->file, 1, &cli->diags) ||
        !output_replaces(path, &output_cubin, &cli->diags))
        return false;
    bool ok = code_bytes(view, object, &code) && publish(cli, path, code.bytes, code.size);
    code_free(&code);
    return ok;
}

/* A part of a bundle, as it was before. */
static bool extract_image(const struct view *view, const char *path)
{
    struct cli *cli = view->cli;
    struct str bytes = {0};
    if (!path)
        path = default_path(cli, view->path, view->info.target, output_image.ending);
    if (!path || !output_spares(path, &view->file, 1, &cli->diags) ||
        !output_replaces(path, &output_image, &cli->diags))
        return false;
    bool ok = view_bytes(view, &bytes) && publish(cli, path, bytes.data, bytes.len);
    str_free(&bytes);
    return ok;
}

static enum cli_exit extract_one(struct cli *cli, const struct cli_args *args)
{
    struct view_set set;
    const char *target = args->values[EXTRACT_TARGET], *path = args->values[EXTRACT_FILE];
    const char *word = args->word_count > 1 ? args->words[1] : NULL;
    bool ok;
    if (args->word_count > 2)
        return cli_usage(cli, "'kpack extract' has no use for '%s'", args->words[2]);
    if (args->values[EXTRACT_CUDA])
        return cli_usage(cli, "'--cuda' is of use with '--fatbin' only");
    if (!word && !target)
        return cli_usage(cli, "'kpack extract' needs MODULE, or '--target' for the image of one "
                              "target");
    if (!view_set_open(cli, args->words[0], target, &set))
        return CLI_FAILED;
    if (set.bundle)
        ok = diag_error_at(&cli->diags, (struct loc){.file = set.path},
                           "is a bundle: name the part to extract from with '--target', such as "
                           "'--target %s'",
                           set.views[0].info.target);
    else
        ok = word ? extract_cubin(&set.views[0], word, path) : extract_image(&set.views[0], path);
    view_set_close(&set);
    return ok ? CLI_DONE : CLI_FAILED;
}

/* ---- A fatbin over all targets ----------------------------------------------------------------
 */

/* The images that are looked through, and what they have of the module. */
struct gathering {
    struct view_set *sets; /* owned */
    size_t set_count;
    struct code_object *codes; /* owned */
    struct fatbin_member *members;
    const char *name; /* of the file */
    size_t count;
};

static bool gather_from(struct gathering *g, struct view *view, const char *word)
{
    uint32_t object;
    struct view_named found;
    if (view_seek(view, word, &found))
        return true;
    if (!choose_object(view, word, &found, &object))
        return false;
    g->codes = mem_resize(g->codes, g->count + 1, sizeof *g->codes);
    g->members = mem_resize(g->members, g->count + 1, sizeof *g->members);
    struct code_object *code = &g->codes[g->count];
    bool ok = code_bytes(view, object, code);
    g->members[g->count++] =
        (struct fatbin_member){view->path, view->info.arch, code->bytes, code->size};
    g->name = cubin_name(view, &found);
    return ok;
}

static void tell_absent(const struct view *view, const char *word, enum diag_level level)
{
    struct view_named found;
    char *problem = view_seek(view, word, &found);
    if (problem)
        diag_add(&view->cli->diags, level, (struct loc){.file = view->path}, "%s", problem);
}

static bool gather(struct cli *cli, const struct cli_args *args, struct gathering *g)
{
    size_t image_count = args->word_count - 1;
    const char *word = args->words[image_count];
    g->sets = mem_alloc(image_count, sizeof *g->sets);
    for (size_t i = 0; i < image_count; i++) {
        struct view_set *set = &g->sets[i];
        if (!view_set_open(cli, args->words[i], args->values[EXTRACT_TARGET], set))
            return false;
        g->set_count++;
        for (size_t j = 0; j < set->count; j++)
            if (!gather_from(g, &set->views[j], word))
                return false;
    }
    for (size_t i = 0; i < g->set_count; i++)
        for (size_t j = 0; j < g->sets[i].count; j++)
            tell_absent(&g->sets[i].views[j], word, g->count ? DIAG_NOTE : DIAG_ERROR);
    return g->count;
}

static enum cli_exit extract_fatbin(struct cli *cli, const struct cli_args *args)
{
    struct gathering g = {0};
    struct str bytes = {0};
    const char *path = args->values[EXTRACT_FILE];
    if (args->word_count < 2)
        return cli_usage(cli, "'kpack extract --fatbin' needs IMAGE ... MODULE[:ENTRY]");
    bool ok = gather(cli, args, &g);
    if (ok && !path)
        path = default_path(cli, args->words[0], g.name, output_fatbin.ending);
    ok = ok && path && output_spares(path, args->words, args->word_count - 1, &cli->diags) &&
         output_replaces(path, &output_fatbin, &cli->diags) &&
         fatbin_make(cli, args->values[EXTRACT_CUDA], g.members, g.count, &bytes) &&
         publish(cli, path, bytes.data, bytes.len);
    for (size_t i = 0; ok && i < g.count; i++)
        report_line(stdout, "  %s of %s", report_name(&cli->arena, g.members[i].arch),
                    report_name(&cli->arena, g.members[i].path));
    str_free(&bytes);
    for (size_t i = 0; i < g.count; i++)
        code_free(&g.codes[i]);
    for (size_t i = 0; i < g.set_count; i++)
        view_set_close(&g.sets[i]);
    free(g.codes);
    free(g.members);
    free(g.sets);
    return ok ? CLI_DONE : CLI_FAILED;
}

enum cli_exit cmd_extract(struct cli *cli, const struct cli_args *args)
{
    return args->values[EXTRACT_FATBIN] ? extract_fatbin(cli, args) : extract_one(cli, args);
}
