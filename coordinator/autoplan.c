#include "coordinator/autoplan.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The one schedule that is made to a limit. */
static const char LIMITED[] = "zb-auto";

/* Limits that it is tried with, in times p. */
static const double LIMITS[] = {1, 1.5, 2};

enum {
    N_LIMITS = sizeof LIMITS / sizeof LIMITS[0]
};

/* Differences of a step's time below this share of its work count as none. */
#define TIE 1e-4
#define GIB 1073741824.0

/* A list being made. */
typedef struct maker {
    const sc_job *job;
    const sc_autoplan_measured *measured;
    sc_plan_costs rank_costs; // a rank's mean
    double tie_ns;
    sc_autoplan *list;
    sc_autoplan_entry best; // whose plan the list has: other plans are not kept
} maker;

static void find_rank_costs(maker *mk)
{
    const sc_plan *plan = mk->measured->plan;
    sc_plan_costs *sum = &mk->rank_costs;
    for (int s = 0; s < plan->n_stages; s++) {
        sum->f += mk->measured->costs[s].f / plan->n_ranks;
        sum->i += mk->measured->costs[s].i / plan->n_ranks;
        sum->w += mk->measured->costs[s].w / plan->n_ranks;
    }
    sum->comm = mk->measured->comm;
    mk->tie_ns = TIE * plan->n_mb * (sum->f + sum->i + sum->w);
}

static size_t most_bytes(const sc_plan *plan)
{
    size_t most = 0;
    for (int r = 0; r < plan->n_ranks; r++) {
        most = plan->ranks[r].total_bytes > most ? plan->ranks[r].total_bytes : most;
    }
    return most;
}

/* A swap to another layout has both plans' memory for a while. */
static bool has_room(const maker *mk, const sc_plan *plan)
{
    const sc_plan *old = mk->measured->plan;
    double cap = mk->job->peak_memory_gib * GIB;
    for (int r = 0; cap > 0 && r < plan->n_ranks; r++) {
        if ((double)(old->ranks[r].total_bytes + plan->ranks[r].total_bytes) > cap) {
            return false;
        }
    }
    return true;
}

static sc_autoplan_verdict judge(const maker *mk, const sc_plan *plan, bool is_same_layout)
{
    if (sc_planner_check_cap(mk->job, plan, NULL) != SC_OK) {
        return SC_AUTOPLAN_OVER_CAP;
    }
    if (!plan->report.has_ordered_w) {
        return SC_AUTOPLAN_UNORDERED;
    }
    return is_same_layout || has_room(mk, plan) ? SC_AUTOPLAN_FITS : SC_AUTOPLAN_NO_ROOM;
}

static sc_status simulate(const maker *mk, const sc_plan *plan, sc_autoplan_entry *entry,
                          sc_err *err)
{
    sc_status status = SC_OK;
    sc_timeline *timeline = NULL;
    sc_stage_cost *stages = calloc((size_t)plan->n_stages, sizeof *stages);
    const sc_costs costs = {.stages = stages, .comm = mk->measured->comm};
    if (stages == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %d stages", plan->n_stages);
    }
    SC_GOTO(sc_autoplan_costs(mk->job, mk->measured, plan, stages, err));
    SC_GOTO(sc_simulate_run(plan->compute, &costs, &timeline, err));
    entry->step_ns = timeline->makespan;
    entry->cost_ns = timeline->cost;
    entry->bubble = timeline->bubble;
    entry->peak_bytes = most_bytes(plan);
    entry->is_same_layout = sc_planner_is_same_layout(mk->measured->plan, plan);
    entry->is_measured = strcmp(plan->schedule, mk->measured->plan->schedule) == 0 &&
                         sc_table_equals(plan->compute, mk->measured->plan->compute);
    entry->verdict = judge(mk, plan, entry->is_same_layout);
out:
    sc_simulate_free(&timeline);
    free(stages);
    return status;
}

/* True when a belongs before b. */
static bool is_before(const sc_autoplan_entry *a, const sc_autoplan_entry *b, double tie_ns)
{
    bool is_a_out = a->verdict == SC_AUTOPLAN_REFUSED;
    bool is_b_out = b->verdict == SC_AUTOPLAN_REFUSED;
    if (is_a_out || is_b_out) {
        return !is_a_out && is_b_out;
    }
    double time_a = tie_ns > 0 ? round(a->step_ns / tie_ns) : a->step_ns;
    double time_b = tie_ns > 0 ? round(b->step_ns / tie_ns) : b->step_ns;
    if (time_a != time_b) {
        return time_a < time_b;
    }
    return a->peak_bytes < b->peak_bytes;
}

/* Enters a simulated plan; the best that fits is kept for the list. */
static void enter(maker *mk, const sc_autoplan_entry *entry, sc_plan **plan)
{
    sc_autoplan *list = mk->list;
    list->entries[list->n_entries++] = *entry;
    if (entry->verdict == SC_AUTOPLAN_FITS &&
        (list->plan == NULL || is_before(entry, &mk->best, mk->tie_ns))) {
        sc_planner_free(&list->plan);
        list->plan = *plan;
        mk->best = *entry;
        *plan = NULL;
    }
    sc_planner_free(plan);
}

/* Plans and simulates one candidate. A refused one is entered when it is the schedule as everybody
   would ask for it (is_default); another v that does not apply is passed over. */
static sc_status try_one(maker *mk, const sc_gen_info *info, int n_chunks, double limit_mb,
                         bool is_default, sc_err *err)
{
    sc_plan *plan = NULL;
    sc_err why = {0};
    sc_autoplan_entry entry = {.schedule = info->name, .n_chunks = n_chunks, .limit_mb = limit_mb};
    const sc_plan_request request = {.schedule = info->name,
                                     .n_chunks = n_chunks,
                                     .limit_mb = limit_mb,
                                     .is_uncapped = true,
                                     .costs = mk->rank_costs};
    sc_status status = sc_planner_make(mk->job, &request, &plan, &why);
    if (status == SC_NO_MEMORY) {
        return sc_status_fail(err, status, "%s", why.text);
    }
    if (status == SC_OK) {
        status = simulate(mk, plan, &entry, err);
        if (status != SC_OK) {
            sc_planner_free(&plan);
            return status;
        }
        enter(mk, &entry, &plan);
    } else if (is_default) {
        entry.verdict = SC_AUTOPLAN_REFUSED;
        (void)snprintf(entry.reason, sizeof entry.reason, "%.255s", why.text);
        mk->list->entries[mk->list->n_entries++] = entry;
    }
    return SC_OK;
}

static sc_status try_limits(maker *mk, const sc_gen_info *info, sc_err *err)
{
    sc_status status = SC_OK;
    double by_hand = mk->job->schedule_limit;
    int n = by_hand > 0 ? 1 : N_LIMITS;
    for (int i = 0; i < n && status == SC_OK; i++) {
        double limit = by_hand > 0 ? by_hand : LIMITS[i] * mk->job->pipeline_parallel;
        status = try_one(mk, info, info->default_chunks, limit, i == 0, err);
    }
    return status;
}

static sc_status try_all(maker *mk, const sc_gen_info *list, size_t n, sc_err *err)
{
    sc_status status = SC_OK;
    for (size_t i = 0; i < n && status == SC_OK; i++) {
        if (list[i].is_replicated) {
            continue;
        }
        if (strcmp(list[i].name, LIMITED) == 0) {
            status = try_limits(mk, &list[i], err);
            continue;
        }
        int n_most = list[i].default_chunks > SC_AUTOPLAN_CHUNKS_MAX ? list[i].default_chunks
                                                                     : SC_AUTOPLAN_CHUNKS_MAX;
        for (int v = 1; v <= n_most && status == SC_OK; v++) {
            bool is_default = v == list[i].default_chunks;
            if (is_default || v <= SC_AUTOPLAN_CHUNKS_MAX) {
                status = try_one(mk, &list[i], v, 0, is_default, err);
            }
        }
    }
    return status;
}

/* By insertion, which is stable: what ties stays in the generators' order. */
static void sort(sc_autoplan *list, double tie_ns)
{
    for (int i = 1; i < list->n_entries; i++) {
        sc_autoplan_entry entry = list->entries[i];
        int at = i;
        while (at > 0 && is_before(&entry, &list->entries[at - 1], tie_ns)) {
            list->entries[at] = list->entries[at - 1];
            at--;
        }
        list->entries[at] = entry;
    }
}

static void find(sc_autoplan *list)
{
    list->chosen = SC_AUTOPLAN_NONE;
    list->measured = SC_AUTOPLAN_NONE;
    for (int i = list->n_entries - 1; i >= 0; i--) {
        list->measured = list->entries[i].is_measured ? i : list->measured;
        list->chosen = list->entries[i].verdict == SC_AUTOPLAN_FITS ? i : list->chosen;
    }
}

static sc_status allocate(maker *mk, size_t n_generators, sc_err *err)
{
    /* each generator's default v, which may be beyond what is tried, and one entry a v or limit */
    size_t n_max = n_generators * (SC_AUTOPLAN_CHUNKS_MAX + 1) + N_LIMITS + 1;
    mk->list->entries = calloc(n_max, sizeof *mk->list->entries);
    if (mk->list->entries == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %zu schedules", n_max);
    }
    return SC_OK;
}

sc_status sc_autoplan_make(const sc_job *job, const sc_autoplan_measured *measured,
                           sc_autoplan **out, sc_err *err)
{
    sc_status status = SC_OK;
    size_t n = 0;
    const sc_gen_info *generators = sc_gen_list(&n);
    sc_autoplan *list = calloc(1, sizeof *list);
    maker mk = {.job = job, .measured = measured, .list = list};
    if (list == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of schedules");
    }
    list->job = job;
    SC_GOTO(allocate(&mk, n, err));
    find_rank_costs(&mk);
    SC_GOTO(try_all(&mk, generators, n, err));
    sort(list, mk.tie_ns);
    find(list);
    *out = list;
    list = NULL;
out:
    sc_autoplan_free(&list);
    return status;
}

void sc_autoplan_free(sc_autoplan **autoplan)
{
    if (*autoplan == NULL) {
        return;
    }
    sc_planner_free(&(*autoplan)->plan);
    free((*autoplan)->entries);
    free(*autoplan);
    *autoplan = NULL;
}
