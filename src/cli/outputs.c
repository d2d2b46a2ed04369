#include "cli/outputs.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

const struct output_kind output_image = {"an image", ".kpk", "\x89KPK\r\n\x1a\n"};
const struct output_kind output_sidecar = {"an image's sidecar", ".kpk.json", "{\n  \"kpack\": "};
const struct output_kind output_cubin = {"a cubin", ".cubin", "\177ELF"};
const struct output_kind output_fatbin = {"a fatbin", ".fatbin", "\x50\xed\x55\xba"};
const struct output_kind output_json = {"a compilation database", ".json", "[\n"};
/* Whatever is linked, programs too, begins as an object does. */
const struct output_kind output_object = {"an object file", ".o", NULL};
const struct output_kind output_trace = {"a trace", ".json", "{\n \"traceEvents\": "};

bool output_replaces(const char *path, const struct output_kind *kind, struct diags *diags)
{
    char head[64];
    size_t size = kind->mark ? strlen(kind->mark) : 1;
    if ((kind->ending && str_ends(path, kind->ending)) || !file_is_regular(path))
        return true;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, head, size);
    if (fd >= 0)
        close(fd);
    if (got == 0 || (kind->mark && got == (ssize_t)size && memcmp(head, kind->mark, size) == 0))
        return true;
    return diag_error(diags, "will not replace '%s': it is not %s; remove it%s%s%s", path,
                      kind->what,
                      kind->ending ? ", or give a name that ends in '" : ", or give another name",
                      kind->ending ? kind->ending : "", kind->ending ? "'" : "");
}

bool output_same(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) == 0 || stat(b, &y) == 0)
        return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    struct arena arena = {0};
    bool same = strcmp(path_base(a), path_base(b)) == 0 && stat(path_dir(&arena, a), &x) == 0 &&
                stat(path_dir(&arena, b), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    arena_free(&arena);
    return same;
}

bool output_spares(const char *path, const char *const *images, size_t count, struct diags *diags)
{
    for (size_t i = 0; i < count; i++)
        if (output_same(path, images[i]))
            return diag_error(diags, "'%s' is the image itself: give what is written another name",
                              path);
    return true;
}

bool outputs_apart(const char *const *paths, size_t count, struct diags *diags)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (output_same(paths[i], paths[j]))
                return diag_error(diags, "'%s' would be written twice: give two names", paths[i]);
    return true;
}
