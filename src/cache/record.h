#ifndef CACHE_RECORD_H
#define CACHE_RECORD_H

#include "base/watch.h"
#include "cache/cache.h"

/* What a whole build has read and written, kept so that the next one can tell in milliseconds that
 * there is nothing to do. */

/* Keeps the list and whatever else the caller wants to find again, if it can. */
void record_put(struct cache *cache, const struct digest *key, const struct watch *watch,
                const struct str *more);

/* Whether a record is there and everything in it is as it was: `out_more` is then what was kept.
 * The record is renewed when some file had to be read to know that. */
bool record_holds(struct cache *cache, const struct digest *key, struct str *out_more);

#endif
