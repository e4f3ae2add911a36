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
                    cJSON_AddNumberToObject(info, "threads", c->job->threads) != NULL &&
                    sc_coord_save_add_json(c, info);
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
    c->cur->last_split = line.causes;
    SC_TRY(sc_metrics_format(&line, &text, err));
    sc_status status = sc_store_append_metrics(c->config->store, text, err);
    free(text);
    return status;
}

/* The schedule's closed form as (cost - ideal) / cost, with the measured mean costs of a rank; NAN
   without one. */
static double closed_form(const sc_plan *plan, const sc_bubble_result *result)
{
    const sc_gen_info *info = sc_gen_find(plan->schedule);
    sc_gen_params params = {.n_ranks = plan->n_ranks, .n_mb = plan->n_mb};
    double f = 1;
    double i = 1;
    double w = 1;
    if (info == NULL || info->closed_bubble == NULL) {
        return NAN;
    }
    params.n_chunks = plan->n_stages / plan->n_ranks;
    if (result != NULL) {
        f = i = w = 0;
        for (int s = 0; s < plan->n_stages; s++) {
            f += result->costs[s].f / plan->n_ranks;
            i += result->costs[s].i / plan->n_ranks;
            w += result->costs[s].w / plan->n_ranks;
        }
    }
    return info->closed_bubble(&params, f, i, w);
}

static size_t planned_bytes(const sc_plan_rank *rank)
{
    return rank->peak_bytes;
}

static size_t planned_peak(const sc_plan *plan)
{
    size_t peak = 0;
    for (int r = 0; r < plan->n_ranks; r++) {
        size_t bytes = planned_bytes(&plan->ranks[r]);
        peak = bytes > peak ? bytes : peak;
    }
    return peak;
}

/* What each rank's reports told of memory, beside the plan. */
static bool add_memory(const sc_coord_schedule *sched, cJSON *object)
{
    cJSON *list = cJSON_AddArrayToObject(object, "memory");
    bool is_whole = list != NULL;
    for (int r = 0; is_whole && r < sched->plan->n_ranks; r++) {
        const sc_coord_memory *memory = &sched->memory[r];
        cJSON *item = cJSON_CreateObject();
        is_whole = item != NULL && cJSON_AddItemToArray(list, item) &&
                   sc_metrics_add_real(item, "rank", r) &&
                   sc_metrics_add_real(item, "activation_bytes_planned",
                                       (double)planned_bytes(&sched->plan->ranks[r])) &&
                   sc_metrics_add_real(item, "activation_bytes_measured",
                                       (double)memory->activation_peak_bytes) &&
                   sc_metrics_add_real(item, "allocations_in_steps", (double)memory->n_allocs);
    }
    return is_whole;
}

/* Fewer than three steps: nothing to take medians of; the columns are there and empty. */
static bool add_without_result(const sc_coord_schedule *sched, cJSON *object)
{
    cJSON *bubble = cJSON_AddObjectToObject(object, "bubble");
    cJSON *causes = sc_bubble_report_causes(&sched->last_split);
    if (causes == NULL || !cJSON_AddItemToObject(object, "causes_ms", causes)) {
        cJSON_Delete(causes);
        return false;
    }
    return sc_metrics_add_real(bubble, "measured", NAN) &&
           sc_metrics_add_real(bubble, "simulated", NAN) &&
           sc_metrics_add_real(bubble, "closed_form", closed_form(sched->plan, NULL));
}

/* The median step; with too few steps for one the mean, NAN without any. */
static double usual_step_ns(const sc_coord_schedule *sched, const sc_bubble_result *result)
{
    if (result != NULL) {
        return result->step_ns;
    }
    return sched->n_steps == 0 ? NAN : (double)sched->step_ns_sum / (double)sched->n_steps;
}

static double tokens_per_second(const sc_coord_schedule *sched, const sc_bubble_result *result)
{
    double tokens = sched->n_steps == 0 ? NAN : (double)sched->n_valid / (double)sched->n_steps;
    return tokens / (usual_step_ns(sched, result) / 1e9);
}

/* What was measured under one schedule. */
static bool add_schedule(const sc_coord *c, const sc_coord_schedule *sched,
                         const sc_bubble_result *result, cJSON *object)
{
    const sc_plan *plan = sched->plan;
    bool has_steps = c->steps.n_done > c->steps.config.first_step;
    bool is_whole =
        cJSON_AddStringToObject(object, "schedule", plan->schedule) != NULL &&
        sc_metrics_add_real(object, "p", plan->n_ranks) &&
        sc_metrics_add_real(object, "m", plan->n_mb) &&
        sc_metrics_add_real(object, "v", (double)plan->n_stages / plan->n_ranks) &&
        sc_metrics_add_real(object, "steps", (double)sched->n_steps) &&
        sc_metrics_add_real(object, "turns", sched->n_turns) &&
        sc_metrics_add_real(object, "first_loss", has_steps ? c->first_loss : NAN) &&
        sc_metrics_add_real(object, "final_loss", has_steps ? c->last_loss : NAN) &&
        sc_metrics_add_real(object, "step_ms", usual_step_ns(sched, result) / 1e6) &&
        sc_metrics_add_real(object, "tokens_per_second", tokens_per_second(sched, result));
    cJSON *bytes = cJSON_AddObjectToObject(object, "activation_bytes");
    is_whole = is_whole && sc_metrics_add_real(bytes, "planned", (double)planned_peak(plan)) &&
               sc_metrics_add_real(bytes, "measured",
                                   result == NULL ? NAN : (double)result->activation_peak_bytes) &&
               add_memory(sched, object);
    if (is_whole && result == NULL) {
        return add_without_result(sched, object);
    }
    return is_whole && sc_bubble_report_add_json(result, plan->n_ranks, plan->n_stages,
                                                 closed_form(plan, result), object, NULL) == SC_OK;
}

/* The result of a schedule's steps; NULL when there are too few. */
static const sc_bubble_result *find_result(const sc_coord_schedule *sched, sc_bubble_result *room)
{
    return sc_bubble_result_get(sched->bubble, room, NULL) == SC_OK ? room : NULL;
}

/* Every schedule that ran, in the order they were named. */
static bool add_all_schedules(const sc_coord *c, cJSON *summary)
{
    cJSON *list = cJSON_AddArrayToObject(summary, "schedules");
    bool is_whole = list != NULL;
    for (int i = 0; is_whole && i < c->n_schedules; i++) {
        const sc_coord_schedule *sched = &c->schedules[i];
        sc_bubble_result room;
        if (sched->n_steps == 0) {
            continue;
        }
        cJSON *item = cJSON_CreateObject();
        is_whole = item != NULL && cJSON_AddItemToArray(list, item) &&
                   cJSON_AddStringToObject(item, "name", sched->plan->schedule) != NULL &&
                   add_schedule(c, sched, find_result(sched, &room), item);
    }
    return is_whole;
}

static sc_status write_summary(sc_coord *c, const sc_bubble_result *result, sc_err *err)
{
    cJSON *summary = cJSON_CreateObject();
    bool is_whole = cJSON_AddStringToObject(summary, "name", c->job->name) != NULL &&
                    cJSON_AddStringToObject(summary, "status", sc_status_text(c->status)) != NULL &&
                    cJSON_AddStringToObject(summary, "error", c->err.text) != NULL &&
                    sc_coord_save_add_json(c, summary) &&
                    add_schedule(c, c->cur, result, summary) && add_all_schedules(c, summary);
    return write_object(c, "summary.json", summary, is_whole, err);
}

static sc_status append(char **text, const char *more, sc_err *err)
{
    size_t n = *text == NULL ? 0 : strlen(*text);
    size_t n_more = strlen(more);
    char *longer = realloc(*text, n + n_more + 1);
    if (longer == NULL) {
        return sc_status_errno(err, ENOMEM, "summary");
    }
    memcpy(longer + n, more, n_more + 1);
    *text = longer;
    return SC_OK;
}

/* A schedule's part of the table that `run` prints at the end. */
static sc_status format_schedule(const sc_coord *c, const sc_coord_schedule *sched, char **text,
                                 sc_err *err)
{
    sc_bubble_result room;
    char head[512];
    char *table = NULL;
    const sc_bubble_result *result = find_result(sched, &room);
    snprintf(head, sizeof head,
             "%s: %s, p = %d, m = %d: %" PRIu64 " steps, loss %.4f -> %.4f, step %.1f ms, %.0f "
             "tokens/s\n",
             c->job->name, sched->plan->schedule, sched->plan->n_ranks, sched->plan->n_mb,
             sched->n_steps, c->first_loss, c->last_loss, usual_step_ns(sched, result) / 1e6,
             tokens_per_second(sched, result));
    SC_TRY(append(text, head, err));
    if (result == NULL) {
        return SC_OK;
    }
    SC_TRY(sc_bubble_report_format(result, sched->plan->n_ranks, closed_form(sched->plan, result),
                                   c->clock_error_ns, &table, err));
    sc_status status = append(text, table, err);
    free(table);
    return status;
}

static sc_status format_summary(sc_coord *c, char **out, sc_err *err)
{
    char *text = NULL;
    char checkpoints[2048];
    sc_status status = SC_OK;
    for (int i = 0; i < c->n_schedules && status == SC_OK; i++) {
        if (c->schedules[i].n_steps > 0) {
            status = format_schedule(c, &c->schedules[i], &text, err);
        }
    }
    if (status == SC_OK && text == NULL) {
        status = append(&text, c->job->name, err);
        status = status == SC_OK ? append(&text, ": no step was finished\n", err) : status;
    }
    if (status == SC_OK) {
        sc_coord_save_format(c, checkpoints, sizeof checkpoints);
        status = append(&text, checkpoints, err);
    }
    if (status != SC_OK) {
        free(text);
        return status;
    }
    *out = text;
    return SC_OK;
}

sc_status sc_coord_record_end(sc_coord *c, sc_err *err)
{
    sc_bubble_result room;
    sc_status status = SC_OK;
    SC_TRY(write_summary(c, find_result(c->cur, &room), err));
    SC_TRY(format_summary(c, &c->summary, err));
    SC_TRY(sc_store_write(c->config->store, "summary.txt", c->summary, err));
    for (int i = 0; i < c->n_schedules && status == SC_OK; i++) {
        const sc_coord_schedule *sched = &c->schedules[i];
        status = sc_coord_picture_write(c, sched, find_result(sched, &room), err);
    }
    return status;
}
