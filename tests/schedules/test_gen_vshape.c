#include "schedules/validate.h"
#include "tests/schedules/gens.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* p, cells of bubble when a chunk's F, I and W take one each and m >= 2p */
typedef struct sc_bubble_case {
    int p;
    int n_cells;
} sc_bubble_case;

static void expect_bubbles(const char *name, const sc_bubble_case *cases, size_t n_cases,
                           int (*peak_of)(int))
{
    for (size_t c = 0; c < n_cases; c++) {
        int p = cases[c].p;
        for (int m = 2 * p; m <= 2 * p + 3; m++) {
            sc_table *table = sc_gens_make(name, p, 0, m);
            assert_true(sc_gens_cost(table, 1, 1, 1) == 6 * m + cases[c].n_cells);
            assert_int_equal(sc_gens_peak(table), peak_of(p));
            sc_table_free(&table);
        }
        sc_gens_expect_closed(name, p, 5 * p, 1, 1, 1);
    }
}

static int half_peak(int p)
{
    return 2 * ((p + 2) / 2);
}

static int min_peak(int p)
{
    return 2 * ((p + 4) / 3);
}

/* Qi et al., arXiv 2405.15362: 3p - 7 cells for even p; for odd ones the peak is a chunk smaller
   and the bubble on the same bound, 6p - 3k - 1 for a peak of k chunks. */
static void test_half(void **state)
{
    (void)state;
    static const sc_bubble_case cases[] = {
        {1, 0}, {2, 0}, {3, 5}, {4, 5}, {5, 11}, {6, 11}, {7, 17}, {8, 17}, {12, 29}, {16, 41},
    };
    expect_bubbles("v-half", cases, sizeof cases / sizeof cases[0], half_peak);
}

static void test_min(void **state)
{
    (void)state;
    static const sc_bubble_case cases[] = {
        {1, 0}, {2, 3}, {3, 5}, {4, 11}, {5, 15}, {6, 17}, {7, 23}, {8, 27}, {12, 41}, {16, 59},
    };
    expect_bubbles("v-min", cases, sizeof cases / sizeof cases[0], min_peak);
}

/* A microbatch alone goes down the V, up again, and back the same way. */
static void test_one_microbatch(void **state)
{
    (void)state;
    static const char *const rows[] = {"0F0,3F0,3I0,3W0,0I0,0W0", "1F0,2F0,2I0,1I0,2W0,1W0"};
    sc_table *table = sc_gens_make("v-half", 2, 0, 1);
    sc_gens_expect_rows(table, rows, 2);
    sc_table_free(&table);
    table = sc_gens_make("v-min", 2, 0, 1);
    sc_gens_expect_rows(table, rows, 2);
    sc_table_free(&table);
}

static void check_sizes(const char *name, int (*peak_of)(int))
{
    sc_gens_check_grid(name, 2);
    for (int p = 1; p <= 8; p++) {
        for (int m = 1; m <= 4 * p + 1; m++) {
            sc_table *table = sc_gens_make(name, p, 0, m);
            int cap = 2 * m < peak_of(p) ? 2 * m : peak_of(p);
            assert_true(sc_gens_peak(table) <= cap);
            sc_table_free(&table);
        }
        sc_gens_expect_open(name, p, 2 * p - 1, 1, 1, 1);
        sc_gens_expect_open(name, p, 2 * p, 1, 1, 0.5);
    }
}

static void test_all_sizes(void **state)
{
    (void)state;
    check_sizes("v-half", half_peak);
    check_sizes("v-min", min_peak);
}

static void test_refused(void **state)
{
    (void)state;
    sc_gens_expect_refused("v-half", 2, 1, 4, "v-half: two stages a rank, not v = 1");
    sc_gens_expect_refused("v-min", 2, 4, 4, "v-min: two stages a rank, not v = 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half),           cmocka_unit_test(test_min),
        cmocka_unit_test(test_one_microbatch), cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
