#ifndef TARGET_CHECK_H
#define TARGET_CHECK_H

#include "target/inherit.h"

/* The checks that need a target's whole list: twins, shared memory against the device, levers that
 * share a variable. Adds an error for each mistake. */
void check_merged(const struct description *description, const struct merged *merged,
                  struct arena *arena, struct diags *diags);

#endif
