/*
 * plan_load: schedules by name, from files, and what a job's keys do to them.
 */
#include "coordinator/planner.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    TEXT_MAX = 1024
};

static const char PACED_JOB[] = "name: paced\n"
                                "device: paced\n"
                                "parallel: {pipeline_parallel: 2}\n"
                                "batch: {num_microbatches: 2}\n"
                                "train: {steps: 3}\n"
                                "paced: {forward_ms: 1, backward_input_ms: 1, "
                                "backward_weight_ms: 1}\n";

static const char MODEL_JOB[] = "name: plan\n"
                                "model: {n_layer: 6, n_head: 4, n_embd: 64, vocab_size: 256, "
                                "n_positions: 32}\n"
                                "parallel: {pipeline_parallel: 2}\n"
                                "batch: {micro_batch_size: 2, num_microbatches: 2, "
                                "sequence_length: 32}\n"
                                "train: {steps: 10}\n"
                                "data: {path: data/kjv.bin}\n";

static const char V_CSV[] = "0F0,0F1,,,3F0,3B0,3F1,3B1,,,0B0,0B1\n"
                            ",1F0,2F0,1F1,2F1,,2B0,1B0,2B1,1B1\n";
static const char SPLIT_CSV[] = "0F0,0F1,,,0I0,0W0,0I1,0W1\n"
                                ",1F0,1F1,1I0,1I1,1W0,1W1\n";

static sc_job *parse(const char *text, const char *override)
{
    sc_job *job = NULL;
    sc_err err = {0};
    if (sc_job_parse("job.yaml", text, strlen(text), &override, override == NULL ? 0 : 1, &job,
                     &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return job;
}

static sc_plan *load(const sc_job *job, const char *schedule)
{
    sc_plan *plan = NULL;
    sc_err err = {0};
    if (sc_plan_load(job, schedule, NULL, &plan, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return plan;
}

static void expect_error(const sc_job *job, const char *schedule, sc_status status,
                         const char *want)
{
    sc_plan *plan = NULL;
    sc_err err = {0};
    assert_int_equal(sc_plan_load(job, schedule, NULL, &plan, &err), status);
    assert_string_equal(err.text, want);
    assert_null(plan);
}

/* The schedule "file:DIR/s.csv" of a file with that text. */
static const char *write_csv(const char *dir, const char *text, char out[TEXT_MAX])
{
    char *path = sc_tmpdir_write_text(dir, "s.csv", text);
    (void)snprintf(out, TEXT_MAX, "file:%s", path);
    free(path);
    return out;
}

static void expect_row(const sc_plan *plan, int rank, const char *want)
{
    char *row = NULL;
    assert_int_equal(sc_table_row_format(plan->compute, rank, &row, NULL), SC_OK);
    assert_string_equal(row, want);
    free(row);
}

static void test_rows_come_from_the_file(void **state)
{
    (void)state;
    char schedule[TEXT_MAX];
    char *dir = sc_tmpdir_new();
    sc_job *job = parse(PACED_JOB, NULL);
    sc_plan *plan = load(job, write_csv(dir, V_CSV, schedule));
    assert_string_equal(plan->schedule, schedule);
    assert_int_equal(plan->n_stages, 4);
    assert_int_equal(plan->n_chunks, 2);
    assert_int_equal(plan->placement, SC_PLAN_V);
    expect_row(plan, 0, "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1");
    expect_row(plan, 1, "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1");
    sc_planner_free(&plan);
    plan = load(job, write_csv(dir, SPLIT_CSV, schedule));
    assert_int_equal(plan->n_chunks, 1);
    assert_int_equal(plan->stages[1].n_keep_slots, 2);
    assert_int_equal(plan->stages[0].n_keep_slots, 1);
    sc_planner_free(&plan);
    sc_job_free(&job);
    sc_tmpdir_free(&dir);
}

static void test_a_file_must_be_for_the_job(void **state)
{
    (void)state;
    char schedule[TEXT_MAX];
    char want[2 * TEXT_MAX];
    char *dir = sc_tmpdir_new();
    sc_job *job = parse(PACED_JOB, "batch.num_microbatches=3");
    write_csv(dir, V_CSV, schedule);
    (void)snprintf(want, sizeof want,
                   "%s: 2 ranks and 2 microbatches, but the job has parallel.pipeline_parallel 2 "
                   "and batch.num_microbatches 3",
                   schedule);
    expect_error(job, schedule, SC_INVALID, want);
    sc_job_free(&job);
    job = parse(PACED_JOB, "parallel.virtual_stages=1");
    (void)snprintf(want, sizeof want,
                   "%s: 4 stages on 2 ranks, but the job has parallel.virtual_stages 1; leave it "
                   "out",
                   schedule);
    expect_error(job, schedule, SC_INVALID, want);
    write_csv(dir, "0F0,0F1\n1F0,1F1\n", schedule);
    sc_job_free(&job);
    job = parse(PACED_JOB, NULL);
    (void)snprintf(want, sizeof want, "%s: has no backward; a job needs rows of F, B, I and W",
                   schedule);
    expect_error(job, schedule, SC_INVALID, want);
    sc_job_free(&job);
    job = parse(MODEL_JOB, "model.n_layer=3");
    write_csv(dir, V_CSV, schedule);
    (void)snprintf(want, sizeof want,
                   "job.yaml: schedule %s with v = 2 stages a rank has 4 stages, more than "
                   "model.n_layer 3; take fewer ranks or a smaller parallel.virtual_stages",
                   schedule);
    expect_error(job, schedule, SC_INVALID, want);
    sc_job_free(&job);
    sc_tmpdir_free(&dir);
}

static void test_a_files_errors_have_a_place(void **state)
{
    (void)state;
    char schedule[TEXT_MAX];
    char want[2 * TEXT_MAX];
    sc_plan *plan = NULL;
    sc_err err = {0};
    char *dir = sc_tmpdir_new();
    sc_job *job = parse(PACED_JOB, NULL);
    write_csv(dir, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1X1\n", schedule);
    assert_int_equal(sc_plan_load(job, schedule, NULL, &plan, &err), SC_INVALID);
    (void)snprintf(want, sizeof want, "%s:2:13: ", sc_job_schedule_path(schedule));
    assert_memory_equal(err.text, want, strlen(want));
    (void)snprintf(schedule, sizeof schedule, "file:%s/none.csv", dir);
    (void)snprintf(want, sizeof want,
                   "%s/none.csv: cannot open the schedule: No such file or directory", dir);
    expect_error(job, schedule, SC_IO, want);
    (void)snprintf(schedule, sizeof schedule, "file:%s", dir);
    (void)snprintf(want, sizeof want, "%s: cannot read the schedule: Is a directory", dir);
    expect_error(job, schedule, SC_IO, want);
    sc_job_free(&job);
    sc_tmpdir_free(&dir);
}

/* Larger than the first piece that is read: comments before the rows. */
static void test_long_files_are_read_whole(void **state)
{
    (void)state;
    char schedule[TEXT_MAX];
    size_t n = 200000;
    char *text = malloc(n + sizeof V_CSV);
    char *dir = sc_tmpdir_new();
    sc_job *job = parse(PACED_JOB, NULL);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        text[i] = ' ';
        if (i % 100 == 0) {
            text[i] = '#';
        } else if (i % 100 == 99) {
            text[i] = '\n';
        }
    }
    memcpy(text + n, V_CSV, sizeof V_CSV);
    sc_plan *plan = load(job, write_csv(dir, text, schedule));
    expect_row(plan, 1, "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1");
    sc_planner_free(&plan);
    free(text);
    sc_job_free(&job);
    sc_tmpdir_free(&dir);
}

static void test_auto_begins_with_1f1b(void **state)
{
    (void)state;
    sc_job *job = parse(MODEL_JOB, "schedule=auto");
    sc_plan *plan = load(job, job->schedule);
    assert_string_equal(plan->schedule, "1f1b");
    assert_int_equal(plan->n_chunks, 1);
    sc_planner_free(&plan);
    sc_job_free(&job);
}

static void test_stages_a_rank_are_the_jobs_or_the_schedules_own(void **state)
{
    (void)state;
    const char *const overrides[] = {"schedule=interleaved", "parallel.virtual_stages=3"};
    sc_job *job = NULL;
    sc_plan *plan = NULL;
    sc_err err = {0};
    assert_int_equal(
        sc_job_parse("job.yaml", MODEL_JOB, strlen(MODEL_JOB), overrides, 2, &job, NULL), SC_OK);
    plan = load(job, "interleaved");
    assert_int_equal(plan->n_chunks, 3);
    sc_planner_free(&plan);
    plan = load(job, "1f1b"); // another one than the job's: three stages are not for it
    assert_int_equal(plan->n_chunks, 1);
    sc_planner_free(&plan);
    plan = load(job, "zb-v");
    assert_int_equal(plan->n_chunks, 2);
    sc_planner_free(&plan);
    sc_job_free(&job);
    job = parse(MODEL_JOB, "parallel.virtual_stages=3"); // its own schedule, 1f1b, must take it
    assert_int_equal(sc_plan_load(job, "1f1b", NULL, &plan, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "1f1b"));
    assert_null(plan);
    sc_job_free(&job);
}

static void test_unknown_and_unfit_names_are_refused(void **state)
{
    (void)state;
    sc_plan *plan = NULL;
    sc_err err = {0};
    size_t n = 0;
    const sc_gen_info *list = sc_gen_list(&n);
    sc_job *job = parse(PACED_JOB, NULL);
    assert_int_equal(sc_plan_load(job, "2f2b", NULL, &plan, &err), SC_NOT_FOUND);
    for (size_t i = 0; i < n; i++) {
        if (list[i].is_replicated) {
            char want[TEXT_MAX];
            (void)snprintf(want, sizeof want,
                           "%s keeps each stage's parameters on two ranks, so it cannot train a "
                           "job; simulate it with `stagecoach schedule`",
                           list[i].name);
            expect_error(job, list[i].name, SC_UNSUPPORTED, want);
        } else {
            plan = load(job, list[i].name);
            assert_string_equal(plan->schedule, list[i].name);
            sc_planner_free(&plan);
        }
    }
    sc_job_free(&job);
}

static double simulated_bubble(const sc_plan *plan, double f, double i, double w)
{
    sc_timeline *timeline = NULL;
    sc_stage_cost stages[4] = {{0}};
    const sc_costs costs = {.stages = stages};
    sc_simulate_uniform_costs(plan->compute, f, i, w, stages);
    assert_int_equal(sc_simulate_run(plan->compute, &costs, &timeline, NULL), SC_OK);
    double bubble = timeline->bubble;
    sc_simulate_free(&timeline);
    return bubble;
}

static void test_measured_costs_and_limit_shape_zb_auto(void **state)
{
    (void)state;
    const char *const overrides[] = {"parallel.pipeline_parallel=4", "batch.num_microbatches=12",
                                     "schedule_options.limit=8"};
    const sc_plan_costs costs = {.f = 10, .i = 30, .w = 2};
    sc_job *job = NULL;
    sc_plan *measured = NULL;
    assert_int_equal(
        sc_job_parse("job.yaml", PACED_JOB, strlen(PACED_JOB), overrides, 3, &job, NULL), SC_OK);
    sc_plan *configured = load(job, "zb-auto");
    assert_int_equal(sc_plan_load(job, "zb-auto", &costs, &measured, NULL), SC_OK);
    assert_false(sc_table_equals(configured->compute, measured->compute));
    // Made for these costs, it is no worse with them than the one made for others.
    assert_true(simulated_bubble(measured, 10, 30, 2) <=
                simulated_bubble(configured, 10, 30, 2) + 1e-12);
    for (int r = 0; r < 4; r++) {
        assert_true(sc_validate_peak(configured->compute, r, -1) <= 8);
    }
    assert_true(sc_validate_peak(configured->compute, 0, -1) > 4); // it uses what it may
    sc_planner_free(&measured);
    sc_planner_free(&configured);
    sc_job_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_from_the_file),
        cmocka_unit_test(test_a_file_must_be_for_the_job),
        cmocka_unit_test(test_a_files_errors_have_a_place),
        cmocka_unit_test(test_long_files_are_read_whole),
        cmocka_unit_test(test_auto_begins_with_1f1b),
        cmocka_unit_test(test_stages_a_rank_are_the_jobs_or_the_schedules_own),
        cmocka_unit_test(test_unknown_and_unfit_names_are_refused),
        cmocka_unit_test(test_measured_costs_and_limit_shape_zb_auto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
