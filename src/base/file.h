#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"
#include "base/mem.h"
#include "base/str.h"

/* What is asked here is noted by a watch that is on: see base/watch.h. */

/* Reads a whole regular file. A directory, a FIFO or an unreadable file is an error that names it.
 */
bool file_read(const char *path, struct str *out, struct diags *diags);

bool file_exists(const char *path); /* whatever it is */
bool file_is_regular(const char *path);
bool file_is_dir(const char *path);

/* Makes `path` hold exactly these bytes, or leaves it as it was: writes a file aside in the same
 * folder, flushes it to the disk, renames it, flushes the folder. The file aside is removed on
 * failure. A symbolic link stays, and the file that it names is written; a folder, a device or a
 * FIFO is an error. */
bool file_publish(const char *path, const void *bytes, size_t size, struct diags *diags);

/* As file_publish, but a file that holds these bytes already is left as it is. */
bool file_update(const char *path, const void *bytes, size_t size, bool *out_written,
                 struct diags *diags);

/* Makes the folder and the ones above it. */
bool file_make_dirs(const char *path, struct diags *diags);

/* Pure path arithmetic; results live in the arena. */
char *path_join(struct arena *arena, const char *folder, const char *name);
char *path_dir(struct arena *arena, const char *path);  /* "." for a bare name */
const char *path_base(const char *path);                /* borrowed: the part after the last '/' */
char *path_stem(struct arena *arena, const char *path); /* base name without its last extension */

/* The path with symbolic links resolved, NULL with an error when it does not exist. */
char *path_real(struct arena *arena, const char *path, struct diags *diags);

#endif
