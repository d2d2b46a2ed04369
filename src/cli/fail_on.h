#ifndef CLI_FAIL_ON_H
#define CLI_FAIL_ON_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"

/* Reads the value of --fail-on: words joined by commas. Sets out_values[i] to NULL when words[i] is
 * not named, else to "", or to VALUE of "WORD=VALUE", which `valued` alone may have (NULL: no
 * word). False after a usage error, which names the nearest word. `text` NULL: nothing is named. */
bool fail_on_parse(struct cli *cli, const char *text, const char *const *words, size_t count,
                   const char *valued, const char **out_values);

#endif
