#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/outputs.h"
#include "cli/report.h"
#include "cli/view.h"
#include "image/bundle.h"

/* What goes in: the images named, and of a bundle its parts. */
struct inputs {
    struct view_set *sets; /* owned */
    size_t set_count;
    struct bundle_part *parts; /* owned */
    struct str *bytes;         /* owned; by part */
    size_t count;
};

/* An image that a reader would refuse later is refused now. */
static bool add_part(struct inputs *inputs, const struct view *view)
{
    inputs->parts = mem_resize(inputs->parts, inputs->count + 1, sizeof *inputs->parts);
    inputs->bytes = mem_resize(inputs->bytes, inputs->count + 1, sizeof *inputs->bytes);
    struct str *bytes = &inputs->bytes[inputs->count];
    *bytes = (struct str){0};
    inputs->parts[inputs->count++] = (struct bundle_part){
        .path = view->path,
        .target = view->info.target,
        .arch = view->info.arch,
        .compute_major = view->info.compute_major,
        .compute_minor = view->info.compute_minor,
        .min_driver = view->info.min_driver,
    };
    return view_bytes(view, bytes);
}

static bool read_inputs(struct cli *cli, const struct cli_args *args, struct inputs *inputs)
{
    inputs->sets = mem_alloc(args->word_count, sizeof *inputs->sets);
    for (size_t i = 0; i < args->word_count; i++) {
        struct view_set *set = &inputs->sets[i];
        if (!view_set_open(cli, args->words[i], NULL, set))
            return false;
        inputs->set_count++;
        for (size_t j = 0; j < set->count; j++)
            if (!add_part(inputs, &set->views[j]))
                return false;
    }
    for (size_t i = 0; i < inputs->count; i++) {
        inputs->parts[i].bytes = inputs->bytes[i].data;
        inputs->parts[i].size = inputs->bytes[i].len;
    }
    return true;
}

static void free_inputs(struct inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++)
        str_free(&inputs->bytes[i]);
    for (size_t i = 0; i < inputs->set_count; i++)
        view_set_close(&inputs->sets[i]);
    free(inputs->bytes);
    free(inputs->parts);
    free(inputs->sets);
}

enum cli_exit cmd_bundle(struct cli *cli, const struct cli_args *args)
{
    struct inputs inputs = {0};
    struct str bytes = {0};
    const char *path = args->values[BUNDLE_FILE];
    if (!path)
        return cli_usage(cli, "'kpack bundle' needs '-o FILE': where the bundle goes");
    bool written, ok = output_replaces(path, &output_image, &cli->diags) &&
                       output_spares(path, args->words, args->word_count, &cli->diags) &&
                       read_inputs(cli, args, &inputs) &&
                       bundle_write(inputs.parts, inputs.count, &bytes, &cli->diags) &&
                       file_update(path, bytes.data, bytes.len, &written, &cli->diags);
    if (ok)
        report_line(stdout, "%s: %zu target%s, %s%s", report_name(&cli->arena, path), inputs.count,
                    inputs.count == 1 ? "" : "s", report_size(&cli->arena, bytes.len),
                    written ? "" : ", not changed");
    str_free(&bytes);
    free_inputs(&inputs);
    return ok ? CLI_DONE : CLI_FAILED;
}
