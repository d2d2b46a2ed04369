#include "image/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "image/file_digest.h"
#include "image/strtab.h"
#include "runtime/kpk_format.h"

static int by_target(const void *a, const void *b)
{
    const struct bundle_part *x = *(const struct bundle_part *const *)a;
    const struct bundle_part *y = *(const struct bundle_part *const *)b;
    int order = strcmp(x->target, y->target);
    return order ? order : (x > y) - (x < y);
}

static bool check_parts(const struct bundle_part **parts, size_t count, struct diags *diags)
{
    if (!count || count > KPK_PART_LIMIT)
        return diag_error(diags, "a bundle holds 1 to %d images, not %zu", KPK_PART_LIMIT, count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            const struct bundle_part *a = parts[j], *b = parts[i];
            if (strcmp(a->target, b->target) == 0)
                return diag_error(diags,
                                  "'%s' and '%s' are both for target '%s': bundle one of them",
                                  a->path, b->path, a->target);
            if (strcmp(a->arch, b->arch) == 0)
                return diag_error(diags,
                                  "'%s' (target '%s') and '%s' (target '%s') are both for %s: a "
                                  "device could not tell which one to run",
                                  a->path, a->target, b->path, b->target, a->arch);
        }
    return true;
}

static uint64_t align_part(uint64_t end)
{
    return (end + KPK_PART_ALIGN - 1) / KPK_PART_ALIGN * KPK_PART_ALIGN;
}

static void add_zeros(struct str *out, size_t end)
{
    static const char zeros[256];
    while (out->len < end)
        str_add(out, zeros, end - out->len < sizeof zeros ? end - out->len : sizeof zeros);
}

/* Records and strings; the strings' size is needed for the offsets, so they are entered first. */
static bool write_table(const struct bundle_part **parts, size_t count, struct str *table,
                        struct diags *diags)
{
    struct strtab strings;
    struct kpk_part_record *records = mem_alloc(count, sizeof *records);
    size_t size = count * sizeof *records;
    strtab_start(&strings, KPK_TABLE_LIMIT - size);
    for (size_t i = 0; i < count; i++) {
        records[i].target = strtab_add(&strings, parts[i]->target);
        records[i].arch = strtab_add(&strings, parts[i]->arch);
    }
    uint64_t end = sizeof(struct kpk_bundle_header) + size + strings.bytes.len;
    for (size_t i = 0; i < count; i++) {
        const struct kpk_header *header = parts[i]->bytes;
        records[i].compute_major = parts[i]->compute_major;
        records[i].compute_minor = parts[i]->compute_minor;
        records[i].min_driver = parts[i]->min_driver;
        records[i].offset = align_part(end);
        records[i].size = parts[i]->size;
        memcpy(records[i].digest, header->header_digest, KPK_DIGEST_SIZE);
        end = records[i].offset + records[i].size;
    }
    bool ok = !strings.full || diag_error(diags,
                                          "the names of %zu targets are longer than a "
                                          "bundle's table may be: %d bytes",
                                          count, KPK_TABLE_LIMIT);
    str_add(table, records, size);
    str_add(table, strings.bytes.data, strings.bytes.len);
    strtab_free(&strings);
    free(records);
    return ok;
}

static void assemble(const struct bundle_part **parts, size_t count, const struct str *table,
                     struct str *out)
{
    struct kpk_bundle_header header = {
        .prefix = {.version = KPK_FORMAT_VERSION, .header_size = sizeof header},
        .kind = KPK_KIND_BUNDLE,
        .part_count = (uint32_t)count,
        .table_offset = sizeof header,
        .table_size = table->len,
    };
    memcpy(header.prefix.magic, KPK_MAGIC, sizeof header.prefix.magic);
    file_digest(table->data, table->len, header.table_digest);
    size_t start = out->len;
    str_add(out, &header, sizeof header);
    str_add(out, table->data, table->len);
    for (size_t i = 0; i < count; i++) {
        add_zeros(out, start + align_part(out->len - start));
        str_add(out, parts[i]->bytes, parts[i]->size);
    }
    header.prefix.file_size = out->len - start;
    file_digest(&header, offsetof(struct kpk_bundle_header, header_digest), header.header_digest);
    memcpy(out->data + start, &header, sizeof header);
}

bool bundle_write(const struct bundle_part *parts, size_t count, struct str *out,
                  struct diags *diags)
{
    struct str table = {0};
    const struct bundle_part **sorted = mem_alloc(count, sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &parts[i];
    qsort(sorted, count, sizeof *sorted, by_target);
    bool ok = check_parts(sorted, count, diags) && write_table(sorted, count, &table, diags);
    if (ok)
        assemble(sorted, count, &table, out);
    str_free(&table);
    free(sorted);
    return ok;
}
