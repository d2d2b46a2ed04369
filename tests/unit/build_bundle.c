#include "build_bundle.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    PAGE = 4096,
    TABLE_ROOM = 1 << 16,
};

static void digest(const void *bytes, size_t size, uint8_t *out)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(out, canonical.digest, KPK_DIGEST_SIZE);
}

struct build_bytes build_for(const char *target, const char *arch, uint32_t major, uint32_t minor)
{
    struct build_image image = build_small;
    image.target = target;
    image.arch = arch;
    image.compute_major = major;
    image.compute_minor = minor;
    return build_write(&image);
}

static struct kpk_string add_string(char *strings, size_t *size, const uint8_t *text)
{
    struct kpk_string at = {(uint32_t)*size, (uint32_t)strlen((const char *)text)};
    memcpy(strings + *size, text, at.size + 1);
    *size += at.size + 1;
    return at;
}

static size_t round_up(size_t size)
{
    return (size + PAGE - 1) & ~(size_t)(PAGE - 1);
}

struct build_bytes build_bundle(const struct build_bytes *images, uint32_t count)
{
    struct kpk_part_record *parts = calloc(count, sizeof(*parts));
    char *strings = calloc(1, TABLE_ROOM);
    size_t string_size = 1, records = count * sizeof(*parts);
    if (parts == NULL || strings == NULL)
        abort();
    for (uint32_t i = 0; i < count; i++) {
        struct build_bytes image = images[i];
        const struct kpk_header *header = build_header(&image);
        const struct kpk_target_record *target = build_record(&image, KPK_SECTION_TARGET, 0);
        const uint8_t *text = image.data + header->sections[KPK_SECTION_STRINGS].offset;
        parts[i].target = add_string(strings, &string_size, text + target->name.offset);
        parts[i].arch = add_string(strings, &string_size, text + target->arch.offset);
        parts[i].compute_major = target->compute_major;
        parts[i].compute_minor = target->compute_minor;
        parts[i].min_driver = target->min_driver;
        parts[i].size = image.size;
        memcpy(parts[i].digest, header->header_digest, KPK_DIGEST_SIZE);
    }
    size_t end = sizeof(struct kpk_bundle_header) + records + string_size;
    for (uint32_t i = 0; i < count; i++) {
        parts[i].offset = round_up(end);
        end = parts[i].offset + images[i].size;
    }
    struct build_bytes bundle = {aligned_alloc(PAGE, round_up(end)), end};
    if (bundle.data == NULL)
        abort();
    memset(bundle.data, 0, round_up(end));
    struct kpk_bundle_header *header = build_bundle_header(&bundle);
    memcpy(header->prefix.magic, KPK_MAGIC, sizeof(header->prefix.magic));
    header->prefix.version = 1;
    header->prefix.header_size = 384;
    header->prefix.file_size = end;
    header->kind = 2;
    header->part_count = count;
    header->table_offset = 384;
    header->table_size = records + string_size;
    memcpy(bundle.data + 384, parts, records);
    memcpy(bundle.data + 384 + records, strings, string_size);
    for (uint32_t i = 0; i < count; i++)
        memcpy(bundle.data + parts[i].offset, images[i].data, images[i].size);
    build_seal_bundle(&bundle);
    free(strings);
    free(parts);
    return bundle;
}

struct build_bytes build_two(void)
{
    struct build_bytes images[2] = {build_for("gb10", "sm_121a", 12, 1),
                                    build_for("hopper", "sm_90a", 9, 0)};
    struct build_bytes bundle = build_bundle(images, 2);
    free(images[0].data);
    free(images[1].data);
    return bundle;
}

void build_seal_bundle(struct build_bytes *bundle)
{
    struct kpk_bundle_header *header = build_bundle_header(bundle);
    if (header->table_offset <= bundle->size &&
        header->table_size <= bundle->size - header->table_offset)
        digest(bundle->data + header->table_offset, header->table_size, header->table_digest);
    digest(header, offsetof(struct kpk_bundle_header, header_digest), header->header_digest);
}

struct kpk_bundle_header *build_bundle_header(struct build_bytes *bundle)
{
    return (struct kpk_bundle_header *)(void *)bundle->data;
}

struct kpk_part_record *build_part(struct build_bytes *bundle, uint32_t index)
{
    return (struct kpk_part_record *)(void *)(bundle->data + sizeof(struct kpk_bundle_header)) +
           index;
}
