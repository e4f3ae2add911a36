/* What the workers executed, as trace.json tells it by the clock, is the schedule that `stagecoach
   schedule show` prints: every action, on its rank, in its order, one after another. */
#include "schedules/csv.h"
#include "tests/multiproc/jobs.h"
#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Times in the trace have 3 decimals of a microsecond. */
#define ROUNDING_US 0.0015

static const char program[] = SC_BIN_DIR "/stagecoach";

/* One "X" event. */
typedef struct span {
    int rank;
    double start_us;
    double end_us;
    sc_action action;
} span;

typedef struct span_list {
    span *spans;
    size_t n;
} span_list;

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static const char *string(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    assert_non_null(text);
    return text;
}

static int compare_spans(const void *a, const void *b)
{
    const span *x = a;
    const span *y = b;
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return (x->start_us > y->start_us) - (x->start_us < y->start_us);
}

/* The actions of a run's trace by rank and start. */
static void read_trace(const char *run_dir, span_list *out)
{
    char *path = sc_tmpdir_path(run_dir, "trace.json");
    char *text = sc_tmpdir_read(path, NULL);
    cJSON *json = cJSON_Parse(text);
    const cJSON *events = cJSON_GetObjectItemCaseSensitive(json, "traceEvents");
    const cJSON *event;
    assert_true(cJSON_IsArray(events));
    out->n = 0;
    out->spans = calloc((size_t)cJSON_GetArraySize(events) + 1, sizeof *out->spans);
    assert_non_null(out->spans);
    cJSON_ArrayForEach(event, events)
    {
        if (strcmp(string(event, "ph"), "X") != 0) {
            continue;
        }
        span *s = &out->spans[out->n++];
        const char *name = string(event, "name");
        s->rank = (int)number(event, "pid");
        s->start_us = number(event, "ts");
        s->end_us = s->start_us + number(event, "dur");
        assert_int_equal(sc_action_parse(name, strlen(name), &s->action, NULL), SC_OK);
    }
    qsort(out->spans, out->n, sizeof *out->spans, compare_spans);
    cJSON_Delete(json);
    free(text);
    free(path);
}

static sc_table *show_schedule(const char *schedule, int p, int m)
{
    char ranks[16];
    char microbatches[16];
    snprintf(ranks, sizeof ranks, "%d", p);
    snprintf(microbatches, sizeof microbatches, "%d", m);
    sc_proc *proc = SC_PROC_RUN(SC_JOBS_PATIENCE_MS, program, "schedule", "show", schedule, "-p",
                                ranks, "-m", microbatches, "--csv", "-");
    sc_proc_expect_exit(proc, 0, SC_JOBS_PATIENCE_MS);
    const char *text = sc_proc_text(proc, SC_PROC_OUT);
    const sc_csv_options options = {.path = "stdout"};
    sc_table *table = NULL;
    sc_err err = {0};
    if (sc_csv_read(text, strlen(text), &options, &table, NULL, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    sc_proc_free(&proc);
    assert_int_equal(table->n_ranks, p);
    return table;
}

/* The spans of a row; `spans` has n of this rank and those behind it. */
static void expect_row(const sc_row *row, int rank, const span *spans, size_t n, const char *run)
{
    assert_true(row->n_actions > 0);
    for (size_t i = 0; i < row->n_actions; i++) {
        char planned[SC_ACTION_TEXT_MAX];
        sc_action_format(row->actions[i], planned, sizeof planned);
        if (i == n || spans[i].rank != rank ||
            !sc_action_equals(spans[i].action, row->actions[i])) {
            fail_msg("[%s] rank %d action %zu: the trace hasn't %s there", run, rank, i, planned);
        }
        if (i > 0 && spans[i].start_us < spans[i - 1].end_us - ROUNDING_US) {
            fail_msg("[%s] rank %d: %s starts before its predecessor ends", run, rank, planned);
        }
    }
}

static void expect_order(const sc_table *table, const span_list *list, const char *run)
{
    size_t at = 0;
    for (int rank = 0; rank < table->n_ranks; rank++) {
        expect_row(&table->rows[rank], rank, list->spans + at, list->n - at, run);
        at += table->rows[rank].n_actions;
    }
    assert_int_equal(list->n, at);
}

static void compare(const char *schedule, int p, int m, const char *run_dir, const char *run)
{
    span_list list;
    sc_table *table = show_schedule(schedule, p, m);
    read_trace(run_dir, &list);
    expect_order(table, &list, run);
    free(list.spans);
    sc_table_free(&table);
}

static const char *const schedules[] = {"gpipe", "1f1b"};

static void trained_layers(void **state)
{
    static const int sizes[][2] = {{1, 3}, {2, 5}, {3, 2}, {4, 4}, {4, 9}};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const sc_jobs_layout layout = {.schedule = schedules[i % 2], .p = sizes[i / 2][0]};
        sc_jobs_config config = sc_jobs_small(sizes[i / 2][1]);
        sc_jobs jobs;
        sc_jobs_result result;
        config.steps = 2;
        sc_jobs_open(&config, &jobs);
        sc_jobs_run(&jobs, &layout, &result);
        compare(layout.schedule, layout.p, config.m, result.run_dir, result.text);
        sc_jobs_result_free(&result);
        sc_jobs_close(&jobs);
    }
}

static void paced(void **state)
{
    static const int sizes[][2] = {{1, 1}, {2, 1}, {4, 2}, {5, 11}, {8, 13}};
    (void)state;
    char *dir = sc_tmpdir_new();
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const char *schedule = schedules[i % 2];
        int p = sizes[i / 2][0];
        int m = sizes[i / 2][1];
        char text[512];
        char run[64];
        snprintf(run, sizeof run, "runs/%s-p%d-m%d", schedule, p, m);
        snprintf(text, sizeof text,
                 "name: %s-p%d-m%d\ndevice: paced\nschedule: %s\n"
                 "parallel: {pipeline_parallel: %d}\nbatch: {num_microbatches: %d}\n"
                 "train: {steps: 2}\nworkers: {wait_seconds: 120, stuck_seconds: 120}\n"
                 "paced: {forward_ms: 1, backward_input_ms: 1, backward_weight_ms: 1}\n",
                 schedule, p, m, schedule, p, m);
        char *job = sc_tmpdir_write_text(dir, "job.yaml", text);
        const char *const argv[] = {program, "run", job, NULL};
        sc_proc *proc = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = dir});
        sc_proc_expect_exit(proc, 0, SC_JOBS_PATIENCE_MS);
        sc_proc_free(&proc);
        free(job);
        char *run_dir = sc_tmpdir_path(dir, run);
        compare(schedule, p, m, run_dir, run);
        free(run_dir);
    }
    sc_proc_expect_none_left(SC_JOBS_PATIENCE_MS);
    sc_tmpdir_free(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_layers),
        cmocka_unit_test(paced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
