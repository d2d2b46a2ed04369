#include "cache/record.h"

#include <stdlib.h>
#include <string.h>

/* A record: the head, the entries, then each item with its path and text, then `more`. */
struct head {
    int64_t since_ns;
    uint64_t count, entry_count;
};

struct packed {
    struct watch_stamp stamp;
    struct digest digest;
    uint32_t kind, path_size, text_size; /* sizes without the NUL behind each */
    uint32_t reserved;
};

static void pack(const struct watch *watch, const struct cache_name *entries, size_t entry_count,
                 const struct str *more, struct str *out)
{
    struct head head = {watch->since_ns, watch->count, entry_count};
    str_add(out, &head, sizeof head);
    str_add(out, entries, entry_count * sizeof *entries);
    for (size_t i = 0; i < watch->count; i++) {
        const struct watch_item *item = &watch->items[i];
        struct packed packed = {
            .stamp = item->stamp,
            .digest = item->digest,
            .kind = item->kind,
            .path_size = (uint32_t)strlen(item->path),
            .text_size = (uint32_t)strlen(item->text),
        };
        str_add(out, &packed, sizeof packed);
        str_add(out, item->path, packed.path_size + 1);
        str_add(out, item->text, packed.text_size + 1);
    }
    str_add(out, more->data, more->len);
}

struct reader {
    const char *at, *end;
};

static bool take(struct reader *reader, void *out, size_t size)
{
    if ((size_t)(reader->end - reader->at) < size)
        return false;
    memcpy(out, reader->at, size);
    reader->at += size;
    return true;
}

static const char *take_text(struct reader *reader, size_t size)
{
    const char *text = reader->at;
    if ((size_t)(reader->end - reader->at) <= size || text[size] != '\0')
        return NULL;
    reader->at += size + 1;
    return text;
}

/* The item's texts are borrowed from the bytes. */
static bool unpack(struct reader *reader, struct watch_item *out)
{
    struct packed packed;
    if (!take(reader, &packed, sizeof packed) || packed.kind >= WATCH_KINDS)
        return false;
    *out = (struct watch_item){
        .kind = (enum watch_kind)packed.kind,
        .stamp = packed.stamp,
        .digest = packed.digest,
        .path = take_text(reader, packed.path_size),
    };
    out->text = out->path ? take_text(reader, packed.text_size) : NULL;
    return out->text != NULL;
}

/* Goes through the items; *out_stale: some had to be read. The list gets them all, the stamps new.
 * The entries are borrowed from the bytes, and not aligned. */
static bool check(struct reader *reader, struct watch *list, const char **out_entries,
                  size_t *out_entry_count, bool *out_stale)
{
    struct head head;
    if (!take(reader, &head, sizeof head) ||
        head.entry_count > (uint64_t)(reader->end - reader->at) / sizeof(struct cache_name))
        return false;
    *out_entries = reader->at;
    *out_entry_count = (size_t)head.entry_count;
    reader->at += head.entry_count * sizeof(struct cache_name);
    if (head.count > (uint64_t)(reader->end - reader->at) / sizeof(struct packed))
        return false;
    list->items = mem_alloc((size_t)head.count, sizeof *list->items);
    for (; list->count < head.count; list->count++) {
        struct watch_item *item = &list->items[list->count];
        enum watch_verdict verdict =
            unpack(reader, item) ? watch_check(item, head.since_ns) : WATCH_DIFFERENT;
        if (verdict == WATCH_DIFFERENT)
            return false;
        *out_stale |= verdict == WATCH_SAME_BYTES;
    }
    return true;
}

void record_put(struct cache *cache, const struct digest *key, const struct watch *watch,
                const struct cache_name *entries, size_t entry_count, const struct str *more)
{
    struct str bytes = {0};
    struct diags ignored = {0}; /* a cache that cannot be written costs the next build some time */
    pack(watch, entries, entry_count, more, &bytes);
    cache_put(cache, CACHE_BUILD, key, &bytes, &ignored);
    diag_free(&ignored);
    str_free(&bytes);
}

/* Takes them out of the bytes that were read. */
static struct cache_name *copy_entries(const char *bytes, size_t *count)
{
    struct cache_name *entries = mem_alloc(*count, sizeof *entries);
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        memcpy(&entries[kept], bytes + i * sizeof *entries, sizeof *entries);
        kept += entries[kept].kind < CACHE_KINDS;
    }
    *count = kept;
    return entries;
}

bool record_holds(struct cache *cache, const struct digest *key, struct str *out_more)
{
    struct str bytes = {0};
    struct watch list;
    bool stale = false;
    const char *entry_bytes = NULL;
    size_t entry_count = 0;
    str_clear(out_more);
    watch_init(&list);
    bool holds = cache_get(cache, CACHE_BUILD, key, &bytes), renewed = cache->renewed;
    struct reader reader = {str_text(&bytes), str_text(&bytes) + bytes.len};
    holds = holds && check(&reader, &list, &entry_bytes, &entry_count, &stale);
    if (holds)
        str_add(out_more, reader.at, (size_t)(reader.end - reader.at));
    if (holds && (stale || renewed)) {
        struct cache_name *entries = copy_entries(entry_bytes, &entry_count);
        cache_use(cache, entries, entry_count);
        if (stale)
            record_put(cache, key, &list, entries, entry_count, out_more);
        free(entries);
    }
    watch_free(&list);
    str_free(&bytes);
    return holds;
}
