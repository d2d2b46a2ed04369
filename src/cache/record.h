#ifndef CACHE_RECORD_H
#define CACHE_RECORD_H

#include "base/watch.h"
#include "cache/cache.h"

/* What a whole build has read and written, kept so that the next one can tell in milliseconds that
 * there is nothing to do. */

/* Keeps the list, the entries that the build's results are, and whatever else the caller wants to
 * find again, if it can. */
void record_put(struct cache *cache, const struct digest *key, const struct watch *watch,
                const struct cache_name *entries, size_t entry_count, const struct str *more);

/* Whether a record is there and everything in it is as it was: `out_more` is then what was kept.
 * The record is renewed when some file had to be read to know that. Whenever its time of use is
 * written, so is that of its entries: what the last build stands on is not the first to be trimmed.
 */
bool record_holds(struct cache *cache, const struct digest *key, struct str *out_more);

#endif
