#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "cli/build.h"
#include "cli/machine.h"
#include "cli/report.h"

/* What trim leaves when no size is given. */
static const char trim_default[] = "5G";

static void print_stats(struct cli *cli, const char *folder, const struct cache_stats *stats)
{
    struct table table = {.columns = 3};
    uint64_t entries = 0, bytes = 0;
    printf("cache: %s\n", report_name(&cli->arena, folder));
    table_row(&table, (const char *[]){"", "entries", "size"}, 3);
    for (int kind = 0; kind < CACHE_KINDS; kind++) {
        entries += stats->entries[kind];
        bytes += stats->bytes[kind];
        table_row(&table,
                  (const char *[]){cache_kind_text((enum cache_kind)kind),
                                   arena_printf(&cli->arena, "%" PRIu64, stats->entries[kind]),
                                   report_size(&cli->arena, stats->bytes[kind])},
                  3);
    }
    table_row(&table,
              (const char *[]){"all", arena_printf(&cli->arena, "%" PRIu64, entries),
                               report_size(&cli->arena, bytes)},
              3);
    if (stats->leftovers)
        table_row(&table,
                  (const char *[]){"left by killed builds",
                                   arena_printf(&cli->arena, "%" PRIu64, stats->leftovers),
                                   report_size(&cli->arena, stats->leftover_bytes)},
                  3);
    table_print(&table, stdout);
    table_free(&table);
}

static enum cli_exit trim(struct cli *cli, struct cache *cache, uint64_t most)
{
    struct cache_stats removed;
    bool ok = cache_trim(cache, most, &removed, &cli->diags);
    uint64_t entries = removed.leftovers, bytes = removed.leftover_bytes;
    for (int kind = 0; kind < CACHE_KINDS; kind++) {
        entries += removed.entries[kind];
        bytes += removed.bytes[kind];
    }
    printf("removed %" PRIu64 " %s, %s\n", entries, entries == 1 ? "entry" : "entries",
           report_size(&cli->arena, bytes));
    return ok ? CLI_DONE : CLI_FAILED;
}

enum cli_exit cmd_cache(struct cli *cli, const struct cli_args *args)
{
    const char *word = args->words[0], *max = args->values[CACHE_MAX];
    bool stats = strcmp(word, "stats") == 0, clear = strcmp(word, "clear") == 0;
    bool trims = strcmp(word, "trim") == 0;
    uint64_t most = 0;
    if (!stats && !clear && !trims)
        return cli_usage(cli, "'kpack cache' got '%s', expected stats, trim or clear", word);
    if (max && !trims)
        return cli_usage(cli, "option '--max' is for 'kpack cache trim'");
    if (!machine_parse_size(max ? max : trim_default, &most))
        return cli_usage(cli, "option '--max' is '%s', expected a size such as 8G or 512M", max);
    struct cache cache = {.folder = build_cache_folder(cli, args->values[CACHE_DIR])};
    if (!cache.folder)
        return CLI_FAILED;
    if (!stats)
        return trim(cli, &cache, clear ? 0 : most);
    struct cache_stats found;
    if (!cache_stats(&cache, &found, &cli->diags))
        return CLI_FAILED;
    print_stats(cli, cache.folder, &found);
    return CLI_DONE;
}
