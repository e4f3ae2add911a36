/* Daemons started by hand: what happens to one reaches the others, and each ends by itself. */
#include "base/status.h"
#include "tests/multiproc/fleet.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const sc_fleet_job SLOW = {
    .schedule = "1f1b", .p = 3, .m = 2, .steps = 3, .f_ms = 500, .i_ms = 250, .w_ms = 250};
static const sc_fleet_job QUICK = {.schedule = "1f1b", .p = 2, .m = 4, .steps = 3};

static void start_all(sc_fleet *fleet, const sc_fleet_job *job)
{
    sc_fleet_open(job, fleet);
    sc_fleet_start_coordinator(fleet);
    for (int i = 0; i < job->p; i++) {
        sc_fleet_start_worker(fleet, i);
    }
}

static void expect_end(sc_proc *proc, sc_status status, const char *text)
{
    sc_proc_expect_line(proc, SC_PROC_ERR, text, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(proc, sc_status_exit_code(status), SC_FLEET_PATIENCE_MS);
}

static void test_killed_worker_ends_the_others(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    start_all(&fleet, &SLOW);
    sc_fleet_await(&fleet, "rank 1", "action 1F", "waiting", doing);
    sc_proc_signal(fleet.workers[1], SIGKILL);
    int64_t since_ms = sc_fleet_now_ms();
    expect_end(fleet.coordinator, SC_PEER, "cpu:1) is dead: step 0, action 1F");
    expect_end(fleet.workers[0], SC_PEER, "cpu:1) is dead: step 0, action 1F");
    expect_end(fleet.workers[2], SC_PEER, "cpu:1) is dead: step 0, action 1F");
    assert_in_range(sc_fleet_now_ms() - since_ms, 0, SC_FLEET_VERDICT_MS);
    sc_fleet_close(&fleet);
}

/* It is not ours to kill: it stays, and ends when it goes on and sees that nobody is there. */
static void test_stopped_worker_ends_when_it_goes_on(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    start_all(&fleet, &SLOW);
    sc_fleet_await(&fleet, "rank 2", "action 2F", "waiting", doing);
    sc_proc_signal(fleet.workers[2], SIGSTOP);
    int64_t since_ms = sc_fleet_now_ms();
    expect_end(fleet.coordinator, SC_PEER, "cpu:2) is frozen: step 0, action 2F");
    assert_in_range(sc_fleet_now_ms() - since_ms, 0, SC_FLEET_VERDICT_MS);
    expect_end(fleet.workers[0], SC_PEER, "cpu:2) is frozen: step 0, action 2F");
    expect_end(fleet.workers[1], SC_PEER, "cpu:2) is frozen: step 0, action 2F");
    sc_proc_signal(fleet.workers[2], SIGCONT);
    sc_proc_expect_exit(fleet.workers[2], sc_status_exit_code(SC_PEER), SC_FLEET_PATIENCE_MS);
    sc_fleet_close(&fleet);
}

static void test_killed_coordinator_ends_the_workers(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    start_all(&fleet, &SLOW);
    sc_fleet_await(&fleet, "rank 0", "waiting for rank 1", NULL, doing);
    sc_proc_signal(fleet.coordinator, SIGKILL);
    for (int i = 0; i < SLOW.p; i++) {
        expect_end(fleet.workers[i], SC_PEER, "is gone");
    }
    sc_fleet_close(&fleet);
}

/* A worker that is told to end takes the job with it, and says so. */
static void test_interrupted_worker_ends_the_job(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    start_all(&fleet, &SLOW);
    sc_fleet_await(&fleet, "rank 1", "action 1F", "waiting", doing);
    sc_proc_signal(fleet.workers[1], SIGTERM);
    expect_end(fleet.workers[1], SC_INTERRUPTED, "stopped by SIGTERM");
    expect_end(fleet.coordinator, SC_INTERRUPTED, "cpu:1) failed: step 0, action 1F");
    expect_end(fleet.workers[0], SC_INTERRUPTED, "stopped by SIGTERM");
    expect_end(fleet.workers[2], SC_INTERRUPTED, "stopped by SIGTERM");
    sc_fleet_close(&fleet);
}

/* Before the job has all its workers nothing depends on one: another takes its place, and the
   losses are the right ones. */
static void expect_replaced(int signal, const char *text)
{
    sc_fleet fleet;
    sc_fleet_open(&QUICK, &fleet);
    sc_fleet_start_coordinator(&fleet);
    sc_fleet_start_worker(&fleet, 1);
    sc_fleet_await_workers(&fleet, 1);
    sc_proc_signal(fleet.workers[1], signal);
    sc_proc_expect_line(fleet.coordinator, SC_PROC_ERR, text, SC_FLEET_PATIENCE_MS);
    sc_fleet_await_workers(&fleet, 0);
    sc_proc_free(&fleet.workers[1]);
    sc_fleet_start_worker(&fleet, 1);
    sc_fleet_start_worker(&fleet, 0);
    sc_proc_expect_exit(fleet.coordinator, 0, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(fleet.workers[0], 0, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(fleet.workers[1], 0, SC_FLEET_PATIENCE_MS);
    sc_fleet_expect_losses(&fleet, &QUICK);
    sc_fleet_close(&fleet);
}

static void test_worker_killed_before_the_job_starts(void **state)
{
    (void)state;
    expect_replaced(SIGKILL, "cpu:1) is dead: ");
}

static void test_worker_stopped_before_the_job_starts(void **state)
{
    (void)state;
    expect_replaced(SIGSTOP, "cpu:1) is frozen: ");
}

static void test_worker_interrupted_before_the_job_starts(void **state)
{
    (void)state;
    expect_replaced(SIGTERM, "cpu:1) left: stopped by SIGTERM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_worker_ends_the_others),
        cmocka_unit_test(test_stopped_worker_ends_when_it_goes_on),
        cmocka_unit_test(test_killed_coordinator_ends_the_workers),
        cmocka_unit_test(test_interrupted_worker_ends_the_job),
        cmocka_unit_test(test_worker_killed_before_the_job_starts),
        cmocka_unit_test(test_worker_stopped_before_the_job_starts),
        cmocka_unit_test(test_worker_interrupted_before_the_job_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
