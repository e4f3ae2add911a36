/* Workers, the coordinator or everything killed at random moments around saves: the newest
   checkpoint is always whole, and going on from it leads to the same numbers. */
#include "base/rng.h"
#include "tests/multiproc/saves.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    KILLS = 12,
    SEED = 20261129,
    WAIT_MS_MAX = 120, // several saves fit in it
    LEFT_MAX = 16,
    STEPS_BEHIND = 3
};

static const sc_jobs_layout LAYOUTS[] = {{"1f1b", 2, {0}}, {"gpipe", 3, {0}}, {"1f1b", 1, {0}}};
static sc_saves_numbers all; // as the killed runs left them
static sc_saves_numbers part;

/* Kills one of the processes, or (which = 0) all, at once. */
static void kill_some(sc_proc *proc, uint64_t which)
{
    pid_t pids[LEFT_MAX];
    size_t n = sc_proc_find_left(pids, LEFT_MAX);
    for (size_t i = 0; i < n; i++) {
        if (which == 0 || which % n == i) {
            kill(pids[i], SIGKILL);
        }
    }
    if (!sc_proc_wait(proc, SC_JOBS_PATIENCE_MS)) {
        fail_msg("still there: %s", sc_proc_text(proc, SC_PROC_ERR));
    }
    sc_proc_expect_none_left(SC_JOBS_PATIENCE_MS);
}

/* What was told of a step in one run must be told again when it is repeated. */
static void add_numbers(const char *run_dir)
{
    sc_saves_read(run_dir, &part);
    for (int i = part.first; i < part.end; i++) {
        if (i < all.end) {
            assert_memory_equal(&part.losses[i], &all.losses[i], sizeof(double));
        }
        all.losses[i] = part.losses[i];
        all.norms[i] = part.norms[i];
        all.end = i + 1 > all.end ? i + 1 : all.end;
    }
}

static void expect_whole(sc_jobs *jobs, const char *run_dir)
{
    const char *const verify[] = {"checkpoint", "verify", run_dir, NULL};
    sc_proc *proc = sc_saves_command(jobs, verify, 0);
    sc_proc_free(&proc);
}

static char *run_dir_of(const sc_jobs *jobs, int run)
{
    char name[32];
    snprintf(name, sizeof name, run == 1 ? "runs/k" : "runs/k-%d", run);
    return sc_tmpdir_path(jobs->dir, name);
}

/* Starts the job, or goes on with it, waits for a save and kills after a random time. */
static void run_and_kill(sc_jobs *jobs, int run)
{
    const char *const more[] = {"-v",
                                "--name",
                                "k",
                                "--set",
                                "checkpoint.every=1",
                                "--set",
                                "train.steps=2000",
                                run > 1 ? "--resume" : NULL,
                                NULL};
    int wait_ms = (int)(sc_rng_u64(SEED, 1, (uint64_t)run) % WAIT_MS_MAX);
    uint64_t which = run % 2 == 0 ? 0 : 1 + sc_rng_u64(SEED, 2, (uint64_t)run) % 1000;
    sc_proc *proc = sc_saves_start(jobs, &LAYOUTS[run % 3], more);
    sc_proc_expect_line(proc, SC_PROC_ERR, "info: checkpoint of step", SC_JOBS_PATIENCE_MS);
    assert_false(sc_proc_wait(proc, wait_ms));
    kill_some(proc, which);
    sc_proc_free(&proc);
    char *run_dir = run_dir_of(jobs, run);
    expect_whole(jobs, run_dir);
    add_numbers(run_dir);
    free(run_dir);
}

static void kills_leave_a_whole_checkpoint(void **state)
{
    (void)state;
    sc_jobs jobs;
    sc_jobs_config config = sc_jobs_small(2);
    char steps[32];
    config.optimizer = SC_JOBS_ADAMW;
    sc_jobs_open(&config, &jobs);
    all.end = 0;
    for (int run = 1; run <= KILLS; run++) {
        run_and_kill(&jobs, run);
    }
    snprintf(steps, sizeof steps, "train.steps=%d", all.end + STEPS_BEHIND);
    const char *const last[] = {"--resume", "--name", "k", "--set", steps, NULL};
    sc_proc *proc = sc_saves_run(&jobs, &LAYOUTS[0], last, 0);
    sc_proc_free(&proc);
    char *run_dir = run_dir_of(&jobs, KILLS + 1);
    add_numbers(run_dir);
    free(run_dir);
    const char *const whole[] = {"--name", "whole", "--set", steps, NULL};
    proc = sc_saves_run(&jobs, &LAYOUTS[2], whole, 0);
    sc_proc_free(&proc);
    run_dir = sc_tmpdir_path(jobs.dir, "runs/whole");
    sc_saves_read(run_dir, &part);
    sc_saves_expect_part(&part, &all, "killed and resumed");
    assert_int_equal(part.end, all.end);
    free(run_dir);
    sc_jobs_close(&jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kills_leave_a_whole_checkpoint)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
