/* Opens hostile bytes as an image, or as a bundle and each of its parts, and makes every call there
 * is, over a fake driver. The digests would stop nearly every mutated input at the door, so inputs
 * are tried twice: as they are, and with the digests of header, index and groups made right, so
 * that the checks behind them are reached.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "../fake/cuda.h"
#include "runtime/kpk.h"
#include "runtime/kpk_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    INPUT_LIMIT = 1 << 20,
    PARTS_USED = 4,
    RAW_LIMIT = 1 << 22 /* a blob that says to be larger is not read */
};

static void digest(const uint8_t *bytes, size_t size, uint8_t *out)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(out, canonical.digest, KPK_DIGEST_SIZE);
}

static void drop_message(void *user, kpk_severity severity, const char *text)
{
    size_t *length = user;
    (void)severity;
    *length += strlen(text);
}

static void use_text(const char *text)
{
    volatile size_t length = strlen(text);
    (void)length;
}

static void audit_modules(const kpk_image *image, uint32_t count)
{
    for (uint32_t m = 0; m < count; m++) {
        kpk_module_info module;
        if (kpk_get_module(image, m, &module) != KPK_OK)
            abort();
        use_text(module.name);
        use_text(module.source);
        use_text(module.origin);
        uint32_t found;
        kpk_find_module(image, module.name, &found);
        for (uint32_t i = 0; i < module.constant_count; i++) {
            const char *name;
            int64_t value;
            if (kpk_get_constant(image, m, i, &name, &value) != KPK_OK)
                abort();
            kpk_constant(image, module.name, name, &value);
        }
        for (uint32_t i = 0; i < module.flag_count; i++) {
            const char *text;
            if (kpk_get_flag(image, m, i, &text) != KPK_OK)
                abort();
            use_text(text);
        }
    }
}

static void audit_bytes(const kpk_image *image, const kpk_image_info *info)
{
    for (uint32_t i = 0; i < info->object_count; i++) {
        kpk_object_info object;
        kpk_get_object(image, i, &object);
    }
    for (uint32_t i = 0; i < info->group_count; i++) {
        kpk_group_info group;
        kpk_get_group(image, i, &group);
    }
    for (uint32_t i = 0; i < info->blob_count; i++) {
        kpk_blob_info blob;
        if (kpk_get_blob(image, i, &blob) != KPK_OK)
            abort();
        void *cubin = blob.size <= RAW_LIMIT ? malloc(blob.size) : NULL;
        if (cubin != NULL)
            kpk_read_blob(image, i, cubin, blob.size);
        free(cubin);
    }
}

static void audit_choices(const kpk_image *image, const kpk_image_info *info)
{
    for (uint32_t i = 0; i < info->lever_count; i++) {
        kpk_lever lever;
        if (kpk_get_lever(image, i, &lever) != KPK_OK)
            abort();
        use_text(lever.name);
        use_text(lever.text);
        kpk_find_lever(image, lever.name, &lever);
    }
    for (uint32_t i = 0; i < info->absent_count; i++) {
        kpk_absent_info absent;
        if (kpk_get_absent(image, i, &absent) != KPK_OK)
            abort();
        use_text(absent.module);
        use_text(absent.entry);
        use_text(absent.reason);
    }
}

static void use_entries(kpk_image *image, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        kpk_entry_info entry;
        if (kpk_get_entry(image, i, &entry) != KPK_OK)
            abort();
        use_text(entry.twin_of);
        kpk_kernel kernel = kpk_resolve(image, entry.module, entry.name);
        kpk_absent_reason(image, entry.module, entry.name);
        kpk_get_kernel(image, kernel, &entry);
        kpk_launch(image, kernel, (kpk_grid){1, 1, 1}, 0, NULL, NULL);
        kpk_launch_block(image, kernel, (kpk_grid){1, 1, 1}, (kpk_grid){32, 1, 1}, 16, NULL, NULL);
    }
}

static kpk_image *open_bytes(const void *bytes, size_t size, const char *target)
{
    static size_t messages;
    kpk_open_desc desc = {.message = drop_message,
                          .message_user = &messages,
                          .symbol = fake_cuda_symbol,
                          .target = target};
    kpk_image *image;
    return kpk_open_memory(bytes, size, &desc, &image) == KPK_OK ? image : NULL;
}

static void set_device(uint32_t major, uint32_t minor)
{
    fake_cuda_state()->devices[0].major = (int)major;
    fake_cuda_state()->devices[0].minor = (int)minor;
}

static void use_image(kpk_image *image)
{
    kpk_image_info info;
    if (kpk_get_image(image, &info) != KPK_OK)
        abort();
    use_text(info.target);
    use_text(info.arch);
    use_text(info.stamp);
    audit_modules(image, info.module_count);
    audit_bytes(image, &info);
    audit_choices(image, &info);
    kpk_verify(image);
    kpk_has_module(image, "alpha");
    kpk_resolve(image, "no such module", "nor entry");
    set_device(info.compute_major, info.compute_minor);
    kpk_bind(image, 0);
    use_entries(image, info.entry_count);
    kpk_preload(image, NULL, 0);
    kpk_trim(image);
    kpk_miss misses[4];
    size_t missed = kpk_unexpected_absences(image, misses, 4);
    for (size_t i = 0; i < missed && i < 4; i++)
        use_text(misses[i].entry);
    char text[256];
    kpk_misses_json(image, text, sizeof text);
    use_text(text);
}

/* A part as its device finds it, and as one that names it does. */
static void use_part(const void *bytes, size_t size, kpk_image *bundle, uint32_t index)
{
    kpk_part_info part;
    if (kpk_get_part(bundle, index, &part) != KPK_OK)
        abort();
    use_text(part.arch);
    kpk_image *image = open_bytes(bytes, size, NULL);
    set_device(part.compute_major, part.compute_minor);
    if (kpk_bind(image, 0) == KPK_OK)
        use_image(image);
    kpk_close(image);
    image = open_bytes(bytes, size, part.target);
    if (image != NULL)
        use_image(image);
    kpk_close(image);
}

static void use_bytes(const void *bytes, size_t size)
{
    kpk_image *image = open_bytes(bytes, size, NULL);
    if (image == NULL)
        return;
    kpk_image_info info;
    if (kpk_get_image(image, &info) == KPK_OK) {
        use_image(image);
    } else {
        kpk_verify(image);
        if (kpk_resolve(image, "alpha", "one").id != 0 || kpk_part_count(image) == 0)
            abort();
        for (uint32_t i = 0; i < kpk_part_count(image) && i < PARTS_USED; i++)
            use_part(bytes, size, image, i);
    }
    kpk_close(image);
    if (fake_cuda_state()->libraries != 0)
        abort();
}

/* Makes the groups' digests right, wherever the mutations left bounds that allow it. */
static void mend_groups(uint8_t *bytes, size_t size, const struct kpk_section *groups)
{
    if (groups->offset > size)
        return;
    uint64_t room = (size - groups->offset) / sizeof(struct kpk_group_record);
    for (uint64_t i = 0; i < groups->count && i < room; i++) {
        uint8_t *at = bytes + groups->offset + i * sizeof(struct kpk_group_record);
        struct kpk_group_record group;
        memcpy(&group, at, sizeof(group));
        if (group.offset > size || group.packed_size > size - group.offset)
            continue;
        digest(bytes + group.offset, group.packed_size, group.digest);
        memcpy(at, &group, sizeof(group));
    }
}

/* Makes the digests of an image right over whatever the mutations left. */
static void mend_image(uint8_t *bytes, size_t size)
{
    struct kpk_header header;
    if (size < sizeof(header))
        return;
    memcpy(&header, bytes, sizeof(header));
    memcpy(header.prefix.magic, KPK_MAGIC, sizeof(header.prefix.magic));
    header.prefix.version = KPK_FORMAT_VERSION;
    header.prefix.file_size = size;
    mend_groups(bytes, size, &header.sections[KPK_SECTION_GROUPS]);
    if (header.index_offset <= size && header.index_size <= size - header.index_offset)
        digest(bytes + header.index_offset, header.index_size, header.index_digest);
    digest((const uint8_t *)&header, offsetof(struct kpk_header, header_digest),
           header.header_digest);
    memcpy(bytes, &header, sizeof(header));
}

/* Of a bundle, every part is mended, and what the table says of it. */
static void mend_parts(uint8_t *bytes, size_t size, const struct kpk_bundle_header *header)
{
    for (uint32_t i = 0; i < header->part_count && i < KPK_PART_LIMIT; i++) {
        struct kpk_part_record part;
        size_t at = sizeof(*header) + i * sizeof(part);
        if (size < at + sizeof(part))
            return;
        memcpy(&part, bytes + at, sizeof(part));
        if (part.offset < at + sizeof(part) || part.offset > size ||
            part.size > size - part.offset || part.size < sizeof(struct kpk_header))
            continue;
        mend_image(bytes + part.offset, part.size);
        memcpy(part.digest, bytes + part.offset + offsetof(struct kpk_header, header_digest),
               KPK_DIGEST_SIZE);
        memcpy(bytes + at, &part, sizeof(part));
    }
}

static void mend(uint8_t *bytes, size_t size)
{
    struct kpk_bundle_header header;
    if (size < sizeof(header))
        return;
    memcpy(&header, bytes, sizeof(header));
    if (header.kind != KPK_KIND_BUNDLE) {
        mend_image(bytes, size);
        return;
    }
    memcpy(header.prefix.magic, KPK_MAGIC, sizeof(header.prefix.magic));
    header.prefix.version = KPK_FORMAT_VERSION;
    header.prefix.file_size = size;
    mend_parts(bytes, size, &header);
    if (header.table_offset <= size && header.table_size <= size - header.table_offset)
        digest(bytes + header.table_offset, header.table_size, header.table_digest);
    digest((const uint8_t *)&header, offsetof(struct kpk_bundle_header, header_digest),
           header.header_digest);
    memcpy(bytes, &header, sizeof(header));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > INPUT_LIMIT)
        return 0;
    /* A copy of exactly this size, so that one byte read too many is seen. */
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    if (bytes == NULL)
        return 0;
    memcpy(bytes, data, size);
    fake_cuda_reset();
    use_bytes(bytes, size);
    mend(bytes, size);
    use_bytes(bytes, size);
    free(bytes);
    return 0;
}
