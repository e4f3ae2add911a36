/*
 * The schedules of a job: planned when they are first named, current one after the other.
 */
#include "base/log.h"
#include "coordinator/autoplan.h"
#include "coordinator/io/coord.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_STEPS = 512, // steps the bubble's medians look back
    AUTO_STEPS = 8,   // steps that schedule auto measures, the warm-up among them
    NAME_MAX_BYTES = 256
};

static sc_status format_rows(sc_coord_schedule *sched, sc_err *err)
{
    size_t n = (size_t)sched->plan->n_ranks;
    sched->row_texts = calloc(n, sizeof *sched->row_texts);
    sched->compute_texts = calloc(n, sizeof *sched->compute_texts);
    if (sched->row_texts == NULL || sched->compute_texts == NULL) {
        return sc_status_errno(err, ENOMEM, "rows of %zu ranks", n);
    }
    for (int r = 0; r < sched->plan->n_ranks; r++) {
        SC_TRY(sc_table_row_format(sched->plan->lowered, r, &sched->row_texts[r], err));
        SC_TRY(sc_table_row_format(sched->plan->compute, r, &sched->compute_texts[r], err));
    }
    return SC_OK;
}

static sc_status open_schedule(sc_coord *c, const sc_plan *plan, sc_coord_schedule *out,
                               sc_err *err)
{
    size_t n = (size_t)plan->n_ranks;
    out->plan = plan;
    out->last_spans = sc_arena_alloc(&c->arena, n, sizeof *out->last_spans);
    out->memory = sc_arena_alloc(&c->arena, n, sizeof *out->memory);
    if (out->last_spans == NULL || out->memory == NULL) {
        return sc_status_errno(err, ENOMEM, "tables of %zu ranks", n);
    }
    SC_TRY(sc_bubble_new(plan->compute, KEEP_STEPS, &out->bubble, err));
    return format_rows(out, err);
}

static void close_schedule(sc_coord_schedule *sched)
{
    for (int r = 0; sched->plan != NULL && r < sched->plan->n_ranks; r++) {
        free(sched->row_texts != NULL ? sched->row_texts[r] : NULL);
        free(sched->compute_texts != NULL ? sched->compute_texts[r] : NULL);
    }
    free(sched->row_texts);
    free(sched->compute_texts);
    sc_bubble_free(&sched->bubble);
    sc_planner_free(&sched->owned_plan);
    *sched = (sc_coord_schedule){.plan = NULL};
}

sc_status sc_coord_swap_add(sc_coord *c, const char *name, const sc_plan_costs *costs,
                            sc_coord_schedule **out_p, sc_err *err)
{
    for (int i = 0; i < c->n_schedules; i++) {
        if (strcmp(c->schedules[i].plan->schedule, name) == 0) {
            *out_p = &c->schedules[i];
            return SC_OK;
        }
    }
    if (c->n_schedules == SC_COORD_SCHEDULES_MAX) {
        return sc_status_fail(err, SC_LIMIT, "a job runs at most %d schedules",
                              SC_COORD_SCHEDULES_MAX);
    }
    sc_coord_schedule *sched = &c->schedules[c->n_schedules];
    SC_TRY(sc_plan_load(c->job, name, costs, &sched->owned_plan, err));
    sc_status status = open_schedule(c, sched->owned_plan, sched, err);
    if (status != SC_OK) {
        close_schedule(sched);
        return status;
    }
    c->n_schedules++;
    *out_p = sched;
    return SC_OK;
}

/* --rotate's names, each planned before the job starts: what cannot run is refused then. */
static sc_status add_rotation(sc_coord *c, sc_err *err)
{
    char name[NAME_MAX_BYTES];
    for (const char *at = c->config->rotate; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, ",");
        sc_coord_schedule *sched;
        if (n == 0 || n >= sizeof name) {
            return sc_status_fail(err, SC_USAGE,
                                  "--rotate %s: names with commas between are needed",
                                  c->config->rotate);
        }
        memcpy(name, at, n);
        name[n] = '\0';
        SC_TRY(sc_coord_swap_add(c, name, NULL, &sched, err));
        at += at[n] == ',' ? n + 1 : n;
    }
    return SC_OK;
}

sc_status sc_coord_swap_open(sc_coord *c, sc_err *err)
{
    SC_TRY(open_schedule(c, c->config->plan, &c->schedules[0], err));
    c->n_schedules = 1;
    c->cur = &c->schedules[0];
    return add_rotation(c, err);
}

void sc_coord_swap_close(sc_coord *c)
{
    for (int i = 0; i < SC_COORD_SCHEDULES_MAX; i++) {
        close_schedule(&c->schedules[i]);
    }
}

/* Planned bytes of the busiest rank while old and new weights are both there. */
static sc_status check_memory(const sc_coord *c, const sc_coord_schedule *next, sc_err *err)
{
    const double gib = 1073741824.0;
    if (c->job->peak_memory_gib <= 0 || sc_planner_is_same_layout(c->plan, next->plan)) {
        return SC_OK;
    }
    for (int r = 0; r < c->plan->n_ranks; r++) {
        double old_gib = (double)c->plan->ranks[r].total_bytes / gib;
        double new_gib = (double)next->plan->ranks[r].total_bytes / gib;
        if (old_gib + new_gib > c->job->peak_memory_gib) {
            return sc_status_fail(
                err, SC_LIMIT,
                "%s places stages elsewhere: while weights move rank %d needs %.3f "
                "GiB of the old plan and %.3f of the new one, over memory.cap_gib %g",
                next->plan->schedule, r, old_gib, new_gib, c->job->peak_memory_gib);
        }
    }
    return SC_OK;
}

static sc_status queue_swap(sc_coord *c, sc_coord_schedule *next, uint64_t at, sc_err *err)
{
    SC_TRY(check_memory(c, next, err));
    SC_TRY(sc_steploop_swap(&c->steps, at, err));
    c->next = next;
    return SC_OK;
}

sc_status sc_coord_swap_request(sc_coord *c, const char *argument, char *text, size_t n)
{
    char name[NAME_MAX_BYTES];
    sc_err err = {.text = ""};
    sc_coord_schedule *next;
    uint64_t at = c->steps.n_issued;
    size_t n_name = strcspn(argument, " ");
    if (n_name == 0 || n_name >= sizeof name) {
        snprintf(text, n, "swap: the name of a schedule is needed");
        return SC_USAGE;
    }
    memcpy(name, argument, n_name);
    name[n_name] = '\0';
    if (argument[n_name] == ' ') {
        char *end;
        at = strtoull(argument + n_name + 1, &end, 10);
        if (*end != '\0' || end == argument + n_name + 1) {
            snprintf(text, n, "swap: '%.64s' is no step", argument + n_name + 1);
            return SC_USAGE;
        }
    }
    sc_status status = sc_coord_swap_add(c, name, NULL, &next, &err);
    if (status == SC_OK) {
        status = queue_swap(c, next, at, &err);
    }
    if (status != SC_OK) {
        snprintf(text, n, "%s", err.text);
        return status;
    }
    snprintf(text, n, "%s from step %" PRIu64 " on%s", next->plan->schedule, at,
             sc_planner_is_same_layout(c->plan, next->plan) ? ""
                                                            : "; weights move between workers");
    return SC_OK;
}

void sc_coord_swap_enter(sc_coord *c)
{
    if (c->next != NULL) {
        SC_LOG_INFO("step %" PRIu64 ": from %s to %s", c->steps.n_done, c->cur->plan->schedule,
                    c->next->plan->schedule);
        c->cur = c->next;
        c->next = NULL;
        c->plan = c->cur->plan;
    }
    c->turn_start = c->steps.n_done;
    c->cur->n_turns++;
}

/* Turns of --rotate: the schedules in the order they were named. */
static sc_status rotate(sc_coord *c, sc_err *err)
{
    uint64_t at = c->turn_start + (uint64_t)c->config->rotate_every;
    if (c->config->rotate == NULL || c->n_schedules < 2 || c->next != NULL ||
        at >= c->steps.config.n_steps || at < c->steps.n_issued) {
        return SC_OK;
    }
    int i = (int)(c->cur - c->schedules);
    return queue_swap(c, &c->schedules[(i + 1) % c->n_schedules], at, err);
}

/* Takes the chosen plan over as a schedule of its own. */
static sc_status adopt(sc_coord *c, sc_autoplan *choice, sc_coord_schedule **out_p, sc_err *err)
{
    if (c->n_schedules == SC_COORD_SCHEDULES_MAX) {
        return sc_status_fail(err, SC_LIMIT, "a job runs at most %d schedules",
                              SC_COORD_SCHEDULES_MAX);
    }
    sc_coord_schedule *sched = &c->schedules[c->n_schedules];
    sched->owned_plan = choice->plan;
    choice->plan = NULL;
    sc_status status = open_schedule(c, sched->owned_plan, sched, err);
    if (status != SC_OK) {
        close_schedule(sched);
        return status;
    }
    c->n_schedules++;
    *out_p = sched;
    return SC_OK;
}

static sc_status write_choice(sc_coord *c, const sc_autoplan *choice, sc_err *err)
{
    char *text = NULL;
    char *why = NULL;
    sc_status status = sc_autoplan_format(choice, &text, err);
    if (status == SC_OK) {
        status = sc_store_write(c->config->store, "auto.txt", text, err);
    }
    if (status == SC_OK) {
        status = sc_autoplan_format_why(choice, &why, err);
    }
    if (status == SC_OK) {
        SC_LOG_INFO("schedule auto: %s", why);
    }
    free(text);
    free(why);
    return status;
}

static sc_status choose(sc_coord *c, sc_err *err)
{
    sc_bubble_result result;
    sc_autoplan *choice = NULL;
    sc_coord_schedule *next = NULL;
    SC_TRY(sc_bubble_result_get(c->cur->bubble, &result, err));
    sc_autoplan_measured measured = {
        .plan = c->plan, .costs = result.costs, .comm = result.comm_ns};
    SC_TRY(sc_autoplan_make(c->job, &measured, &choice, err));
    sc_status status = write_choice(c, choice, err);
    bool has_better =
        choice->chosen != SC_AUTOPLAN_NONE && !choice->entries[choice->chosen].is_measured;
    if (status == SC_OK && has_better) {
        status = adopt(c, choice, &next, err);
        if (status == SC_OK) {
            status = queue_swap(c, next, c->steps.n_issued, err);
        }
    }
    sc_autoplan_free(&choice);
    return status;
}

/* Schedule auto measures under what it began with, then chooses once; not after a swap that
   somebody asked for. A choice that does not come about is no reason to end the job. */
static void choose_when_measured(sc_coord *c, uint64_t step)
{
    sc_err err;
    if (c->is_auto_done || strcmp(c->job->schedule, "auto") != 0 || step + 1 < AUTO_STEPS ||
        c->steps.n_issued >= c->steps.config.n_steps || c->next != NULL) {
        return;
    }
    c->is_auto_done = true;
    if (c->cur == &c->schedules[0] && choose(c, &err) != SC_OK) {
        SC_LOG_WARN("schedule auto: %s, staying with %s", err.text, c->plan->schedule);
    }
}

sc_status sc_coord_swap_after_step(sc_coord *c, uint64_t step, sc_err *err)
{
    SC_TRY(rotate(c, err));
    choose_when_measured(c, step);
    return SC_OK;
}
