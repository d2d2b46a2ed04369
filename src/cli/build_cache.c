#include <stdlib.h>

#include "base/file.h"
#include "cli/build.h"

const char *build_cache_folder(struct cli *cli, const char *given)
{
    const char *named = getenv("KPACK_CACHE"), *base = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (given)
        return given;
    if (named && named[0])
        return named;
    /* The specification has relative ones ignored. */
    if (base && base[0] == '/')
        return path_join(&cli->arena, base, "kpack");
    if (home && home[0] == '/')
        return path_join(&cli->arena, home, ".cache/kpack");
    diag_warning(&cli->diags, "there is no cache: KPACK_CACHE, XDG_CACHE_HOME and HOME are not "
                              "set; name a folder with '--cache'");
    return NULL;
}
