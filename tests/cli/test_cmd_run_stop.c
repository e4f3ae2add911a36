/* `stagecoach run` interrupted: everything ends, in the order of request, SIGTERM, SIGKILL. */
#include "tests/cli/fake_run.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    PATIENCE_MS = 20000,
    // Less than the time given to daemons before SIGTERM and after it.
    AT_ONCE_MS = 6500
};

static int make_dir(void **state)
{
    *state = sc_tmpdir_new();
    return 0;
}

static int remove_dir(void **state)
{
    char *dir = *state;
    sc_proc_expect_none_left(PATIENCE_MS);
    sc_tmpdir_free(&dir);
    return 0;
}

static sc_proc *start(const char *dir, const char *coordinator, const char *stage)
{
    static const char *const ARGS[] = {"run", "job.yaml", "--name", "x", NULL};
    const sc_fake_run run = {.coordinator = coordinator, .stage = stage, .dir = dir};
    return sc_fake_run_start(&run, ARGS);
}

/* Starts and waits until the workers have joined. */
static sc_proc *start_training(const char *dir, const char *coordinator, const char *stage)
{
    sc_proc *proc = start(dir, coordinator, stage);
    sc_proc_expect_line(proc, SC_PROC_OUT, "training", PATIENCE_MS);
    return proc;
}

static void test_interrupt_asks_the_coordinator(void **state)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        char *dir = sc_tmpdir_new();
        sc_proc *proc = start_training(dir, "wait", "ok");
        sc_proc_signal(proc, SIGNALS[i]);
        sc_proc_expect_exit(proc, 130, PATIENCE_MS);
        const char *text = sc_proc_text(proc, SC_PROC_ERR);
        assert_non_null(strstr(text, "stagecoach: interrupted\n"));
        // Nobody had to be forced.
        assert_null(strstr(text, "did not end by itself"));
        sc_proc_free(&proc);
        sc_tmpdir_free(&dir);
    }
    (void)state;
}

static void test_interrupt_before_the_coordinator_is_ready(void **state)
{
    static const char *const ARGS[] = {"run", "job.yaml", "-v", NULL};
    const sc_fake_run run = {.coordinator = "hang", .dir = *state};
    sc_proc *proc = sc_fake_run_start(&run, ARGS);
    sc_proc_expect_line(proc, SC_PROC_ERR, "hanging", PATIENCE_MS);
    sc_proc_signal(proc, SIGINT);
    sc_proc_expect_exit(proc, 130, PATIENCE_MS);
    sc_proc_free(&proc);
}

static void test_daemons_that_ignore_everything_are_killed(void **state)
{
    sc_proc *proc = start_training(*state, "deaf", "stubborn");
    sc_proc_signal(proc, SIGINT);
    sc_proc_expect_exit(proc, 130, PATIENCE_MS);
    const char *text = sc_proc_text(proc, SC_PROC_ERR);
    assert_non_null(strstr(text, "coordinator (pid "));
    assert_non_null(strstr(text, "did not end by itself, stopping it"));
    sc_proc_free(&proc);
}

static void test_second_interrupt_kills_at_once(void **state)
{
    sc_proc *proc = start_training(*state, "deaf", "stubborn");
    sc_proc_signal(proc, SIGINT);
    sc_proc_expect_line(proc, SC_PROC_ERR, "interrupt again to kill", PATIENCE_MS);
    sc_proc_signal(proc, SIGINT);
    sc_proc_expect_exit(proc, 130, AT_ONCE_MS);
    sc_proc_free(&proc);
}

static void test_daemons_end_when_the_program_is_killed(void **state)
{
    sc_proc *proc = start_training(*state, "wait", "ok");
    sc_proc_signal(proc, SIGKILL);
    sc_proc_expect_exit(proc, -SIGKILL, PATIENCE_MS);
    sc_proc_free(&proc);
    sc_proc_expect_none_left(PATIENCE_MS);
}

static void test_worker_left_after_the_end_is_stopped(void **state)
{
    sc_proc *proc = start(*state, "ok", "stubborn");
    sc_proc_expect_exit(proc, 0, PATIENCE_MS);
    assert_non_null(strstr(sc_proc_text(proc, SC_PROC_ERR), "did not end by itself, stopping it"));
    sc_proc_free(&proc);
}

/* A stopped process takes no SIGTERM until it is continued. */
static void test_frozen_worker_hears_the_signal(void **state)
{
    sc_proc *proc = start(*state, "ok", "freeze");
    sc_proc_expect_exit(proc, 0, PATIENCE_MS);
    assert_non_null(strstr(sc_proc_text(proc, SC_PROC_ERR), "did not end by itself, stopping it"));
    sc_proc_free(&proc);
    char *path = sc_tmpdir_path(*state, "x/log/worker-1.log");
    char *log = sc_tmpdir_read(path, NULL);
    assert_non_null(strstr(log, "ended by SIGTERM\n"));
    free(log);
    free(path);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        CASE(test_interrupt_asks_the_coordinator),
        CASE(test_interrupt_before_the_coordinator_is_ready),
        CASE(test_daemons_that_ignore_everything_are_killed),
        CASE(test_second_interrupt_kills_at_once),
        CASE(test_daemons_end_when_the_program_is_killed),
        CASE(test_worker_left_after_the_end_is_stopped),
        CASE(test_frozen_worker_hears_the_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
