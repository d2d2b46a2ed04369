#ifndef KPK_IMAGE_H
#define KPK_IMAGE_H

#ifndef _GNU_SOURCE /* for -std=c11: pread, dlfcn.h, MADV_WIPEONFORK */
#define _GNU_SOURCE 1
#endif

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kpk.h"
#include "kpk_cuda.h"
#include "kpk_format.h"

/* What the .c files of this folder share; engines include kpk.h only. */

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KPK_MISS_LIMIT = 1024, /* distinct misses that an image remembers */
    KPK_MISS_SLOTS = 2048,
    KPK_MESSAGE_SIZE = 1024,
    KPK_CUBIN_ALIGN = 8, /* an ELF's own fields are read in place */
};

/* What a launch reads: one cache line holds two. All but `function` are written before it. */
struct kpk_launch_state {
    void *function; /* NULL until loaded; stored with release, loaded with acquire */
    uint32_t block[3];
    uint32_t default_smem, max_smem; /* bytes of dynamic shared memory */
    uint32_t status;                 /* why its first use failed for good; KPK_OK: it has not */
};

struct kpk_object_state {
    kpk_cu_library library; /* NULL until loaded */
    uint32_t status;        /* why loading failed for good */
};

/* How far a group is decoded; zeroed: not begun. */
struct kpk_decoding {
    uint8_t *raw;                /* owned: room for the whole group */
    uint64_t done;               /* bytes of it that are there */
    struct ZSTD_DCtx_s *context; /* owned; outlives a group */
    uint8_t *owned_packed;
    const uint8_t *packed; /* their digest matched */
    size_t taken, wanted;  /* packed bytes that zstd had, and wants next; wanted 0: at the end */
};

struct kpk_group_state {
    struct kpk_decoding decoding; /* kept for objects not yet loaded */
    uint64_t reach;               /* decode to here at once: a preload wants it */
    uint32_t waiting_objects;     /* neither loaded nor failed for good */
};

struct kpk_device {
    kpk_cu_device handle;
    int ordinal;
    int major, minor; /* compute capability */
    uint32_t max_smem, max_smem_optin;
};

struct kpk_miss_state {
    char *module; /* owned; one block with entry */
    const char *entry;
    uint64_t hash, count;
};

struct kpk_image {
    /* What launches read. */
    const volatile uint32_t *alive;         /* not 0 in the process that opened the image */
    struct kpk_launch_state *launch_states; /* NULL until the first kpk_bind */
    kpk_cuLaunchKernel_fn launch;
    uint32_t entry_count; /* 0 until `ready`; atomic */
    uint32_t tag;         /* upper half of every handle */

    /* The verified index, which does not change any more once `ready` is set: by the open, or for a
     * bundle by what picks its part. Atomic; nothing of the index is read before it is set. */
    uint32_t ready;
    const uint8_t *index; /* owned when `file` >= 0: nobody can change it under us */
    void *owned_index;
    struct kpk_header header;
    const struct kpk_target_record *target;
    const struct kpk_module_record *modules;
    const struct kpk_entry_record *entries;
    const struct kpk_slot *slots;
    const struct kpk_object_record *objects;
    const struct kpk_blob_record *blobs;
    const struct kpk_group_record *groups;
    const struct kpk_constant_record *constants;
    const struct kpk_flag_record *flags;
    const struct kpk_lever_record *levers;
    const struct kpk_absent_record *absents;
    const char *strings;
    uint64_t slot_mask;
    int file;             /* -1 for an image in memory */
    const uint8_t *bytes; /* the image in memory, else NULL */
    uint64_t start;       /* of the image in its file: not 0 in a bundle */

    /* Of a bundle; part_count is 0 for an image that is a file of its own. */
    uint64_t file_size;
    const uint8_t *whole; /* the bundle in memory, else NULL */
    const struct kpk_part_record *parts;
    uint32_t part_count;
    const char *part_strings;
    uint64_t table_end;
    void *owned_table;     /* NULL: `parts` is another's */
    const char *part_name; /* of the part picked, or being so, for messages; atomic */
    bool told_unbound;     /* that a resolve came too early; atomic */

    char *name; /* owned; for messages */
    struct kpk_open_desc desc;
    char *driver_path; /* owned; may be NULL */
    void *guard_page;  /* NULL: the kernel has no MADV_WIPEONFORK */
    long pid;

    /* Of an overlay: the images that it looks through, front first, and nothing else; each is held.
     * NULL and 0 for an image with an index of its own. */
    struct kpk_image **layers; /* owned array */
    uint32_t layer_count;
    uint32_t holders; /* the caller and overlays: the last one to close frees. Atomic */

    /* Under `lock`. */
    pthread_mutex_t lock;
    void *driver; /* of dlopen */
    bool cuda_ready;
    struct kpk_cuda cuda;
    struct kpk_device *devices;
    size_t device_count;
    struct kpk_object_state *object_states;
    struct kpk_group_state *group_states;
    uint32_t waiting_groups;           /* with waiting objects */
    struct ZSTD_DCtx_s *spare_context; /* of a group that is decoded, for the next one */
    uint32_t bind_status;              /* of the last kpk_bind; read atomically */

    /* Under `miss_lock`. */
    pthread_mutex_t miss_lock;
    struct kpk_miss_state *misses;
    uint16_t *miss_slots; /* 1 + index */
    size_t miss_count;
    bool miss_warned;
};

/* ---- kpk_message.c ---- */

/* Bytes of the UTF-8 sequence at the start of text[0..size), 0 when it is not well formed (Unicode
 * 15, table 3-7). */
size_t kpk_utf8(const uint8_t *text, size_t size);

/* Sends one line of UTF-8 through a desc's callback, control characters replaced. Returns `status`.
 */
kpk_status kpk_report(const struct kpk_open_desc *desc, kpk_severity severity, kpk_status status,
                      const char *format, ...) __attribute__((format(printf, 4, 5), cold));

/* The same as an error of an image, its name in front. */
kpk_status kpk_fail(const kpk_image *image, kpk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* ---- kpk_hash.c ---- */

/* With AVX2 where the CPU has it: twice as fast on what lies in the caches. */
void kpk_digest(const void *bytes, size_t size, uint8_t out_digest[KPK_DIGEST_SIZE]);
void kpk_digest_plain(const void *bytes, size_t size, uint8_t out_digest[KPK_DIGEST_SIZE]);
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KPK_HAS_AVX2 1
void kpk_digest_avx2(const void *bytes, size_t size, uint8_t out_digest[KPK_DIGEST_SIZE]);
#endif
bool kpk_digest_matches(const void *bytes, size_t size, const uint8_t digest[KPK_DIGEST_SIZE]);

/* ---- kpk_check.c ---- */

static inline uint32_t kpk_count(const kpk_image *image, enum kpk_section_id id)
{
    return image->header.sections[id].count;
}

bool kpk_all_zero(const uint8_t *bytes, uint64_t size);

/* Checks every bound of the index once; on success the image's table pointers are set and its
 * records may be followed without further checks. image->header and image->index are given. */
kpk_status kpk_check_index(kpk_image *image);

/* ---- kpk_read.c ---- */

/* Whether there is an index to read: not in a bundle whose part is not picked. */
static inline bool kpk_ready(const kpk_image *image)
{
    return __atomic_load_n(&image->ready, __ATOMIC_ACQUIRE) != 0;
}

/* An image with nothing in it yet, held once; kpk_close frees it. */
kpk_status kpk_make_image(const char *name, const struct kpk_open_desc *desc,
                          kpk_image **out_image);

/* Reads from the image's file; one that shrank is an error, never a signal. kpk_read_whole counts
 * from the file's start, also in a bundle. */
kpk_status kpk_read_file(const kpk_image *image, uint64_t offset, void *buffer, size_t size);
kpk_status kpk_read_whole(const kpk_image *image, uint64_t offset, void *buffer, size_t size);

/* Checks what images and bundles have in common of image->header; `size` is what the file has. */
kpk_status kpk_check_header(const kpk_image *image, uint64_t size);

/* Reads and checks the index of the image with this header. Sets all but `ready`; on failure, and
 * with kpk_drop_index, the image is as it was. */
kpk_status kpk_read_index(kpk_image *image);
void kpk_drop_index(kpk_image *image);

/* Lets other threads see the index. */
void kpk_publish_index(kpk_image *image);

/* ---- kpk_bundle.c ---- */

/* Reads and checks the part table; image->header holds the bundle's. */
kpk_status kpk_read_table(kpk_image *image);

/* Reads and checks a part's index; from then on the image is that part. */
kpk_status kpk_pick_part(kpk_image *image, uint32_t index);

/* The part for a target, or the best one for a device; KPK_NONE when there is none. */
uint32_t kpk_part_for_target(const kpk_image *image, const char *target);
uint32_t kpk_part_for_device(const kpk_image *image, int major, int minor);

/* Says which targets and archs a bundle has, as much of it as `text` has room for. */
void kpk_list_parts(const kpk_image *image, char *text, size_t size);

/* Checks the bytes between the parts, and each part as kpk_verify does. */
kpk_status kpk_verify_bundle(const kpk_image *image);

static inline const char *kpk_part_text(const kpk_image *image, struct kpk_string string)
{
    return image->part_strings + string.offset;
}

/* ---- kpk_resolve.c ---- */

static inline const char *kpk_text(const kpk_image *image, struct kpk_string string)
{
    return image->strings + string.offset;
}

/* The kernel's symbol in its cubin. */
static inline const char *kpk_symbol(const kpk_image *image, const struct kpk_entry_record *entry)
{
    return kpk_text(image, entry->symbol.size > 0 ? entry->symbol : entry->name);
}

/* Index of an entry or a module among the image's own, KPK_NONE when absent. */
uint32_t kpk_lookup(const kpk_image *image, const char *module, size_t module_size,
                    const char *entry, size_t entry_size);
uint32_t kpk_lookup_module(const kpk_image *image, const char *module);

/* The entry's index of a handle, KPK_NONE for a zero or foreign one. */
static inline uint32_t kpk_handle_index(const kpk_image *image, kpk_kernel kernel)
{
    uint32_t index = (uint32_t)kernel.id - 1;
    bool ours = index < __atomic_load_n(&image->entry_count, __ATOMIC_ACQUIRE) &&
                (uint32_t)(kernel.id >> 32) == image->tag;
    return ours ? index : KPK_NONE;
}

static inline kpk_kernel kpk_handle(const kpk_image *image, uint32_t index)
{
    kpk_kernel kernel;
    kernel.id = (uint64_t)image->tag << 32 | (index + 1);
    return kernel;
}

/* ---- kpk_overlay.c ---- */

/* What an image looks through: an overlay's layers, else itself alone. */
static inline uint32_t kpk_layer_count(const kpk_image *image)
{
    return image->layer_count > 0 ? image->layer_count : 1;
}

static inline kpk_image *kpk_layer(const kpk_image *image, uint32_t index)
{
    return image->layer_count > 0 ? image->layers[index] : (kpk_image *)(uintptr_t)image;
}

/* The layer whose handle it is, the image itself when it is none's. */
kpk_image *kpk_layer_of(const kpk_image *image, kpk_kernel kernel);

/* The first layer with that module, the image itself when none has it. */
kpk_image *kpk_layer_with(const kpk_image *image, const char *module);

/* All handles that an image answers with, by position: {0} where a layer is covered. */
size_t kpk_kernel_count(const kpk_image *image);
kpk_kernel kpk_nth_kernel(const kpk_image *image, size_t position);

/* ---- kpk_group.c ---- */

/* Decodes a group up to its byte `end`, at least, and goes on where the last call stopped. Before
 * the first byte is decoded all packed bytes are read and their digest is checked. On failure the
 * decoding is as new. */
kpk_status kpk_decode(const kpk_image *image, uint32_t group, uint64_t end,
                      struct kpk_decoding *decoding);

/* NULL when out of memory. */
struct ZSTD_DCtx_s *kpk_make_context(void);

/* Frees the bytes and makes the decoding ready for another group; kpk_decode_free frees all. */
void kpk_decode_reset(struct kpk_decoding *decoding);
void kpk_decode_free(struct kpk_decoding *decoding);

/* ---- kpk_driver.c ---- */

/* Whether code for an arch runs on a device, by the arch's last character and compute capability:
 * sm_90a on 9.0 alone; sm_100f and sm_90 on the same major with that minor or a later one. */
bool kpk_arch_fits(char suffix, uint32_t arch_major, uint32_t arch_minor, int major, int minor);

/* Whether this is another process than the one that opened the image. */
bool kpk_forked_slow(const kpk_image *image);

static inline bool kpk_forked(const kpk_image *image)
{
    return *image->alive == 0 && kpk_forked_slow(image);
}

/* Reports a failed driver call, `format` saying which. Returns `status`, or CAPTURE when that is
 * what the driver says. */
kpk_status kpk_driver_fail(const kpk_image *image, kpk_status status, kpk_cu_result error,
                           const char *format, ...) __attribute__((format(printf, 4, 5), cold));

/* ---- kpk_load.c ---- */

/* Prepares the entries that are loaded already for a device that has just been bound. */
kpk_status kpk_load_for_device(kpk_image *image, const struct kpk_device *device);

/* Unloads every library. */
void kpk_unload(kpk_image *image);

/* Frees what is kept of every group. */
void kpk_free_groups(kpk_image *image);

#ifdef __cplusplus
}
#endif

#endif
