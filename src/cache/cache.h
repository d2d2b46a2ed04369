#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/digest.h"
#include "base/str.h"

/* A folder of entries, each named by its kind and the digest of its key. Many processes may use it
 * at once: an entry is written aside and renamed, never changed, and carries a digest that is
 * checked on every read, so that what a crash or a full disk tore is dropped like what does not
 * exist. That is why nothing is flushed to the disk. */

enum cache_kind {
    CACHE_RESULT, /* what a compile gave */
    CACHE_NAMES,  /* which files the compiles of a unit asked for */
    CACHE_LAST,   /* how a unit was compiled the last time */
    CACHE_BUILD,  /* what a whole build read and wrote */
    CACHE_KINDS,
};

struct cache_name {
    enum cache_kind kind;
    struct digest key;
};

struct cache {
    const char *folder; /* owned; NULL: nothing is found and nothing kept */
    bool read_only;     /* a write failed: no more are tried */
    bool renewed; /* the last entry that was got counts as used from now on, not from before */
};

/* Opens the folder, made when it is not there. One that cannot be used is a warning, and the cache
 * is then none. */
void cache_open(struct cache *cache, const char *folder, struct diags *diags);
void cache_close(struct cache *cache);

/* The bytes that cache_put kept under the key. An entry that is damaged is removed and not found.
 * A found one counts as used now. */
bool cache_get(struct cache *cache, enum cache_kind kind, const struct digest *key,
               struct str *out);

/* Entries that count as used now, without being read. */
void cache_use(struct cache *cache, const struct cache_name *names, size_t count);

/* Keeps the bytes. The first failure is a warning, and later calls do nothing. */
void cache_put(struct cache *cache, enum cache_kind kind, const struct digest *key,
               const struct str *bytes, struct diags *diags);

struct cache_stats {
    uint64_t entries[CACHE_KINDS], bytes[CACHE_KINDS];
    uint64_t leftovers, leftover_bytes; /* what killed builds left behind */
};

/* A folder that does not exist is an empty cache. */
bool cache_stats(const struct cache *cache, struct cache_stats *out, struct diags *diags);

/* Removes the entries that were used longest ago, until at most `most` bytes are left, and what
 * killed builds left behind an hour ago or earlier. */
bool cache_trim(struct cache *cache, uint64_t most, struct cache_stats *out_removed,
                struct diags *diags);

/* Text of a kind for people: "results". */
const char *cache_kind_text(enum cache_kind kind);

#endif
