#include "kpk_image.h"

#include <stdlib.h>
#include <string.h>
#define ZSTD_STATIC_LINKING_ONLY /* for ZSTD_d_stableOutBuffer, without which decoding still works \
                                  */
#include <zstd.h>
#include <zstd_errors.h>

enum {
    WINDOW_LOG_MAX = 30, /* KPK_GROUP_RAW_LIMIT: what memory a frame may ask for */
};

static kpk_status damaged(const kpk_image *image, uint32_t group, const char *what)
{
    return kpk_fail(image, KPK_ERR_DAMAGED, "group %u: %s", group, what);
}

/* The packed bytes, whole, and checked before any of them is decoded. */
static kpk_status read_packed(const kpk_image *image, uint32_t index, struct kpk_decoding *decoding)
{
    const struct kpk_group_record *group = &image->groups[index];
    if (image->bytes != NULL) {
        decoding->packed = image->bytes + group->offset;
    } else {
        /* Read, not mapped: a file that shrinks or changes under us becomes a status. */
        decoding->owned_packed = (uint8_t *)malloc(group->packed_size);
        if (decoding->owned_packed == NULL)
            return kpk_fail(image, KPK_ERR_MEMORY, "group %u: no memory for %llu packed bytes",
                            index, (unsigned long long)group->packed_size);
        kpk_status status =
            kpk_read_file(image, group->offset, decoding->owned_packed, group->packed_size);
        if (status != KPK_OK)
            return status;
        decoding->packed = decoding->owned_packed;
    }
    if (!kpk_digest_matches(decoding->packed, group->packed_size, group->digest))
        return damaged(image, index, "the digest of its packed bytes does not match");
    if (ZSTD_getFrameContentSize(decoding->packed, group->packed_size) != group->raw_size ||
        ZSTD_findFrameCompressedSize(decoding->packed, group->packed_size) != group->packed_size)
        return damaged(image, index, "its zstd frame is not of the recorded sizes");
    return KPK_OK;
}

struct ZSTD_DCtx_s *kpk_make_context(void)
{
    return ZSTD_createDCtx();
}

static kpk_status start(const kpk_image *image, uint32_t index, struct kpk_decoding *decoding)
{
    const struct kpk_group_record *group = &image->groups[index];
    kpk_status status = read_packed(image, index, decoding);
    if (status != KPK_OK)
        return status;
    decoding->raw = (uint8_t *)malloc(group->raw_size);
    if (decoding->raw == NULL)
        return kpk_fail(image, KPK_ERR_MEMORY, "group %u: no memory for %llu bytes", index,
                        (unsigned long long)group->raw_size);
    if (decoding->context == NULL)
        decoding->context = kpk_make_context();
    if (decoding->context == NULL)
        return kpk_fail(image, KPK_ERR_MEMORY, "group %u: no memory to decode it", index);
    decoding->wanted = ZSTD_initDStream(decoding->context);
    ZSTD_DCtx_setParameter(decoding->context, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    /* All of the output stays where it is: zstd need not copy it through a window of its own. */
#ifdef ZSTD_d_stableOutBuffer
    ZSTD_DCtx_setParameter(decoding->context, ZSTD_d_stableOutBuffer, 1);
#endif
    return KPK_OK;
}

/* Decodes one block: zstd gets exactly the bytes it asks for, so it buffers none of them. */
static kpk_status step(const kpk_image *image, uint32_t index, struct kpk_decoding *decoding)
{
    const struct kpk_group_record *group = &image->groups[index];
    ZSTD_inBuffer in = {decoding->packed + decoding->taken, decoding->wanted, 0};
    ZSTD_outBuffer out = {decoding->raw, (size_t)group->raw_size, (size_t)decoding->done};
    if (decoding->wanted > group->packed_size - decoding->taken)
        return damaged(image, index, "its zstd frame does not end with its bytes");
    size_t wanted = ZSTD_decompressStream(decoding->context, &out, &in);
    if (ZSTD_getErrorCode(wanted) == ZSTD_error_memory_allocation)
        return kpk_fail(image, KPK_ERR_MEMORY, "group %u: no memory to decode it", index);
    if (ZSTD_isError(wanted))
        return damaged(image, index, "its zstd frame does not decode");
    decoding->taken += in.pos;
    decoding->done = out.pos;
    decoding->wanted = wanted;
    return KPK_OK;
}

kpk_status kpk_decode(const kpk_image *image, uint32_t group, uint64_t end,
                      struct kpk_decoding *decoding)
{
    const uint64_t all = image->groups[group].raw_size;
    kpk_status status = KPK_OK;
    if (decoding->raw == NULL)
        status = start(image, group, decoding);
    /* With the last byte goes the frame's end, where its checksum is compared. */
    while (status == KPK_OK && decoding->wanted != 0 &&
           (decoding->done < end || decoding->done == all))
        status = step(image, group, decoding);
    if (status == KPK_OK && decoding->done < end)
        status = damaged(image, group, "its zstd frame is shorter than it says");
    if (status != KPK_OK) {
        kpk_decode_reset(decoding);
    } else if (decoding->wanted == 0) {
        free(decoding->owned_packed);
        decoding->owned_packed = NULL;
    }
    return status;
}

void kpk_decode_reset(struct kpk_decoding *decoding)
{
    struct ZSTD_DCtx_s *context = decoding->context;
    free(decoding->owned_packed);
    free(decoding->raw);
    memset(decoding, 0, sizeof(*decoding));
    decoding->context = context;
}

void kpk_decode_free(struct kpk_decoding *decoding)
{
    kpk_decode_reset(decoding);
    ZSTD_freeDCtx(decoding->context);
    decoding->context = NULL;
}
