/* Starting, pinning, ending and describing children. */
#include "cli/launch.h"
#include "tests/support/tmpdir.h"

#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    PATIENCE_MS = 10000
};

static void wait_for_end(sc_launch *launch)
{
    while (sc_launch_reap(launch) > 0) {
        struct pollfd fd = {.fd = launch->children[0].pid_fd, .events = POLLIN};
        assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
    }
}

static sc_launch_spec shell(const char *const *argv, const char *log_path)
{
    return (sc_launch_spec){.name = "child",
                            .path = "/bin/sh",
                            .argv = argv,
                            .log_path = log_path,
                            .out_fd = -1,
                            .err_fd = -1,
                            .keep_fd = -1};
}

static void test_output_goes_to_the_log(void **state)
{
    (void)state;
    static const char *const ARGV[] = {"sh", "-c", "echo out; echo err >&2; cat; exit 7", NULL};
    char *dir = sc_tmpdir_new();
    char *log = sc_tmpdir_path(dir, "log");
    char text[64];
    sc_launch launch;
    sc_launch_spec spec = shell(ARGV, log);
    sc_launch_init(&launch);
    assert_int_equal(sc_launch_start(&launch, &spec, NULL), SC_OK);
    wait_for_end(&launch);
    assert_string_equal(sc_launch_format_end(launch.children[0].wait_status, text, sizeof text),
                        "exit status 7");
    assert_int_equal(launch.children[0].pid_fd, -1);
    assert_string_equal(sc_launch_tail(log, 10, text, sizeof text), "out\nerr\n");
    sc_launch_done(&launch);
    free(log);
    sc_tmpdir_free(&dir);
}

static void test_what_cannot_start_says_why(void **state)
{
    (void)state;
    static const char *const ARGV[] = {"x", NULL};
    sc_err err;
    sc_launch launch;
    sc_launch_init(&launch);
    sc_launch_spec spec = shell(ARGV, NULL);
    spec.path = "/nonexistent/program";
    assert_int_equal(sc_launch_start(&launch, &spec, &err), SC_IO);
    assert_string_equal(err.text,
                        "cannot start child (/nonexistent/program): No such file or directory");
    spec = shell(ARGV, "/nonexistent/log");
    assert_int_equal(sc_launch_start(&launch, &spec, &err), SC_IO);
    assert_non_null(strstr(err.text, "/nonexistent/log: "));
    assert_int_equal(launch.n_children, 0);
    // The child that failed to become a program is reaped.
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    sc_launch_done(&launch);
}

static void test_done_kills_the_group(void **state)
{
    (void)state;
    // The shell and its own child hold the pipe; it ends when both are gone.
    static const char *const ARGV[] = {"sh", "-c",
                                       "trap '' TERM; (echo ready; cat /dev/zero "
                                       ">/dev/null) & wait",
                                       NULL};
    int fds[2];
    char text[16];
    sc_launch launch;
    sc_launch_init(&launch);
    assert_int_equal(pipe(fds), 0);
    sc_launch_spec spec = shell(ARGV, NULL);
    spec.out_fd = fds[1];
    spec.err_fd = fds[1];
    assert_int_equal(sc_launch_start(&launch, &spec, NULL), SC_OK);
    close(fds[1]);
    assert_int_equal(read(fds[0], text, sizeof text), 6);
    sc_launch_signal(&launch, SIGTERM);
    assert_int_equal(sc_launch_reap(&launch), 1);
    sc_launch_done(&launch);
    struct pollfd end = {.fd = fds[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, PATIENCE_MS), 1);
    assert_int_equal(read(fds[0], text, sizeof text), 0);
    close(fds[0]);
}

static void test_ends_in_words(void **state)
{
    (void)state;
    char text[64];
    assert_string_equal(sc_launch_format_end(9, text, sizeof text), "killed by signal 9 (Killed)");
    assert_string_equal(sc_launch_format_end(0, text, sizeof text), "exit status 0");
}

static void test_tail_is_the_last_lines(void **state)
{
    (void)state;
    char *dir = sc_tmpdir_new();
    char *path = sc_tmpdir_write_text(dir, "log", "a\nb\nc\nd");
    char text[SC_LAUNCH_TAIL_MAX];
    assert_string_equal(sc_launch_tail(path, 2, text, sizeof text), "c\nd");
    assert_string_equal(sc_launch_tail(path, 9, text, sizeof text), "a\nb\nc\nd");
    free(path);
    path = sc_tmpdir_write_text(dir, "log", "");
    assert_string_equal(sc_launch_tail(path, 2, text, sizeof text), "");
    free(path);
    path = sc_tmpdir_path(dir, "none");
    assert_string_equal(sc_launch_tail(path, 2, text, sizeof text), "");
    free(path);
    const size_t n_large = (size_t)3 * SC_LAUNCH_TAIL_MAX;
    // Larger than what is looked at.
    char *large = malloc(n_large + 1);
    assert_non_null(large);
    memset(large, 'x', n_large);
    large[n_large] = '\0';
    memcpy(large + n_large - 5, "\nend\n", 5);
    path = sc_tmpdir_write_text(dir, "log", large);
    assert_string_equal(sc_launch_tail(path, 1, text, sizeof text), "end\n");
    sc_launch_tail(path, 9, text, sizeof text);
    assert_int_equal(strlen(text), SC_LAUNCH_TAIL_MAX - 1);
    free(large);
    free(path);
    sc_tmpdir_free(&dir);
}

static void test_cores_wrap_round(void **state)
{
    (void)state;
    cpu_set_t before;
    cpu_set_t one;
    char text[64];
    char first[16] = "";
    int n_cores = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &before) && n_cores++ == 0) {
            CPU_SET(core, &one);
            snprintf(first, sizeof first, "%d", core);
        }
    }
    assert_true(sc_launch_pin(0, 1, text, sizeof text));
    assert_string_equal(text, first);
    assert_true(sc_launch_pin(n_cores, 1, text, sizeof text));
    assert_string_equal(text, first);
    assert_false(sc_launch_pin(0, n_cores + 1, text, sizeof text));
    assert_false(sc_launch_pin(0, 0, text, sizeof text));
    if (n_cores > 1) {
        assert_true(sc_launch_pin(1, 1, text, sizeof text));
        assert_string_not_equal(text, first);
        assert_true(sc_launch_pin(0, 2, text, sizeof text));
        assert_non_null(strchr(text, ','));
    }
    // With one core allowed everybody is there.
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_true(sc_launch_pin(5, 1, text, sizeof text));
    assert_string_equal(text, first);
    assert_false(sc_launch_pin(0, 2, text, sizeof text));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void test_programs_are_found_in_order(void **state)
{
    (void)state;
    char *found = NULL;
    sc_err err;
    assert_int_equal(sc_launch_find("sh", "/nonexistent:/bin:/usr/bin", &found, NULL), SC_OK);
    assert_string_equal(found, "/bin/sh");
    free(found);
    // Beside this program comes first.
    assert_int_equal(sc_launch_find("test_launch", "/bin", &found, NULL), SC_OK);
    assert_non_null(strstr(found, "/tests/cli/test_launch"));
    free(found);
    // A folder is no program.
    assert_int_equal(sc_launch_find("bin", "/usr", &found, &err), SC_NOT_FOUND);
    assert_int_equal(sc_launch_find("sh", NULL, &found, &err), SC_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_goes_to_the_log),
        cmocka_unit_test(test_what_cannot_start_says_why),
        cmocka_unit_test(test_done_kills_the_group),
        cmocka_unit_test(test_ends_in_words),
        cmocka_unit_test(test_tail_is_the_last_lines),
        cmocka_unit_test(test_cores_wrap_round),
        cmocka_unit_test(test_programs_are_found_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
