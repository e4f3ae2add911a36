#include "schedules/validate.h"
#include "tests/schedules/gens.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The waves' placement, and the order of one wave on two ranks. */
static void test_waves(void **state)
{
    (void)state;
    static const int ranks[] = {0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0};
    sc_table *table = sc_gens_make("hanayo", 3, 4, 3);
    assert_int_equal(table->n_stages, 12);
    assert_memory_equal(table->rank_of_stage, ranks, sizeof ranks);
    sc_table_free(&table);
    static const char *const rows[] = {"0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1",
                                       "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1"};
    table = sc_gens_make("hanayo", 2, 2, 2);
    sc_gens_expect_rows(table, rows, 2);
    sc_table_free(&table);
}

/* Bubbles of the greedy order at B = 2F and m = p: ratios .3333, .2131, .1193 for p = 4 and .3684,
   .2381, .1351 for p = 8, with 1, 2 and 4 waves. */
static void test_ratios(void **state)
{
    (void)state;
    static const struct {
        int p;
        int n_waves;
        int cost; // in forwards of one stage
    } cases[] = {
        {4, 1, 36}, {4, 2, 61}, {4, 4, 109}, {8, 1, 76}, {8, 2, 126}, {8, 4, 222},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        int p = cases[c].p;
        sc_table *table = sc_gens_make("hanayo", p, 2 * cases[c].n_waves, p);
        assert_true(sc_gens_cost(table, 1, 1, 1) == cases[c].cost);
        assert_int_equal(sc_gens_peak(table), table->n_stages);
        sc_table_free(&table);
    }
}

/* More microbatches than ranks: the peak stays, and at B = F so does the bubble. */
static void test_long(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        double bubble = -1;
        for (int m = 2 * p; m <= 8 * p; m += p) {
            sc_table *table = sc_gens_make("hanayo", p, 4, m);
            double rest = sc_gens_cost(table, 1, 0.5, 0.5) - 8 * m; // work: F and B of 4 stages
            assert_true(bubble < 0 || rest == bubble);
            bubble = rest;
            assert_int_equal(sc_gens_peak(table), 4 * p);
            sc_table_free(&table);
        }
    }
}

static void test_all_sizes(void **state)
{
    (void)state;
    assert_null(sc_gen_find("hanayo")->closed_bubble);
    sc_gens_check_grid("hanayo", 0);
    sc_gens_check_grid("hanayo", 4);
}

static void test_refused(void **state)
{
    (void)state;
    sc_gens_expect_refused("hanayo", 2, 1, 4, "hanayo: v must be even, not 1");
    sc_gens_expect_refused("hanayo", 2, 3, 4, "hanayo: v must be even, not 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waves),   cmocka_unit_test(test_ratios),
        cmocka_unit_test(test_long),    cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
