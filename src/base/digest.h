#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* BLAKE2b-256 (RFC 7693, 32-byte output, no key): for names of content that must never collide. */
enum {
    DIGEST_SIZE = 32
};

struct digest {
    uint8_t bytes[DIGEST_SIZE];
};

struct digest_state {
    uint64_t opaque[64];
};

void digest_start(struct digest_state *state);
void digest_add(struct digest_state *state, const void *bytes, size_t size);
struct digest digest_finish(struct digest_state *state);

struct digest digest_bytes(const void *bytes, size_t size);

/* Adds 64 lower-case hexadecimal digits. */
void digest_hex(const struct digest *digest, struct str *out);

#endif
