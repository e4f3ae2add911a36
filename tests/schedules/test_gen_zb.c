/* ZB-H1 and ZB-H2. */
#include "schedules/validate.h"
#include "tests/schedules/made.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

static void expect_made(const char *name, int m, const char *const rows[static 4])
{
    sc_gen_params params = {.n_ranks = 4, .n_mb = m};
    sc_table *table = sc_made_new(name, &params);
    for (int rank = 0; rank < 4; rank++) {
        sc_rows_expect(table, rank, rows[rank]);
    }
    sc_table_free(&table);
}

/* Qi et al., arXiv 2401.10241, Figure 3. */
static void test_golden(void **state)
{
    (void)state;
    static const char *const h1[] = {
        "0F0,0F1,0F2,0F3,0I0,0W0,0F4,0I1,0W1,0F5,0I2,0W2,0F6,0I3,0W3,0F7,0I4,0W4,0I5,0W5,0I6,0W6,"
        "0I7,0W7",
        "1F0,1F1,1F2,1I0,1F3,1I1,1W0,1F4,1I2,1W1,1F5,1I3,1W2,1F6,1I4,1W3,1F7,1I5,1W4,1I6,1W5,1I7,"
        "1W6,1W7",
        "2F0,2F1,2I0,2F2,2I1,2F3,2I2,2W0,2F4,2I3,2W1,2F5,2I4,2W2,2F6,2I5,2W3,2F7,2I6,2W4,2I7,2W5,"
        "2W6,2W7",
        "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3W0,3F4,3I4,3W1,3F5,3I5,3W2,3F6,3I6,3W3,3F7,3I7,3W4,3W5,"
        "3W6,3W7",
    };
    static const char *const h2[] = {
        "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0I0,0W0,0F7,0I1,0W1,0I2,0W2,0I3,0W3,0I4,0W4,0I5,0W5,0I6,0W6,"
        "0I7,0W7",
        "1F0,1F1,1F2,1F3,1F4,1I0,1F5,1I1,1F6,1I2,1W0,1F7,1I3,1W1,1I4,1W2,1I5,1W3,1I6,1W4,1I7,1W5,"
        "1W6,1W7",
        "2F0,2F1,2F2,2I0,2F3,2I1,2F4,2I2,2F5,2I3,2F6,2I4,2W0,2F7,2I5,2W1,2I6,2W2,2I7,2W3,2W4,2W5,"
        "2W6,2W7",
        "3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3F4,3I4,3F5,3I5,3F6,3I6,3W0,3F7,3I7,3W1,3W2,3W3,3W4,3W5,"
        "3W6,3W7",
    };
    expect_made("zb-h1", 8, h1);
    expect_made("zb-h2", 8, h2);
}

/* Fewer microbatches than ranks: the warm-up stops at m, the last ranks keep every W to the end. */
static void test_short(void **state)
{
    (void)state;
    static const char *const h1[] = {
        "0F0,0F1,0I0,0W0,0I1,0W1",
        "1F0,1F1,1I0,1I1,1W0,1W1",
        "2F0,2F1,2I0,2I1,2W0,2W1",
        "3F0,3I0,3F1,3I1,3W0,3W1",
    };
    static const char *const h2[] = {
        "0F0,0F1,0I0,0W0,0I1,0W1",
        "1F0,1F1,1I0,1I1,1W0,1W1",
        "2F0,2F1,2I0,2I1,2W0,2W1",
        "3F0,3I0,3F1,3I1,3W0,3W1",
    };
    expect_made("zb-h1", 2, h1);
    expect_made("zb-h2", 2, h2);
}

/* Slots at unit times, Figure 3: rank 0 of ZB-H1 and the costs. */
static void test_slots(void **state)
{
    (void)state;
    sc_gen_params params = {.n_ranks = 4, .n_mb = 8};
    sc_table *table = sc_made_new("zb-h1", &params);
    sc_timeline *t = sc_made_simulate(table, 1, 1, 1, 0);
    static const double starts[] = {0, 1, 2, 3, 7, 8, 9, 10};
    for (size_t k = 0; k < sizeof starts / sizeof starts[0]; k++) {
        sc_made_near(t->spans[0][k].start, starts[k], "start", "zb-h1 rank 0");
    }
    sc_made_near(t->cost, 27, "cost", "zb-h1");
    sc_simulate_free(&t);
    sc_table_free(&table);
    table = sc_made_new("zb-h2", &params);
    t = sc_made_simulate(table, 1, 1, 1, 0);
    sc_made_near(t->cost, 24, "cost", "zb-h2");
    sc_made_near(t->makespan, 27, "makespan", "zb-h2");
    sc_simulate_free(&t);
    sc_table_free(&table);
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
    assert_true(fabs(live) < 1e-9);
    return most;
}

/* The paper's memory of every worker, 0-based: (p - r) + r MW in H1, 2(p - r) - 1 + 2r MW in H2. */
static void check_memory(int p, int m, double w_share)
{
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    for (int h = 1; h <= 2; h++) {
        sc_table *table = sc_made_new(h == 1 ? "zb-h1" : "zb-h2", &params);
        for (int r = 0; r < p; r++) {
            double expected = h * (p - r) - (h - 1) + h * r * w_share;
            sc_made_near(peak_of(&table->rows[r], w_share), expected, "peak", table->name);
        }
        sc_table_free(&table);
    }
}

static void test_memory(void **state)
{
    (void)state;
    static const double shares[] = {0, .25, .5, .9, 1};
    for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
        check_memory(4, 8, shares[k]);
        check_memory(4, 13, shares[k]);
        check_memory(8, 16, shares[k]);
        check_memory(8, 24, shares[k]);
    }
}

/* Pairs of stage and microbatch until W. The last rank starts its W's after h(p - 1) I's. */
static void check_peaks(int p, int m, int h)
{
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    sc_table *table = sc_made_new(h == 1 ? "zb-h1" : "zb-h2", &params);
    for (int r = 0; r < p; r++) {
        int peak = h * (p - 1) + 1;
        assert_int_equal(sc_validate_peak(table, r, -1), m < peak ? m : peak);
        int pending = h * r + 1;
        assert_int_equal(sc_validate_peak_pending_w(table, r, r), m < pending ? m : pending);
    }
    sc_table_free(&table);
}

static void check_size(int p, int m)
{
    static const struct {
        sc_stage_cost cost;
        bool is_h1_known; // w <= f
        bool is_h2_known; // and 2w <= f + i
    } cases[] = {
        {{1, 1, 1}, true, true},  {{18.522, 18.086, 9.337}, true, true},
        {{2, 3, 0}, true, true},  {{3, 1, 2}, true, true},
        {{1, 9, 1}, true, true},  {{9, 1, 1}, true, true},
        {{2, 1, 2}, true, false}, {{1, 2, 2}, false, false},
    };
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        sc_stage_cost cost = cases[k].cost;
        assert_int_equal(sc_made_closed("zb-h1", &params, cost), p == 1 || cases[k].is_h1_known);
        assert_int_equal(sc_made_closed("zb-h2", &params, cost), p == 1 || cases[k].is_h2_known);
    }
    check_peaks(p, m, 1);
    check_peaks(p, m, 2);
}

/* Every size checks clean, has its peaks and, where the times allow, the closed bubble. */
static void test_all_sizes(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        for (int m = 1; m <= 4 * p + 1; m++) {
            check_size(p, m);
        }
    }
}

/* The closed forms are those of Table 2, for m that are not small; up to m = p both are
   (m + p - 1)(F + I) + W, Appendix H. */
static void test_table_2(void **state)
{
    (void)state;
    const sc_gen_info *h1 = sc_gen_find("zb-h1");
    const sc_gen_info *h2 = sc_gen_find("zb-h2");
    assert_true(h1 != NULL && h2 != NULL && h1->has_split && h2->has_split);
    for (int p = 2; p <= 16; p++) {
        for (int m = 1; m <= 3 * p; m++) {
            sc_gen_params params = {.n_ranks = p, .n_mb = m};
            double work = m * (5 + 6 + 4.0);
            double cost1 = work + (p - 1) * (5 + 6 - 4.0);
            double cost2 = work + (p - 1) * (5 + 6 - 2 * 4.0);
            if (m <= p) {
                cost1 = (m + p - 1) * 11.0 + 4;
            }
            if (m < 2 * p - 1) {
                cost2 = (m + p - 1) * 11.0 + 4;
            }
            sc_made_near(h1->closed_bubble(&params, 5, 6, 4), 1 - work / cost1, "bubble", "zb-h1");
            sc_made_near(h2->closed_bubble(&params, 5, 6, 4), 1 - work / cost2, "bubble", "zb-h2");
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    sc_gen_params params = {.n_ranks = 2, .n_mb = 2, .n_chunks = 2};
    sc_made_refuse("zb-h1", &params, "one stage a rank only, not v = 2");
    sc_made_refuse("zb-h2", &params, "one stage a rank only, not v = 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),  cmocka_unit_test(test_short),
        cmocka_unit_test(test_slots),   cmocka_unit_test(test_memory),
        cmocka_unit_test(test_table_2), cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
