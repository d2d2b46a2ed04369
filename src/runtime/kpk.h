/* kpk.h: open a .kpk image of CUDA kernels inside an engine, resolve handles, launch.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Build: compile the .c files of this folder into your program (C11 or C++17), link zstd and dl, or
 * link libkpk. The CUDA driver (libcuda.so.1) is opened at run time, by kpk_bind and not before;
 * no CUDA header is needed. xxhash.h is needed at build time only.
 *
 *     kpk_image *image;
 *     if (kpk_open("hopper.kpk", NULL, &image) != KPK_OK) ...;
 *     if (kpk_bind(image, 0) != KPK_OK) ...;                  // device 0 can run this image
 *     kpk_kernel k = kpk_resolve(image, "my_module", "my_entry");
 *     if (k.id == 0) ...;                                     // not shipped: take another path
 *     void *args[] = {&x, &n};
 *     kpk_launch(image, k, (kpk_grid){blocks, 1, 1}, 0, stream, args);
 *     kpk_close(image);
 *
 * Rules that hold for every function:
 * - A zero handle means absent; a zeroed desc means defaults; out parameters come last and are
 *   cleared first. Nothing here prints, exits, aborts or writes to disk. There is no state but the
 *   image's.
 * - Failures return a status. The desc's message callback, if any, gets one line of text that says
 *   where, what was found and what was expected; kpk_status_text gives a fixed short text. What a
 *   kernel's first use finds wrong for good (LOAD, DAMAGED, SMEM) is told once; later launches of
 *   it return the status alone.
 * - A file that is truncated, overwritten or replaced while an image of it is open costs at most a
 *   status: the index is read into memory at open, groups are read with pread at first use and
 *   checked against their digest, nothing is mapped. (An image that the caller maps itself and
 *   passes to kpk_open_memory has the caller's rules.)
 * - Strings and arrays that come back belong to the image and live until kpk_close.
 * - Thread-safety: after kpk_open returns, every function may be called from any thread at any
 *   time, except kpk_close, which must be the caller's last of that image. A launch takes no lock
 * once its kernel is loaded.
 * - Other languages: kpk_kernel is passed as one uint64_t, kpk_grid as three uint32_t in a struct,
 *   enums are int, bool is one byte; a struct may get new fields at its end only with a new major
 *   version.
 * - fork: the child must not use an image that its parent opened. Driver calls through it return
 *   KPK_ERR_FORKED there; kpk_close in the child frees its memory and touches no driver.
 */
#ifndef KPK_H
#define KPK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KPK_API __attribute__((visibility("default")))
#else
#define KPK_API
#endif

#define KPK_VERSION_MAJOR 1
#define KPK_VERSION_MINOR 0

struct CUstream_st; /* CUstream of cuda.h is a pointer to it */

typedef struct kpk_image kpk_image;

/* An entry of one image. 0: absent. Valid with the image that gave it, on every device it is bound
 * to, until kpk_close; opening the same bytes again gives the same handles. One given to another
 * image is refused. */
typedef struct kpk_kernel {
    uint64_t id;
} kpk_kernel;

typedef struct kpk_grid {
    uint32_t x, y, z; /* blocks; none may be 0 */
} kpk_grid;

typedef enum kpk_status {
    KPK_OK = 0,
    KPK_ERR_ARGUMENT,     /* a NULL or out-of-range argument, a handle that is not this image's */
    KPK_ERR_IO,           /* the file cannot be read */
    KPK_ERR_FORMAT,       /* not a .kpk image: wrong magic, or too short to hold one */
    KPK_ERR_VERSION,      /* a .kpk of a version or kind that this reader does not know */
    KPK_ERR_DAMAGED,      /* a digest, bound or reserved byte is wrong */
    KPK_ERR_MEMORY,       /* out of memory */
    KPK_ERR_NO_DRIVER,    /* libcuda.so.1 or one of its functions is missing */
    KPK_ERR_DRIVER,       /* the driver returned an error; the message names it */
    KPK_ERR_WRONG_DEVICE, /* the device cannot run the image's architecture */
    KPK_ERR_OLD_DRIVER,   /* the driver is older than the image needs */
    KPK_ERR_NOT_BOUND,    /* kpk_bind has not succeeded on this image, or bundle */
    KPK_ERR_ABSENT,       /* no such module, entry, constant, lever or target */
    KPK_ERR_LOAD,         /* the driver refused the cubin, or an entry is missing from it */
    KPK_ERR_SMEM,         /* more shared memory than declared, or than the device has */
    KPK_ERR_FORKED,       /* the image was opened before fork, in the parent */
    KPK_ERR_CONSTANT,     /* a constant of the image differs from the caller's (launchers) */
    KPK_ERR_UNSUPPORTED,  /* a combination of arguments that a launcher refuses */
    KPK_ERR_CAPTURE,      /* the driver does not load while a stream is captured: preload before */
    KPK_STATUS_COUNT
} kpk_status;

/* A fixed text for a status; never NULL, also for unknown values. */
KPK_API const char *kpk_status_text(kpk_status status);

/* ---- Opening --------------------------------------------------------------------------------- */

typedef enum kpk_severity {
    KPK_INFO = 0,
    KPK_WARNING,
    KPK_ERROR,
} kpk_severity;

/* Called with one line of UTF-8 without a newline: '?' stands for each byte of a name in it that is
 * a control character's or no UTF-8. May be called from any thread that uses the image; must not
 * call back into it. */
typedef void (*kpk_message_fn)(void *user, kpk_severity severity, const char *text);

/* Makes such a line of `text`, in place. For layers over this one that send messages of their own.
 */
KPK_API void kpk_message_line(char *text);

/* Gives the address of a CUDA driver function by its symbol name as exported ("cuLaunchKernel",
 * "cuMemAlloc_v2"), or NULL. Called by kpk_bind and kpk_driver_symbol; must not call back into the
 * image. */
typedef void *(*kpk_symbol_fn)(void *user, const char *name);

typedef struct kpk_open_desc {
    kpk_message_fn message; /* NULL: messages are dropped */
    void *message_user;
    kpk_symbol_fn symbol; /* NULL: dlopen libcuda.so.1 */
    void *symbol_user;
    const char *driver_path; /* NULL: "libcuda.so.1" by the loader's rules; unused with `symbol` */
    const char *target;      /* the target to open; NULL: of an image its own, of a bundle the one
                              * that kpk_bind picks */
} kpk_open_desc;

/* Reads the index, checks the header, the digest over the index and every bound in it, and keeps
 * the file open until kpk_close; groups of cubins are read at first use. No driver is touched.
 * `desc` may be NULL and is copied, driver_path included. Errors: ARGUMENT, IO (missing,
 * unreadable, not a regular file), FORMAT, VERSION, DAMAGED (also: truncated), MEMORY, ABSENT
 * (desc.target is another one, or none of the bundle's). *out_image is NULL on failure.
 *
 * A bundle (images of several targets in one file, `kpack bundle`) opens in the same way. Its
 * header and part table are read, and no byte of a part. Which part it stands for is decided once:
 * - by desc.target, at the open: the part is then an image like any other, before kpk_bind too;
 * - else by the first kpk_bind whose device a part fits, which reads the part's index.
 * Until then the bundle ships nothing that could be named: kpk_resolve gives {0}, says so once by
 * an error message and counts no miss, kpk_has_module is false, kpk_absent_reason is NOT_BOUND, and
 * what returns a status returns KPK_ERR_NOT_BOUND, but for kpk_part_count, kpk_get_part and
 * kpk_verify. So an engine binds first and resolves then, as in the example above, or names its
 * target. From then on the part is the image: kpk_get_image describes it, its handles are those of
 * the image that was bundled, and the other parts are never read. Devices of two kinds in one
 * process take two opens of the bundle. */
KPK_API kpk_status kpk_open(const char *path, const kpk_open_desc *desc, kpk_image **out_image);

/* The same over bytes that the caller keeps alive and unchanged until kpk_close (an image linked
 * into the program by `kpack embed` or .incbin, a file the caller mapped); they are not copied.
 * `bytes` must be 8-byte aligned. Errors: as kpk_open, without IO. */
KPK_API kpk_status kpk_open_memory(const void *bytes, size_t size, const kpk_open_desc *desc,
                                   kpk_image **out_image);

/* Unloads what was loaded and frees the image. No launch may be in flight. NULL is allowed. An
 * image that an overlay looks through is freed with the last such overlay instead. */
KPK_API void kpk_close(kpk_image *image);

/* A hot-fix image in front of a base image, as one image to hand to whatever takes an image: it
 * answers with the front's entry where the front ships it, else with the base's. `base` and `front`
 * may be overlays themselves. All three are closed by the caller, in any order; the overlay holds
 * the other two until it is closed. The three remain usable side by side: kernels that are loaded
 * through one are loaded for the others, and handles of base and front are the overlay's too.
 * Messages go where the base's go. Through an overlay,
 * - kpk_resolve and kpk_absent_reason answer by entry, kpk_has_module, kpk_constant and
 *   kpk_find_lever by the first image that has the module or lever. What the front ships is never
 *   answered by the base, also when the driver refuses it: a fix must not silently be its old self.
 *   A module in both whose constants differ is refused (CONSTANT) unless the front ships all of
 *   its entries, for kpk_constant must hold for every entry that is answered.
 * - a twin is answered like any entry, its parent perhaps by the other image: what `bits` promises
 *   holds for two entries of one image, so a fix of a parent ships its twins.
 * - misses are counted by the image that was asked: an overlay has counters of its own, and an
 *   absence is expected when either image declares it.
 * - kpk_bind binds both, the front first, and stops at the first that fails; kpk_preload without
 *   handles loads what the overlay answers with; kpk_trim and kpk_verify go over both.
 * - kpk_get_image describes the base, with the bytes and the least driver of both; its counts are
 *   0, for the functions that take an index need the base or the front itself.
 * Errors: ARGUMENT (also: images for different archs, the message names both), CONSTANT, MEMORY,
 * FORKED, NOT_BOUND (one of them is a bundle whose part is not picked yet). */
KPK_API kpk_status kpk_overlay(kpk_image *base, kpk_image *front, kpk_image **out_overlay);

/* ---- Binding and launching ------------------------------------------------------------------- */

/* Checks once that device `device` (an ordinal of cuDeviceGet) can run this image. Driver: at least
 * the image's. Compute capability: sm_90a needs exactly 9.0; sm_100f and sm_90 the same major
 * number with that minor or a later one. Of a bundle's parts that the device can run, the one made
 * for it most closely is picked: the latest minor number, then sm_100a before sm_100f before
 * sm_100; for another device that part must do. Initialises the driver (cuInit) if nobody has. May
 * be called for several devices; handles then serve all of them, those loaded before included.
 * Whether a kernel's shared memory fits the device is checked at its first use. Errors: ARGUMENT,
 * NO_DRIVER, DRIVER, WRONG_DEVICE, OLD_DRIVER, FORKED, MEMORY; of a bundle also IO, VERSION and
 * DAMAGED (its part, which the next kpk_bind reads again). The message names both sides, of a
 * bundle every arch in it. */
KPK_API kpk_status kpk_bind(kpk_image *image, int device);

/* The handle of module:entry, or {0} when the image does not ship it. Touches no driver and may be
 * called before kpk_bind. A miss is counted (see kpk_unexpected_absences). */
KPK_API kpk_kernel kpk_resolve(kpk_image *image, const char *module, const char *entry);

KPK_API bool kpk_has_module(const kpk_image *image, const char *module);

typedef enum kpk_absence {
    KPK_PRESENT = 0,
    KPK_ABSENT_MODULE,       /* the image has no such module */
    KPK_ABSENT_ENTRY,        /* the module has no such entry */
    KPK_ABSENT_WRONG_DEVICE, /* the last kpk_bind failed on the device or the driver's version */
    KPK_ABSENT_LOAD_FAILED,  /* the driver refused it at first use */
    KPK_ABSENT_DAMAGED,      /* its bytes failed their digest at first use */
    KPK_ABSENT_NOT_BOUND,    /* a bundle whose part is not picked: bind it first */
} kpk_absence;

/* Why a launch of module:entry cannot work, as far as is known now. Counts no miss. A kernel that
 * needs more shared memory than a bound device has counts as LOAD_FAILED. */
KPK_API kpk_absence kpk_absent_reason(kpk_image *image, const char *module, const char *entry);

/* A fixed text for an absence; never NULL. */
KPK_API const char *kpk_absence_text(kpk_absence absence);

/* Launches on `stream` (NULL: the default stream) in the calling thread's current context, with the
 * image's block for this entry. `smem` is the dynamic shared memory in bytes: 0 means the declared
 * size, less than that is allowed, more is KPK_ERR_SMEM. For an entry whose description declares no
 * size, 0 is none, and any size that the device has is allowed. `args` holds one pointer per
 * parameter, as cuLaunchKernel takes them. The context's device must be one that is bound. The
 * first launch of an entry loads its module (milliseconds: see kpk_preload); later ones cost a few
 * loads more than cuLaunchKernel.
 * Errors: ARGUMENT (a bad handle, an empty grid, an entry without a declared block: use
 * kpk_launch_block), NOT_BOUND, SMEM, FORKED, DAMAGED, LOAD, MEMORY, CAPTURE, DRIVER, IO. */
KPK_API kpk_status kpk_launch(kpk_image *image, kpk_kernel kernel, kpk_grid grid, uint32_t smem,
                              struct CUstream_st *stream, void **args);

/* The same with the caller's block, for entries whose description gives none, and for the few
 * kernels that take several block sizes. */
KPK_API kpk_status kpk_launch_block(kpk_image *image, kpk_kernel kernel, kpk_grid grid,
                                    kpk_grid block, uint32_t smem, struct CUstream_st *stream,
                                    void **args);

/* Decodes and loads now what these handles need, so that no launch loads anything: before graph
 * capture, before collectives. Zero handles are skipped. `kernels` NULL loads the whole image.
 * Stops at the first failure. The image must be bound. The driver puts code on a device once per
 * context: call this with each context current that will launch; without a current context the
 * first launch in one still does that part. Errors as kpk_launch. */
KPK_API kpk_status kpk_preload(kpk_image *image, const kpk_kernel *kernels, size_t count);

/* Whether all that these handles need (NULL: the whole image's) is loaded, so that no first use is
 * left to come. Zero handles count as loaded; false after a fork, and of a bundle not bound yet.
 * What the driver has put into a context it does not say. */
KPK_API bool kpk_resident(const kpk_image *image, const kpk_kernel *kernels, size_t count);

/* A first use reads its group's packed bytes, checks their digest, and decodes no further than the
 * cubin it wants. The bytes and the decoder are kept until all members of the group are loaded, so
 * that a later one goes on from there; kpk_bind makes the first decoder (0.1 MB). This frees what
 * is kept; it is read again when needed. */
KPK_API void kpk_trim(kpk_image *image);

/* The driver's own handle (a CUkernel, which the driver takes as the CUfunction of a launch in any
 * context), loading it if needed: for launches that kpk_launch cannot express, such as clusters or
 * cuLaunchKernelEx. Functions that ask about a CUfunction need cuKernelGetFunction first.
 * *out_function is NULL on failure. Errors as kpk_launch. */
KPK_API kpk_status kpk_function(kpk_image *image, kpk_kernel kernel, void **out_function);

/* Address of a CUDA driver function through the image's resolver, NULL when missing; kpk_bind must
 * have succeeded. For launchers that need more of the driver than a launch (tensor maps,
 * synchronisation). */
KPK_API void *kpk_driver_symbol(kpk_image *image, const char *name);

/* ---- Auditing -------------------------------------------------------------------------------- */

typedef struct kpk_part_info {
    const char *target;
    const char *arch;
    uint32_t compute_major, compute_minor;
    uint32_t min_driver;
    uint64_t offset, size; /* in the file: a whole image */
} kpk_part_info;

/* The parts of a bundle, by target, whether one is picked or not; 0 for what is no bundle. Which
 * one is picked says kpk_get_image. */
KPK_API uint32_t kpk_part_count(const kpk_image *image);
KPK_API kpk_status kpk_get_part(const kpk_image *image, uint32_t index, kpk_part_info *out_info);

typedef struct kpk_image_info {
    const char *target;
    const char *arch;  /* "sm_90a" */
    const char *stamp; /* JSON of --stamp, "" when none */
    uint32_t format_version;
    uint32_t compute_major, compute_minor;
    uint32_t min_driver; /* as cuDriverGetVersion counts */
    uint32_t nvrtc_major, nvrtc_minor;
    uint32_t sm_count, smem_optin; /* declared for the target's device; 0: not declared */
    uint32_t module_count, entry_count, object_count, blob_count, group_count;
    uint32_t lever_count, absent_count;
    uint64_t raw_bytes;  /* of all distinct cubins */
    uint64_t file_bytes; /* of the image */
} kpk_image_info;

typedef struct kpk_module_info {
    const char *name, *source, *origin;
    uint32_t first_entry, entry_count; /* indices for kpk_get_entry */
    uint32_t first_object, object_count;
    uint32_t constant_count, flag_count;
    uint8_t digest[32]; /* BLAKE2b-256 over its cubins */
} kpk_module_info;

typedef enum kpk_twin_bits {
    KPK_BITS_NONE = 0, /* no twin */
    KPK_BITS_SAME,
    KPK_BITS_CLOSE,
} kpk_twin_bits;

typedef struct kpk_entry_info {
    kpk_kernel kernel; /* its handle, as kpk_resolve gives it */
    const char *module, *name;
    const char *symbol;  /* of the kernel in its cubin: the name, but for C++ name expressions */
    const char *twin_of; /* "module:entry", "" when none */
    kpk_twin_bits bits;
    bool has_block, has_dynamic_smem,
        has_spill; /* false: the description or the log does not say */
    kpk_grid block;
    uint32_t dynamic_smem, static_smem; /* bytes */
    uint32_t registers, stack_bytes;    /* per thread */
    uint32_t spill_bytes;
    uint64_t code_bytes;
    uint32_t module_index, object;
} kpk_entry_info;

typedef struct kpk_object_info {
    uint32_t module, blob;
} kpk_object_info;

typedef struct kpk_blob_info {
    uint32_t group;
    uint64_t offset, size; /* in the group's raw bytes */
} kpk_blob_info;

typedef struct kpk_group_info {
    uint64_t offset, packed_size, raw_size;
    uint32_t first_blob, blob_count;
} kpk_group_info;

/* Each returns KPK_ERR_ARGUMENT for an index out of range, KPK_ERR_NOT_BOUND for a bundle whose
 * part is not picked, and clears *out_info. */
KPK_API kpk_status kpk_get_image(const kpk_image *image, kpk_image_info *out_info);
KPK_API kpk_status kpk_get_module(const kpk_image *image, uint32_t index,
                                  kpk_module_info *out_info);
KPK_API kpk_status kpk_get_entry(const kpk_image *image, uint32_t index, kpk_entry_info *out_info);
KPK_API kpk_status kpk_get_object(const kpk_image *image, uint32_t index,
                                  kpk_object_info *out_info);
KPK_API kpk_status kpk_get_blob(const kpk_image *image, uint32_t index, kpk_blob_info *out_info);
KPK_API kpk_status kpk_get_group(const kpk_image *image, uint32_t index, kpk_group_info *out_info);

/* Index of a module by name; KPK_ERR_ABSENT when there is none. */
KPK_API kpk_status kpk_find_module(const kpk_image *image, const char *module, uint32_t *out_index);

/* Information on a resolved handle; KPK_ERR_ARGUMENT for a zero or foreign one. */
KPK_API kpk_status kpk_get_kernel(const kpk_image *image, kpk_kernel kernel,
                                  kpk_entry_info *out_info);

/* A module's constants and flags, by position. */
KPK_API kpk_status kpk_get_constant(const kpk_image *image, uint32_t module, uint32_t position,
                                    const char **out_name, int64_t *out_value);
KPK_API kpk_status kpk_get_flag(const kpk_image *image, uint32_t module, uint32_t position,
                                const char **out_text);

/* A module's constant by name. KPK_ERR_ABSENT when the module or the constant does not exist. */
KPK_API kpk_status kpk_constant(const kpk_image *image, const char *module, const char *name,
                                int64_t *out_value);

/* Copies blob `index`'s cubin, checked against its digest, into buffer[0..size); size must be the
 * blob's. Errors: ARGUMENT, DAMAGED, MEMORY, IO. */
KPK_API kpk_status kpk_read_blob(const kpk_image *image, uint32_t index, void *buffer, size_t size);

/* Checks every byte of the image, and what an open leaves to trust: all groups decoded, every
 * digest compared, strings UTF-8, names unique, in order and found by their hash. Of a bundle whose
 * part is not picked: every part, and the bytes between them; else that part. Reports each fault
 * through the message callback and returns the first one's status: DAMAGED, MEMORY or IO. */
KPK_API kpk_status kpk_verify(const kpk_image *image);

/* ---- Levers: the target's defaults for run-time choices, which the environment overrides ---- */

typedef enum kpk_lever_kind {
    KPK_SWITCH = 0, /* set: "0", "false", "off" and "no" are off, any other value on, "" included */
    KPK_IS1,        /* set: on exactly when the value is "1" */
    KPK_PRESENCE,   /* set: on, whatever the value */
    KPK_TEXT,       /* set: the value */
} kpk_lever_kind;

typedef enum kpk_origin {
    KPK_FROM_DEFAULT = 0,
    KPK_FROM_ENV,
} kpk_origin;

typedef struct kpk_lever {
    const char *name, *env;
    kpk_lever_kind kind;
    bool default_on;
    const char *default_text; /* of a text lever; "" otherwise */
    bool on;                  /* the value in force now (not for text levers) */
    const char *text;         /* of a text lever: the default or the environment's own string */
    kpk_origin origin;
} kpk_lever;

/* Reads the environment at the call (not thread-safe against setenv, as getenv is not): launchers
 * read their levers once, at bind. */
KPK_API kpk_status kpk_get_lever(const kpk_image *image, uint32_t index, kpk_lever *out_lever);
KPK_API kpk_status kpk_find_lever(const kpk_image *image, const char *name, kpk_lever *out_lever);

/* ---- Absences -------------------------------------------------------------------------------- */

typedef struct kpk_absent_info {
    const char *module, *entry, *reason;
} kpk_absent_info;

/* The expected-absent list that the target declares. */
KPK_API kpk_status kpk_get_absent(const kpk_image *image, uint32_t index,
                                  kpk_absent_info *out_info);

typedef struct kpk_miss {
    const char *module, *entry;
    uint64_t count; /* resolves that missed it */
} kpk_miss;

/* Copies up to `capacity` lookups that missed and are not declared expected-absent, in the order of
 * their first miss; returns how many there are in all. The image remembers the first 1024 distinct
 * ones; the first that it cannot remember is told as a warning. The strings live until kpk_close.
 * out_misses may be NULL. */
KPK_API size_t kpk_unexpected_absences(kpk_image *image, kpk_miss *out_misses, size_t capacity);

/* The same as a list in JSON, which `kpack audit --lookups` reads: to be logged, or written to a
 * file by the caller. Writes up to `capacity` bytes, a NUL at the end included, and returns how
 * many the whole text has without it: where that is `capacity` or more, what was written is cut,
 * and a miss may come between two calls. out_text may be NULL. Nothing, and 0, of no image or after
 * a fork. */
KPK_API size_t kpk_misses_json(kpk_image *image, char *out_text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
