#ifndef IMAGE_STRTAB_H
#define IMAGE_STRTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"
#include "runtime/kpk_format.h"

/* The string section under construction: every distinct string once, in the order of first use,
 * each followed by a NUL. The empty string is always {0, 0}. */
struct strtab {
    struct str bytes;      /* owned */
    struct kpk_string *at; /* owned; open addressing, size 0: empty */
    size_t slots, used;
    uint64_t limit; /* bytes the section may have */
    bool full;      /* the limit was passed; `bytes` is then of no use */
};

void strtab_start(struct strtab *table, uint64_t limit);

/* `text` NULL counts as "". */
struct kpk_string strtab_add(struct strtab *table, const char *text);

void strtab_free(struct strtab *table);

#endif
