#include "tests/multiproc/failure.h"

#include "base/status.h"
#include "tests/multiproc/fleet.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const sc_fleet_job JOB = {
    .schedule = "1f1b", .p = 3, .m = 2, .steps = 3, .f_ms = 500, .i_ms = 250, .w_ms = 250};

/* Within 5 s of the signal: who, where, what, on one line. */
static void expect_report(sc_fleet *fleet, const sc_failure_case *failure, const char *doing,
                          int64_t since_ms)
{
    char start[256];
    int n_who = (int)strcspn(doing, ")") + 1; // "rank 1 (host a, pid 17, cpu:1)"
    snprintf(start, sizeof start, "%.*s %s", n_who, doing, failure->report);
    const char *line =
        sc_proc_expect_line(fleet->run, SC_PROC_ERR, "stagecoach: ", SC_FLEET_PATIENCE_MS);
    int64_t took_ms = sc_fleet_now_ms() - since_ms;
    if (strncmp(line + strlen("stagecoach: "), start, strlen(start)) != 0 ||
        (strstr(line, failure->doing) == NULL && strstr(line, failure->next) == NULL) ||
        strstr(line, ", last heard ") == NULL) {
        fail_msg("'%s' is not '%s' and '%s'", line, start, failure->doing);
    }
    if (took_ms > SC_FLEET_VERDICT_MS) {
        fail_msg("told after %lld ms: %s", (long long)took_ms, line);
    }
}

/* The others were told who it was, and their logs end with it. */
static void expect_told(const sc_fleet *fleet, const sc_failure_case *failure)
{
    for (int r = 0; r < JOB.p; r++) {
        char name[64];
        char who[32];
        snprintf(who, sizeof who, "rank %d", r);
        snprintf(name, sizeof name, "log/worker-%d.log", r);
        char *log = sc_fleet_read(fleet, name);
        if (strcmp(who, failure->who) != 0 && strstr(log, failure->report) == NULL) {
            fail_msg("rank %d was not told that %s %s: %s", r, failure->who, failure->report, log);
        }
        free(log);
    }
}

void sc_failure_expect_named(const sc_failure_case *failure)
{
    sc_fleet fleet;
    char doing[512];
    sc_fleet_open(&JOB, &fleet);
    sc_fleet_run(&fleet);
    sc_fleet_await(&fleet, failure->who, failure->doing, failure->but, doing);
    int64_t since_ms = sc_fleet_now_ms();
    assert_int_equal(kill(sc_fleet_pid_in(doing), failure->signal), 0);
    expect_report(&fleet, failure, doing, since_ms);
    sc_proc_expect_exit(fleet.run, sc_status_exit_code(SC_PEER), SC_FLEET_PATIENCE_MS);
    sc_proc_expect_none_left(0);
    expect_told(&fleet, failure);
    sc_fleet_close(&fleet);
}
