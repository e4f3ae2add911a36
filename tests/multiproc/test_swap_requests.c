/* Swaps that are refused, schedules from files, and a worker that dies while weights move. */
#include "tests/multiproc/swapping.h"

#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    M = 3,
    STEPS = 120
};

static const char PROGRAM[] = SC_BIN_DIR "/stagecoach";

typedef struct fixture {
    sc_jobs jobs;
    sc_swapping_reference reference;
} fixture;

static int open_fixture(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    sc_jobs_config config = sc_jobs_small(M);
    assert_non_null(f);
    config.steps = STEPS;
    config.optimizer = SC_JOBS_ADAMW;
    sc_jobs_open(&config, &f->jobs);
    sc_swapping_reference_make(&f->jobs, &f->reference);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    sc_swapping_reference_free(&f->reference);
    sc_jobs_close(&f->jobs);
    free(f);
    return 0;
}

/* Ends the job and expects what an undisturbed one leaves. */
static void finish(const fixture *f, sc_swapping *s)
{
    sc_jobs_result result;
    sc_swapping_finish(s, &result);
    sc_swapping_reference_expect(&f->reference, &result);
    sc_jobs_result_free(&result);
}

static void test_refusals_have_a_text(void **state)
{
    fixture *f = *state;
    const sc_jobs_layout layout = {.schedule = "1f1b", .p = 2};
    char text[SC_SWAPPING_TEXT_MAX];
    sc_status status = SC_OK;
    sc_swapping s;
    sc_swapping_start(&f->jobs, &layout, NULL, &s);
    sc_swapping_expect_refusal(&s, "gpipe 0", "no swap before step 0: ");
    sc_swapping_expect_refusal(&s, "gpipe 120", "and the job has 120; choose ");
    sc_swapping_expect_refusal(&s, "gpipe 18446744073709551615", "and the job has 120; choose ");
    sc_swapping_expect_refusal(&s, "zigzag", "unknown schedule 'zigzag'; the schedules are gpipe,");
    sc_swapping_expect_refusal(&s, "chimera", "chimera keeps each stage's parameters on two ranks");
    sc_swapping_expect_refusal(&s, "file:/nowhere/x.csv", "/nowhere/x.csv: cannot open");
    sc_swapping_expect_refusal(&s, "gpipe 7x", "'7x' is no step");
    sc_swapping_expect_refusal(&s, "gpipe ", "'' is no step");
    sc_swapping_expect_refusal(&s, "", "the name of a schedule is needed");
    assert_true(sc_swapping_swap(&s, "zb-h1 110", text));
    assert_string_equal(text, "zb-h1 from step 110 on");
    assert_true(sc_swapping_ask(&s, "swap", "gpipe 111", &status, text));
    assert_int_equal(status, SC_EXISTS);
    assert_string_equal(text, "a swap before step 110 waits already");
    finish(f, &s);
}

/* Most bytes that a rank needs under a schedule. */
static double planned_bytes(fixture *f, const char *schedule)
{
    const sc_jobs_layout layout = {.schedule = schedule, .p = 2};
    double most = 0;
    char *job = sc_jobs_write(&f->jobs, &layout);
    sc_proc *proc = SC_PROC_RUN(SC_JOBS_PATIENCE_MS, PROGRAM, "run", job, "--dry-run", "--json");
    sc_proc_expect_exit(proc, 0, 0);
    cJSON *plan = cJSON_Parse(sc_proc_text(proc, SC_PROC_OUT));
    const cJSON *rank = NULL;
    cJSON_ArrayForEach(rank, cJSON_GetObjectItem(plan, "ranks"))
    {
        double bytes = cJSON_GetNumberValue(cJSON_GetObjectItem(rank, "total_bytes"));
        most = bytes > most ? bytes : most;
    }
    assert_true(most > 0);
    cJSON_Delete(plan);
    sc_proc_free(&proc);
    free(job);
    return most;
}

/* Either plan fits under the cap, but not both: weights have no room to move. */
static void test_weights_need_room_to_move(void **state)
{
    fixture *f = *state;
    const sc_jobs_layout layout = {.schedule = "1f1b", .p = 2};
    char cap[64];
    char text[SC_SWAPPING_TEXT_MAX];
    sc_swapping s;
    double before = planned_bytes(f, "1f1b");
    double after = planned_bytes(f, "zb-v");
    snprintf(cap, sizeof cap, "memory.cap_gib=%.9g",
             1.01 * (before > after ? before : after) / 1073741824.0);
    sc_swapping_start(&f->jobs, &layout, (const char *const[]){"--set", cap, NULL}, &s);
    sc_swapping_expect_refusal(&s, "zb-v",
                               "zb-v places stages elsewhere: while weights move rank ");
    // Nothing moves: there is room.
    assert_true(sc_swapping_swap(&s, "1f1b", text));
    finish(f, &s);
}

/* Stage 1 runs F, and stage 0 I, in another order than the messages are sent. */
static const char OUT_OF_ORDER[] = "0F0,0F1,0F2,0I1,0I0,0W0,0W1,0I2,0W2\n"
                                   "1F1,1F0,1F2,1B0,1B1,1B2\n";
static const char OVERLAPPED[] = "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n"
                                 "1F0,(1F1;1B0)OVERLAP_F_B,(1F2;1B1)OVERLAP_F_B,1B2\n";

static void ask_from_the_command_line(const sc_swapping *s, const char *schedule, int step)
{
    char at[32];
    char run_dir[64];
    char text[256];
    snprintf(at, sizeof at, "%d", step);
    snprintf(run_dir, sizeof run_dir, "runs/job-%d", s->jobs->n_runs);
    snprintf(text, sizeof text, "file:%s/%s from step %d on", s->jobs->dir, schedule + 5, step);
    const char *const argv[] = {PROGRAM, "swap", schedule, run_dir, "--at-step", at, NULL};
    sc_proc *proc =
        sc_proc_run(&(sc_proc_config){.argv = argv, .dir = s->jobs->dir}, SC_JOBS_PATIENCE_MS);
    sc_proc_expect_exit(proc, 0, 0);
    if (strstr(sc_proc_text(proc, SC_PROC_OUT), text) == NULL) {
        fail_msg("no \"%s\" in: %s", text, sc_proc_text(proc, SC_PROC_OUT));
    }
    sc_proc_free(&proc);
}

static void test_schedules_from_files(void **state)
{
    fixture *f = *state;
    const sc_jobs_layout layout = {.schedule = "file:order.csv", .p = 2};
    char text[SC_SWAPPING_TEXT_MAX];
    sc_swapping s;
    free(sc_tmpdir_write_text(f->jobs.dir, "order.csv", OUT_OF_ORDER));
    free(sc_tmpdir_write_text(f->jobs.dir, "pairs.csv", OVERLAPPED));
    free(sc_tmpdir_write_text(f->jobs.dir, "bad.csv", "0F0,0B0\n1F0,1F0\n"));
    sc_swapping_start(&f->jobs, &layout, NULL, &s);
    assert_true(sc_swapping_swap(&s, "zb-v", text));
    assert_true(sc_swapping_swap(&s, "file:order.csv", text)); // of the coordinator's folder
    sc_swapping_expect_refusal(&s, "file:bad.csv", "bad.csv:2:");
    sc_swapping_await(&s, "file:order.csv");
    ask_from_the_command_line(&s, "file:pairs.csv", STEPS - 10);
    finish(f, &s);
}

/* The pid of a rank by the status's "rank 1 (host a, pid 17, cpu:1) ...". */
static pid_t find_pid(const char *status, const char *rank)
{
    const char *at = strstr(status, rank);
    const char *pid = at == NULL ? NULL : strstr(at, ", pid ");
    if (pid == NULL) {
        fail_msg("no pid of %s in %s", rank, status);
        return -1;
    }
    return (pid_t)strtol(pid + 6, NULL, 10);
}

/* Waits for the moment when the new plan epoch is being set up; returns rank 1's pid. */
static pid_t await_setup(sc_swapping *s)
{
    char text[SC_SWAPPING_TEXT_MAX];
    pid_t pid = -1;
    sc_status status = SC_OK;
    do {
        if (!sc_swapping_ask(s, "status", "", &status, text)) {
            fail_msg("the job ended before the swap");
        }
        pid = find_pid(text, "rank 1 ");
    } while (strstr(text, "\"phase\":\"starting\"") == NULL);
    return pid;
}

/* Activations so large that setting up takes long enough to be met. */
static void test_worker_dies_in_a_swap(void **state)
{
    sc_jobs_config config = sc_jobs_small(M);
    const sc_jobs_layout layout = {.schedule = "1f1b", .p = 2};
    char text[SC_SWAPPING_TEXT_MAX];
    sc_jobs jobs;
    sc_swapping s;
    (void)state;
    config.spec.n_positions = config.T = 64;
    config.B = 24;
    config.n_samples = 256;
    config.steps = 60;
    config.optimizer = SC_JOBS_ADAMW;
    sc_jobs_open(&config, &jobs);
    sc_swapping_start(&jobs, &layout, NULL, &s);
    assert_true(sc_swapping_swap(&s, "zb-v", text));
    assert_non_null(strstr(text, "; weights move between workers"));
    assert_int_equal(kill(await_setup(&s), SIGKILL), 0);
    sc_swapping_expect_exit(&s, sc_status_exit_code(SC_PEER));
    const char *told = sc_proc_text(s.run, SC_PROC_ERR);
    if (strstr(told, "rank 1 ") == NULL || strstr(told, " is dead") == NULL) {
        fail_msg("rank 1 is not named as dead: %s", told);
    }
    sc_proc_expect_none_left(0);
    sc_swapping_close(&s);
    sc_jobs_close(&jobs);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        CASE(test_refusals_have_a_text),
        CASE(test_weights_need_room_to_move),
        CASE(test_schedules_from_files),
        cmocka_unit_test(test_worker_dies_in_a_swap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
