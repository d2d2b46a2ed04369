#ifndef KPK_FORMAT_H
#define KPK_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of a .kpk file, version 1. FORMAT.md, beside this file, says what every field means
 * and what a reader must check; this header is its C form and the only place where sizes are
 * written down.
 *
 * All integers are little-endian. File offsets and sizes are 64-bit; record indices and positions
 * in the string section are 32-bit. Reserved bytes are zero, and a reader refuses an image where
 * they are not. Digests are XXH3-128 with seed 0 in canonical (big-endian) byte order, except where
 * a field says BLAKE2b-256. Layout: header, index (the sections), groups (zstd frames) up to the
 * end of the file, with no byte between them that no digest covers. */

#define KPK_NONE UINT32_MAX           /* no index */
#define KPK_MAGIC "\x89KPK\r\n\x1a\n" /* 8 bytes, no NUL: text-mode transfers damage it visibly */

enum {
    KPK_FORMAT_VERSION = 1,
    KPK_KIND_IMAGE = 1,  /* one target */
    KPK_KIND_BUNDLE = 2, /* images of several targets in one file */
    KPK_DIGEST_SIZE = 16,
    KPK_INDEX_ALIGN = 8,           /* every section starts on such an offset; the gap is zero */
    KPK_GROUP_RAW_LIMIT = 1 << 30, /* raw bytes of one group: what a reader may have to allocate */
    KPK_PART_ALIGN = 4096,         /* a bundle's parts start on such offsets: no page has two */
    KPK_PART_LIMIT = 256,          /* parts of one bundle */
    KPK_TABLE_LIMIT = 1 << 20,     /* bytes of its part table */
};

/* The part that no version may change. */
struct kpk_prefix {
    uint8_t magic[8];
    uint32_t version;
    uint32_t header_size; /* bytes of this version's header, prefix included */
    uint64_t file_size;
};

struct kpk_section {
    uint64_t offset; /* from the start of the file */
    uint64_t size;   /* count * stride */
    uint32_t count;
    uint32_t stride; /* bytes of one record */
};

/* Sections stand in the index in this order. */
enum kpk_section_id {
    KPK_SECTION_TARGET,    /* exactly one kpk_target_record */
    KPK_SECTION_MODULES,   /* sorted by name */
    KPK_SECTION_ENTRIES,   /* by module, then sorted by name */
    KPK_SECTION_SLOTS,     /* hash table over the entries; count is a power of two */
    KPK_SECTION_OBJECTS,   /* by module: what the driver loads at once */
    KPK_SECTION_BLOBS,     /* distinct cubins, by group, in the order of their bytes */
    KPK_SECTION_GROUPS,    /* by offset */
    KPK_SECTION_CONSTANTS, /* by module, then sorted by name */
    KPK_SECTION_FLAGS,     /* by module, in command-line order */
    KPK_SECTION_LEVERS,    /* sorted by name */
    KPK_SECTION_ABSENTS,   /* sorted by module, then entry */
    KPK_SECTION_STRINGS,   /* stride 1; every string is followed by a NUL */
    KPK_SECTION_COUNT
};

struct kpk_header {
    struct kpk_prefix prefix;
    uint32_t kind;
    uint32_t section_count; /* KPK_SECTION_COUNT */
    uint64_t index_offset;  /* header_size */
    uint64_t index_size;    /* the groups begin at index_offset + index_size */
    uint8_t index_digest[KPK_DIGEST_SIZE];
    struct kpk_section sections[KPK_SECTION_COUNT];
    uint8_t reserved[16];
    uint8_t header_digest[KPK_DIGEST_SIZE]; /* of the header's bytes before this field */
};

/* A bundle: this header, its part table, and each part, a whole image, at the least offset behind
 * the one before that KPK_PART_ALIGN divides. The fields that an image's header has too stand at
 * the same offsets. */
struct kpk_bundle_header {
    struct kpk_prefix prefix;
    uint32_t kind; /* KPK_KIND_BUNDLE */
    uint32_t part_count;
    uint64_t table_offset; /* header_size */
    uint64_t table_size;   /* the parts' records, then their strings */
    uint8_t table_digest[KPK_DIGEST_SIZE];
    uint8_t reserved[304];
    uint8_t header_digest[KPK_DIGEST_SIZE]; /* of the header's bytes before this field */
};

/* A string: `size` bytes at `offset` in the string section, UTF-8, no NUL inside, one after. The
 * empty string means absent wherever a record says "may be empty". */
struct kpk_string {
    uint32_t offset;
    uint32_t size;
};

/* What picks a part without a look into it; each field repeats what its image says of itself. */
struct kpk_part_record {
    struct kpk_string target; /* strings stand behind the last record */
    struct kpk_string arch;
    uint32_t compute_major;
    uint32_t compute_minor;
    uint32_t min_driver;
    uint32_t reserved;
    uint64_t offset;                 /* in the file */
    uint64_t size;                   /* the image's file_size */
    uint8_t digest[KPK_DIGEST_SIZE]; /* the image's header_digest: its own digests cover the rest */
};

struct kpk_target_record {
    struct kpk_string name;
    struct kpk_string arch;  /* as compiled for, "sm_90a": the ELF flags cannot tell a from f */
    struct kpk_string stamp; /* JSON of --stamp; may be empty */
    uint32_t compute_major;
    uint32_t compute_minor;
    uint32_t min_driver; /* as cuDriverGetVersion counts: 13000 is 13.0 */
    uint32_t nvrtc_major;
    uint32_t nvrtc_minor;
    uint32_t sm_count;   /* 0: not declared */
    uint32_t smem_optin; /* bytes of shared memory a block may opt in to; 0: not declared */
    uint32_t reserved;
    uint64_t raw_bytes; /* of all distinct cubins */
};

struct kpk_module_record {
    struct kpk_string name;
    struct kpk_string source; /* root-relative */
    struct kpk_string origin; /* the target that declares it */
    uint32_t first_entry, entry_count;
    uint32_t first_object, object_count;
    uint32_t first_constant, constant_count;
    uint32_t first_flag, flag_count;
    uint8_t digest[32]; /* BLAKE2b-256 over its objects' cubins, in order */
};

/* kpk_entry_record.present: which declared values a description gave. */
enum {
    KPK_PRESENT_BLOCK = 1u << 0,
    KPK_PRESENT_DYNAMIC_SMEM = 1u << 1,
    KPK_PRESENT_SPILL = 1u << 2, /* the ptxas log had a line for this entry */
    KPK_PRESENT_ALL = 7,
};

enum {
    KPK_TWIN_NONE = 0,
    KPK_TWIN_SAME = 1,  /* byte for byte the parent's results */
    KPK_TWIN_CLOSE = 2, /* within a named test's tolerance */
};

struct kpk_entry_record {
    struct kpk_string name;
    struct kpk_string twin_of; /* "module:entry"; may be empty */
    uint32_t module;
    uint32_t object;
    uint32_t block[3];
    uint32_t dynamic_smem; /* bytes */
    uint32_t static_smem;  /* bytes, without the 1 KiB that the driver reserves */
    uint32_t registers;    /* per thread */
    uint32_t stack_bytes;  /* per thread */
    uint32_t spill_bytes;  /* stores + loads in the code, as ptxas -v says */
    uint32_t present;
    uint32_t twin_bits;
    uint64_t code_bytes;
    struct kpk_string symbol; /* in its cubin; empty: the name */
};

/* Open addressing with linear probing from (hash & (count - 1)). */
struct kpk_slot {
    uint32_t tag;   /* high 32 bits of the entry's hash */
    uint32_t entry; /* 1 + index; 0: empty */
};

struct kpk_object_record {
    uint32_t module;
    uint32_t blob; /* two objects may share a blob; they are loaded apart all the same */
};

struct kpk_blob_record {
    uint64_t offset; /* in its group's raw bytes */
    uint64_t size;
    uint8_t digest[KPK_DIGEST_SIZE]; /* of the cubin */
    uint32_t group;
    uint32_t reserved;
};

struct kpk_group_record {
    uint64_t offset; /* in the file */
    uint64_t packed_size;
    uint64_t raw_size;
    uint8_t digest[KPK_DIGEST_SIZE]; /* of the packed bytes */
    uint32_t first_blob, blob_count;
};

struct kpk_constant_record {
    struct kpk_string name;
    int64_t value;
};

struct kpk_flag_record {
    struct kpk_string text;
};

/* How a lever's variable is read; kpk.h says what each kind does. */
enum {
    KPK_LEVER_SWITCH = 0,
    KPK_LEVER_IS1 = 1,
    KPK_LEVER_PRESENCE = 2,
    KPK_LEVER_TEXT = 3,
};

struct kpk_lever_record {
    struct kpk_string name;
    struct kpk_string env;
    struct kpk_string text; /* the default of a text lever; else empty */
    uint32_t kind;
    uint32_t on; /* the default of the others: 0 or 1 */
};

struct kpk_absent_record {
    struct kpk_string module;
    struct kpk_string entry;
    struct kpk_string reason;
};

#ifdef __cplusplus
#define KPK_ASSERT(condition) static_assert(condition, #condition)
#else
#define KPK_ASSERT(condition) _Static_assert(condition, #condition)
#endif

KPK_ASSERT(sizeof(struct kpk_prefix) == 24);
KPK_ASSERT(sizeof(struct kpk_section) == 24);
KPK_ASSERT(offsetof(struct kpk_header, index_digest) == 48);
KPK_ASSERT(offsetof(struct kpk_header, sections) == 64);
KPK_ASSERT(offsetof(struct kpk_header, header_digest) == 64 + 24 * KPK_SECTION_COUNT + 16);
KPK_ASSERT(sizeof(struct kpk_header) == 384);
KPK_ASSERT(sizeof(struct kpk_bundle_header) == sizeof(struct kpk_header));
KPK_ASSERT(offsetof(struct kpk_bundle_header, kind) == offsetof(struct kpk_header, kind));
KPK_ASSERT(offsetof(struct kpk_bundle_header, table_digest) == 48);
KPK_ASSERT(offsetof(struct kpk_bundle_header, header_digest) ==
           offsetof(struct kpk_header, header_digest));
KPK_ASSERT(sizeof(struct kpk_string) == 8);
KPK_ASSERT(sizeof(struct kpk_part_record) == 64);
KPK_ASSERT(offsetof(struct kpk_part_record, offset) == 32);
KPK_ASSERT(offsetof(struct kpk_part_record, digest) == 48);
KPK_ASSERT(sizeof(struct kpk_target_record) == 64);
KPK_ASSERT(offsetof(struct kpk_target_record, raw_bytes) == 56);
KPK_ASSERT(sizeof(struct kpk_module_record) == 88);
KPK_ASSERT(offsetof(struct kpk_module_record, digest) == 56);
KPK_ASSERT(sizeof(struct kpk_entry_record) == 80);
KPK_ASSERT(offsetof(struct kpk_entry_record, block) == 24);
KPK_ASSERT(offsetof(struct kpk_entry_record, code_bytes) == 64);
KPK_ASSERT(offsetof(struct kpk_entry_record, symbol) == 72);
KPK_ASSERT(sizeof(struct kpk_slot) == 8);
KPK_ASSERT(sizeof(struct kpk_object_record) == 8);
KPK_ASSERT(sizeof(struct kpk_blob_record) == 40);
KPK_ASSERT(sizeof(struct kpk_group_record) == 48);
KPK_ASSERT(offsetof(struct kpk_group_record, digest) == 24);
KPK_ASSERT(sizeof(struct kpk_constant_record) == 16);
KPK_ASSERT(sizeof(struct kpk_flag_record) == 8);
KPK_ASSERT(sizeof(struct kpk_lever_record) == 32);
KPK_ASSERT(sizeof(struct kpk_absent_record) == 24);

#endif
