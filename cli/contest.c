#include "cli/contest.h"

#include "schedules/lower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The rules' parameters for one schedule: -v is for those that have several stages a rank, and a
   schedule that plans for a limit is told the cap. */
static sc_gen_params params_of(const sc_contest_rules *rules, const sc_gen_info *info)
{
    sc_gen_params params = rules->params;
    if (info->default_chunks == 1) {
        params.n_chunks = 0;
    }
    if (params.limit_mb == 0 && rules->memory_cap > 0) {
        params.limit_mb = rules->memory_cap;
        params.w_share = 1; // a peak counts an activation until its W
    }
    params.f = rules->costs.f;
    params.i = rules->costs.i;
    params.w = rules->costs.w;
    params.comm = rules->costs.comm;
    if (rules->profile != NULL) {
        sc_stage_cost average = sc_scheduleprofile_average(rules->profile, params.n_ranks);
        params.f = average.f;
        params.i = average.i;
        params.w = average.w;
        params.comm = rules->profile->comm_ms;
    }
    return params;
}

static sc_status count_messages(const sc_table *table, size_t *out, sc_err *err)
{
    sc_table *lowered = NULL;
    SC_TRY(sc_lower_table(table, &lowered, err));
    size_t n = 0;
    for (int rank = 0; rank < lowered->n_ranks; rank++) {
        const sc_row *row = &lowered->rows[rank];
        for (size_t i = 0; i < row->n_actions; i++) {
            n += sc_action_is_send(row->actions[i].op) ? 1 : 0;
        }
    }
    sc_table_free(&lowered);
    *out = n;
    return SC_OK;
}

static sc_status simulate(const sc_contest_rules *rules, const sc_table *table,
                          sc_contest_entry *entry, sc_err *err)
{
    sc_status status = SC_OK;
    sc_timeline *timeline = NULL;
    sc_stage_cost *stages = calloc((size_t)table->n_stages, sizeof *stages);
    if (stages == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", table->n_stages);
    }
    sc_costs costs = {stages, rules->costs.comm};
    if (rules->profile != NULL) {
        entry->fit = sc_scheduleprofile_apply(rules->profile, table, stages);
        costs.comm = rules->profile->comm_ms;
    } else {
        sc_simulate_uniform_costs(table, rules->costs.f, rules->costs.i, rules->costs.w, stages);
    }
    SC_GOTO(sc_simulate_run(table, &costs, &timeline, err));
    entry->cost = timeline->cost;
    entry->makespan = timeline->makespan;
    entry->ideal = timeline->ideal;
    entry->bubbles = sc_scheduleview_measure(timeline);
out:
    sc_simulate_free(&timeline);
    free(stages);
    return status;
}

/* The numbers of a table that fits. */
static sc_status fill_entry(const sc_contest_rules *rules, const sc_table *table,
                            sc_contest_entry *entry, sc_err *err)
{
    sc_validate_report report;
    SC_TRY(sc_validate_table(table, NULL, &report, err));
    SC_TRY(simulate(rules, table, entry, err));
    SC_TRY(count_messages(table, &entry->n_messages, err));
    if (rules->profile != NULL) {
        entry->bytes = (double)entry->n_messages * rules->profile->message_bytes;
    }
    entry->v = (double)table->n_stages / table->n_ranks;
    entry->has_ordered_w = report.has_ordered_w;
    entry->is_blocking_deadlock = report.is_blocking_deadlock;
    return SC_OK;
}

static sc_status run_entry(const sc_contest_rules *rules, sc_contest_entry *entry, sc_err *err)
{
    sc_status status = SC_OK;
    sc_table *table = NULL;
    sc_gen_params params = params_of(rules, entry->info);
    status = sc_gen_make(entry->info->name, &params, &table, &entry->why);
    if (status == SC_INVALID || status == SC_LIMIT || status == SC_UNSUPPORTED) {
        return SC_OK; // its constraint; the entry does not fit
    }
    if (status != SC_OK) {
        return sc_status_fail(err, status, "%s", entry->why.text);
    }
    for (int rank = 0; rank < table->n_ranks; rank++) {
        entry->peak = fmax(entry->peak, sc_scheduleview_peak(table, rank));
    }
    if (rules->memory_cap > 0 && entry->peak > rules->memory_cap) {
        (void)sc_status_fail(&entry->why, SC_LIMIT,
                             "%s: holds %.4g microbatches, above the cap of %.4g",
                             entry->info->name, entry->peak, rules->memory_cap);
        goto out;
    }
    SC_GOTO(fill_entry(rules, table, entry, err));
    entry->is_fit = true;
out:
    sc_table_free(&table);
    return status == SC_OK ? SC_OK : sc_status_prefix(err, status, "%s", entry->info->name);
}

/* Sums of the same times in another order differ in their last bits: that is no difference. */
static int compare_numbers(double a, double b)
{
    const double tolerance = 1e-9 * fmax(fabs(a), fabs(b));
    return (a > b + tolerance) - (a < b - tolerance);
}

/* Fit ones first, the best of them first; what is equal stays in the order of gen's list. */
static int compare_entries(const sc_contest_entry *a, const sc_contest_entry *b, bool is_by_peak)
{
    if (!a->is_fit || !b->is_fit) {
        return (int)b->is_fit - (int)a->is_fit;
    }
    int by_cost = compare_numbers(a->cost, b->cost);
    int by_peak = compare_numbers(a->peak, b->peak);
    int first = is_by_peak ? by_peak : by_cost;
    int second = is_by_peak ? by_cost : by_peak;
    return first != 0 ? first : second;
}

/* By insertion: stable, and there are few. */
static void sort(sc_contest *contest, bool is_by_peak)
{
    for (size_t i = 1; i < contest->n_entries; i++) {
        sc_contest_entry moved = contest->entries[i];
        size_t at = i;
        while (at > 0 && compare_entries(&contest->entries[at - 1], &moved, is_by_peak) > 0) {
            contest->entries[at] = contest->entries[at - 1];
            at--;
        }
        contest->entries[at] = moved;
    }
}

sc_status sc_contest_run(const sc_contest_rules *rules, sc_contest *out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_contest contest = {0};
    const sc_gen_info *list = sc_gen_list(&contest.n_entries);
    contest.entries = calloc(contest.n_entries, sizeof *contest.entries);
    if (contest.entries == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %zu schedules",
                              contest.n_entries);
    }
    for (size_t i = 0; i < contest.n_entries; i++) {
        contest.entries[i].info = &list[i];
        SC_GOTO(run_entry(rules, &contest.entries[i], err));
        contest.n_fit += contest.entries[i].is_fit ? 1 : 0;
    }
    sort(&contest, rules->is_by_peak);
    *out = contest;
    contest = (sc_contest){0};
out:
    sc_contest_done(&contest);
    return status;
}

void sc_contest_done(sc_contest *contest)
{
    free(contest->entries);
    *contest = (sc_contest){0};
}
