#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

/* ---- A folder of the test's own ----------------------------------------------------------------
 */

struct place {
    char folder[32];
    struct arena arena;
    struct diags diags;
};

static int start(void **state)
{
    static struct place place;
    place = (struct place){.folder = "/tmp/kpack-file-XXXXXX"};
    *state = &place;
    return mkdtemp(place.folder) ? 0 : -1;
}

static int stop(void **state)
{
    struct place *place = *state;
    static const char *const names[] = {"a", "b", "fifo"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_join(&place->arena, place->folder, names[i]));
    int left = rmdir(place->folder); /* fails when something else lies there */
    arena_free(&place->arena);
    diag_free(&place->diags);
    return left;
}

static const char *in(struct place *place, const char *name)
{
    return path_join(&place->arena, place->folder, name);
}

static void assert_holds(struct place *place, const char *name, const char *text)
{
    struct str found = {0};
    assert_true(file_read(in(place, name), &found, &place->diags));
    assert_string_equal(str_text(&found), text);
    str_free(&found);
}

static mode_t kind(const char *path)
{
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    return info.st_mode & S_IFMT;
}

/* ---- Tests -------------------------------------------------------------------------------------
 */

static void published_and_replaced(void **state)
{
    struct place *place = *state;
    assert_true(file_publish(in(place, "a"), "old", 3, &place->diags));
    assert_true(file_publish(in(place, "a"), "new", 3, &place->diags));
    assert_holds(place, "a", "new");
}

static void a_link_stays(void **state)
{
    struct place *place = *state;
    assert_int_equal(symlink("b", in(place, "a")), 0);
    assert_true(file_publish(in(place, "b"), "old", 3, &place->diags));
    assert_true(file_publish(in(place, "a"), "new", 3, &place->diags));
    assert_int_equal(kind(in(place, "a")), S_IFLNK);
    assert_holds(place, "b", "new");
}

static void a_link_to_nothing_becomes_the_file(void **state)
{
    struct place *place = *state;
    assert_int_equal(symlink("b", in(place, "a")), 0);
    assert_true(file_publish(in(place, "a"), "new", 3, &place->diags));
    assert_int_equal(kind(in(place, "a")), S_IFREG);
    assert_holds(place, "a", "new");
}

static void assert_refused(struct place *place, const char *path, const char *reason)
{
    size_t count = place->diags.count;
    assert_false(file_publish(path, "new", 3, &place->diags));
    assert_int_equal(place->diags.count, count + 1);
    assert_non_null(strstr(place->diags.items[count].message, reason));
}

/* rename() would put the file where the device was. */
static void no_regular_file_is_refused(void **state)
{
    struct place *place = *state;
    const char *fifo = in(place, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_refused(place, fifo, "no regular file");
    assert_int_equal(kind(fifo), S_IFIFO);
    assert_int_equal(symlink("fifo", in(place, "a")), 0);
    assert_refused(place, in(place, "a"), "no regular file");
    assert_int_equal(kind(in(place, "a")), S_IFLNK);
    assert_refused(place, place->folder, "a folder");
    assert_refused(place, in(place, "none/a"), "No such file or directory");
}

static void publish_often(struct place *place)
{
    for (int i = 0; i < 100; i++)
        if (!file_publish(in(place, "a"), "new", 3, &place->diags))
            _exit(1);
    _exit(0);
}

/* None takes another's file, which is not locked yet, for one that was left behind. */
static void many_publish_at_once(void **state)
{
    struct place *place = *state;
    int failed = 0, status;
    for (int i = 0; i < 6; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            publish_often(place);
    }
    for (int i = 0; i < 6; i++) {
        assert_true(wait(&status) > 0);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
    assert_holds(place, "a", "new");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(published_and_replaced, start, stop),
        cmocka_unit_test_setup_teardown(a_link_stays, start, stop),
        cmocka_unit_test_setup_teardown(a_link_to_nothing_becomes_the_file, start, stop),
        cmocka_unit_test_setup_teardown(no_regular_file_is_refused, start, stop),
        cmocka_unit_test_setup_teardown(many_publish_at_once, start, stop),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
