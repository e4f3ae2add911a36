/* Daemons by hand that cannot do what is asked, and wrong arguments to all three programs: the
   documented code, and a line that says where and what to do. */
#include "base/status.h"
#include "tests/multiproc/actor.h"
#include "tests/multiproc/fleet.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char COORDINATOR[] = SC_BIN_DIR "/stagecoach-coordinator";
static const char STAGE[] = SC_BIN_DIR "/stagecoach-stage";
static const char CLI[] = SC_BIN_DIR "/stagecoach";

static const sc_fleet_job JOB = {
    .schedule = "1f1b", .p = 2, .m = 2, .steps = 2, .f_ms = 100, .i_ms = 50, .w_ms = 50};

/* Runs a program in `dir` to its end. */
static void expect(const char *dir, const char *const *argv, sc_status status, const char *line)
{
    sc_proc *proc = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = dir});
    sc_proc_expect_line(proc, SC_PROC_ERR, line, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(proc, sc_status_exit_code(status), SC_FLEET_PATIENCE_MS);
    sc_proc_free(&proc);
}

static void test_port_in_use(void **state)
{
    (void)state;
    sc_fleet fleet;
    char line[256];
    sc_fleet_open(&JOB, &fleet);
    sc_fleet_start_coordinator(&fleet);
    snprintf(line, sizeof line, "--listen %s: Address already in use: stop who holds the port",
             fleet.endpoint);
    expect(fleet.dir, WORDS(COORDINATOR, fleet.job, "--listen", fleet.endpoint), SC_IO, line);
    sc_fleet_start_worker(&fleet, 0);
    sc_fleet_start_worker(&fleet, 1);
    sc_proc_expect_exit(fleet.coordinator, 0, SC_FLEET_PATIENCE_MS);
    sc_fleet_close(&fleet);
}

static void test_fewer_workers_than_needed(void **state)
{
    (void)state;
    static const char LINE[] = "1 of 2 workers came within 1 s: start 1 more `stagecoach-stage` or "
                               "raise workers.wait_seconds";
    sc_fleet_job job = JOB;
    sc_fleet fleet;
    job.more = "workers: {wait_seconds: 1}\n";
    sc_fleet_open(&job, &fleet);
    sc_fleet_start_coordinator(&fleet);
    sc_fleet_start_worker(&fleet, 0);
    sc_proc_expect_line(fleet.coordinator, SC_PROC_ERR, LINE, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(fleet.coordinator, sc_status_exit_code(SC_TIMEOUT), SC_FLEET_PATIENCE_MS);
    sc_proc_expect_line(fleet.workers[0], SC_PROC_ERR, LINE, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(fleet.workers[0], sc_status_exit_code(SC_TIMEOUT), SC_FLEET_PATIENCE_MS);
    sc_fleet_close(&fleet);
}

/* The first keeps it, and the job is none the worse. */
static void test_device_that_is_taken(void **state)
{
    (void)state;
    sc_fleet fleet;
    sc_fleet_open(&JOB, &fleet);
    sc_fleet_start_coordinator(&fleet);
    sc_fleet_start_worker(&fleet, 0);
    sc_fleet_await_workers(&fleet, 1);
    expect(fleet.dir, WORDS(STAGE, "-c", fleet.endpoint, "--device", "cpu:0"), SC_EXISTS,
           "give this one another --device");
    sc_fleet_start_worker(&fleet, 1);
    sc_proc_expect_exit(fleet.coordinator, 0, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(fleet.workers[0], 0, SC_FLEET_PATIENCE_MS);
    sc_proc_expect_exit(fleet.workers[1], 0, SC_FLEET_PATIENCE_MS);
    sc_fleet_expect_losses(&fleet, &JOB);
    sc_fleet_close(&fleet);
}

/* Another version is told so and sent away; the job waits on. */
static void test_worker_of_another_version(void **state)
{
    (void)state;
    sc_fleet fleet;
    sc_fleet_open(&JOB, &fleet);
    sc_fleet_start_coordinator(&fleet);
    sc_actor *actor = sc_actor_open(fleet.endpoint);
    sc_msg hello = {.type = SC_MSG_HELLO, .u.hello = {.program_version = "9.9", .device = "cpu:0"}};
    sc_actor_send(actor, &hello);
    const sc_msg *stop = sc_actor_expect(actor, SC_MSG_STOP, SC_FLEET_PATIENCE_MS);
    assert_int_equal(stop->u.stop.status, SC_PROTOCOL);
    assert_non_null(strstr(stop->u.stop.reason, "install the same version"));
    sc_actor_close(&actor);
    sc_fleet_start_worker(&fleet, 0);
    sc_fleet_start_worker(&fleet, 1);
    sc_proc_expect_exit(fleet.coordinator, 0, SC_FLEET_PATIENCE_MS);
    sc_fleet_close(&fleet);
}

static void test_worker_without_a_coordinator(void **state)
{
    (void)state;
    char *dir = sc_tmpdir_new();
    expect(dir, WORDS(STAGE, "-c", "tcp://127.0.0.1:1", "--wait", "0.5"), SC_TIMEOUT,
           "no coordinator answered at tcp://127.0.0.1:1 within ");
    expect(dir, WORDS(STAGE, "-c", "nonsense"), SC_USAGE, "--coordinator nonsense: ");
    sc_tmpdir_free(&dir);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    sc_fleet fleet;
    sc_fleet_open(&JOB, &fleet);
    const char *dir = fleet.dir;
    expect(dir, WORDS(STAGE), SC_USAGE, "--coordinator ENDPOINT is missing");
    expect(dir, WORDS(STAGE, "-c", "tcp://127.0.0.1:1", "-d", "gpu:x"), SC_USAGE, "--device gpu:x");
    expect(dir, WORDS(STAGE, "-c", "tcp://127.0.0.1:1", "--wait", "-1"), SC_USAGE, "--wait -1: ");
    expect(dir, WORDS(STAGE, "-c", "tcp://127.0.0.1:1", "--pin", "a"), SC_USAGE, "--pin a: ");
    expect(dir, WORDS(STAGE, "-c", "tcp://127.0.0.1:1", "--host-address", "here"), SC_INVALID,
           "here is not a numeric IPv4 address");
    expect(dir, WORDS(STAGE, "--nonsense"), SC_USAGE, "--nonsense");
    expect(dir, WORDS(STAGE, "-c", "tcp://127.0.0.1:1", "--log", "no/where"), SC_IO,
           "--log no/where: ");
    expect(dir, WORDS(COORDINATOR), SC_USAGE, "JOB.yaml is missing");
    expect(dir, WORDS(COORDINATOR, "a", "b"), SC_USAGE, "one job file is expected");
    expect(dir, WORDS(COORDINATOR, fleet.job, "--name", "../x"), SC_USAGE, "--name ../x: ");
    expect(dir, WORDS(COORDINATOR, fleet.job, "--announce", "99"), SC_USAGE, "--announce 99: ");
    expect(dir, WORDS(COORDINATOR, fleet.job, "--listen", "tcp://0.0.0.0:*"), SC_USAGE,
           "reaches beyond this host");
    expect(dir, WORDS(COORDINATOR, fleet.job, "--listen", "nonsense"), SC_USAGE,
           "--listen nonsense");
    expect(dir, WORDS(COORDINATOR, fleet.job, "--set", "train.steps"), SC_USAGE, "train.steps");
    expect(dir, WORDS(CLI), SC_USAGE, "stagecoach");
    expect(dir, WORDS(CLI, "walk"), SC_USAGE, "walk");
    expect(dir, WORDS(CLI, "run"), SC_USAGE, "no job file given");
    expect(dir, WORDS(CLI, "run", fleet.job, "--set", "train.steps"), SC_USAGE, "KEY=VALUE");
    expect(dir, WORDS(CLI, "run", fleet.job, "--name", "a/b"), SC_USAGE, "--name a/b: ");
    expect(dir, WORDS(CLI, "compare", fleet.job, "--schedules", "1f1b,2f2b"), SC_USAGE, "2f2b");
    sc_fleet_close(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_port_in_use),
        cmocka_unit_test(test_fewer_workers_than_needed),
        cmocka_unit_test(test_device_that_is_taken),
        cmocka_unit_test(test_worker_of_another_version),
        cmocka_unit_test(test_worker_without_a_coordinator),
        cmocka_unit_test(test_wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
