#include "tests/multiproc/swapping.h"

#include "schedules/gen.h"
#include "schedules/validate.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    ARGS_MAX = 16,
    ASK_EVERY_MS = 2
};

static bool can_run(const char *name, int p, int m)
{
    sc_table *table = NULL;
    sc_validate_report report = {.has_ordered_w = false};
    const sc_gen_params params = {.n_ranks = p, .n_mb = m};
    if (sc_gen_make(name, &params, &table, NULL) != SC_OK) {
        return false;
    }
    bool is_good = sc_validate_table(table, NULL, &report, NULL) == SC_OK && report.has_ordered_w;
    sc_table_free(&table);
    return is_good;
}

size_t sc_swapping_names(int p, int m, const char *names[SC_SWAPPING_NAMES_MAX])
{
    size_t n_all = 0;
    size_t n = 0;
    const sc_gen_info *list = sc_gen_list(&n_all);
    assert_in_range(n_all, 1, SC_SWAPPING_NAMES_MAX);
    for (size_t i = 0; i < n_all; i++) {
        if (!list[i].is_replicated && can_run(list[i].name, p, m)) {
            names[n++] = list[i].name;
        }
    }
    assert_true(n > 1);
    return n;
}

void sc_swapping_start(sc_jobs *jobs, const sc_jobs_layout *layout, const char *const *more,
                       sc_swapping *out)
{
    char name[64];
    sc_err err;
    const char *argv[ARGS_MAX + 1] = {SC_BIN_DIR "/stagecoach", "run"};
    const char *const env[] = {"OMP_WAIT_POLICY=passive", NULL};
    char *job = sc_jobs_write(jobs, layout);
    size_t n = 2;
    argv[n++] = job;
    for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
        assert_true(n < ARGS_MAX);
        argv[n++] = more[i];
    }
    *out = (sc_swapping){.jobs = jobs, .layout = *layout};
    out->run = sc_proc_start(&(sc_proc_config){.argv = argv, .env = env, .dir = jobs->dir});
    // Its first line of progress is the coordinator's answer.
    sc_proc_expect_line(out->run, SC_PROC_OUT, "", SC_JOBS_PATIENCE_MS);
    snprintf(name, sizeof name, "runs/job-%d/endpoint", jobs->n_runs);
    char *path = sc_tmpdir_path(jobs->dir, name);
    char *endpoint = sc_tmpdir_read(path, NULL);
    endpoint[strcspn(endpoint, "\n")] = '\0';
    if (sc_client_open(endpoint, &out->client, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    free(endpoint);
    free(path);
    free(job);
}

bool sc_swapping_ask(sc_swapping *s, const char *verb, const char *argument, sc_status *status_p,
                     char text[SC_SWAPPING_TEXT_MAX])
{
    sc_err err;
    if (sc_client_control(s->client, verb, argument, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    for (;;) {
        const sc_msg *msg = NULL;
        bool is_over = sc_proc_wait(s->run, ASK_EVERY_MS);
        if (sc_client_next(s->client, &msg, &err) != SC_OK) {
            fail_msg("%s", err.text);
        }
        if (msg != NULL && msg->type == SC_MSG_REPLY) {
            *status_p = (sc_status)msg->u.reply.status;
            snprintf(text, SC_SWAPPING_TEXT_MAX, "%s", msg->u.reply.text);
            return true;
        }
        if (is_over && msg == NULL) {
            return false;
        }
    }
}

/* Refusals that another moment's asking may not meet. */
static bool is_bad_moment(sc_status status, const char *text)
{
    return status == SC_EXISTS || strncmp(text, "no swap while ", 14) == 0;
}

/* Asks at a moment when a swap may be asked for; false when the job ended first. */
static bool ask_in_time(sc_swapping *s, const char *argument, sc_status *status_p,
                        char text[SC_SWAPPING_TEXT_MAX])
{
    do {
        if (!sc_swapping_ask(s, "swap", argument, status_p, text)) {
            return false;
        }
    } while (is_bad_moment(*status_p, text));
    return true;
}

bool sc_swapping_swap(sc_swapping *s, const char *argument, char text[SC_SWAPPING_TEXT_MAX])
{
    sc_status status;
    if (!ask_in_time(s, argument, &status, text)) {
        return false;
    }
    // Without a step of its own a swap comes too late only when there is no step left.
    bool is_late = strncmp(text, "no swap before ", 15) == 0 && strchr(argument, ' ') == NULL;
    if (status != SC_OK && !is_late) {
        fail_msg("swap %s: %s", argument, text);
    }
    return status == SC_OK;
}

void sc_swapping_await(sc_swapping *s, const char *schedule)
{
    char line[SC_SWAPPING_TEXT_MAX];
    char name[64];
    bool is_over = false;
    snprintf(line, sizeof line, " to %s\n", schedule);
    snprintf(name, sizeof name, "runs/job-%d/log/coordinator.log", s->jobs->n_runs);
    char *path = sc_tmpdir_path(s->jobs->dir, name);
    for (bool has_begun = false; !has_begun;) {
        char *log = sc_tmpdir_read(path, NULL);
        has_begun = strstr(log, line) != NULL;
        free(log);
        if (!has_begun && is_over) {
            fail_msg("the job ended before%s", line);
        }
        is_over = sc_proc_wait(s->run, ASK_EVERY_MS);
    }
    free(path);
}

void sc_swapping_expect_refusal(sc_swapping *s, const char *argument, const char *part)
{
    sc_status status = SC_OK;
    char text[SC_SWAPPING_TEXT_MAX] = "";
    if (!ask_in_time(s, argument, &status, text)) {
        fail_msg("the job ended before swap %s", argument);
    }
    if (status == SC_OK || strstr(text, part) == NULL) {
        fail_msg("swap %s: status %d, no \"%s\" in: %s", argument, (int)status, part, text);
    }
}

void sc_swapping_expect_exit(sc_swapping *s, int code)
{
    sc_proc_expect_exit(s->run, code, SC_JOBS_PATIENCE_MS);
}

void sc_swapping_close(sc_swapping *s)
{
    sc_client_close(&s->client);
    sc_proc_free(&s->run);
}

void sc_swapping_finish(sc_swapping *s, sc_jobs_result *out)
{
    sc_swapping_expect_exit(s, 0);
    sc_swapping_close(s);
    sc_jobs_collect(s->jobs, &s->layout, out);
}

void sc_swapping_reference_make(sc_jobs *jobs, sc_swapping_reference *out)
{
    const sc_jobs_layout layout = {.schedule = "1f1b", .p = 1};
    *out = (sc_swapping_reference){.registry = NULL};
    assert_int_equal(sc_registry_new(&jobs->config.spec, &out->registry, NULL), SC_OK);
    sc_jobs_run(jobs, &layout, &out->result);
    sc_tensor_files_load(&out->result, "weights", out->registry, &out->weights);
}

void sc_swapping_reference_free(sc_swapping_reference *reference)
{
    sc_tensor_files_free(&reference->weights);
    sc_jobs_result_free(&reference->result);
    sc_registry_free(&reference->registry);
}

/* A parameter that no file has would go unnoticed when each file is compared. */
static void expect_all_there(const sc_tensor_files *files, const sc_registry *registry)
{
    for (int i = 0; i < registry->n_params; i++) {
        assert_non_null(sc_tensor_files_get(files, &registry->params[i]));
    }
}

void sc_swapping_reference_expect(const sc_swapping_reference *reference,
                                  const sc_jobs_result *result)
{
    sc_tensor_files weights;
    sc_jobs_expect_same(&reference->result, result);
    sc_tensor_files_load(result, "weights", reference->registry, &weights);
    expect_all_there(&weights, reference->registry);
    sc_tensor_files_expect_same(&reference->weights, &weights, reference->registry, result->text);
    sc_tensor_files_free(&weights);
}
