#include "base/log.h"
#include "coordinator/bubble_report.h"
#include "coordinator/io/coord.h"
#include "coordinator/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static sc_status write_and_free(sc_coord *c, const char *file, char *text, sc_err *err)
{
    sc_status status = sc_store_write(c->config->store, file, text, err);
    free(text);
    return status;
}

sc_status sc_coord_record_start(sc_coord *c, sc_err *err)
{
    char *text;
    SC_TRY(sc_job_format(c->job, &text, err));
    SC_TRY(write_and_free(c, "job.yaml", text, err));
    SC_TRY(sc_planner_format(c->job, c->plan, &text, err));
    SC_TRY(write_and_free(c, "plan.txt", text, err));
    SC_TRY(sc_planner_json(c->job, c->plan, &text, err));
    return write_and_free(c, "plan.json", text, err);
}

/* Prints and frees the object; NULL anywhere on the way means out of memory. */
static sc_status write_object(sc_coord *c, const char *file, cJSON *object, bool is_whole,
                              sc_err *err)
{
    char *text = is_whole ? cJSON_Print(object) : NULL;
    cJSON_Delete(object);
    if (text == NULL) {
        return sc_status_errno(err, ENOMEM, "%s", file);
    }
    return write_and_free(c, file, text, err);
}

static bool add_worker(const sc_coord_peer *peer, cJSON *list)
{
    cJSON *item = cJSON_CreateObject();
    if (item == NULL || !cJSON_AddItemToArray(list, item)) {
        cJSON_Delete(item);
        return false;
    }
    return cJSON_AddNumberToObject(item, "rank", peer->rank) != NULL &&
           cJSON_AddStringToObject(item, "host", peer->host) != NULL &&
           cJSON_AddNumberToObject(item, "pid", peer->pid) != NULL &&
           cJSON_AddStringToObject(item, "device", peer->device) != NULL &&
           cJSON_AddStringToObject(item, "isa", peer->isa) != NULL;
}

/* info.json: what the numbers of this run depend on beside the job. */
sc_status sc_coord_record_workers(sc_coord *c, sc_err *err)
{
    char when[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    cJSON *info = cJSON_CreateObject();
    bool is_whole = cJSON_AddStringToObject(info, "version", SC_VERSION) != NULL &&
                    cJSON_AddStringToObject(info, "started", when) != NULL &&
                    cJSON_AddNumberToObject(info, "epoch", (double)c->epoch) != NULL &&
                    cJSON_AddNumberToObject(info, "threads", c->job->threads) != NULL;
    cJSON *workers = cJSON_AddArrayToObject(info, "workers");
    for (int r = 0; r < c->plan->n_ranks; r++) {
        is_whole = is_whole && add_worker(&c->peers[c->peer_of_rank[r]], workers);
    }
    return write_object(c, "info.json", info, is_whole && workers != NULL, err);
}

static sc_bubble_split mean_split(const sc_coord *c, const sc_coord_step *numbers)
{
    sc_bubble_split mean = {.window_ns = 0};
    for (int r = 0; r < c->plan->n_ranks; r++) {
        for (int k = 0; k < SC_CAUSE_COUNT; k++) {
            mean.ns[k] += numbers[r].split.ns[k];
        }
        mean.window_ns += numbers[r].split.window_ns;
    }
    for (int k = 0; k < SC_CAUSE_COUNT; k++) {
        mean.ns[k] /= c->plan->n_ranks;
    }
    mean.window_ns /= c->plan->n_ranks;
    return mean;
}

static const sc_coord_step *step_numbers(const sc_coord *c, uint64_t step)
{
    return &c->step_numbers[step % SC_STEPLOOP_WINDOW * (size_t)c->plan->n_ranks];
}

sc_status sc_coord_record_step(sc_coord *c, uint64_t step, double lr, sc_err *err)
{
    const sc_coord_step *numbers = step_numbers(c, step);
    sc_metrics_step line = {.step = step, .lr = lr, .grad_norm = numbers->grad_norm};
    int64_t step_ns = 0;
    char *text;
    for (int r = 0; r < c->plan->n_ranks; r++) {
        step_ns = numbers[r].window_ns > step_ns ? numbers[r].window_ns : step_ns;
    }
    line.loss = numbers->loss_sum / (double)numbers->n_valid;
    line.step_ms = (double)step_ns / 1e6;
    line.tokens_per_second = step_ns > 0 ? (double)numbers->n_valid / ((double)step_ns / 1e9) : 0;
    line.causes = mean_split(c, numbers);
    SC_TRY(sc_metrics_format(&line, &text, err));
    sc_status status = sc_store_append_metrics(c->config->store, text, err);
    free(text);
    return status;
}

/* The schedule's closed form as (cost - ideal) / cost, with the measured mean costs of a rank; NAN
 * without one. */
static double closed_form(const sc_coord *c, const sc_bubble_result *result)
{
    const sc_gen_info *info = sc_gen_find(c->job->schedule);
    sc_gen_params params = {.n_ranks = c->plan->n_ranks, .n_mb = c->plan->n_mb};
    double f = 1;
    double i = 1;
    double w = 1;
    if (info == NULL || info->closed_bubble == NULL) {
        return NAN;
    }
    params.n_chunks = c->plan->n_stages / c->plan->n_ranks;
    if (result != NULL) {
        f = i = w = 0;
        for (int s = 0; s < c->plan->n_stages; s++) {
            f += result->costs[s].f / c->plan->n_ranks;
            i += result->costs[s].i / c->plan->n_ranks;
            w += result->costs[s].w / c->plan->n_ranks;
        }
    }
    return info->closed_bubble(&params, f, i, w);
}

static size_t planned_bytes(const sc_plan_rank *rank)
{
    return rank->activation_bytes + rank->keep_bytes;
}

static size_t planned_peak(const sc_coord *c)
{
    size_t peak = 0;
    for (int r = 0; r < c->plan->n_ranks; r++) {
        size_t bytes = planned_bytes(&c->plan->ranks[r]);
        peak = bytes > peak ? bytes : peak;
    }
    return peak;
}

/* What each rank's reports told of memory, beside the plan. */
static bool add_memory(const sc_coord *c, cJSON *summary)
{
    cJSON *list = cJSON_AddArrayToObject(summary, "memory");
    bool is_whole = list != NULL;
    for (int r = 0; is_whole && r < c->plan->n_ranks; r++) {
        const sc_coord_memory *memory = &c->memory[r];
        cJSON *item = cJSON_CreateObject();
        is_whole = item != NULL && cJSON_AddItemToArray(list, item) &&
                   sc_metrics_add_real(item, "rank", r) &&
                   sc_metrics_add_real(item, "activation_bytes_planned",
                                       (double)planned_bytes(&c->plan->ranks[r])) &&
                   sc_metrics_add_real(item, "activation_bytes_measured",
                                       (double)memory->activation_peak_bytes) &&
                   sc_metrics_add_real(item, "allocations_in_steps", (double)memory->n_allocs);
    }
    return is_whole;
}

/* Fewer than three steps: nothing to take medians of; the columns are there and empty. */
static bool add_without_result(const sc_coord *c, cJSON *summary)
{
    cJSON *bubble = cJSON_AddObjectToObject(summary, "bubble");
    sc_bubble_split split = {.window_ns = 0};
    if (c->steps.n_done > 0) {
        split = mean_split(c, step_numbers(c, c->steps.n_done - 1));
    }
    cJSON *causes = sc_bubble_report_causes(&split);
    if (causes == NULL || !cJSON_AddItemToObject(summary, "causes_ms", causes)) {
        cJSON_Delete(causes);
        return false;
    }
    return sc_metrics_add_real(bubble, "measured", NAN) &&
           sc_metrics_add_real(bubble, "simulated", NAN) &&
           sc_metrics_add_real(bubble, "closed_form", closed_form(c, NULL));
}

static double mean_step_ns(const sc_coord *c, const sc_bubble_result *result)
{
    if (result != NULL) {
        return result->step_ns;
    }
    return c->steps.n_done == 0
               ? NAN
               : (double)(c->train_end_ns - c->train_start_ns) / (double)c->steps.n_done;
}

static sc_status write_summary(sc_coord *c, const sc_bubble_result *result, sc_err *err)
{
    double step_ns = mean_step_ns(c, result);
    bool has_steps = c->steps.n_done > 0;
    double tokens = has_steps ? (double)c->n_valid_total / (double)c->steps.n_done : NAN;
    cJSON *summary = cJSON_CreateObject();
    bool is_whole = cJSON_AddStringToObject(summary, "name", c->job->name) != NULL &&
                    cJSON_AddStringToObject(summary, "schedule", c->job->schedule) != NULL &&
                    cJSON_AddStringToObject(summary, "status", sc_status_text(c->status)) != NULL &&
                    cJSON_AddStringToObject(summary, "error", c->err.text) != NULL &&
                    sc_metrics_add_real(summary, "p", c->plan->n_ranks) &&
                    sc_metrics_add_real(summary, "m", c->plan->n_mb) &&
                    sc_metrics_add_real(summary, "steps", (double)c->steps.n_done) &&
                    sc_metrics_add_real(summary, "first_loss", has_steps ? c->first_loss : NAN) &&
                    sc_metrics_add_real(summary, "final_loss", has_steps ? c->last_loss : NAN) &&
                    sc_metrics_add_real(summary, "step_ms", step_ns / 1e6) &&
                    sc_metrics_add_real(summary, "tokens_per_second", tokens / (step_ns / 1e9));
    cJSON *bytes = cJSON_AddObjectToObject(summary, "activation_bytes");
    is_whole = is_whole && sc_metrics_add_real(bytes, "planned", (double)planned_peak(c)) &&
               sc_metrics_add_real(bytes, "measured",
                                   result == NULL ? NAN : (double)result->activation_peak_bytes) &&
               add_memory(c, summary);
    if (is_whole && result == NULL) {
        is_whole = add_without_result(c, summary);
    } else if (is_whole) {
        is_whole = sc_bubble_report_add_json(result, c->plan->n_ranks, c->plan->n_stages,
                                             closed_form(c, result), summary, err) == SC_OK;
    }
    return write_object(c, "summary.json", summary, is_whole, err);
}

/* The table that `run` prints at the end. */
static sc_status format_summary(sc_coord *c, const sc_bubble_result *result, char **out,
                                sc_err *err)
{
    char *table = NULL;
    if (result != NULL) {
        SC_TRY(
            sc_bubble_report_format(result, c->plan->n_ranks, closed_form(c, result), &table, err));
    }
    double step_ns = mean_step_ns(c, result);
    double tokens = (double)c->n_valid_total / (double)c->steps.n_done;
    char head[512];
    if (c->steps.n_done == 0) {
        snprintf(head, sizeof head, "%s: no step was finished\n", c->job->name);
    } else {
        snprintf(head, sizeof head,
                 "%s: %s, p = %d, m = %d: %" PRIu64 " steps, loss %.4f -> %.4f, step %.1f ms, %.0f "
                 "tokens/s\n",
                 c->job->name, c->job->schedule, c->plan->n_ranks, c->plan->n_mb, c->steps.n_done,
                 c->first_loss, c->last_loss, step_ns / 1e6, tokens / (step_ns / 1e9));
    }
    size_t n = strlen(head) + (table == NULL ? 0 : strlen(table)) + 1;
    char *text = malloc(n);
    if (text == NULL) {
        free(table);
        return sc_status_errno(err, ENOMEM, "summary");
    }
    snprintf(text, n, "%s%s", head, table == NULL ? "" : table);
    free(table);
    *out = text;
    return SC_OK;
}

sc_status sc_coord_record_end(sc_coord *c, sc_err *err)
{
    sc_bubble_result found;
    const sc_bubble_result *result = NULL;
    sc_status status = sc_bubble_result_get(c->bubble, &found, err);
    if (status == SC_OK) {
        result = &found;
    } else if (status != SC_NOT_FOUND) {
        return status;
    }
    SC_TRY(write_summary(c, result, err));
    SC_TRY(format_summary(c, result, &c->summary, err));
    SC_TRY(sc_store_write(c->config->store, "summary.txt", c->summary, err));
    return sc_coord_picture_write(c, result, err);
}
