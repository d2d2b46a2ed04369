#include "ops/ops_util.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void send(const struct ops_log *log, kpk_severity severity, const char *format, va_list args)
{
    char line[512];

    if (log == NULL || log->message == NULL)
        return;
    vsnprintf(line, sizeof line, format, args);
    kpk_message_line(line);
    log->message(log->user, severity, line);
}

void ops_say(const struct ops_log *log, kpk_severity severity, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    send(log, severity, format, args);
    va_end(args);
}

kpk_status ops_fail(const struct ops_log *log, kpk_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    send(log, KPK_ERROR, format, args);
    va_end(args);
    return status;
}

kpk_status ops_describe(const kpk_image *image, const struct ops_log *log, const char *caller,
                        kpk_image_info *out_info)
{
    kpk_status status = kpk_get_image(image, out_info);
    if (status == KPK_ERR_NOT_BOUND)
        return ops_fail(log, status,
                        "%s: the bundle is not bound to a device: call kpk_bind first, or open it "
                        "with a target",
                        caller);
    return status == KPK_OK ? KPK_OK : ops_fail(log, status, "%s: image is NULL", caller);
}

kpk_status ops_check_constants(const kpk_image *image, const struct ops_log *log,
                               const struct ops_constant *constants, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct ops_constant *want = &constants[i];
        int64_t found;

        if (!kpk_has_module(image, want->module))
            continue;
        if (kpk_constant(image, want->module, want->name, &found) != KPK_OK)
            return ops_fail(log, KPK_ERR_CONSTANT,
                            "module '%s' of the image declares no constant '%s', the launcher was "
                            "built for %" PRId64,
                            want->module, want->name, want->value);
        if (found != want->value)
            return ops_fail(log, KPK_ERR_CONSTANT,
                            "constant '%s' of module '%s' is %" PRId64
                            " in the image, the launcher was built for %" PRId64,
                            want->name, want->module, found, want->value);
    }
    return KPK_OK;
}

kpk_status ops_resolve(kpk_image *image, const struct ops_log *log, const struct ops_entry *entries,
                       size_t count, kpk_kernel *out_kernels)
{
    for (size_t i = 0; i < count; i++)
        out_kernels[i] = (kpk_kernel){0};
    for (size_t i = 0; i < count; i++) {
        const struct ops_entry *want = &entries[i];
        kpk_kernel kernel = kpk_resolve(image, want->module, want->name);
        kpk_entry_info info;

        if (kernel.id == 0)
            continue;
        kpk_status status = kpk_get_kernel(image, kernel, &info);
        if (status != KPK_OK)
            return ops_fail(log, status, "entry '%s:%s' cannot be read: %s", want->module,
                            want->name, kpk_status_text(status));
        if (info.block.x != want->block || info.block.y != 1 || info.block.z != 1)
            return ops_fail(log, KPK_ERR_CONSTANT,
                            "the block of '%s:%s' is (%" PRIu32 ", %" PRIu32 ", %" PRIu32
                            ") in the image, the launcher was built for (%" PRIu32 ", 1, 1)",
                            want->module, want->name, info.block.x, info.block.y, info.block.z,
                            want->block);
        if (info.dynamic_smem != want->dynamic_smem)
            return ops_fail(log, KPK_ERR_CONSTANT,
                            "the dynamic shared memory of '%s:%s' is %" PRIu32
                            " bytes in the image, the launcher was built for %" PRIu32,
                            want->module, want->name, info.dynamic_smem, want->dynamic_smem);
        out_kernels[i] = kernel;
    }
    return KPK_OK;
}

bool ops_lever(const kpk_image *image, const char *name, bool otherwise)
{
    kpk_lever lever;

    return kpk_find_lever(image, name, &lever) == KPK_OK ? lever.on : otherwise;
}

const char *ops_lever_text(const kpk_image *image, const char *name, const char *otherwise)
{
    kpk_lever lever;

    return kpk_find_lever(image, name, &lever) == KPK_OK ? lever.text : otherwise;
}
