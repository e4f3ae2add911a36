#include "schedules/gen.h"
#include "schedules/simulate.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sc_timeline *simulate(const sc_table *table, double f, double i, double w, double comm)
{
    sc_stage_cost *stages = calloc((size_t)table->n_stages, sizeof *stages);
    assert_non_null(stages);
    sc_simulate_uniform_costs(table, f, i, w, stages);
    sc_timeline *timeline = NULL;
    sc_err err = {0};
    if (sc_simulate_run(table, &(sc_costs){stages, comm}, &timeline, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    free(stages);
    return timeline;
}

static sc_timeline *simulate_named(const char *name, int p, int m, double f, double i, double w,
                                   double comm)
{
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    sc_table *table = NULL;
    assert_int_equal(sc_gen_make(name, &params, &table, NULL), SC_OK);
    sc_timeline *timeline = simulate(table, f, i, w, comm);
    sc_table_free(&table);
    return timeline;
}

static void expect_near(double got, double expected, const char *what, int p, int m)
{
    if (!(fabs(got - expected) <= 1e-9 * (1 + fabs(expected)))) {
        fail_msg("%s at p %d m %d: %.12g, not %.12g", what, p, m, got, expected);
    }
}

/* A generator without communication: (m + p - 1)(F + I + W), and its closed bubble. */
static void check_closed_form(const char *name, int p, int m, sc_stage_cost cost)
{
    double work = cost.f + cost.i + cost.w;
    sc_timeline *t = simulate_named(name, p, m, cost.f, cost.i, cost.w, 0);
    expect_near(t->cost, (m + p - 1) * work, "cost", p, m);
    expect_near(t->makespan, t->cost, "makespan", p, m);
    expect_near(t->ideal, m * work, "ideal", p, m);
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    const sc_gen_info *info = sc_gen_find(name);
    assert_non_null(info);
    expect_near(t->bubble, info->closed_bubble(&params, cost.f, cost.i, cost.w), "bubble", p, m);
    sc_simulate_free(&t);
    assert_null(t);
}

static void test_closed_forms(void **state)
{
    (void)state;
    static const sc_stage_cost costs[] = {{1, 1, 1}, {18.522, 18.086, 9.337}, {2, 3, 0}, {1, 0, 5}};
    for (size_t c = 0; c < sizeof costs / sizeof costs[0]; c++) {
        for (int size = 0; size < 8 * 17; size++) {
            check_closed_form("gpipe", size / 17 + 1, size % 17 + 1, costs[c]);
            check_closed_form("1f1b", size / 17 + 1, size % 17 + 1, costs[c]);
        }
    }
}

/* 1F1B with communication, p | m, comm much smaller than the work: (m + p - 1)(F + I + W) +
   [2(p - 1)(m / p + 1) - 2] comm. */
static void test_1f1b_communication(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++) {
        for (int m = p; m <= 4 * p; m += p) {
            sc_timeline *t = simulate_named("1f1b", p, m, 1, 1, 1, 0.001);
            double comm = 2.0 * (p - 1) * ((double)m / p + 1) - 2;
            expect_near(t->cost, (m + p - 1) * 3.0 + comm * 0.001, "cost", p, m);
            sc_simulate_free(&t);
        }
    }
}

/* Qi et al., arXiv 2401.10241: the 1F1B column of Table 5 from the times of Table 9. */
static void test_table_5(void **state)
{
    (void)state;
    static const struct {
        int p;
        int m;
        double f;
        double i;
        double w;
        double comm;
        const char *bubble;
    } rows[] = {
        {8, 24, 18.522, 18.086, 9.337, 0.601, "0.2431"},
        {8, 32, 18.513, 18.086, 9.331, 0.626, "0.1985"},
        {8, 24, 29.718, 29.444, 19.927, 0.527, "0.2347"},
        {8, 32, 29.802, 29.428, 19.530, 0.577, "0.1898"},
        {16, 48, 11.347, 11.248, 8.132, 0.377, "0.2552"},
        {16, 64, 11.307, 11.254, 8.101, 0.379, "0.2082"},
        {32, 96, 10.419, 10.207, 7.715, 0.408, "0.2646"},
        {32, 128, 10.408, 10.204, 7.703, 0.408, "0.2168"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        int p = rows[k].p;
        int m = rows[k].m;
        sc_timeline *t =
            simulate_named("1f1b", p, m, rows[k].f, rows[k].i, rows[k].w, rows[k].comm);
        double work = m * (rows[k].f + rows[k].i + rows[k].w);
        expect_near(t->bubble, (t->cost - work) / t->cost, "bubble", p, m);
        char text[32];
        (void)snprintf(text, sizeof text, "%.4f", t->bubble);
        assert_string_equal(text, rows[k].bubble);
        sc_simulate_free(&t);
    }
}

/* Qi et al., Figure 3 at unit times: a rank's own span is shorter than the whole where the ranks
   start one after another. */
static void test_zero_bubble(void **state)
{
    (void)state;
    // clang-format off
    static const char *const h1[] = {
        "0F0,0F1,0F2,0F3,0I0,0W0,0F4,0I1,0W1,0F5,0I2,0W2,0F6,0I3,0W3,0F7,0I4,0W4,0I5,"
        "0W5,0I6,0W6,0I7,0W7",
        "1F0,1F1,1F2,1I0,1F3,1I1,1W0,1F4,1I2,1W1,1F5,1I3,1W2,1F6,1I4,1W3,1F7,1I5,1W4,"
        "1I6,1W5,1I7,1W6,1W7",
        "2F0,2F1,2I0,2F2,2I1,2F3,2I2,2W0,2F4,2I3,2W1,2F5,2I4,2W2,2F6,2I5,2W3,2F7,2I6,"
        "2W4,2I7,2W5,2W6,2W7",
        "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3W0,3F4,3I4,3W1,3F5,3I5,3W2,3F6,3I6,3W3,3F7,"
        "3I7,3W4,3W5,3W6,3W7",
        NULL,
    };
    static const char *const h2[] = {
        "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0I0,0W0,0F7,0I1,0W1,0I2,0W2,0I3,0W3,0I4,0W4,0I5,"
        "0W5,0I6,0W6,0I7,0W7",
        "1F0,1F1,1F2,1F3,1F4,1I0,1F5,1I1,1F6,1I2,1W0,1F7,1I3,1W1,1I4,1W2,1I5,1W3,1I6,"
        "1W4,1I7,1W5,1W6,1W7",
        "2F0,2F1,2F2,2I0,2F3,2I1,2F4,2I2,2F5,2I3,2F6,2I4,2W0,2F7,2I5,2W1,2I6,2W2,2I7,"
        "2W3,2W4,2W5,2W6,2W7",
        "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3F4,3I4,3F5,3I5,3F6,3I6,3W0,3F7,3I7,3W1,3W2,"
        "3W3,3W4,3W5,3W6,3W7",
        NULL,
    };
    // clang-format on
    sc_table *table = sc_rows_make(4, 8, h1);
    sc_timeline *t = simulate(table, 1, 1, 1, 0);
    expect_near(t->cost, 27, "cost of ZB-H1", 4, 8);
    expect_near(t->bubble, 3.0 / 27, "bubble of ZB-H1", 4, 8);
    sc_simulate_free(&t);
    sc_table_free(&table);
    table = sc_rows_make(4, 8, h2);
    t = simulate(table, 1, 1, 1, 0);
    expect_near(t->cost, 24, "cost of ZB-H2", 4, 8);
    expect_near(t->makespan, 27, "makespan of ZB-H2", 4, 8);
    expect_near(t->bubble, 0, "bubble of ZB-H2", 4, 8);
    sc_simulate_free(&t);
    sc_table_free(&table);
}

static void expect_span(const sc_timeline *t, int rank, size_t at, const char *action, double start,
                        double end)
{
    assert_true(at < t->n_spans[rank]);
    sc_span span = t->spans[rank][at];
    char text[SC_ACTION_TEXT_MAX];
    assert_string_equal(sc_action_format(span.action, text, sizeof text), action);
    expect_near(span.start, start, action, rank, (int)at);
    expect_near(span.end, end, action, rank, (int)at);
}

/* Worked by hand: F 1, I 2, W 4, an edge 0.5. */
static void test_spans(void **state)
{
    (void)state;
    // I passes its gradient on before W; a fused B only at its end
    sc_table *table = SC_ROWS(2, 1, "0F0,0I0,0W0", "1F0,1I0,1W0");
    sc_timeline *t = simulate(table, 1, 2, 4, 0.5);
    expect_span(t, 0, 0, "0F0", 0, 1);
    expect_span(t, 1, 0, "1F0", 1.5, 2.5);
    expect_span(t, 1, 1, "1I0", 2.5, 4.5);
    expect_span(t, 1, 2, "1W0", 4.5, 8.5);
    expect_span(t, 0, 1, "0I0", 5, 7);
    expect_span(t, 0, 2, "0W0", 7, 11);
    expect_near(t->makespan, 11, "makespan", 2, 1);
    expect_near(t->cost, 11, "cost", 2, 1);
    expect_near(t->ideal, 7, "ideal", 2, 1);
    sc_simulate_free(&t);
    sc_table_free(&table);
    table = SC_ROWS(2, 1, "0F0,0B0", "1F0,1B0");
    t = simulate(table, 1, 2, 4, 0.5);
    expect_span(t, 1, 1, "1B0", 2.5, 8.5);
    expect_span(t, 0, 1, "0B0", 9, 15);
    sc_simulate_free(&t);
    sc_table_free(&table);
}

/* cost is the longest rank's own span, makespan the whole; two stages of one rank pay no edge and
   half the times. */
static void test_cost_and_makespan(void **state)
{
    (void)state;
    sc_table *table = SC_ROWS(2, 1, "0F0", "1F0");
    sc_timeline *t = simulate(table, 3, 1, 1, 10);
    expect_near(t->makespan, 16, "makespan", 2, 1);
    expect_near(t->cost, 3, "cost", 2, 1);
    expect_near(t->bubble, 0, "bubble", 2, 1);
    sc_simulate_free(&t);
    sc_table_free(&table);
    table = SC_ROWS(2, 1, "0F0,1F0,1B0,0B0");
    t = simulate(table, 2, 2, 4, 10);
    expect_span(t, 0, 1, "1F0", 1, 2);
    expect_span(t, 0, 3, "0B0", 5, 8);
    sc_simulate_free(&t);
    sc_table_free(&table);
}

static void test_refused(void **state)
{
    (void)state;
    sc_err err = {0};
    sc_timeline *t = NULL;
    sc_stage_cost costs[2] = {{1, 1, 1}, {1, 1, 1}};
    sc_table *table = SC_ROWS(2, 2, "0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1");
    assert_int_equal(sc_simulate_run(table, &(sc_costs){costs, 0}, &t, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "rank 0 cell 1 (0B0) waits for 1B0 of rank 1 cell 2"));
    sc_table_free(&table);
    table = SC_ROWS(2, 1, "0F0,0B0", "1F0,1B0");
    costs[1].i = NAN;
    assert_int_equal(sc_simulate_run(table, &(sc_costs){costs, 0}, &t, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "costs of stage 1"));
    costs[1].i = 1;
    assert_int_equal(sc_simulate_run(table, &(sc_costs){costs, -1}, &t, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "cost of an edge"));
    sc_table_free(&table);
    table = SC_ROWS(2, 1, "0F0,0B0", "1F0");
    assert_int_equal(sc_simulate_run(table, &(sc_costs){costs, 0}, &t, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "missing backward"));
    assert_null(t);
    sc_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms), cmocka_unit_test(test_1f1b_communication),
        cmocka_unit_test(test_table_5),      cmocka_unit_test(test_zero_bubble),
        cmocka_unit_test(test_spans),        cmocka_unit_test(test_cost_and_makespan),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
