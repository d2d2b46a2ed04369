#include "cache/cache.h"

#include "cache/cache_entry.h"

const char cache_letters[] = {'r', 'n', 'l', 'b'};
