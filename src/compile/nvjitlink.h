#ifndef COMPILE_NVJITLINK_H
#define COMPILE_NVJITLINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"
#include "base/str.h"

/* nvJitLink, opened at run time. It makes a cubin, or PTX, of NVRTC's LTO-IR. */
struct nvjitlink {
    void *handle;
    int (*Create)(void **link, unsigned count, const char **options);
    int (*Destroy)(void **link);
    int (*AddData)(void *link, int type, const void *bytes, size_t size, const char *name);
    int (*Complete)(void *link);
    int (*GetLinkedCubinSize)(void *link, size_t *size);
    int (*GetLinkedCubin)(void *link, void *bytes);
    int (*GetLinkedPtxSize)(void *link, size_t *size);
    int (*GetLinkedPtx)(void *link, char *bytes);
    int (*GetErrorLogSize)(void *link, size_t *size);
    int (*GetErrorLog)(void *link, char *bytes);
    int (*GetInfoLogSize)(void *link, size_t *size);
    int (*GetInfoLog)(void *link, char *bytes);
};

/* It stays open for the life of the process. */
bool nvjitlink_open(const char *path, struct nvjitlink *out, struct diags *diags);

/* Links `ir` by the options; `ptx`: to PTX, one of the options being "-ptx". Adds what it says to
 * out_log; on false out_error says why. */
bool nvjitlink_link(const struct nvjitlink *library, const struct str *ir, const char **options,
                    size_t count, bool ptx, struct str *out, struct str *out_log,
                    struct str *out_error);

#endif
