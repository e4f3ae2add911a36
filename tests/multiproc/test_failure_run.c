/* `stagecoach run` when something other than a worker ends: the coordinator, run itself, the user.
 */
#include "base/status.h"
#include "tests/multiproc/fleet.h"
#include "tests/support/procfs.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const sc_fleet_job JOB = {
    .schedule = "gpipe", .p = 2, .m = 2, .steps = 3, .f_ms = 500, .i_ms = 250, .w_ms = 250};

static void start_training(sc_fleet *fleet, char doing[512])
{
    sc_fleet_open(&JOB, fleet);
    sc_fleet_run(fleet);
    sc_fleet_await(fleet, "rank 1", "action 1F", "waiting", doing);
}

static pid_t find_coordinator(void)
{
    pid_t pids[SC_FLEET_WORKERS_MAX];
    size_t n = sc_proc_find_left(pids, SC_FLEET_WORKERS_MAX);
    for (size_t i = 0; i < n && i < SC_FLEET_WORKERS_MAX; i++) {
        char command[512];
        sc_procfs_command(pids[i], command, sizeof command);
        if (strncmp(command, "stagecoach-coordinator ", 23) == 0) {
            return pids[i];
        }
    }
    fail_msg("no coordinator among %zu processes", n);
    return -1;
}

static void expect_workers_say(const sc_fleet *fleet, const char *text)
{
    for (int i = 0; i < JOB.p; i++) {
        char name[64];
        snprintf(name, sizeof name, "log/worker-%d.log", i);
        char *log = sc_fleet_read(fleet, name);
        if (strstr(log, text) == NULL) {
            fail_msg("worker %d did not say '%s': %s", i, text, log);
        }
        free(log);
    }
}

static void test_killed_coordinator(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    start_training(&fleet, doing);
    int64_t since_ms = sc_fleet_now_ms();
    assert_int_equal(kill(find_coordinator(), SIGKILL), 0);
    sc_proc_expect_line(fleet.run, SC_PROC_ERR,
                        "stagecoach: the coordinator ended in the middle of the job: killed by "
                        "signal 9 (Killed)",
                        SC_FLEET_PATIENCE_MS);
    assert_in_range(sc_fleet_now_ms() - since_ms, 0, SC_FLEET_VERDICT_MS);
    sc_proc_expect_exit(fleet.run, sc_status_exit_code(SC_FAILED), SC_FLEET_PATIENCE_MS);
    sc_proc_expect_none_left(0);
    expect_workers_say(&fleet, "the coordinator at tcp://");
    sc_fleet_close(&fleet);
}

/* Nobody is there to wait for the daemons: the kernel tells them. */
static void test_killed_run(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    start_training(&fleet, doing);
    sc_proc_signal(fleet.run, SIGKILL);
    sc_proc_expect_exit(fleet.run, -SIGKILL, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_none_left(SC_FLEET_VERDICT_MS);
    sc_fleet_close(&fleet);
}

/* A stopped process takes a signal only when it goes on. */
static void test_killed_run_with_a_frozen_worker(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    start_training(&fleet, doing);
    assert_int_equal(kill(sc_fleet_pid_in(doing), SIGSTOP), 0);
    sc_proc_signal(fleet.run, SIGKILL);
    sc_proc_expect_exit(fleet.run, -SIGKILL, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_none_left(2 * SC_FLEET_VERDICT_MS);
    sc_fleet_close(&fleet);
}

static void test_interrupted_from_the_terminal(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    start_training(&fleet, doing);
    sc_proc_signal_group(fleet.run, SIGINT);
    sc_proc_expect_exit(fleet.run, sc_status_exit_code(SC_INTERRUPTED), SC_FLEET_PATIENCE_MS);
    sc_proc_expect_none_left(0);
    assert_null(strstr(sc_proc_text(fleet.run, SC_PROC_ERR), "did not end by itself"));
    expect_workers_say(&fleet, "stopped on request");
    sc_fleet_close(&fleet);
}

/* The run folder of the first is as it was. */
static void test_second_run_gets_a_folder_of_its_own(void **state)
{
    (void)state;
    sc_fleet fleet;
    sc_fleet_job job = {.schedule = "1f1b", .p = 2, .m = 3, .steps = 2};
    sc_fleet_open(&job, &fleet);
    sc_fleet_run(&fleet);
    sc_proc_expect_exit(fleet.run, 0, SC_FLEET_PATIENCE_MS);
    char *first = sc_fleet_read(&fleet, "metrics.jsonl");
    const char *const argv[] = {SC_BIN_DIR "/stagecoach", "run", fleet.job, NULL};
    sc_proc *second = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = fleet.dir});
    sc_proc_expect_exit(second, 0, SC_FLEET_PATIENCE_MS);
    assert_non_null(strstr(sc_proc_text(second, SC_PROC_OUT), "run folder: runs/x-2\n"));
    char *now = sc_fleet_read(&fleet, "metrics.jsonl");
    assert_string_equal(now, first);
    free(now);
    free(first);
    sc_proc_free(&second);
    sc_fleet_close(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_coordinator),
        cmocka_unit_test(test_killed_run),
        cmocka_unit_test(test_killed_run_with_a_frozen_worker),
        cmocka_unit_test(test_interrupted_from_the_terminal),
        cmocka_unit_test(test_second_run_gets_a_folder_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
