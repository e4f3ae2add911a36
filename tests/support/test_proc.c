#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

enum {
    LONG_MS = 10000
};

static sc_proc *start_shell(const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    return sc_proc_start(&(sc_proc_config){.argv = argv});
}

static void streams_and_exit_code(void **state)
{
    (void)state;
    sc_proc *p = SC_PROC_RUN(LONG_MS, "sh", "-c", "echo to out; echo to err >&2; exit 7");
    assert_int_equal(sc_proc_exit_code(p), 7);
    assert_string_equal(sc_proc_text(p, SC_PROC_OUT), "to out\n");
    assert_string_equal(sc_proc_text(p, SC_PROC_ERR), "to err\n");
    sc_proc_free(&p);
    assert_null(p);
}

static void missing_program(void **state)
{
    (void)state;
    sc_proc *p = SC_PROC_RUN(LONG_MS, "/no/such/program");
    assert_int_equal(sc_proc_exit_code(p), 127);
    assert_non_null(strstr(sc_proc_text(p, SC_PROC_ERR), "cannot run /no/such/program: No such"));
    sc_proc_free(&p);
}

static void large_output(void **state)
{
    (void)state;
    /* more than a pipe holds, on both streams */
    sc_proc *p = start_shell("yes out | head -c 1000000 & yes err | head -c 1000000 >&2; wait");
    sc_proc_expect_exit(p, 0, LONG_MS);
    assert_int_equal(strlen(sc_proc_text(p, SC_PROC_OUT)), 1000000);
    assert_int_equal(strlen(sc_proc_text(p, SC_PROC_ERR)), 1000000);
    sc_proc_free(&p);
}

static void lines_in_order(void **state)
{
    (void)state;
    sc_proc *p = start_shell("echo one; echo step 1; echo two; echo step 2; printf 'step 3'");
    assert_string_equal(sc_proc_expect_line(p, SC_PROC_OUT, "step", LONG_MS), "step 1");
    assert_string_equal(sc_proc_expect_line(p, SC_PROC_OUT, "step", LONG_MS), "step 2");
    assert_string_equal(sc_proc_expect_line(p, SC_PROC_OUT, "step", LONG_MS), "step 3");
    assert_null(sc_proc_wait_line(p, SC_PROC_OUT, "step", LONG_MS));
    sc_proc_expect_exit(p, 0, LONG_MS);
    sc_proc_free(&p);
}

static void deadline_and_signal(void **state)
{
    (void)state;
    sc_proc *p = start_shell("echo up; exec sleep 1000");
    sc_proc_expect_line(p, SC_PROC_OUT, "up", LONG_MS);
    assert_false(sc_proc_wait(p, 20));
    assert_null(sc_proc_wait_line(p, SC_PROC_OUT, "never", 20));
    sc_proc_signal(p, SIGTERM);
    sc_proc_expect_exit(p, -SIGTERM, LONG_MS);
    sc_proc_free(&p);
}

static void free_kills(void **state)
{
    (void)state;
    sc_proc *p = start_shell("echo up; exec sleep 1000");
    sc_proc_expect_line(p, SC_PROC_OUT, "up", LONG_MS);
    pid_t pid = sc_proc_pid(p);
    assert_int_equal(kill(pid, 0), 0);
    sc_proc_free(&p);
    assert_int_equal(kill(pid, 0), -1);
}

static void environment_and_folder(void **state)
{
    (void)state;
    setenv("SC_A", "ours", 1);
    setenv("SC_B", "kept", 1);
    char *dir = sc_tmpdir_new();
    const char *const argv[] = {"sh", "-c", "echo $SC_A $SC_B; pwd -P", NULL};
    const char *const env[] = {"SC_A=new", NULL};
    sc_proc *p = sc_proc_run(&(sc_proc_config){.argv = argv, .env = env, .dir = dir}, LONG_MS);
    assert_string_equal(sc_proc_expect_line(p, SC_PROC_OUT, "", LONG_MS), "new kept");
    assert_non_null(strstr(sc_proc_expect_line(p, SC_PROC_OUT, "/", LONG_MS), "sc-test-"));
    sc_proc_free(&p);
    sc_tmpdir_free(&dir);
}

static void terminal(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "test -t 1 && echo terminal; test -t 2 || echo pipe",
                                NULL};
    sc_proc *p = sc_proc_run(&(sc_proc_config){.argv = argv, .is_terminal = true}, LONG_MS);
    assert_string_equal(sc_proc_text(p, SC_PROC_OUT), "terminal\r\npipe\r\n");
    sc_proc_free(&p);
}

static void orphan_is_found(void **state)
{
    (void)state;
    sc_proc_expect_none_left(LONG_MS);
    /* the child ends, its own child goes on without our pipes and with another parent */
    sc_proc *p = start_shell("sleep 1000 >/dev/null 2>&1 & echo $!");
    sc_proc_expect_exit(p, 0, LONG_MS);
    pid_t expected = (pid_t)strtol(sc_proc_text(p, SC_PROC_OUT), NULL, 10);
    pid_t found[4] = {0};
    assert_int_equal(sc_proc_find_left(found, 4), 1);
    assert_int_equal(found[0], expected);
    kill(expected, SIGKILL);
    sc_proc_expect_none_left(LONG_MS);
    sc_proc_free(&p);
}

static void group_signal(void **state)
{
    (void)state;
    sc_proc *p = start_shell("sleep 1000 & sleep 1000 & echo up; wait");
    sc_proc_expect_line(p, SC_PROC_OUT, "up", LONG_MS);
    sc_proc_signal_group(p, SIGKILL);
    sc_proc_expect_exit(p, -SIGKILL, LONG_MS);
    sc_proc_expect_none_left(LONG_MS);
    sc_proc_free(&p);
}

static void folders_and_files(void **state)
{
    (void)state;
    char *dir = sc_tmpdir_new();
    const char bytes[] = {'a', '\0', 'b'};
    char *path = sc_tmpdir_write(dir, "x.bin", bytes, sizeof bytes);
    size_t n = 0;
    char *back = sc_tmpdir_read(path, &n);
    assert_int_equal(n, sizeof bytes);
    assert_memory_equal(back, bytes, n);
    char *sub = sc_tmpdir_path(dir, "sub");
    assert_int_equal(mkdir(sub, 0700), 0);
    char *deep = sc_tmpdir_write_text(sub, "y", "text");
    char *gone = strdup(dir);
    sc_tmpdir_free(&dir);
    assert_null(dir);
    assert_int_equal(access(gone, F_OK), -1);
    free(gone);
    free(deep);
    free(sub);
    free(back);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_and_exit_code),  cmocka_unit_test(missing_program),
        cmocka_unit_test(large_output),           cmocka_unit_test(lines_in_order),
        cmocka_unit_test(deadline_and_signal),    cmocka_unit_test(free_kills),
        cmocka_unit_test(environment_and_folder), cmocka_unit_test(terminal),
        cmocka_unit_test(orphan_is_found),        cmocka_unit_test(group_signal),
        cmocka_unit_test(folders_and_files),
    };
    return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
