#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "runtime/kpk.h"

/* An image as the commands that read one see it. */

struct view {
    kpk_image *image; /* owned */
    kpk_image_info info;
    struct cli *cli;
    const char *file; /* borrowed */
    const char
        *path; /* for people: the file, or FILE[TARGET] for a part of a bundle; in the arena */
    uint64_t offset;   /* of the image in its file */
    const char *cause; /* of a failed open; NULL: none was given */
};

/* Opens the image. When that fails there is one error: what the runtime found and expected, and
 * what to do. From then on the runtime's messages become diagnostics. A bundle is an error here. */
bool view_open(struct cli *cli, const char *path, struct view *view);
void view_close(struct view *view);

/* The same for a file that may be a bundle: it has no info then. With `part` (NULL: none) it is,
 * and that part is opened. */
bool view_open_file(struct cli *cli, const char *file, const kpk_part_info *part,
                    struct view *view);

/* Every image of a file: the one that it is, or a bundle's parts, by target. */
struct view_set {
    struct view *views; /* owned */
    size_t count;
    bool bundle;         /* false for one of its parts, which is treated as an image by itself */
    const char *path;    /* of the file; borrowed */
    uint64_t file_bytes; /* of the file */
};

/* Opens all of them, or with `target` (NULL: all) the one for that target. False with an error. */
bool view_set_open(struct cli *cli, const char *path, const char *target, struct view_set *out_set);
void view_set_close(struct view_set *set);

/* The image for that target, NULL when there is none. */
struct view *view_set_find(const struct view_set *set, const char *target);

/* Images of two files side by side: both are images, whatever their targets, or they are parts with
 * one target, of which one side may have none (NULL). */
struct view_pair {
    struct view *before, *after;
};

/* All of them, by target; returns how many. The array is in the arena. */
size_t view_set_pairs(struct arena *arena, const struct view_set *before,
                      const struct view_set *after, struct view_pair **out_pairs);

/* A line on a bundle as a whole; nothing for an image. */
void view_set_head(const struct view_set *set);

/* What --json prints of a set, from a value for each of its images, which it takes over: the
 * image's, or for a bundle {"parts": {TARGET: value}}. */
json_t *view_set_json(const struct view_set *set, json_t *const *values);
void view_set_print_json(const struct view_set *set, json_t *(*value)(const struct view *view));

/* Checks every byte of the image, of a bundle of all its parts. False with an error each. */
bool view_verify(const struct view *view);

/* Adds the image's own bytes, as they lie in the file, of a bundle the file's: those that are added
 * are checked, every one. False with an error each. */
bool view_bytes(const struct view *view, struct str *out);

/* Records by index; an index out of range is a bug. */
kpk_module_info view_module(const struct view *view, uint32_t index);
kpk_entry_info view_entry(const struct view *view, uint32_t index);
kpk_group_info view_group(const struct view *view, uint32_t index);
kpk_lever view_lever(const struct view *view, uint32_t index);
kpk_absent_info view_absent(const struct view *view, uint32_t index);
kpk_blob_info view_blob(const struct view *view, uint32_t index);
kpk_blob_info view_object_blob(const struct view *view, uint32_t object, uint32_t *out_blob);
const char *view_constant(const struct view *view, uint32_t module, uint32_t position,
                          int64_t *out_value);
const char *view_flag(const struct view *view, uint32_t module, uint32_t position);

/* Indices of the modules with a cubin in the group, ascending; returns how many. `out_modules` has
 * room for all of the image's modules. */
size_t view_group_modules(const struct view *view, uint32_t group, uint32_t *out_modules);

/* What to say of a module or entry that the image has not: "no module 'x' in this image (did you
 * mean 'y'?)"; in the arena. */
char *view_absence(const struct view *view, const char *module, const char *entry);

/* What a user writes as MODULE or MODULE:ENTRY. */
struct view_named {
    uint32_t module;
    bool named;           /* the word names an entry */
    kpk_entry_info entry; /* of use then */
};

/* Finds it. NULL, or what there is to say when it is not there, with the nearest name; in the
 * arena. view_find makes an error of that. */
char *view_seek(const struct view *view, const char *word, struct view_named *out_named);
bool view_find(struct view *view, const char *word, struct view_named *out_named);

/* "256", "32x8", "16x16x2", "-" when not declared. */
char *view_block(const kpk_entry_info *entry, struct arena *arena);
/* "switch", "is1", "presence", "text" */
const char *view_lever_kind(kpk_lever_kind kind);

/* What the image's stamp says, "commit 1234 and changes to it, kpack 0.1.0"; one that we did not
 * write as it is, "" when there is none. In the arena. */
char *view_stamp(const struct view *view, struct arena *arena);

/* JSON of the whole image, of a module, of an entry: the fields and their order are a promise to
 * the scripts that read them. New references. */
json_t *view_image_json(const struct view *view);
json_t *view_module_json(const struct view *view, uint32_t index);
json_t *view_entry_json(const kpk_entry_info *entry);

#endif
