#include "kpk_image.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void kpk_digest(const void *bytes, size_t size, uint8_t out_digest[KPK_DIGEST_SIZE])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(out_digest, canonical.digest, KPK_DIGEST_SIZE);
}

bool kpk_digest_matches(const void *bytes, size_t size, const uint8_t digest[KPK_DIGEST_SIZE])
{
    uint8_t found[KPK_DIGEST_SIZE];
    kpk_digest(bytes, size, found);
    return memcmp(found, digest, KPK_DIGEST_SIZE) == 0;
}

uint64_t kpk_name_hash(const char *module, size_t module_size, const char *entry, size_t entry_size)
{
    return XXH3_64bits_withSeed(entry, entry_size, XXH3_64bits(module, module_size));
}
