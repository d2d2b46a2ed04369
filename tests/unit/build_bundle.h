#ifndef BUILD_BUNDLE_H
#define BUILD_BUNDLE_H

#include "kpk_build.h"

/* Builds bundles straight from the format's header, apart from the tool's writer. */

/* build_small for another target. */
struct build_bytes build_for(const char *target, const char *arch, uint32_t major, uint32_t minor);

/* A bundle of images, which are by target already. */
struct build_bytes build_bundle(const struct build_bytes *images, uint32_t count);

/* gb10 (sm_121a, 12.1) and hopper (sm_90a, 9.0). */
struct build_bytes build_two(void);

/* Makes the digests of table and header right again. */
void build_seal_bundle(struct build_bytes *bundle);

struct kpk_bundle_header *build_bundle_header(struct build_bytes *bundle);
struct kpk_part_record *build_part(struct build_bytes *bundle, uint32_t index);

#endif
