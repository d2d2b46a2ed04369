/* Reads hostile bytes as a list of lookups, and as a source of every language. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lookup_list.h"
#include "cli/lookup_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int order(const struct lookup *a, const struct lookup *b)
{
    int modules = strcmp(a->module, b->module);
    return modules != 0 ? modules : strcmp(a->entry, b->entry);
}

static void read_list(const char *bytes, size_t size)
{
    struct arena arena = {0};
    struct diags diags = {0};
    struct lookup_list list;
    bool ok = lookup_list_parse("list", bytes, size, &arena, &list, &diags);
    if (ok != (diags.errors == 0))
        abort();
    for (size_t i = 0; i < list.count; i++) {
        const struct lookup *lookup = &list.items[i];
        if (lookup->module[0] == '\0' || lookup->entry[0] == '\0' || lookup->place == NULL ||
            (i > 0 && order(lookup - 1, lookup) >= 0))
            abort();
    }
    arena_free(&arena);
    diag_free(&diags);
}

static void read_source(enum source_language language, const char *bytes, size_t size)
{
    static const char *const names[] = {"f", "kpk_resolve"};
    struct lookup_scan scan = {.names = names, .name_count = 2};
    uint32_t lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += bytes[i] == '\n';
    lookup_scan(&scan, "source", language, bytes, size);
    for (size_t i = 0; i < scan.count; i++) {
        const struct lookup_call *call = &scan.calls[i];
        if (call->line == 0 || call->line > lines ||
            (call->entry == NULL) != (call->module == NULL) ||
            (call->entry == NULL) != (call->text != NULL))
            abort();
    }
    lookup_scan_free(&scan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = malloc(size > 0 ? size : 1); /* of exactly that size, for the sanitizer */
    if (bytes == NULL)
        return 0;
    if (size > 0)
        memcpy(bytes, data, size);
    read_list(bytes, size);
    read_source(SOURCE_C, bytes, size);
    read_source(SOURCE_RUST, bytes, size);
    read_source(SOURCE_PYTHON, bytes, size);
    free(bytes);
    return 0;
}
