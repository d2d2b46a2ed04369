#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/proc.h"

static void read_all(int fd, struct str *out)
{
    char chunk[256];
    struct pollfd wait = {fd, POLLIN, 0};
    for (;;) {
        poll(&wait, 1, 5000);
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got <= 0 && !(got < 0 && errno == EAGAIN))
            return;
        if (got > 0)
            str_add(out, chunk, (size_t)got);
    }
}

static bool start(struct proc *proc, const char *script, struct diags *diags)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const char *const extra[] = {"KPACK_TEST=a b", NULL};
    return proc_start(argv, extra, proc, diags);
}

static void test_streams_and_environment(void **state)
{
    (void)state;
    struct proc proc;
    struct diags diags = {0};
    struct str text = {0};
    assert_true(start(&proc, "read x; echo \"$x $KPACK_TEST\"; echo no >&2; exit 3", &diags));
    assert_int_equal(write(proc.in, "hello\n", 6), 6);
    read_all(proc.out, &text);
    assert_string_equal(str_text(&text), "hello a b\n");
    str_clear(&text);
    read_all(proc.error, &text);
    assert_string_equal(str_text(&text), "no\n");
    str_clear(&text);
    proc_describe(proc_wait(&proc), &text);
    assert_string_equal(str_text(&text), "exited with status 3");
    assert_int_equal(proc.pid, 0);
    str_free(&text);
}

static void test_missing_program(void **state)
{
    (void)state;
    struct proc proc;
    struct diags diags = {0};
    const char *const argv[] = {"/no/such/program", NULL};
    assert_false(proc_start(argv, NULL, &proc, &diags));
    assert_string_equal(diags.items[0].message,
                        "cannot start '/no/such/program': No such file or directory");
    assert_int_equal(proc.pid, 0);
    diag_free(&diags);
}

static void test_signals(void **state)
{
    (void)state;
    struct proc proc;
    struct diags diags = {0};
    struct str text = {0};
    /* A child starts with SIGPIPE as usual, whatever we do with it. */
    signal(SIGPIPE, SIG_IGN);
    assert_true(start(&proc, "kill -PIPE $$; exit 0", &diags));
    signal(SIGPIPE, SIG_DFL);
    read_all(proc.out, &text);
    proc_describe(proc_wait(&proc), &text);
    assert_string_equal(str_text(&text), "was killed by signal 13 (Broken pipe)");
    assert_true(start(&proc, "exec sleep 60", &diags));
    assert_true(proc_resident(proc.pid) > 0);
    pid_t pid = proc.pid;
    proc_kill(&proc);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(proc_resident(pid), 0);
    str_free(&text);
}

static int count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void test_no_descriptor_is_left(void **state)
{
    (void)state;
    int before = count_open();
    struct diags diags = {0};
    for (int i = 0; i < 3; i++) {
        struct proc proc;
        const char *const argv[] = {i ? "/bin/true" : "/no/such/program", NULL};
        if (proc_start(argv, NULL, &proc, &diags))
            proc_wait(&proc);
    }
    assert_int_equal(count_open(), before);
    diag_free(&diags);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_and_environment),
        cmocka_unit_test(test_missing_program),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_no_descriptor_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
