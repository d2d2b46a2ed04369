#include "kpk_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kpk_status bad_part(const kpk_image *image, uint32_t index, const char *what)
{
    return kpk_fail(image, KPK_ERR_DAMAGED, "part record %u: %s", index, what);
}

/* The offset of what follows `end`. Below 2^63 as `end` is, which lies in a file. */
static uint64_t align_part(uint64_t end)
{
    return (end + KPK_PART_ALIGN - 1) / KPK_PART_ALIGN * KPK_PART_ALIGN;
}

/* ---- The part table ------------------------------------------------------------------------ */

static bool name_ok(const kpk_image *image, struct kpk_string string, uint64_t size)
{
    uint64_t end = (uint64_t)string.offset + string.size;
    return string.size > 0 && end < size && image->part_strings[end] == '\0' &&
           memchr(kpk_part_text(image, string), '\0', string.size) == NULL;
}

static const char *part_fault(const kpk_image *image, uint32_t index, uint64_t strings,
                              uint64_t *end)
{
    const struct kpk_part_record *part = &image->parts[index];
    if (!name_ok(image, part->target, strings) || !name_ok(image, part->arch, strings))
        return "a string is out of bounds";
    if (part->reserved != 0)
        return "reserved bytes are not zero";
    if (part->offset != align_part(*end) || part->offset > image->file_size ||
        part->size < sizeof(struct kpk_header) || part->size > image->file_size - part->offset)
        return "its bytes do not follow the part before, or pass the file's end";
    if (index > 0 &&
        strcmp(kpk_part_text(image, part[-1].target), kpk_part_text(image, part->target)) >= 0)
        return "its target is out of order";
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(kpk_part_text(image, image->parts[i].arch), kpk_part_text(image, part->arch)) ==
            0)
            return "its arch is another part's";
    }
    *end = part->offset + part->size;
    return NULL;
}

static kpk_status check_table(const kpk_image *image, const struct kpk_bundle_header *header)
{
    uint64_t end = image->table_end;
    uint64_t strings = header->table_size - header->part_count * sizeof(*image->parts);
    for (uint32_t i = 0; i < image->part_count; i++) {
        const char *fault = part_fault(image, i, strings, &end);
        if (fault != NULL)
            return bad_part(image, i, fault);
    }
    if (end != image->file_size)
        return kpk_fail(image, KPK_ERR_DAMAGED, "the file has bytes behind its last part");
    return KPK_OK;
}

static kpk_status get_table(kpk_image *image, const struct kpk_bundle_header *header)
{
    size_t size = (size_t)header->table_size;
    const uint8_t *table = NULL;
    if (image->whole != NULL) {
        table = image->whole + header->table_offset;
    } else {
        image->owned_table = malloc(size);
        if (image->owned_table == NULL)
            return kpk_fail(image, KPK_ERR_MEMORY, "no memory for a part table of %zu bytes", size);
        kpk_status status = kpk_read_whole(image, header->table_offset, image->owned_table, size);
        if (status != KPK_OK)
            return status;
        table = (const uint8_t *)image->owned_table;
    }
    if (!kpk_digest_matches(table, size, header->table_digest))
        return kpk_fail(image, KPK_ERR_DAMAGED, "the part table's digest does not match");
    image->parts = (const struct kpk_part_record *)(const void *)table;
    image->part_strings = (const char *)(table + header->part_count * sizeof(*image->parts));
    image->part_count = header->part_count;
    image->table_end = header->table_offset + header->table_size;
    return KPK_OK;
}

kpk_status kpk_read_table(kpk_image *image)
{
    struct kpk_bundle_header header;
    memcpy(&header, &image->header, sizeof(header));
    memset(&image->header, 0, sizeof(image->header));
    image->bytes = NULL;
    if (header.part_count == 0 || header.part_count > KPK_PART_LIMIT ||
        header.table_offset != sizeof(header) || header.table_size > KPK_TABLE_LIMIT ||
        header.table_size > image->file_size - header.table_offset ||
        header.table_size < header.part_count * sizeof(struct kpk_part_record) ||
        !kpk_all_zero(header.reserved, sizeof(header.reserved)))
        return kpk_fail(image, KPK_ERR_DAMAGED, "the bundle's header has fields out of bounds");
    kpk_status status = get_table(image, &header);
    return status != KPK_OK ? status : check_table(image, &header);
}

/* ---- Picking a part ------------------------------------------------------------------------ */

uint32_t kpk_part_for_target(const kpk_image *image, const char *target)
{
    for (uint32_t i = 0; i < image->part_count; i++) {
        if (strcmp(kpk_part_text(image, image->parts[i].target), target) == 0)
            return i;
    }
    return KPK_NONE;
}

static char suffix_of(const kpk_image *image, const struct kpk_part_record *part)
{
    return kpk_part_text(image, part->arch)[part->arch.size - 1];
}

/* Of two parts that a device can run the one made for it more closely: the later minor number, then
 * sm_100a before sm_100f before sm_100. */
static uint64_t closeness(const kpk_image *image, const struct kpk_part_record *part)
{
    char suffix = suffix_of(image, part);
    return part->compute_minor * (uint64_t)3 + (suffix == 'a' ? 2 : suffix == 'f' ? 1 : 0);
}

uint32_t kpk_part_for_device(const kpk_image *image, int major, int minor)
{
    uint32_t best = KPK_NONE;
    for (uint32_t i = 0; i < image->part_count; i++) {
        const struct kpk_part_record *part = &image->parts[i];
        if (!kpk_arch_fits(suffix_of(image, part), part->compute_major, part->compute_minor, major,
                           minor))
            continue;
        if (best == KPK_NONE || closeness(image, part) > closeness(image, &image->parts[best]))
            best = i;
    }
    return best;
}

void kpk_list_parts(const kpk_image *image, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < image->part_count && used < size; i++) {
        const char *between = i == 0 ? "" : i + 1 < image->part_count ? ", " : " and ";
        int added = snprintf(text + used, size - used, "%s%s (%s)", between,
                             kpk_part_text(image, image->parts[i].arch),
                             kpk_part_text(image, image->parts[i].target));
        used += added > 0 ? (size_t)added : 0;
    }
}

static bool same_text(const kpk_image *image, struct kpk_string own, struct kpk_string listed)
{
    return own.size == listed.size &&
           memcmp(kpk_text(image, own), kpk_part_text(image, listed), own.size) == 0;
}

static kpk_status check_listed(const kpk_image *image, const struct kpk_part_record *part)
{
    const struct kpk_target_record *target = image->target;
    if (same_text(image, target->name, part->target) &&
        same_text(image, target->arch, part->arch) &&
        target->compute_major == part->compute_major &&
        target->compute_minor == part->compute_minor && target->min_driver == part->min_driver)
        return KPK_OK;
    return kpk_fail(image, KPK_ERR_DAMAGED, "the bundle's part table says other than the part");
}

static kpk_status read_part(kpk_image *image, const struct kpk_part_record *part)
{
    kpk_status status = KPK_OK;
    if (image->whole != NULL)
        memcpy(&image->header, image->bytes, sizeof(image->header));
    else
        status = kpk_read_file(image, 0, &image->header, sizeof(image->header));
    if (status != KPK_OK)
        return status;
    if (!kpk_digest_matches(&image->header, offsetof(struct kpk_header, header_digest),
                            part->digest))
        return kpk_fail(image, KPK_ERR_DAMAGED, "is not the image that the part table names");
    status = kpk_check_header(image, part->size);
    if (status == KPK_OK && image->header.kind != KPK_KIND_IMAGE)
        status = kpk_fail(image, KPK_ERR_DAMAGED, "is of kind %u, expected an image",
                          image->header.kind);
    if (status == KPK_OK)
        status = kpk_read_index(image);
    return status != KPK_OK ? status : check_listed(image, part);
}

kpk_status kpk_pick_part(kpk_image *image, uint32_t index)
{
    const struct kpk_part_record *part = &image->parts[index];
    __atomic_store_n(&image->part_name, kpk_part_text(image, part->target), __ATOMIC_RELEASE);
    image->start = part->offset;
    image->bytes = image->whole == NULL ? NULL : image->whole + part->offset;
    kpk_status status = read_part(image, part);
    if (status == KPK_OK) {
        kpk_publish_index(image);
        return KPK_OK;
    }
    kpk_drop_index(image);
    image->start = 0;
    image->bytes = NULL;
    __atomic_store_n(&image->part_name, (const char *)NULL, __ATOMIC_RELEASE);
    return status;
}

/* ---- Auditing ------------------------------------------------------------------------------ */

uint32_t kpk_part_count(const kpk_image *image)
{
    return image == NULL ? 0 : image->part_count;
}

kpk_status kpk_get_part(const kpk_image *image, uint32_t index, kpk_part_info *out_info)
{
    if (out_info == NULL)
        return KPK_ERR_ARGUMENT;
    memset(out_info, 0, sizeof(*out_info));
    if (index >= kpk_part_count(image))
        return KPK_ERR_ARGUMENT;
    const struct kpk_part_record *part = &image->parts[index];
    out_info->target = kpk_part_text(image, part->target);
    out_info->arch = kpk_part_text(image, part->arch);
    out_info->compute_major = part->compute_major;
    out_info->compute_minor = part->compute_minor;
    out_info->min_driver = part->min_driver;
    out_info->offset = part->offset;
    out_info->size = part->size;
    return KPK_OK;
}

static kpk_status verify_gap(const kpk_image *image, uint64_t end, uint64_t start)
{
    uint8_t bytes[KPK_PART_ALIGN];
    const uint8_t *gap = bytes;
    kpk_status status = KPK_OK;
    if (image->whole != NULL)
        gap = image->whole + end;
    else
        status = kpk_read_whole(image, end, bytes, (size_t)(start - end));
    if (status == KPK_OK && !kpk_all_zero(gap, (size_t)(start - end)))
        status = kpk_fail(image, KPK_ERR_DAMAGED, "bytes between its parts are not zero");
    return status;
}

/* A part as an image by itself, which borrows the bundle's table. */
static kpk_status open_part(const kpk_image *image, uint32_t index, kpk_image **out_image)
{
    kpk_image *part = NULL;
    kpk_status status = kpk_make_image(image->name, &image->desc, &part);
    if (status != KPK_OK)
        return status;
    part->file_size = image->file_size;
    part->whole = image->whole;
    part->parts = image->parts;
    part->part_count = image->part_count;
    part->part_strings = image->part_strings;
    if (image->whole == NULL) {
        part->file = fcntl(image->file, F_DUPFD_CLOEXEC, 0);
        if (part->file < 0)
            status = kpk_fail(image, KPK_ERR_IO, "cannot read: %s", strerror(errno));
    }
    if (status == KPK_OK)
        status = kpk_pick_part(part, index);
    if (status == KPK_OK)
        *out_image = part;
    else
        kpk_close(part);
    return status;
}

kpk_status kpk_verify_bundle(const kpk_image *image)
{
    kpk_status result = KPK_OK;
    uint64_t end = image->table_end;
    for (uint32_t i = 0; i < image->part_count; i++) {
        kpk_image *part = NULL;
        kpk_status status = verify_gap(image, end, image->parts[i].offset);
        if (result == KPK_OK)
            result = status;
        status = open_part(image, i, &part);
        if (status == KPK_OK)
            status = kpk_verify(part);
        if (result == KPK_OK)
            result = status;
        kpk_close(part);
        end = image->parts[i].offset + image->parts[i].size;
    }
    return result;
}
