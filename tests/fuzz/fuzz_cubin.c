/* Reads hostile bytes as a cubin: what is found lies within the file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compile/cubin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check(const struct cubin *cubin, const char *bytes, size_t size)
{
    require(cubin->arch <= UINT16_MAX);
    for (size_t i = 0; i < cubin->count; i++) {
        const struct cubin_entry *entry = &cubin->entries[i];
        require(entry->code_offset <= size && entry->code_bytes <= size - entry->code_offset);
        require(entry->name[0] != '\0' &&
                memmem(bytes, size, entry->name, strlen(entry->name) + 1));
        require(entry->static_smem != UINT32_MAX);
        require(i == 0 || strcmp(entry[-1].name, entry->name) < 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = malloc(size > 0 ? size : 1); /* of exactly that size, for the sanitizer */
    if (bytes == NULL)
        return 0;
    if (size > 0)
        memcpy(bytes, data, size);
    struct arena arena = {0};
    struct diags diags = {0};
    struct cubin cubin;
    bool ok = cubin_read("cubin", bytes, size, &arena, &cubin, &diags);
    require(diags.errors == (ok ? 0 : 1));
    require(ok || (cubin.count == 0 && cubin.entries == NULL && cubin.arch == 0));
    check(&cubin, bytes, size);
    arena_free(&arena);
    diag_free(&diags);
    free(bytes);
    return 0;
}
