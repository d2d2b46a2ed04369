#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/elf_object.h"
#include "cli/outputs.h"
#include "cli/report.h"
#include "cli/view.h"

/* What goes into a program is checked to its last byte, a bundle as a whole. */
static bool read_image(struct cli *cli, const char *path, struct str *out)
{
    struct view view;
    bool ok = view_open_file(cli, path, NULL, &view) && view_bytes(&view, out);
    view_close(&view);
    return ok;
}

/* The file's name without its ending, as a part of an identifier. */
static const char *symbol_of(struct arena *arena, const char *path)
{
    const char *base = path_base(path);
    size_t size = strlen(base) - (str_ends(base, ".kpk") ? strlen(".kpk") : 0);
    char *symbol = arena_printf(arena, "kpk_image_%.*s", (int)size, base);
    for (char *at = symbol; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *at))
            *at = '_';
    return symbol;
}

static bool embed(struct cli *cli, const char *path, const char *object, uint16_t machine)
{
    struct str bytes = {0}, out = {0};
    const char *symbol = symbol_of(&cli->arena, path);
    bool ok = output_spares(object, &path, 1, &cli->diags) &&
              output_replaces(object, &output_object, &cli->diags) && read_image(cli, path, &bytes);
    if (ok) {
        elf_object_add(&out, machine, symbol, bytes.data, bytes.len);
        ok = file_publish(object, out.data, out.len, &cli->diags);
    }
    if (ok) {
        report_line(stdout, "%s: %s", report_name(&cli->arena, object),
                    report_size(&cli->arena, out.len));
        printf("extern const unsigned char %s[];\nextern const size_t %s_size;\n", symbol, symbol);
    }
    str_free(&bytes);
    str_free(&out);
    return ok;
}

enum cli_exit cmd_embed(struct cli *cli, const struct cli_args *args)
{
    const char *object = args->values[EMBED_FILE], *name = args->values[EMBED_MACHINE];
    uint16_t machine = elf_object_machine(name);
    if (!object)
        return cli_usage(cli, "'kpack embed' needs '-o FILE'");
    if (!machine)
        return cli_usage(cli, "'--machine' is '%s', expected x86-64 or aarch64",
                         name ? name : "not given, and this host's is no such");
    return embed(cli, args->words[0], object, machine) ? CLI_DONE : CLI_FAILED;
}
