#ifndef CACHE_CACHE_ENTRY_H
#define CACHE_CACHE_ENTRY_H

/* Names of files in a cache's folder. */

/* By enum cache_kind: what an entry's name ends with, after a '-'. */
extern const char cache_letters[];

/* What the name of a file that is being written starts with. */
#define CACHE_ASIDE ".aside."

#endif
