#ifndef KPK_BUILD_H
#define KPK_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/kpk_format.h"

/* Builds the bytes of an image straight from the format's header, apart from the tool's writer: for
 * tests that need images no writer would make, and as a second opinion on FORMAT.md. */

struct build_entry {
    const char *name;
    const char *symbol; /* may be NULL */
    uint32_t object;    /* of its module, from 0 */
    uint32_t block[3], dynamic_smem, static_smem, present;
    const char *twin_of; /* may be NULL */
    uint32_t twin_bits;
};

struct build_constant {
    const char *name;
    int64_t value;
};

struct build_module {
    const char *name;
    const struct build_entry *entries; /* sorted by name */
    uint32_t entry_count;
    const uint32_t *objects; /* the blob of each */
    uint32_t object_count;
    const struct build_constant *constants;
    uint32_t constant_count;
    const char *const *flags;
    uint32_t flag_count;
};

struct build_lever {
    const char *name, *env, *text;
    uint32_t kind, on;
};

struct build_absent {
    const char *module, *entry, *reason;
};

struct build_image {
    const char *target, *arch;
    uint32_t compute_major, compute_minor, min_driver, sm_count;
    const struct build_module *modules; /* sorted by name */
    uint32_t module_count;
    const char *const *blobs; /* texts; their NUL belongs to them */
    uint32_t blob_count;
    uint32_t group_blobs; /* blobs in a group; 0: all in one */
    uint32_t slot_count;  /* 0: a power of two with room */
    uint32_t targets;     /* target records beyond the one */
    const struct build_lever *levers;
    uint32_t lever_count;
    const struct build_absent *absents;
    uint32_t absent_count;
};

struct build_bytes {
    uint8_t *data; /* owned: free() */
    size_t size;
};

/* Aborts when memory runs out: a test has nothing better to do. */
struct build_bytes build_write(const struct build_image *image);

/* Makes both digests right again after a test changed the header or the index. */
void build_seal(struct build_bytes *bytes);

/* The same, and before that the digest of a group's packed bytes. */
void build_seal_group(struct build_bytes *bytes, uint32_t index);

struct kpk_header *build_header(struct build_bytes *bytes);
/* Record `index` of a section. */
void *build_record(struct build_bytes *bytes, enum kpk_section_id id, uint32_t index);

/* The small image that most tests use: modules alpha (one and two in one object), beta (a split
 * module: big, plain) and gamma (bare: no block, no shared memory declared), in two groups. */
extern const struct build_image build_small;

/* build_small with four cubins of 150 kB, all in one group of several zstd blocks. */
struct build_bytes build_write_long(void);

#endif
