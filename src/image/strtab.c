#include "image/strtab.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void strtab_start(struct strtab *table, uint64_t limit)
{
    *table = (struct strtab){.slots = 64, .limit = limit};
    table->at = mem_alloc(table->slots, sizeof *table->at);
    str_addc(&table->bytes, '\0');
}

static struct kpk_string *find(const struct strtab *table, const char *text, size_t size)
{
    size_t mask = table->slots - 1;
    for (size_t i = XXH3_64bits(text, size) & mask;; i = (i + 1) & mask) {
        struct kpk_string *at = &table->at[i];
        if (!at->size)
            return at;
        if (at->size == size && memcmp(table->bytes.data + at->offset, text, size) == 0)
            return at;
    }
}

static void grow(struct strtab *table)
{
    struct strtab bigger = *table;
    bigger.slots = table->slots * 2;
    bigger.at = mem_alloc(bigger.slots, sizeof *bigger.at);
    for (size_t i = 0; i < table->slots; i++) {
        struct kpk_string at = table->at[i];
        if (at.size)
            *find(&bigger, table->bytes.data + at.offset, at.size) = at;
    }
    free(table->at);
    *table = bigger;
}

struct kpk_string strtab_add(struct strtab *table, const char *text)
{
    size_t size = text ? strlen(text) : 0;
    if (!size || table->full)
        return (struct kpk_string){0, 0};
    struct kpk_string *at = find(table, text, size);
    if (at->size)
        return *at;
    if (size >= table->limit - table->bytes.len) {
        table->full = true;
        return (struct kpk_string){0, 0};
    }
    struct kpk_string added = {(uint32_t)table->bytes.len, (uint32_t)size};
    *at = added;
    str_add(&table->bytes, text, size + 1);
    if (++table->used > table->slots / 2)
        grow(table);
    return added;
}

void strtab_free(struct strtab *table)
{
    free(table->at);
    str_free(&table->bytes);
    *table = (struct strtab){0};
}
