#include "kpk_image.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

static kpk_status damaged(const kpk_image *image, uint32_t group, const char *what)
{
    return kpk_fail(image, KPK_ERR_DAMAGED, "group %u: %s", group, what);
}

/* The packed bytes, checked; *out_owned is to be freed. */
static kpk_status read_packed(const kpk_image *image, uint32_t index, void **out_owned,
                              const void **out_packed)
{
    const struct kpk_group_record *group = &image->groups[index];
    if (image->bytes != NULL) {
        *out_packed = image->bytes + group->offset;
    } else {
        /* Read, not mapped: a file that shrinks or changes under us becomes a status. */
        *out_owned = malloc(group->packed_size);
        if (*out_owned == NULL)
            return kpk_fail(image, KPK_ERR_MEMORY, "group %u: no memory for %llu packed bytes",
                            index, (unsigned long long)group->packed_size);
        kpk_status status = kpk_read_file(image, group->offset, *out_owned, group->packed_size);
        if (status != KPK_OK)
            return status;
        *out_packed = *out_owned;
    }
    if (!kpk_digest_matches(*out_packed, group->packed_size, group->digest))
        return damaged(image, index, "the digest of its packed bytes does not match");
    return KPK_OK;
}

static kpk_status decompress(const kpk_image *image, uint32_t index, const void *packed,
                             uint8_t **out_raw)
{
    const struct kpk_group_record *group = &image->groups[index];
    if (ZSTD_getFrameContentSize(packed, group->packed_size) != group->raw_size ||
        ZSTD_findFrameCompressedSize(packed, group->packed_size) != group->packed_size)
        return damaged(image, index, "its zstd frame is not of the recorded sizes");
    uint8_t *raw = (uint8_t *)malloc(group->raw_size);
    if (raw == NULL)
        return kpk_fail(image, KPK_ERR_MEMORY, "group %u: no memory for %llu bytes", index,
                        (unsigned long long)group->raw_size);
    size_t got = ZSTD_decompress(raw, group->raw_size, packed, group->packed_size);
    if (got == group->raw_size) {
        *out_raw = raw;
        return KPK_OK;
    }
    free(raw);
    if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        return kpk_fail(image, KPK_ERR_MEMORY, "group %u: no memory to decode it", index);
    return damaged(image, index, "its zstd frame does not decode");
}

kpk_status kpk_decode_group(const kpk_image *image, uint32_t group, uint8_t **out_raw)
{
    *out_raw = NULL;
    void *owned = NULL;
    const void *packed = NULL;
    kpk_status status = read_packed(image, group, &owned, &packed);
    if (status == KPK_OK)
        status = decompress(image, group, packed, out_raw);
    free(owned);
    return status;
}
