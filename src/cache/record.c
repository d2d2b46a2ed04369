#include "cache/record.h"

#include <string.h>

/* A record: the head, then each item with its path and text, then `more`. */
struct head {
    int64_t since_ns;
    uint64_t count;
};

struct packed {
    struct watch_stamp stamp;
    struct digest digest;
    uint32_t kind, path_size, text_size; /* sizes without the NUL behind each */
    uint32_t reserved;
};

static void pack(const struct watch *watch, const struct str *more, struct str *out)
{
    struct head head = {watch->since_ns, watch->count};
    str_add(out, &head, sizeof head);
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
 */
static bool check(struct reader *reader, struct watch *list, bool *out_stale)
{
    struct head head;
    if (!take(reader, &head, sizeof head) ||
        head.count > (uint64_t)(reader->end - reader->at) / sizeof(struct packed))
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
                const struct str *more)
{
    struct str bytes = {0};
    struct diags ignored = {0}; /* a cache that cannot be written costs the next build some time */
    pack(watch, more, &bytes);
    cache_put(cache, CACHE_BUILD, key, &bytes, &ignored);
    diag_free(&ignored);
    str_free(&bytes);
}

bool record_holds(struct cache *cache, const struct digest *key, struct str *out_more)
{
    struct str bytes = {0};
    struct watch list;
    bool stale = false;
    str_clear(out_more);
    watch_init(&list);
    bool holds = cache_get(cache, CACHE_BUILD, key, &bytes);
    struct reader reader = {str_text(&bytes), str_text(&bytes) + bytes.len};
    holds = holds && check(&reader, &list, &stale);
    if (holds)
        str_add(out_more, reader.at, (size_t)(reader.end - reader.at));
    if (holds && stale)
        record_put(cache, key, &list, out_more);
    watch_free(&list);
    str_free(&bytes);
    return holds;
}
