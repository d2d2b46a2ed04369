#include <string.h>

#include "base/file.h"
#include "compile/compile.h"

const char *compile_path(const char *name, const char *root, const struct cuda *cuda,
                         struct arena *arena)
{
    if (str_starts(name, COMPILE_HEADERS_ROOT "/"))
        return NULL;
    if (str_starts(name, COMPILE_CUDA_ROOT "/")) {
        const char *rest = name + sizeof COMPILE_CUDA_ROOT;
        for (size_t i = 0; cuda && i < cuda->include_count; i++) {
            const char *path = path_join(arena, cuda->includes[i], rest);
            if (file_is_regular(path))
                return path;
        }
        return NULL;
    }
    if (str_starts(name, COMPILE_CWD "/"))
        name += sizeof COMPILE_CWD;
    return path_join(arena, root, name);
}
