#include "cli/git.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"

enum {
    GIT_FILES_MAX = 64
};

static const char *find_git(struct arena *arena)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t length = strcspn(path, ":");
        char *file = path_join(arena, arena_strndup(arena, path, length), "git");
        if (length && access(file, X_OK) == 0 && file_is_regular(file))
            return file;
        path += length + (path[length] == ':');
    }
    return NULL;
}

/* Moves what one pipe holds into `out`; closes it at its end. */
static void drain(int *fd, struct str *out)
{
    char chunk[4096];
    ssize_t got = read(*fd, chunk, sizeof chunk);
    if (got > 0)
        str_add(out, chunk, (size_t)got);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
        close(*fd);
        *fd = -1;
    }
}

struct output {
    struct str out, error;
};

/* Runs a command and keeps what it writes. Whether it exited with status 0. */
static bool run(const char *const argv[], struct output *output)
{
    struct diags diags = {0};
    struct proc proc;
    str_clear(&output->out);
    str_clear(&output->error);
    if (!proc_start(argv, NULL, &proc, &diags)) {
        str_adds(&output->error, diags.items[0].message);
        diag_free(&diags);
        return false;
    }
    close(proc.in);
    proc.in = -1;
    while (proc.out >= 0 || proc.error >= 0) {
        struct pollfd fds[2] = {{proc.out, POLLIN, 0}, {proc.error, POLLIN, 0}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (proc.out >= 0 && fds[0].revents)
            drain(&proc.out, &output->out);
        if (proc.error >= 0 && fds[1].revents)
            drain(&proc.error, &output->error);
    }
    int status = proc_wait(&proc);
    if (!output->error.len && status)
        proc_describe(status, &output->error);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool is_dirty(const char *git, const char *root, const char *const *used, size_t used_count,
                     struct arena *arena, struct output *output)
{
    const char *status[] = {git,           "--no-optional-locks",  "-C", root, "status",
                            "--porcelain", "--untracked-files=no", NULL};
    const char *fixed[] = {git, "-C", root, "--literal-pathspecs", "ls-files", "--error-unmatch",
                           "--"};
    size_t count = sizeof fixed / sizeof *fixed;
    if (!run(status, output) || output->out.len)
        return true;
    const char **tracked = arena_alloc(arena, count + used_count + 1, sizeof *tracked);
    memcpy(tracked, fixed, sizeof fixed);
    memcpy(tracked + count, used, used_count * sizeof *used);
    return used_count && !run(tracked, output);
}

struct git_state git_query(const char *root, const char *const *used, size_t used_count,
                           struct arena *arena)
{
    struct git_state state = {0};
    struct output output = {0};
    const char *git = find_git(arena);
    const char *head[] = {git, "-C", root, "rev-parse", "--verify", "HEAD", NULL};
    if (!git) {
        state.problem = "git is not installed";
    } else if (!run(head, &output) || !output.out.len) {
        state.problem =
            arena_strndup(arena, str_text(&output.error), strcspn(str_text(&output.error), "\n"));
    } else {
        state.commit = arena_strndup(arena, output.out.data, strcspn(output.out.data, "\n"));
        state.dirty = is_dirty(git, root, used, used_count, arena, &output);
    }
    str_free(&output.out);
    str_free(&output.error);
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
    struct output output = {0};
    const char **list = arena_alloc(arena, GIT_FILES_MAX + 1, sizeof *list);
    const char *git = find_git(arena);
    const char *where[] = {git,           "-C",   root,         "rev-parse", "--git-common-dir",
                           "--git-path",  "HEAD", "--git-path", "index",     "--git-path",
                           "packed-refs", NULL};
    *out_count = 0;
    if (git && run(where, &output)) {
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
    str_free(&output.out);
    str_free(&output.error);
    return list;
}
