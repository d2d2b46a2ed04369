#ifndef BASE_EMBED_H
#define BASE_EMBED_H

#include <stddef.h>

/* Files that the build puts inside the executable (embed.sh generates the tables). */
struct embed_file {
    const char *name; /* relative to the folder it came from */
    const char *data; /* NUL-terminated; the NUL is not counted */
    size_t size;
};

/* lua/: the description language. Sorted by name, ended by a NULL name. */
extern const struct embed_file embed_lua[];

/* src/compile/headers/: C headers that NVRTC lacks. Sorted by name, ended by a NULL name. */
extern const struct embed_file embed_headers[];

/* src/cli/report/: style and script of a report's page. The same order and end. */
extern const struct embed_file embed_report[];

#endif
