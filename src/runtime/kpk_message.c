#include "kpk_image.h"

#include <stdio.h>
#include <string.h>

size_t kpk_utf8(const uint8_t *text, size_t size)
{
    uint8_t least = 0x80, most = 0xbf; /* of the second byte */
    size_t length = text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if ((text[0] >= 0x80 && text[0] < 0xc2) || text[0] > 0xf4 || length > size)
        return 0;
    if (text[0] == 0xe0 || text[0] == 0xf0)
        least = text[0] == 0xe0 ? 0xa0 : 0x90;
    if (text[0] == 0xed || text[0] == 0xf4)
        most = text[0] == 0xed ? 0x9f : 0x8f;
    for (size_t i = 1; i < length; i++) {
        if (text[i] < least || text[i] > most)
            return 0;
        least = 0x80;
        most = 0xbf;
    }
    return length;
}

/* Names come from files: what is no UTF-8 or would drive a terminal does not get through, U+0080 to
 * U+009F (C2 80 to C2 9F) among it. */
void kpk_message_line(char *text)
{
    uint8_t *bytes = (uint8_t *)text;
    size_t size = text != NULL ? strlen(text) : 0;
    for (size_t at = 0, step; at < size; at += step) {
        step = kpk_utf8(bytes + at, size - at);
        bool control = bytes[at] < 0x20 || bytes[at] == 0x7f ||
                       (step == 2 && bytes[at] == 0xc2 && bytes[at + 1] < 0xa0);
        if (step > 0 && !control)
            continue;
        step = step > 0 ? step : 1;
        memset(bytes + at, '?', step);
    }
}

static void send_line(const struct kpk_open_desc *desc, kpk_severity severity, char *line)
{
    kpk_message_line(line);
    desc->message(desc->message_user, severity, line);
}

kpk_status kpk_report(const struct kpk_open_desc *desc, kpk_severity severity, kpk_status status,
                      const char *format, ...)
{
    if (desc->message == NULL)
        return status;
    char line[KPK_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    send_line(desc, severity, line);
    return status;
}

kpk_status kpk_fail(const kpk_image *image, kpk_status status, const char *format, ...)
{
    if (image->desc.message == NULL)
        return status;
    char line[KPK_MESSAGE_SIZE];
    /* A long path must not push the reason out of the line. */
    const char *part = __atomic_load_n(&image->part_name, __ATOMIC_ACQUIRE);
    int used = snprintf(line, sizeof(line) / 2, "%s%s%s%s: ", image->name, part ? "[" : "",
                        part ? part : "", part ? "]" : "");
    size_t start = used < 0 ? 0 : (size_t)used;
    if (start > sizeof(line) / 2 - 1)
        start = sizeof(line) / 2 - 1;
    va_list args;
    va_start(args, format);
    vsnprintf(line + start, sizeof(line) - start, format, args);
    va_end(args);
    send_line(&image->desc, KPK_ERROR, line);
    return status;
}

const char *kpk_status_text(kpk_status status)
{
    switch (status) {
    case KPK_OK:
        return "ok";
    case KPK_ERR_ARGUMENT:
        return "invalid argument";
    case KPK_ERR_IO:
        return "the image cannot be read";
    case KPK_ERR_FORMAT:
        return "not a kpack image";
    case KPK_ERR_VERSION:
        return "image of an unknown version or kind";
    case KPK_ERR_DAMAGED:
        return "the image is damaged";
    case KPK_ERR_MEMORY:
        return "out of memory";
    case KPK_ERR_NO_DRIVER:
        return "the CUDA driver or one of its functions is missing";
    case KPK_ERR_DRIVER:
        return "the CUDA driver returned an error";
    case KPK_ERR_WRONG_DEVICE:
        return "the device cannot run this image";
    case KPK_ERR_OLD_DRIVER:
        return "the CUDA driver is too old for this image";
    case KPK_ERR_NOT_BOUND:
        return "the image is not bound to a device";
    case KPK_ERR_ABSENT:
        return "the image does not have it";
    case KPK_ERR_LOAD:
        return "the driver refused the kernel";
    case KPK_ERR_SMEM:
        return "too much shared memory";
    case KPK_ERR_FORKED:
        return "the image was opened before fork";
    case KPK_ERR_CONSTANT:
        return "a constant of the image differs";
    case KPK_ERR_UNSUPPORTED:
        return "unsupported arguments";
    case KPK_ERR_CAPTURE:
        return "a stream is being captured: preload before";
    case KPK_STATUS_COUNT:
        break;
    }
    return "unknown status";
}

const char *kpk_absence_text(kpk_absence absence)
{
    switch (absence) {
    case KPK_PRESENT:
        return "present";
    case KPK_ABSENT_MODULE:
        return "the image has no such module";
    case KPK_ABSENT_ENTRY:
        return "the module has no such entry";
    case KPK_ABSENT_WRONG_DEVICE:
        return "the device or its driver cannot run this image";
    case KPK_ABSENT_LOAD_FAILED:
        return "the driver refused it at first use";
    case KPK_ABSENT_DAMAGED:
        return "its bytes are damaged";
    case KPK_ABSENT_NOT_BOUND:
        return "the bundle is not bound, and names no target";
    }
    return "unknown absence";
}
