#include "image/file_digest.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void file_digest(const void *bytes, size_t size, uint8_t out_digest[KPK_DIGEST_SIZE])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(out_digest, canonical.digest, KPK_DIGEST_SIZE);
}
