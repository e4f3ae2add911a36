#include "tests/schedules/gens.h"

#include "schedules/lower.h"
#include "schedules/validate.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

sc_table *sc_gens_make(const char *name, int p, int v, int m)
{
    sc_table *table = NULL;
    sc_err err = {0};
    sc_gen_params params = {.n_ranks = p, .n_mb = m, .n_chunks = v};
    if (sc_gen_make(name, &params, &table, &err) != SC_OK) {
        fail_msg("%s p %d v %d m %d: %s", name, p, v, m, err.text);
    }
    return table;
}

void sc_gens_expect_refused(const char *name, int p, int v, int m, const char *why)
{
    sc_table *table = NULL;
    sc_err err = {0};
    sc_gen_params params = {.n_ranks = p, .n_mb = m, .n_chunks = v};
    assert_int_equal(sc_gen_make(name, &params, &table, &err), SC_INVALID);
    assert_null(table);
    if (strstr(err.text, why) == NULL) {
        fail_msg("'%s' does not say '%s'", err.text, why);
    }
}

void sc_gens_expect_rows(const sc_table *table, const char *const *rows, int n_rows)
{
    assert_int_equal(table->n_ranks, n_rows);
    for (int rank = 0; rank < n_rows; rank++) {
        sc_rows_expect(table, rank, rows[rank]);
    }
}

/* The W's or B's of each stage rise within the row. */
static void expect_rising(const sc_table *table, int rank)
{
    int *last = malloc((size_t)table->n_stages * sizeof *last);
    assert_non_null(last);
    for (int stage = 0; stage < table->n_stages; stage++) {
        last[stage] = -1;
    }
    const sc_row *row = &table->rows[rank];
    for (size_t i = 0; i < row->n_actions; i++) {
        sc_action action = row->actions[i];
        if (action.op == SC_OP_W || action.op == SC_OP_B) {
            assert_true(action.mb > last[action.stage]);
            last[action.stage] = action.mb;
        }
    }
    free(last);
}

bool sc_gens_check(const sc_table *table)
{
    sc_err err = {0};
    sc_validate_report report = {0};
    sc_table *lowered = NULL;
    sc_status status = sc_validate_table(table, NULL, &report, &err);
    if (status == SC_OK) {
        status = sc_lower_table(table, &lowered, &err);
    }
    if (status == SC_OK) {
        status = sc_validate_table(lowered, NULL, NULL, &err);
    }
    sc_table_free(&lowered);
    if (status != SC_OK) {
        fail_msg("%s p %d stages %d m %d: %s", table->name, table->n_ranks, table->n_stages,
                 table->n_mb, err.text);
    }
    for (int rank = 0; rank < table->n_ranks; rank++) {
        expect_rising(table, rank);
    }
    return report.has_ordered_w;
}

static void check_grid(const char *name, int v, int first_p, int step)
{
    for (int p = first_p; p <= 8; p += step) {
        for (int m = 1; m <= 4 * p + 1; m++) {
            sc_table *table = sc_gens_make(name, p, v, m);
            assert_int_equal(sc_gens_check(table), !sc_gen_find(name)->is_replicated);
            sc_table_free(&table);
        }
    }
}

void sc_gens_check_grid(const char *name, int v)
{
    check_grid(name, v, 1, 1);
}

void sc_gens_check_even_grid(const char *name, int v)
{
    check_grid(name, v, 2, 2);
}

static sc_timeline *simulate(const sc_table *table, sc_stage_cost cost)
{
    sc_stage_cost *stages = malloc((size_t)table->n_stages * sizeof *stages);
    assert_non_null(stages);
    for (int stage = 0; stage < table->n_stages; stage++) {
        stages[stage] = cost;
    }
    sc_timeline *timeline = NULL;
    sc_err err = {0};
    if (sc_simulate_run(table, &(sc_costs){stages, 0}, &timeline, &err) != SC_OK) {
        fail_msg("%s: %s", table->name, err.text);
    }
    free(stages);
    return timeline;
}

double sc_gens_cost(const sc_table *table, double f, double i, double w)
{
    sc_timeline *timeline = simulate(table, (sc_stage_cost){f, i, w});
    double cost = timeline->cost;
    sc_simulate_free(&timeline);
    return cost;
}

void sc_gens_expect_closed(const char *name, int p, int m, double f, double i, double w)
{
    const sc_gen_info *info = sc_gen_find(name);
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    sc_table *table = sc_gens_make(name, p, 0, m);
    double share = (double)table->n_ranks / table->n_stages;
    sc_timeline *timeline = simulate(table, (sc_stage_cost){f * share, i * share, w * share});
    double closed = info->closed_bubble(&params, f, i, w);
    if (!(fabs(closed - timeline->bubble) < 1e-12)) {
        fail_msg("%s p %d m %d F %g I %g W %g: closed %.6f, simulated %.6f", name, p, m, f, i, w,
                 closed, timeline->bubble);
    }
    sc_simulate_free(&timeline);
    sc_table_free(&table);
}

void sc_gens_expect_open(const char *name, int p, int m, double f, double i, double w)
{
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    assert_true(isnan(sc_gen_find(name)->closed_bubble(&params, f, i, w)));
}

int sc_gens_peak(const sc_table *table)
{
    int most = 0;
    for (int rank = 0; rank < table->n_ranks; rank++) {
        int peak = sc_validate_peak(table, rank, -1);
        most = peak > most ? peak : most;
    }
    return most;
}
