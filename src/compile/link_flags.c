#include "compile/link_flags.h"

#include <string.h>

#include "base/str.h"

/* Flags that are done with when the IR is made. A name that ends in '=' takes any value, one that
 * ends in '*' any end. */
static const char *const front_end[] = {
    "-D*",
    "--define-macro=",
    "-U*",
    "--undefine-macro=",
    "-std=",
    "--std=",
    "-default-device",
    "--device-as-default-execution-space",
    "-include=",
    "--pre-include=",
    "-w",
    "--disable-warnings",
    "-Wno-*",
    "--diag-*",
    "-diag-*",
    "--display-error-number",
    "-no-cache",
    "--restrict",
    "-restrict",
    "--modify-stack-limit=",
    "-err-no",
    "--builtin-*",
    "-builtin-*",
    "--no-source-include",
    "--minimal",
    "-minimal",
    "--no-display-error-number",
};

/* A flag and what nvJitLink calls it; a value of NVRTC's, true or false, is 1 or 0 there. */
static const struct {
    const char *flag, *option;
} truths[] = {{"fmad=", "-fma="},
              {"ftz=", "-ftz="},
              {"prec-div=", "-prec-div="},
              {"prec-sqrt=", "-prec-sqrt="}};

static const struct {
    const char *flag, *option;
} values[] = {
    {"maxrregcount=", "-maxrregcount="},
    {"ptxas-options=", "-Xptxas="},
    {"split-compile=", "-split-compile="},
    {"jump-table-density=", "-jump-table-density="},
};

static bool is_front_end(const char *flag)
{
    for (size_t i = 0; i < sizeof front_end / sizeof *front_end; i++) {
        size_t length = strlen(front_end[i]);
        char last = front_end[i][length - 1];
        if (last == '*' ? strncmp(flag, front_end[i], length - 1) == 0
                        : (last == '=' ? strncmp(flag, front_end[i], length) == 0
                                       : strcmp(flag, front_end[i]) == 0))
            return true;
    }
    return false;
}

/* Without the one or two dashes. */
static const char *bare(const char *flag)
{
    return flag + (flag[0] == '-') + (flag[0] == '-' && flag[1] == '-');
}

/* False when the flag has no counterpart; `list` has room for all. */
static bool map(const char *flag, struct arena *arena, const char **list, size_t *count)
{
    const char *name = bare(flag);
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++) {
        if (!str_starts(name, truths[i].flag))
            continue;
        const char *value = name + strlen(truths[i].flag);
        bool on = strcmp(value, "true") == 0;
        list[(*count)++] = arena_printf(arena, "%s%d", truths[i].option, on);
        return on || strcmp(value, "false") == 0;
    }
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (str_starts(name, values[i].flag)) {
            list[(*count)++] =
                arena_printf(arena, "%s%s", values[i].option, name + strlen(values[i].flag));
            return true;
        }
    if (strcmp(name, "lineinfo") == 0 || strcmp(name, "generate-line-info") == 0) {
        list[(*count)++] = "-lineinfo";
        return true;
    }
    return false;
}

/* What --use_fast_math implies, where no flag of its own says otherwise. */
static void add_fast(const char **list, size_t *count)
{
    static const char *const fast[] = {"-ftz=1", "-prec-div=0", "-prec-sqrt=0", "-fma=1"};
    for (size_t i = 0, given = *count; i < 4; i++) {
        bool said = false;
        for (size_t j = 0; j < given; j++)
            said |= strncmp(list[j], fast[i], strlen(fast[i]) - 1) == 0;
        if (!said)
            list[(*count)++] = fast[i];
    }
}

const char **link_flags(const char *const *flags, size_t count, struct arena *arena,
                        size_t *out_count, const char **out_unknown)
{
    const char **list = arena_alloc(arena, count + 4, sizeof *list);
    *out_count = 0;
    *out_unknown = NULL;
    bool fast = false;
    for (size_t i = 0; i < count; i++) {
        bool is_fast = strcmp(bare(flags[i]), "use_fast_math") == 0;
        fast |= is_fast;
        if (is_fast || is_front_end(flags[i]))
            continue;
        if (!map(flags[i], arena, list, out_count)) {
            *out_unknown = flags[i];
            return NULL;
        }
    }
    if (fast)
        add_fast(list, out_count);
    return list;
}
