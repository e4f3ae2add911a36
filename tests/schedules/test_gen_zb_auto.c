/* zb-auto: costs that the rules' authors get, the memory limit, monotone bubbles. */
#include "schedules/validate.h"
#include "tests/schedules/made.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

static double cost_of(const sc_gen_params *params)
{
    sc_table *table = sc_made_new("zb-auto", params);
    sc_timeline *t = sc_made_simulate(table, params->f, params->i, params->w, params->comm);
    double cost = t->cost;
    sc_simulate_free(&t);
    sc_table_free(&table);
    return cost;
}

/* What the authors' own program gives; their memory counts 2 an activation, 1 of it until W. */
static void test_oracle_points(void **state)
{
    (void)state;
    static const struct {
        sc_gen_params params;
        double cost;
    } points[] = {
        {{.n_ranks = 4, .n_mb = 12, .f = 5, .i = 6, .w = 4, .limit_mb = 5}, 193},
        {{.n_ranks = 4, .n_mb = 12, .f = 5, .i = 6, .w = 4, .limit_mb = 7}, 183},
        {{.n_ranks = 24, .n_mb = 72, .f = 5, .i = 6, .w = 4, .limit_mb = 50}, 1088},
        {{.n_ranks = 4, .n_mb = 12, .f = 5478, .i = 5806, .w = 3534, .comm = 200, .limit_mb = 16},
         178898},
        {{.n_ranks = 32, .n_mb = 16, .f = 1, .i = 1, .w = 1, .limit_mb = 32}, 95},
        {{.n_ranks = 4, .n_mb = 8, .f = 1, .i = 1, .w = 1, .limit_mb = 4}, 27},
        {{.n_ranks = 4, .n_mb = 8, .f = 1, .i = 1, .w = 1, .limit_mb = 7}, 24},
        {{.n_ranks = 4, .n_mb = 8, .f = 1, .i = 1, .w = 1, .limit_mb = 8}, 24},
        {{.n_ranks = 8,
          .n_mb = 32,
          .f = 29850,
          .i = 29767,
          .w = 18868,
          .comm = 466,
          .limit_mb = 16},
         2517463},
    };
    for (size_t k = 0; k < sizeof points / sizeof points[0]; k++) {
        sc_made_near(cost_of(&points[k].params), points[k].cost, "cost",
                     sc_made_text("zb-auto", &points[k].params));
    }
}

/* Most memory of a rank, with F: +1, I: -(1 - w_share), W: -w_share. */
static double peak_of(const sc_row *row, double w_share)
{
    double live = 0;
    double most = 0;
    for (size_t k = 0; k < row->n_actions; k++) {
        sc_op op = row->actions[k].op;
        if (op == SC_OP_F) {
            live += 1;
        } else {
            live -= op == SC_OP_I ? 1 - w_share : w_share;
        }
        most = fmax(most, live);
    }
    return most;
}

static void check_memory(const sc_table *table, const sc_gen_params *params, double limit)
{
    double w_share = params->w_share == 0 ? 0.5 : params->w_share;
    for (int rank = 0; rank < table->n_ranks; rank++) {
        double peak = peak_of(&table->rows[rank], w_share);
        if (peak > limit + 1e-6) {
            fail_msg("%s: rank %d has %g live", sc_made_text("zb-auto", params), rank, peak);
        }
    }
}

/* The bubble under limits from 1 microbatch to 2p and beyond: never more with more memory, and the
   limit is kept. */
static void check_limits(sc_gen_params params)
{
    static const double steps[] = {1, 1.3, 2, 2.5};
    double before = DBL_MAX;
    int n = (int)(sizeof steps / sizeof steps[0]) + 2 * params.n_ranks + 4;
    for (int k = 0; k < n; k++) {
        params.limit_mb = k < 4 ? steps[k] : fmax(2.5, params.n_ranks + (k - 4) / 2.0);
        sc_table *table = sc_made_new("zb-auto", &params);
        check_memory(table, &params, params.limit_mb);
        sc_timeline *t = sc_made_simulate(table, params.f, params.i, params.w, params.comm);
        if (t->bubble > before + 1e-9) {
            fail_msg("%s: bubble %g after %g", sc_made_text("zb-auto", &params), t->bubble, before);
        }
        before = t->bubble;
        sc_simulate_free(&t);
        sc_table_free(&table);
    }
}

/* Times where the rules alone, without a look at lower limits, are not monotone (the first three)
   and others. */
static void test_limits(void **state)
{
    (void)state;
    static const sc_gen_params times[] = {
        {.f = 5, .i = 6, .w = 4},
        {.f = 10419, .i = 10207, .w = 7715, .comm = 408},
        {.f = 3, .i = 1, .w = 2, .comm = .5},
        {.f = 1, .i = 1, .w = 1},
        {.f = 1, .i = 1, .w = 3, .w_share = 0.3},
        {.f = 2, .i = 3, .w_share = 1},
    };
    for (size_t k = 0; k < sizeof times / sizeof times[0]; k++) {
        for (int p = 1; p <= 7; p++) {
            sc_gen_params params = times[k];
            params.n_ranks = p;
            params.n_mb = 2 * p;
            check_limits(params);
            params.n_mb = 2 * p + (int)k % 3 - 1;
            check_limits(params);
        }
    }
}

static void check_size(int p, int m)
{
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    sc_table *table = sc_made_new("zb-auto", &params); // unit times, limit p
    check_memory(table, &params, p);
    // Memory of 1F1B: the bubble of ZB-H1.
    sc_timeline *t = sc_made_simulate(table, 1, 1, 1, 0);
    double h1 = sc_gen_find("zb-h1")->closed_bubble(&params, 1, 1, 1);
    if (t->bubble > h1 + 1e-9) {
        fail_msg("%s: bubble %g, zb-h1 has %g", sc_made_text("zb-auto", &params), t->bubble, h1);
    }
    sc_simulate_free(&t);
    sc_table_free(&table);
    // Rounding of times that are no binary fractions must not matter.
    params = (sc_gen_params){.n_ranks = p, .n_mb = m, .f = 5, .i = 6, .w = 4, .comm = 1};
    double whole = cost_of(&params);
    params = (sc_gen_params){.n_ranks = p, .n_mb = m, .f = .5, .i = .6, .w = .4, .comm = .1};
    sc_made_near(cost_of(&params), whole / 10, "cost", sc_made_text("zb-auto", &params));
    params = (sc_gen_params){.n_ranks = p, .n_mb = m, .f = 0, .i = 1, .w = 2, .limit_mb = INFINITY};
    (void)cost_of(&params);
}

static void test_all_sizes(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        for (int m = 1; m <= 4 * p + 1; m++) {
            check_size(p, m);
        }
    }
}

/* Enough memory and F = I = W: no bubble at all. */
static void test_no_bubble(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        sc_gen_params params = {
            .n_ranks = p, .n_mb = 3 * p, .f = 1, .i = 1, .w = 1, .limit_mb = 2 * p};
        sc_made_near(cost_of(&params), 9 * p, "cost", sc_made_text("zb-auto", &params));
    }
}

static void test_refused(void **state)
{
    (void)state;
    sc_gen_params params = {.n_ranks = 2, .n_mb = 2, .n_chunks = 2};
    sc_made_refuse("zb-auto", &params, "one stage a rank only, not v = 2");
    params = (sc_gen_params){.n_ranks = 2, .n_mb = 2, .limit_mb = 0.9};
    sc_made_refuse("zb-auto", &params, "limit of 0.9 microbatches");
    params = (sc_gen_params){.n_ranks = 2, .n_mb = 2, .limit_mb = NAN};
    sc_made_refuse("zb-auto", &params, "needs 1 or more");
    params = (sc_gen_params){.n_ranks = 2, .n_mb = 2, .f = 1, .i = -1, .w = 1};
    sc_made_refuse("zb-auto", &params, "times F 1, I -1, W 1, comm 0");
    params = (sc_gen_params){.n_ranks = 2, .n_mb = 2, .comm = INFINITY};
    sc_made_refuse("zb-auto", &params, "must be finite");
    params = (sc_gen_params){.n_ranks = 2, .n_mb = 2, .w_share = 1.5};
    sc_made_refuse("zb-auto", &params, "share of 1.5 stays");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle_points), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_all_sizes),     cmocka_unit_test(test_no_bubble),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
