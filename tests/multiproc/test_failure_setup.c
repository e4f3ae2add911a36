/* Failures before the first step. The test plays the second worker: it joins and never gets ready,
   so the first one stays in its setup for as long as it takes. */
#include "base/status.h"
#include "tests/multiproc/actor.h"
#include "tests/multiproc/fleet.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
    BEAT_MS = 100
};

static const sc_fleet_job JOB = {.schedule = "1f1b", .p = 2, .m = 2, .steps = 2};

/* A real worker as rank 0, the actor as rank 1; both assigned. */
static sc_actor *start_setup(sc_fleet *fleet)
{
    sc_fleet_open(&JOB, fleet);
    sc_fleet_start_coordinator(fleet);
    sc_fleet_start_worker(fleet, 0);
    sc_fleet_await_workers(fleet, 1);
    sc_actor *actor = sc_actor_open(fleet->endpoint);
    sc_actor_hello(actor, "cpu:1");
    sc_actor_expect(actor, SC_MSG_ASSIGN, SC_FLEET_PATIENCE_MS);
    sc_actor_beat(actor);
    return actor;
}

/* The line must come within 5 s, while the actor stays alive. */
static void expect_report(sc_fleet *fleet, sc_actor *actor, const char *text)
{
    int64_t since_ms = sc_fleet_now_ms();
    const char *line = NULL;
    while (line == NULL) {
        sc_actor_beat(actor);
        line = sc_proc_wait_line(fleet->coordinator, SC_PROC_ERR, text, BEAT_MS);
        if (sc_fleet_now_ms() - since_ms > SC_FLEET_VERDICT_MS) {
            fail_msg("'%s' was not told: %s", text, sc_proc_text(fleet->coordinator, SC_PROC_ERR));
        }
    }
}

static void expect_named(int signal, const char *text)
{
    sc_fleet fleet;
    char doing[512];
    sc_actor *actor = start_setup(&fleet);
    fleet.actor = actor;
    sc_fleet_await(&fleet, "rank 0", "setup", NULL, doing);
    sc_proc_signal(fleet.workers[0], signal);
    expect_report(&fleet, actor, text);
    const sc_msg *stop = sc_actor_expect(actor, SC_MSG_STOP, SC_FLEET_PATIENCE_MS);
    assert_int_equal(stop->u.stop.status, SC_PEER);
    sc_actor_close(&actor);
    fleet.actor = NULL;
    sc_proc_expect_exit(fleet.coordinator, sc_status_exit_code(SC_PEER), SC_FLEET_PATIENCE_MS);
    sc_fleet_close(&fleet);
}

static void test_worker_killed_in_its_setup(void **state)
{
    (void)state;
    expect_named(SIGKILL, "cpu:0) is dead: step 0, setup");
}

static void test_worker_stopped_in_its_setup(void **state)
{
    (void)state;
    expect_named(SIGSTOP, "cpu:0) is frozen: step 0, setup");
}

/* Heartbeats stop and nobody answers at its liveness socket: dead, though its connection is there.
 */
static void test_worker_that_falls_silent(void **state)
{
    (void)state;
    sc_fleet fleet;
    int64_t since_ms = sc_fleet_now_ms();
    sc_actor *actor = start_setup(&fleet);
    sc_proc_expect_line(fleet.coordinator, SC_PROC_ERR, "cpu:1) is dead: step 0, setup",
                        SC_FLEET_PATIENCE_MS);
    assert_in_range(sc_fleet_now_ms() - since_ms, 0, SC_FLEET_VERDICT_MS);
    sc_proc_expect_exit(fleet.coordinator, sc_status_exit_code(SC_PEER), SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(fleet.workers[0], sc_status_exit_code(SC_PEER), SC_FLEET_PATIENCE_MS);
    sc_actor_close(&actor);
    sc_fleet_close(&fleet);
}

/* A worker that speaks for another rank is a bug of ours: nothing may go on with its numbers. */
static void test_report_of_another_rank(void **state)
{
    (void)state;
    sc_fleet fleet;
    sc_actor *actor = start_setup(&fleet);
    sc_msg report = {.type = SC_MSG_REPORT, .u.report = {.epoch = 1, .rank = 0, .n_valid = 1}};
    sc_actor_send(actor, &report);
    sc_proc_expect_line(fleet.coordinator, SC_PROC_ERR, "worker of rank 1 reports as rank 0",
                        SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(fleet.workers[0], sc_status_exit_code(SC_PROTOCOL), SC_FLEET_PATIENCE_MS);
    sc_actor_close(&actor);
    sc_proc_expect_exit(fleet.coordinator, sc_status_exit_code(SC_PROTOCOL), SC_FLEET_PATIENCE_MS);
    sc_fleet_close(&fleet);
}

/* A worker that failed is told to end, with its own error. */
static void test_worker_that_fails_is_stopped(void **state)
{
    (void)state;
    sc_fleet fleet;
    sc_actor *actor = start_setup(&fleet);
    sc_msg fail = {.type = SC_MSG_FAIL,
                   .u.fail = {.epoch = 1, .status = SC_NO_MEMORY, .text = "too large"}};
    sc_actor_send(actor, &fail);
    const sc_msg *stop = sc_actor_expect(actor, SC_MSG_STOP, SC_FLEET_VERDICT_MS);
    assert_int_equal(stop->u.stop.status, SC_NO_MEMORY);
    assert_string_equal(stop->u.stop.reason, "too large");
    sc_proc_expect_line(fleet.coordinator, SC_PROC_ERR, "cpu:1) failed: setup: too large",
                        SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(fleet.workers[0], sc_status_exit_code(SC_NO_MEMORY), SC_FLEET_PATIENCE_MS);
    sc_actor_close(&actor);
    sc_proc_expect_exit(fleet.coordinator, sc_status_exit_code(SC_NO_MEMORY), SC_FLEET_PATIENCE_MS);
    sc_fleet_close(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worker_killed_in_its_setup),
        cmocka_unit_test(test_worker_stopped_in_its_setup),
        cmocka_unit_test(test_worker_that_falls_silent),
        cmocka_unit_test(test_report_of_another_rank),
        cmocka_unit_test(test_worker_that_fails_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
