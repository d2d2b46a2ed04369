#ifndef OPS_OPS_UTIL_H
#define OPS_OPS_UTIL_H

/* What the launchers share: messages to the caller's callback, and the checks of bind. */

#include "runtime/kpk.h"

/* Where a launcher's messages go; a NULL function drops them. */
struct ops_log {
    kpk_message_fn message;
    void *user;
};

/* Sends one formatted line, as kpk_message_line makes it. */
void ops_say(const struct ops_log *log, kpk_severity severity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sends an error and returns `status`. */
kpk_status ops_fail(const struct ops_log *log, kpk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What the image is for, or an error in the name of `caller`: NULL, or a bundle whose part is not
 * picked yet. */
kpk_status ops_describe(const kpk_image *image, const struct ops_log *log, const char *caller,
                        kpk_image_info *out_info);

/* A tile constant that a launcher was built with. */
struct ops_constant {
    const char *module, *name;
    int64_t value;
};

/* Compares constants with the image's; modules that the image does not ship are passed over.
 * KPK_ERR_CONSTANT, naming both values, at the first that differs or is not declared. */
kpk_status ops_check_constants(const kpk_image *image, const struct ops_log *log,
                               const struct ops_constant *constants, size_t count);

/* An entry that a launcher launches: its block's x and its dynamic shared memory. */
struct ops_entry {
    const char *module, *name;
    uint32_t block, dynamic_smem;
};

/* Resolves every entry; those that the image does not ship get zero handles. KPK_ERR_CONSTANT when
 * an entry's block or dynamic shared memory differ from the launcher's. */
kpk_status ops_resolve(kpk_image *image, const struct ops_log *log, const struct ops_entry *entries,
                       size_t count, kpk_kernel *out_kernels);

/* Whether lever `name` of the image is on now; `otherwise` when the image declares no such lever.
 */
bool ops_lever(const kpk_image *image, const char *name, bool otherwise);

/* The value of a text lever now; `otherwise` when the image declares no such lever. */
const char *ops_lever_text(const kpk_image *image, const char *name, const char *otherwise);

#endif
