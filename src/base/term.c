#include "base/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool term_live(FILE *stream)
{
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && term && term[0] && strcmp(term, "dumb") != 0;
}

bool term_colour(FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR");
    return term_live(stream) && !(no_colour && no_colour[0]);
}

unsigned term_columns(FILE *stream)
{
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col;
    return 80;
}
