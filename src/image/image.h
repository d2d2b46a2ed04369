#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/str.h"

/* Everything that goes into an image, in any order: the writer sorts. All borrowed. The bits of
 * enums are those of runtime/kpk_format.h. */

struct image_constant {
    const char *name;
    int64_t value;
};

struct image_entry {
    const char *name;
    const char *symbol;  /* of the kernel in its cubin; NULL: the name */
    size_t object;       /* index into its module's objects */
    const char *twin_of; /* "module:entry" or NULL */
    uint32_t twin_bits;  /* KPK_TWIN_* */
    uint32_t present;    /* KPK_PRESENT_* */
    uint32_t block[3], dynamic_smem, static_smem, registers, stack_bytes, spill_bytes;
    uint64_t code_bytes;
};

struct image_object {
    const void *cubin;
    size_t size;
};

struct image_module {
    const char *name, *source, *origin;
    const struct image_entry *entries;
    size_t entry_count;
    const struct image_object *objects; /* one, or one per entry of a split module */
    size_t object_count;
    const struct image_constant *constants;
    size_t constant_count;
    const char *const *flags; /* kept in order */
    size_t flag_count;
};

struct image_lever {
    const char *name, *env;
    uint32_t kind; /* KPK_LEVER_* */
    bool on;
    const char *text; /* may be NULL */
};

struct image_absent {
    const char *module, *entry, *reason;
};

struct image {
    const char *target, *arch;
    const char *stamp; /* JSON or NULL */
    uint32_t compute_major, compute_minor, min_driver, nvrtc_major, nvrtc_minor;
    uint32_t sm_count, smem_optin;
    const struct image_module *modules;
    size_t module_count;
    const struct image_lever *levers;
    size_t lever_count;
    const struct image_absent *absents;
    size_t absent_count;
};

struct image_stats {
    uint64_t raw_bytes; /* of all distinct cubins */
    uint64_t file_bytes;
    size_t groups, blobs;
};

/* Raw bytes a group may hold, unless one cubin alone is larger: what a first use decodes at most.
 * Measured (tests/bench/RESULTS.md): the largest cap at which the first use of one kernel alone
 * decodes nothing but that kernel's cubin for half of the modules; families of tile variants pack
 * to 0.4 of their fatbins. Larger ones save bytes that first uses pay for. */
#define IMAGE_GROUP_CAP (96u * 1024u)

/* Writes the whole file's bytes: the same input gives the same bytes, in whatever order its lists
 * come. Groups hold cubins that resemble each other, `group_cap` raw bytes at most (0:
 * IMAGE_GROUP_CAP). Errors: a name used twice, a limit of the format passed. */
bool image_write(const struct image *image, size_t group_cap, struct str *out,
                 struct image_stats *out_stats, struct diags *diags);

/* The least driver (as cuDriverGetVersion counts) that loads cubins of this NVRTC for this arch.
 * NVIDIA, "CUDA Compatibility", Minor Version Compatibility: code of any toolkit of a major series
 * runs on every driver of that series (13.x: r580 and newer, 12.x: r525 and newer) and on all newer
 * ones; so the least is MAJOR.0. A driver older than an architecture cannot load code for it: for
 * those that came within a series ("CUDA Features Archive": 12.8 brought sm_100, 101 and 120, 12.9
 * sm_103, 121 and the f variants) the least is that release. An arch that this table does not know
 * asks for the toolkit's own version. */
uint32_t image_min_driver(int nvrtc_major, int nvrtc_minor, const char *arch);

#endif
