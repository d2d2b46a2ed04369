#include "kpk_image.h"

#ifdef KPK_HAS_AVX2

#include <immintrin.h>
#include <string.h>

/* All of xxhash.h once more, with these vectors; in C++ the pragma alone does not tell it. */
#pragma GCC optimize("O3")
#pragma GCC target("avx2")

#define XXH_VECTOR 2
#define XXH_INLINE_ALL
#include <xxhash.h>

#if XXH_VECTOR != XXH_AVX2
#error "xxhash.h does not use AVX2"
#endif

void kpk_digest_avx2(const void *bytes, size_t size, uint8_t out_digest[KPK_DIGEST_SIZE])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(out_digest, canonical.digest, KPK_DIGEST_SIZE);
    /* GCC 12 forgets it in xxhash's loop, and SSE code is several times slower until it is done. */
    _mm256_zeroupper();
}

#endif
