/* Descriptions changed at random: whatever comes in, target_load ends, and it gives a target
 * exactly when it reports no error. The seeds are fixed, so that a failure repeats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "target/target.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum {
    ROUNDS = 400
};

static const char *const names[] = {"base", "child", "grandchild", "globbed", "computed", "plain"};

static const char *const words[] = {
    "nil",
    "{}",
    "k.every",
    "function(t) return t.M end",
    "-1",
    "1e999",
    "0/0",
    "\"\"",
    "true",
    "'\\0'",
    "1 << 62",
    "k.glob",
    "k.module 'x'",
    "--[[",
    "return",
    "}",
    "{",
    ",",
    "]]",
    "[==[",
    "\xff",
    "\r",
    "\"",
    "=",
    "..",
    "end",
    "k.entry",
    "{{{{",
};

static uint64_t state_of_random;

static size_t below(size_t limit)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return limit ? (size_t)(state_of_random >> 33) % limit : 0;
}

/* One change: bytes taken out, copied from elsewhere, put in from `words`, or flipped. */
static void mutate(struct str *text)
{
    size_t at = below(text->len + 1), size = below(24);
    if (size > text->len - at)
        size = text->len - at;
    struct str out = {0};
    str_add(&out, text->data, at);
    switch (below(4)) {
    case 0:
        at += size;
        break;
    case 1: {
        size_t from = below(text->len - size + 1);
        str_add(&out, text->data + from, size);
        break;
    }
    case 2:
        str_adds(&out, words[below(COUNT(words))]);
        at += below(2) * size;
        break;
    default:
        if (at < text->len)
            str_addc(&out, (char)(text->data[at++] ^ (1 << below(8))));
    }
    str_add(&out, text->data + at, text->len - at);
    str_free(text);
    *text = out;
}

static void copy_file(const char *from, const char *to)
{
    struct diags diags = {0};
    struct str text = {0};
    assert_true(file_read(from, &text, &diags));
    assert_true(file_publish(to, text.data, text.len, &diags));
    str_free(&text);
    diag_free(&diags);
}

/* A project whose kernels and lua are those of tests/lua/good, and whose targets may be written. */
static void make_project(char *root)
{
    char from[512], to[512], cwd[256];
    assert_non_null(mkdtemp(root));
    assert_non_null(getcwd(cwd, sizeof cwd));
    static const char *const links[] = {"kernels", "lua"};
    for (size_t i = 0; i < COUNT(links); i++) {
        snprintf(from, sizeof from, "%s/tests/lua/good/%s", cwd, links[i]);
        snprintf(to, sizeof to, "%s/%s", root, links[i]);
        assert_int_equal(symlink(from, to), 0);
    }
    struct diags diags = {0};
    snprintf(to, sizeof to, "%s/targets/shapes", root);
    assert_true(file_make_dirs(to, &diags));
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(from, sizeof from, "tests/lua/good/targets/%s.lua", names[i]);
        snprintf(to, sizeof to, "%s/targets/%s.lua", root, names[i]);
        copy_file(from, to);
    }
    snprintf(to, sizeof to, "%s/targets/shapes/sizes.lua", root);
    copy_file("tests/lua/good/targets/shapes/sizes.lua", to);
    diag_free(&diags);
}

static void remove_project(const char *root)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

static void check_load(const char *path)
{
    struct arena arena = {0};
    struct diags diags = {0};
    struct str text = {0};
    const struct target *target = target_load(path, &arena, &diags);
    assert_int_equal(target != NULL, diags.errors == 0);
    diag_render(&diags, 0, false, &text);
    str_free(&text);
    diag_free(&diags);
    arena_free(&arena);
}

static void changed_descriptions(void **state)
{
    (void)state;
    char root[] = "/tmp/kpack-fuzz-XXXXXX", path[256];
    make_project(root);
    snprintf(path, sizeof path, "%s/targets/fuzz.lua", root);
    for (size_t round = 0; round < ROUNDS; round++) {
        struct diags diags = {0};
        struct str text = {0};
        char from[256];
        snprintf(from, sizeof from, "%s/targets/%s.lua", root, names[round % COUNT(names)]);
        assert_true(file_read(from, &text, &diags));
        state_of_random = round;
        for (size_t changes = 1 + below(3); changes; changes--)
            mutate(&text);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(text.data, 1, text.len, file), text.len);
        assert_int_equal(fclose(file), 0);
        check_load(path);
        str_free(&text);
        diag_free(&diags);
    }
    remove_project(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(changed_descriptions)};
    return cmocka_run_group_tests_name("target_fuzz", tests, NULL, NULL);
}
