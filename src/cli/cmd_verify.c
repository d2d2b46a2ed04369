#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "cli/code.h"
#include "cli/report.h"
#include "cli/view.h"

static void compare(struct view *view, const kpk_entry_info *entry, const char *what,
                    uint64_t recorded, uint64_t found)
{
    if (recorded != found)
        diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                      "entry '%s:%s': the index says %" PRIu64 " %s, its cubin %" PRIu64,
                      entry->module, entry->name, recorded, what, found);
}

static void check_entry(struct view *view, const kpk_entry_info *entry, const struct cubin *cubin)
{
    const struct cubin_entry *found = code_find(cubin, entry->symbol);
    if (!found) {
        diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                      "entry '%s:%s' is in the index but not in its cubin", entry->module,
                      entry->name);
        return;
    }
    compare(view, entry, "registers", entry->registers, found->registers);
    compare(view, entry, "bytes of static shared memory", entry->static_smem, found->static_smem);
    compare(view, entry, "bytes of stack", entry->stack_bytes, found->stack_bytes);
    compare(view, entry, "bytes of code", entry->code_bytes, found->code_bytes);
}

/* Reads one cubin, adds it to the module's digest and checks the entries that it holds. */
static void check_object(struct view *view, const kpk_module_info *module, uint32_t object,
                         struct digest_state *state)
{
    struct code_object read;
    uint32_t index = module->first_object + object;
    bool ok = code_read(view, module->name, index, &read);
    digest_add(state, read.bytes, read.size);
    for (uint32_t i = 0; ok && i < module->entry_count; i++) {
        kpk_entry_info entry = view_entry(view, module->first_entry + i);
        if (entry.object == index)
            check_entry(view, &entry, &read.cubin);
    }
    code_free(&read);
}

static void check_module(struct view *view, uint32_t index)
{
    kpk_module_info module = view_module(view, index);
    struct digest_state state;
    digest_start(&state);
    for (uint32_t i = 0; i < module.object_count; i++)
        check_object(view, &module, i, &state);
    struct digest digest = digest_finish(&state);
    if (memcmp(digest.bytes, module.digest, sizeof digest.bytes) != 0)
        diag_error_at(&view->cli->diags, (struct loc){.file = view->path},
                      "module '%s': its recorded digest is not that of its cubins", module.name);
}

enum cli_exit cmd_verify(struct cli *cli, const struct cli_args *args)
{
    struct view view;
    if (!view_open(cli, args->words[0], &view))
        return CLI_FAILED;
    bool ok = kpk_verify(view.image) == KPK_OK;
    if (!ok && !cli->diags.errors)
        diag_error_at(&cli->diags, (struct loc){.file = view.path}, "the image is damaged");
    for (uint32_t i = 0; ok && i < view.info.module_count; i++)
        check_module(&view, i);
    ok = cli->diags.errors == 0;
    if (ok)
        report_line(stdout,
                    "%s: every byte is intact; %u of %u entries are as their cubins say (%s)",
                    report_name(&cli->arena, view.path), view.info.entry_count,
                    view.info.entry_count, report_size(&cli->arena, view.info.raw_bytes));
    view_close(&view);
    return ok ? CLI_DONE : CLI_FAILED;
}
