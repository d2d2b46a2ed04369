#include "cli/git.h"

#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/run.h"
#include "base/str.h"

enum {
    GIT_FILES_MAX = 64
};

static bool is_dirty(const char *git, const char *root, const char *const *used, size_t used_count,
                     struct arena *arena, struct run_output *output)
{
    const char *status[] = {git,           "--no-optional-locks",  "-C", root, "status",
                            "--porcelain", "--untracked-files=no", NULL};
    const char *fixed[] = {git, "-C", root, "--literal-pathspecs", "ls-files", "--error-unmatch",
                           "--"};
    size_t count = sizeof fixed / sizeof *fixed;
    if (!run_program(status, output) || output->out.len)
        return true;
    const char **tracked = arena_alloc(arena, count + used_count + 1, sizeof *tracked);
    memcpy(tracked, fixed, sizeof fixed);
    memcpy(tracked + count, used, used_count * sizeof *used);
    return used_count && !run_program(tracked, output);
}

struct git_state git_query(const char *root, const char *const *used, size_t used_count,
                           struct arena *arena)
{
    struct git_state state = {0};
    struct run_output output = {0};
    const char *git = run_find(arena, "git");
    const char *head[] = {git, "-C", root, "rev-parse", "--verify", "HEAD", NULL};
    if (!git) {
        state.problem = "git is not installed";
    } else if (!run_program(head, &output) || !output.out.len) {
        state.problem =
            arena_strndup(arena, str_text(&output.error), strcspn(str_text(&output.error), "\n"));
    } else {
        state.commit = arena_strndup(arena, output.out.data, strcspn(output.out.data, "\n"));
        state.dirty = is_dirty(git, root, used, used_count, arena, &output);
    }
    run_free(&output);
    return state;
}

/* Where a repository would be found: .git in the folder and in those above it. */
static size_t add_places(const char *root, struct arena *arena, const char **list)
{
    size_t count = 0;
    for (const char *at = root; count < GIT_FILES_MAX; at = path_dir(arena, at)) {
        list[count++] = path_join(arena, at, ".git");
        if (strcmp(at, "/") == 0 || strcmp(at, ".") == 0)
            break;
    }
    return count;
}

/* The file of the branch that HEAD names, NULL when it names none. */
static const char *branch_file(const char *head, const char *common, struct arena *arena)
{
    static const char prefix[] = "ref: ";
    struct str text = {0};
    struct diags ignored = {0};
    const char *file = NULL;
    if (file_read(head, &text, &ignored) && str_starts(text.data, prefix)) {
        const char *name = text.data + strlen(prefix);
        file = path_join(arena, common, arena_strndup(arena, name, strcspn(name, "\n")));
    }
    str_free(&text);
    diag_free(&ignored);
    return file;
}

const char **git_files(const char *root, struct arena *arena, size_t *out_count)
{
    struct run_output output = {0};
    const char **list = arena_alloc(arena, GIT_FILES_MAX + 1, sizeof *list);
    const char *git = run_find(arena, "git");
    const char *where[] = {git,           "-C",   root,         "rev-parse", "--git-common-dir",
                           "--git-path",  "HEAD", "--git-path", "index",     "--git-path",
                           "packed-refs", NULL};
    *out_count = 0;
    if (git && run_program(where, &output)) {
        char *rest = str_text(&output.out)[0] ? output.out.data : NULL;
        for (char *line; *out_count < 4 && (line = strsep(&rest, "\n"));)
            list[(*out_count)++] = path_join(arena, root, line);
    }
    if (*out_count == 4) {
        const char *common = list[0], *branch = branch_file(list[1], common, arena);
        list[0] = branch ? branch : list[3];
    } else {
        *out_count = add_places(root, arena, list);
    }
    run_free(&output);
    return list;
}
