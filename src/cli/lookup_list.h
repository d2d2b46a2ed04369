#ifndef CLI_LOOKUP_LIST_H
#define CLI_LOOKUP_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/mem.h"

/* Lookups that an engine makes, as a list in a file.
 *
 * Text: a line for each, MODULE:ENTRY, split at the first ':'; blanks around it do not count, and
 * from a '#' at the start of a line or behind a blank on there is comment. A comment behind a
 * lookup says where it is made.
 *
 * JSON: a list of objects, or an object whose "lookups" is that list, as `kpack lookups --json`
 * prints it. An object has "module" and "entry", and may have "count" (how often the lookup was
 * made, or missed: what kpk_unexpected_absences says), "file" and "line". */

struct lookup {
    const char *module, *entry;
    const char *place; /* where it is made, "" when the list does not say */
    uint64_t count;    /* how often; 0: the list does not say */
    uint32_t line;     /* of the list; 0: unknown */
};

struct lookup_list {
    struct lookup *items; /* by module, then entry, each pair once: counts add up */
    size_t count;
};

/* Reads bytes[0..size), which may be hostile; all in the arena. Every bad line or object is an
 * error at its place in `path`. */
bool lookup_list_parse(const char *path, const char *bytes, size_t size, struct arena *arena,
                       struct lookup_list *out_list, struct diags *diags);

#endif
