#ifndef BASE_TERM_H
#define BASE_TERM_H

#include <stdbool.h>
#include <stdio.h>

/* Whether to colour what goes to this stream: it is a terminal, TERM is not "dumb" or empty, and
 * NO_COLOR (https://no-color.org) is unset or empty. */
bool term_colour(FILE *stream);

/* Whether a status line that redraws itself makes sense there: a terminal with TERM not "dumb". */
bool term_live(FILE *stream);

/* Columns of the terminal, 80 when unknown. */
unsigned term_columns(FILE *stream);

#endif
