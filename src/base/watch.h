#ifndef BASE_WATCH_H
#define BASE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/map.h"
#include "base/mem.h"

/* What a run asks of the file system, so that a later one can tell whether it would be answered the
 * same. */

enum watch_kind {
    WATCH_BYTES, /* the bytes of a regular file */
    WATCH_STAMP, /* the same by the file's stamp alone: for libraries, too large to read each time
                  */
    WATCH_NAMES, /* the names in a folder */
    WATCH_TYPE,  /* what there is: see watch_type_of */
    WATCH_LINK,  /* where symbolic links lead */
    WATCH_KINDS,
};

/* What stat says of a file. Equal stamps mean equal bytes when the file's times are older than the
 * run that read it: a later change gets a later time. (git calls younger ones racy.) */
struct watch_stamp {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};

struct watch_item {
    enum watch_kind kind;
    const char *path;
    struct watch_stamp stamp; /* of bytes, stamps and names */
    struct digest digest;     /* of bytes, and of the sorted names */
    const char *text;         /* of a link: the real path; of a type: its word */
};

struct watch {
    int64_t since_ns;         /* the file system's clock when the run began */
    struct watch_item *items; /* owned */
    size_t count, cap;
    struct arena arena;
    struct map known;
};

void watch_init(struct watch *watch);
void watch_free(struct watch *watch);

/* NULL: the list has none. */
struct watch_item *watch_find(struct watch *watch, enum watch_kind kind, const char *path);

/* From start to stop, what base/file.h is asked goes into the list; for one thread. */
void watch_start(struct watch *watch);
void watch_stop(void);

/* The item of this kind and path, valid until the next call; a new one, whose path is copied, is to
 * be filled. */
struct watch_item *watch_add(struct watch *watch, enum watch_kind kind, const char *path,
                             bool *out_new);

/* What these paths hold now. watch_path: the bytes, or the type of what is no regular file. */
void watch_path(struct watch *watch, const char *path);
void watch_type(struct watch *watch, const char *path);

/* A file that was written with these bytes. */
void watch_written(struct watch *watch, const char *path, const struct digest *digest);

/* Reads the files whose stamps alone were noted and are too young to stand for bytes. False when
 * one has changed since. */
bool watch_settle(struct watch *watch);

/* What base/file.h and the other readers of folders and links call; nothing between stop and start.
 */
void watch_note_bytes(const char *path, const struct stat *info, const void *bytes, size_t size);
void watch_note_stamp(const char *path, const struct stat *info);
void watch_note_names(const char *folder);
void watch_note_type(const char *path);
void watch_note_link(const char *path, const char *real);

struct watch_stamp watch_stamp_of(const struct stat *info);

/* "file", "folder", "other", "nothing". */
const char *watch_type_of(const char *path);

enum watch_verdict {
    WATCH_SAME,
    WATCH_SAME_BYTES, /* but another stamp, or one too young to trust: item->stamp is now new */
    WATCH_DIFFERENT,
};

/* Asks again; `since_ns` is of the run that the item is from. */
enum watch_verdict watch_check(struct watch_item *item, int64_t since_ns);

#endif
