#include "cli/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

const char *scratch_make(struct cli *cli, const char *purpose)
{
    const char *top = getenv("TMPDIR");
    const char *name = arena_printf(&cli->arena, "kpack-%s-XXXXXX", purpose);
    char *folder = path_join(&cli->arena, top && top[0] ? top : "/tmp", name);
    if (mkdtemp(folder))
        return folder;
    diag_error(&cli->diags, "cannot make the folder '%s': %s; TMPDIR names another place", folder,
               strerror(errno));
    return NULL;
}

void scratch_remove(const char *folder)
{
    struct arena arena = {0};
    DIR *dir = opendir(folder);
    for (struct dirent *item; dir && (item = readdir(dir));)
        unlink(path_join(&arena, folder, item->d_name));
    if (dir)
        closedir(dir);
    rmdir(folder);
    arena_free(&arena);
}
