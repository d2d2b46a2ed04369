#include "base/digest.h"

#include <blake2.h>

#include "base/mem.h"

_Static_assert(sizeof(blake2b_state) + 63 <= sizeof(struct digest_state),
               "libb2's state must fit our opaque one");
_Static_assert(_Alignof(blake2b_state) <= 64, "libb2 aligns its state to a cache line at most");

static blake2b_state *inner(struct digest_state *state)
{
    uintptr_t at = (uintptr_t)state->opaque;
    return (blake2b_state *)((at + 63) & ~(uintptr_t)63);
}

void digest_start(struct digest_state *state)
{
    if (blake2b_init(inner(state), DIGEST_SIZE) != 0)
        BUG("blake2b_init refused 32 bytes");
}

void digest_add(struct digest_state *state, const void *bytes, size_t size)
{
    blake2b_update(inner(state), bytes, size);
}

struct digest digest_finish(struct digest_state *state)
{
    struct digest digest;
    blake2b_final(inner(state), digest.bytes, DIGEST_SIZE);
    return digest;
}

struct digest digest_bytes(const void *bytes, size_t size)
{
    struct digest_state state;
    digest_start(&state);
    digest_add(&state, bytes, size);
    return digest_finish(&state);
}

void digest_hex(const struct digest *digest, struct str *out)
{
    for (size_t i = 0; i < DIGEST_SIZE; i++)
        str_addf(out, "%02x", digest->bytes[i]);
}
