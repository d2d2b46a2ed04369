#ifndef TARGET_INHERIT_H
#define TARGET_INHERIT_H

#include "target/description.h"

/* What a target ships once inheritance is resolved. */
struct merged {
    const struct declared_module **modules; /* sorted by name */
    size_t module_count;
    const struct declared_lever **levers; /* sorted by name */
    size_t lever_count;
    const struct declared_absent **absents; /* sorted by module, then entry; drops are among them */
    size_t absent_count;
};

/* Merges a description with those it inherits from: the child's modules, levers and absences win. A
 * replaced module must be declared `shadow`, and what it drops must be listed in `drops`. Adds
 * errors for mistakes of `description` itself; its parents' were found when they were merged. */
void inherit_merge(const struct description *description, struct arena *arena, struct diags *diags,
                   struct merged *out);

/* Index of an entry in a module, SIZE_MAX when it has none of that name. */
size_t inherit_entry(const struct declared_module *module, const char *name);

/* The module of that name, NULL when there is none. */
const struct declared_module *inherit_module(const struct merged *merged, const char *name);

#endif
