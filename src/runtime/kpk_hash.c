#include "kpk_image.h"

#include <string.h>

/* Most of an open is this digest, and GCC's -O2 leaves a third of its speed in the loop. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

void kpk_digest(const void *bytes, size_t size, uint8_t out_digest[KPK_DIGEST_SIZE])
{
#ifdef KPK_HAS_AVX2
    if (__builtin_cpu_supports("avx2")) {
        kpk_digest_avx2(bytes, size, out_digest);
        return;
    }
#endif
    kpk_digest_plain(bytes, size, out_digest);
}

void kpk_digest_plain(const void *bytes, size_t size, uint8_t out_digest[KPK_DIGEST_SIZE])
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
