/*
 * job: what a job may say of its schedule and of stages a rank, and how they must fit.
 */
#include "coordinator/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char GOOD[] = "name: test\n"
                           "model: {n_layer: 6, n_head: 4, n_embd: 64, vocab_size: 256, "
                           "n_positions: 32}\n"
                           "parallel: {pipeline_parallel: 2}\n"
                           "batch: {micro_batch_size: 2, num_microbatches: 4, "
                           "sequence_length: 32}\n"
                           "train: {steps: 10}\n"
                           "data: {path: data/kjv.bin}\n";

static sc_job *load_good(const char *const *overrides, size_t n)
{
    sc_job *job = NULL;
    sc_err err = {0};
    if (sc_job_parse("job.yaml", GOOD, strlen(GOOD), overrides, n, &job, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return job;
}

/* The good job with these overrides must fail with this text. */
static void expect_error(const char *const *overrides, size_t n, const char *want)
{
    sc_job *job = NULL;
    sc_err err = {0};
    assert_int_equal(sc_job_parse("job.yaml", GOOD, strlen(GOOD), overrides, n, &job, &err),
                     SC_INVALID);
    assert_string_equal(err.text, want);
    assert_null(job);
}

static void test_schedules_have_three_forms(void **state)
{
    (void)state;
    const char *const overrides[] = {"schedule=file:a b.csv", "parallel.layers_per_stage=[1, 5]"};
    sc_job *job = load_good(overrides, 2);
    assert_string_equal(sc_job_schedule_path(job->schedule), "a b.csv");
    sc_job_free(&job);
    const char *const automatic[] = {"schedule=auto"};
    job = load_good(automatic, 1);
    assert_string_equal(job->schedule, SC_JOB_SCHEDULE_AUTO);
    assert_null(sc_job_schedule_path(job->schedule));
    sc_job_free(&job);
}

static void test_unknown_schedules_are_refused_with_the_known_ones(void **state)
{
    (void)state;
    static const char *const OVERRIDES[] = {"schedule=2f2b", "schedule='file:'"};
    static const char *const NAMES[] = {"2f2b", "file:"};
    for (size_t i = 0; i < 2; i++) {
        sc_job *job = NULL;
        sc_err err = {0};
        char start[256];
        (void)snprintf(start, sizeof start,
                       "--set %s: schedule: '%s' is no schedule; choose one of gpipe, 1f1b, ",
                       OVERRIDES[i], NAMES[i]);
        assert_int_equal(sc_job_parse("job.yaml", GOOD, strlen(GOOD), &OVERRIDES[i], 1, &job, &err),
                         SC_INVALID);
        const char end[] = ", file:PATH.csv, auto";
        assert_memory_equal(err.text, start, strlen(start));
        assert_string_equal(err.text + strlen(err.text) - strlen(end), end);
    }
}

static void test_stages_a_rank_must_fit(void **state)
{
    (void)state;
    const char *const good[] = {"schedule=interleaved", "parallel.virtual_stages=3",
                                "parallel.layers_per_stage=[1, 1, 1, 1, 1, 1]",
                                "schedule_options.group=2", "schedule_options.limit=2.5"};
    sc_job *job = load_good(good, 5);
    assert_int_equal(job->virtual_stages, 3);
    assert_int_equal(job->n_layers_per_stage, 6);
    assert_int_equal(job->schedule_group, 2);
    assert_true(job->schedule_limit == 2.5);
    sc_job_free(&job);

    const char *const many[] = {"schedule=interleaved", "parallel.virtual_stages=4"};
    expect_error(many, 2,
                 "--set parallel.virtual_stages=4: parallel.virtual_stages: 4 stages a "
                 "rank, on 2 ranks 8, are more than model.n_layer 6; choose at most 3");
    const char *const own[] = {"schedule=zb-v", "parallel.pipeline_parallel=4"};
    expect_error(own, 2,
                 "--set schedule=zb-v: schedule: zb-v has v = 2 stages a rank, on 4 ranks "
                 "8, more than model.n_layer 6; take at most 3 ranks or more layers");
    const char *const entries[] = {"schedule=zb-v", "parallel.layers_per_stage=[3, 3]"};
    expect_error(entries, 2,
                 "--set parallel.layers_per_stage=[3, 3]: parallel.layers_per_stage: 2 "
                 "entries for 2 ranks of 2 stages; give one a stage");
    const char *const chosen[] = {"schedule=auto", "parallel.virtual_stages=2"};
    expect_error(chosen, 2,
                 "--set parallel.virtual_stages=2: parallel.virtual_stages: 2 stages a "
                 "rank, but schedule auto chooses them; leave it out");
    const char *const wide[] = {"parallel.virtual_stages=4096"};
    expect_error(
        wide, 1,
        "--set parallel.virtual_stages=4096: parallel.virtual_stages: 4096 stages a rank, on 2 "
        "ranks 8192, are over the limit of 4096 stages; choose at most 2048");
    const char *const negative[] = {"schedule_options.limit=-1"};
    expect_error(negative, 1,
                 "--set schedule_options.limit=-1: schedule_options.limit: -1 is out of range; "
                 "it takes: number, 0 to 65536");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules_have_three_forms),
        cmocka_unit_test(test_unknown_schedules_are_refused_with_the_known_ones),
        cmocka_unit_test(test_stages_a_rank_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
