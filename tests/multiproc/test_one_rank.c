/* A job of one worker: nothing to connect to, and with paced slices ready at once. */
#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_RUNS = 6, // the order of two messages was a matter of luck
    PATIENCE_MS = 60000
};

static const char PROGRAM[] = SC_BIN_DIR "/stagecoach";
static const char JOB[] = "name: one\n"
                          "device: paced\n"
                          "schedule: 1f1b\n"
                          "parallel: {pipeline_parallel: 1}\n"
                          "batch: {num_microbatches: 2}\n"
                          "train: {steps: 2}\n"
                          "paced: {forward_ms: 1, backward_input_ms: 1, backward_weight_ms: 1}\n";

static void test_one_paced_worker_runs(void **state)
{
    (void)state;
    char *dir = sc_tmpdir_new();
    char *job = sc_tmpdir_write_text(dir, "job.yaml", JOB);
    for (int i = 0; i < N_RUNS; i++) {
        char name[16];
        snprintf(name, sizeof name, "one-%d", i);
        const char *const argv[] = {PROGRAM, "run", job, "--name", name, NULL};
        sc_proc *proc = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = dir});
        sc_proc_expect_exit(proc, 0, PATIENCE_MS);
        assert_non_null(strstr(sc_proc_text(proc, SC_PROC_OUT), "p = 1, m = 2: 2 steps"));
        sc_proc_free(&proc);
    }
    sc_proc_expect_none_left(PATIENCE_MS);
    free(job);
    sc_tmpdir_free(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_paced_worker_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
