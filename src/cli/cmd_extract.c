#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/code.h"
#include "cli/outputs.h"
#include "cli/report.h"

/* The object that the word names; a split module has several, one per entry. */
static bool choose_object(struct view *view, const char *word, bool named,
                          const kpk_module_info *module, const kpk_entry_info *entry,
                          uint32_t *out_object)
{
    *out_object = named ? entry->object : module->first_object;
    if (named || module->object_count == 1)
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

static const char *default_path(struct view *view, const kpk_module_info *module,
                                const kpk_entry_info *entry)
{
    struct arena *arena = &view->cli->arena;
    const char *name = module->object_count == 1
                           ? module->name
                           : arena_printf(arena, "%s.%s", module->name, entry->name);
    if (plain_name(name))
        return arena_printf(arena, "%s.cubin", name);
    diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                  "'%s' is no safe file name: name the file with '-o'", name);
    return NULL;
}

static bool extract(struct view *view, const char *word, const char *path)
{
    struct cli *cli = view->cli;
    uint32_t index, object;
    bool named;
    kpk_entry_info entry;
    struct code_object code;
    if (!view_find(view, word, &index, &named, &entry))
        return false;
    kpk_module_info module = view_module(view, index);
    if (!choose_object(view, word, named, &module, &entry, &object))
        return false;
    if (!path)
        path = default_path(view, &module, &entry);
    if (!path || !output_replaces(path, &output_cubin, &cli->diags))
        return false;
    bool ok =
        code_bytes(view, object, &code) && file_publish(path, code.bytes, code.size, &cli->diags);
    if (ok)
        report_line(stdout, "%s: %s", report_name(&cli->arena, path),
                    report_size(&cli->arena, code.size));
    code_free(&code);
    return ok;
}

enum cli_exit cmd_extract(struct cli *cli, const struct cli_args *args)
{
    struct view view;
    if (!view_open(cli, args->words[0], &view))
        return CLI_FAILED;
    bool ok = extract(&view, args->words[1], args->values[EXTRACT_FILE]);
    view_close(&view);
    return ok ? CLI_DONE : CLI_FAILED;
}
