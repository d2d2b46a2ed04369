#include "kpk_image.h"

#include <string.h>

kpk_status kpk_read_blob(const kpk_image *image, uint32_t index, void *buffer, size_t size)
{
    if (image == NULL || buffer == NULL)
        return KPK_ERR_ARGUMENT;
    if (!kpk_ready(image))
        return KPK_ERR_NOT_BOUND;
    if (index >= kpk_count(image, KPK_SECTION_BLOBS) || size != image->blobs[index].size)
        return KPK_ERR_ARGUMENT;
    const struct kpk_blob_record *blob = &image->blobs[index];
    struct kpk_decoding decoding;
    memset(&decoding, 0, sizeof(decoding));
    kpk_status status = kpk_decode(image, blob->group, blob->offset + size, &decoding);
    if (status == KPK_OK && !kpk_digest_matches(decoding.raw + blob->offset, size, blob->digest))
        status = kpk_fail(image, KPK_ERR_DAMAGED, "blob %u: its digest does not match", index);
    if (status == KPK_OK)
        memcpy(buffer, decoding.raw + blob->offset, size);
    kpk_decode_free(&decoding);
    return status;
}

/* Keeps going after a fault, so that every one is reported; remembers the first. */
static void note(kpk_status status, kpk_status *first)
{
    if (*first == KPK_OK)
        *first = status;
}

static void verify_groups(const kpk_image *image, kpk_status *result)
{
    struct kpk_decoding decoding;
    memset(&decoding, 0, sizeof(decoding));
    for (uint32_t g = 0; g < kpk_count(image, KPK_SECTION_GROUPS); g++) {
        const struct kpk_group_record *group = &image->groups[g];
        kpk_status status = kpk_decode(image, g, group->raw_size, &decoding);
        note(status, result);
        if (status != KPK_OK)
            continue;
        for (uint32_t b = group->first_blob; b < group->first_blob + group->blob_count; b++) {
            const struct kpk_blob_record *blob = &image->blobs[b];
            if (!kpk_digest_matches(decoding.raw + blob->offset, blob->size, blob->digest))
                note(kpk_fail(image, KPK_ERR_DAMAGED, "blob %u: its digest does not match", b),
                     result);
        }
        kpk_decode_reset(&decoding);
    }
    kpk_decode_free(&decoding);
}

static void verify_strings(const kpk_image *image, kpk_status *result)
{
    const uint8_t *bytes = (const uint8_t *)image->strings;
    size_t size = kpk_count(image, KPK_SECTION_STRINGS);
    for (size_t at = 0, step; at < size; at += step) {
        step = kpk_utf8(bytes + at, size - at);
        if (step == 0) {
            note(kpk_fail(image, KPK_ERR_DAMAGED, "byte %llu of its strings is not UTF-8",
                          (unsigned long long)at),
                 result);
            return;
        }
    }
}

static void verify_name(const kpk_image *image, struct kpk_string name, const char *kind,
                        kpk_status *result)
{
    const char *text = kpk_text(image, name);
    if (strlen(text) != name.size || strchr(text, ':') != NULL)
        note(kpk_fail(image, KPK_ERR_DAMAGED, "%s '%s' has a NUL or a colon in its name", kind,
                      text),
             result);
}

static void verify_modules(const kpk_image *image, kpk_status *result)
{
    for (uint32_t m = 0; m < kpk_count(image, KPK_SECTION_MODULES); m++) {
        const char *name = kpk_text(image, image->modules[m].name);
        verify_name(image, image->modules[m].name, "module", result);
        if (m > 0 && strcmp(kpk_text(image, image->modules[m - 1].name), name) >= 0)
            note(kpk_fail(image, KPK_ERR_DAMAGED, "module '%s' is out of order", name), result);
    }
}

static void verify_levers(const kpk_image *image, kpk_status *result)
{
    for (uint32_t i = 1; i < kpk_count(image, KPK_SECTION_LEVERS); i++) {
        const char *name = kpk_text(image, image->levers[i].name);
        if (strcmp(kpk_text(image, image->levers[i - 1].name), name) >= 0)
            note(kpk_fail(image, KPK_ERR_DAMAGED, "lever '%s' is out of order", name), result);
    }
}

/* Every entry is found by its own name: the slots are whole, and no name stands twice. */
static void verify_entries(const kpk_image *image, kpk_status *result)
{
    for (uint32_t i = 1; i < image->entry_count; i++) {
        const struct kpk_entry_record *last = &image->entries[i - 1], *entry = &image->entries[i];
        if (last->module == entry->module &&
            strcmp(kpk_text(image, last->name), kpk_text(image, entry->name)) >= 0)
            note(kpk_fail(image, KPK_ERR_DAMAGED, "entry '%s' is out of order",
                          kpk_text(image, entry->name)),
                 result);
    }
    for (uint32_t i = 0; i < image->entry_count; i++) {
        const struct kpk_entry_record *entry = &image->entries[i];
        struct kpk_string module = image->modules[entry->module].name;
        verify_name(image, entry->name, "entry", result);
        uint32_t found = kpk_lookup(image, kpk_text(image, module), module.size,
                                    kpk_text(image, entry->name), entry->name.size);
        if (found != i)
            note(kpk_fail(image, KPK_ERR_DAMAGED, "entry '%s:%s' is not found by its name",
                          kpk_text(image, module), kpk_text(image, entry->name)),
                 result);
    }
}

static int compare_absents(const kpk_image *image, uint32_t left, uint32_t right)
{
    const struct kpk_absent_record *a = &image->absents[left], *b = &image->absents[right];
    int order = strcmp(kpk_text(image, a->module), kpk_text(image, b->module));
    return order != 0 ? order : strcmp(kpk_text(image, a->entry), kpk_text(image, b->entry));
}

static void verify_absents(const kpk_image *image, kpk_status *result)
{
    for (uint32_t i = 1; i < kpk_count(image, KPK_SECTION_ABSENTS); i++) {
        if (compare_absents(image, i - 1, i) >= 0)
            note(kpk_fail(image, KPK_ERR_DAMAGED, "expected-absent %u is out of order", i), result);
    }
}

kpk_status kpk_verify(const kpk_image *image)
{
    if (image == NULL)
        return KPK_ERR_ARGUMENT;
    if (!kpk_ready(image))
        return kpk_verify_bundle(image);
    kpk_status result = KPK_OK;
    for (uint32_t i = 0; i < kpk_layer_count(image); i++) {
        const kpk_image *layer = kpk_layer(image, i);
        verify_strings(layer, &result);
        verify_modules(layer, &result);
        verify_entries(layer, &result);
        verify_levers(layer, &result);
        verify_absents(layer, &result);
        verify_groups(layer, &result);
    }
    return result;
}
