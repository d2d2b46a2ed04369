#ifndef CLI_LOOKUP_SCAN_H
#define CLI_LOOKUP_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "cli/source_lex.h"

/* Calls in sources that look a kernel up: NAME(..., "module", "entry", ...), the first two literal
 * strings that are arguments side by side. */

struct lookup_call {
    const char *file; /* borrowed */
    uint32_t line;
    const char *module, *entry; /* NULL: not literal */
    const char *text;           /* of a call that is not literal, on one line */
};

/* Zero-initialise to start, with `names`. */
struct lookup_scan {
    const char *const *names; /* of the calls; borrowed */
    size_t name_count;
    struct arena arena;
    struct lookup_call *calls; /* owned; in the sources' order */
    size_t count, cap;
};

/* Adds the calls of a source. Declarations and definitions of the names are none. */
void lookup_scan(struct lookup_scan *scan, const char *file, enum source_language language,
                 const char *bytes, size_t size);
void lookup_scan_free(struct lookup_scan *scan);

#endif
