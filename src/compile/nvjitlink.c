#include "compile/nvjitlink.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    INPUT_LTOIR = 3,
};

bool nvjitlink_open(const char *path, struct nvjitlink *out, struct diags *diags)
{
    *out = (struct nvjitlink){.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!out->handle)
        return diag_error(diags, "cannot open nvJitLink: %s", dlerror());
#define SLOT(name)                                                                                 \
    {                                                                                              \
        "nvJitLink" #name, &out->name                                                              \
    }
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        SLOT(Create),
        SLOT(Destroy),
        SLOT(AddData),
        SLOT(Complete),
        SLOT(GetLinkedCubin),
        SLOT(GetLinkedPtx),
        SLOT(GetErrorLogSize),
        SLOT(GetErrorLog),
        SLOT(GetInfoLogSize),
        SLOT(GetInfoLog),
        SLOT(GetLinkedCubinSize),
        SLOT(GetLinkedPtxSize),
    };
#undef SLOT
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *address = dlsym(out->handle, wanted[i].name);
        if (!address)
            return diag_error(diags, "'%s' is not a usable nvJitLink: it has no function '%s'",
                              path, wanted[i].name);
        memcpy(wanted[i].slot, &address, sizeof address);
    }
    return true;
}

static void add_log(void *link, int (*size_of)(void *, size_t *), int (*get)(void *, char *),
                    struct str *out)
{
    size_t size = 0;
    if (size_of(link, &size) != 0 || !size)
        return;
    char *text = mem_alloc(size + 1, 1);
    if (get(link, text) == 0)
        str_adds(out, text);
    free(text);
}

static bool take(const struct nvjitlink *library, void *link, bool ptx, struct str *out)
{
    size_t size = 0;
    if ((ptx ? library->GetLinkedPtxSize : library->GetLinkedCubinSize)(link, &size) != 0 || !size)
        return false;
    char *bytes = mem_alloc(size + 1, 1);
    bool ok =
        (ptx ? library->GetLinkedPtx(link, bytes) : library->GetLinkedCubin(link, bytes)) == 0;
    if (ok)
        str_add(out, bytes, ptx ? strlen(bytes) : size);
    free(bytes);
    return ok;
}

bool nvjitlink_link(const struct nvjitlink *library, const struct str *ir, const char **options,
                    size_t count, bool ptx, struct str *out, struct str *out_log,
                    struct str *out_error)
{
    void *link = NULL;
    int result = library->Create(&link, (unsigned)count, options);
    if (result == 0)
        result = library->AddData(link, INPUT_LTOIR, str_text(ir), ir->len, "module");
    if (result == 0)
        result = library->Complete(link);
    bool ok = result == 0 && take(library, link, ptx, out);
    if (link) {
        add_log(link, library->GetInfoLogSize, library->GetInfoLog, out_log);
        if (!ok)
            add_log(link, library->GetErrorLogSize, library->GetErrorLog, out_error);
        library->Destroy(&link);
    }
    while (out_error->len && strchr("\n ", out_error->data[out_error->len - 1]))
        out_error->data[--out_error->len] = '\0';
    if (!ok && !out_error->len)
        str_addf(out_error, "nvJitLink failed with result %d", result);
    return ok;
}
