#include "schedules/validate.h"
#include "tests/schedules/gens.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Qi et al., arXiv 2401.10241, Figure 8, in sequence: 4 ranks, 8 microbatches. */
static void test_figure(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,7I3,7W3,0F7,0I0,0W0,"
        "7F4,7I4,7W4,0I1,0W1,7F5,7I5,7W5,0I2,0W2,7F6,7I6,7W6,0I3,0W3,7F7,7I7,7W7,0I4,0W4,0I5,0W5,"
        "0I6,0W6,0I7,0W7",
        "1F0,1F1,1F2,1F3,1F4,6F0,1F5,6F1,6I0,6W0,6F2,6I1,6W1,6F3,6I2,6W2,1F6,1I0,1W0,6F4,6I3,6W3,"
        "1F7,1I1,1W1,6F5,6I4,6W4,1I2,1W2,6F6,6I5,6W5,1I3,1W3,6F7,6I6,6W6,1I4,6I7,1I5,1W4,1I6,6W7,"
        "1I7,1W5,1W6,1W7",
        "2F0,2F1,2F2,5F0,2F3,5F1,2F4,5F2,5I0,5W0,5F3,5I1,5W1,2F5,2I0,2W0,5F4,5I2,5W2,2F6,2I1,2W1,"
        "5F5,5I3,5W3,2F7,2I2,2W2,5F6,5I4,5W4,2I3,2W3,5F7,5I5,5W5,2I4,5I6,2I5,5I7,2I6,2W4,2I7,5W6,"
        "2W5,5W7,2W6,2W7",
        "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,4I0,4W0,3F4,3I0,3W0,4F4,4I1,4W1,3F5,3I1,3W1,4F5,4I2,4W2,"
        "3F6,3I2,3W2,4F6,4I3,4W3,3F7,3I3,3W3,4F7,4I4,4W4,3I4,4I5,3I5,4I6,3I6,4I7,3I7,3W4,4W5,3W5,"
        "4W6,3W6,4W7,3W7",
    };
    sc_table *table = sc_gens_make("zb-v", 4, 0, 8);
    sc_gens_expect_rows(table, rows, 4);
    sc_table_free(&table);
}

/* No bubble at F = I = W, and a peak of 2p chunks that every rank reaches. */
static void test_cost_and_peak(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        for (int m = 2 * p; m <= 4 * p + 1; m++) {
            sc_table *table = sc_gens_make("zb-v", p, 0, m);
            assert_true(sc_gens_cost(table, 1, 1, 1) == 6 * m); // 48 at p = 4, m = 8
            for (int rank = 0; rank < p; rank++) {
                assert_int_equal(sc_validate_peak(table, rank, -1), 2 * p);
            }
            sc_table_free(&table);
        }
    }
}

static void test_closed_bubble(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        for (int m = 2 * p - 1; m <= 4 * p + 1; m++) {
            sc_gens_expect_closed("zb-v", p, m, 2, 2, 2);
        }
        sc_gens_expect_open("zb-v", p, 2 * p, 2, 2, 1);
        sc_gens_expect_open("zb-v", p, 2 * p - 2, 2, 2, 2);
    }
}

static void test_all_sizes(void **state)
{
    (void)state;
    sc_gens_check_grid("zb-v", 2);
    for (int p = 1; p <= 8; p++) {
        for (int m = 1; m < 2 * p; m++) {
            sc_table *table = sc_gens_make("zb-v", p, 0, m);
            assert_true(sc_gens_peak(table) <= 2 * (m < p ? m : p));
            sc_table_free(&table);
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    sc_gens_expect_refused("zb-v", 2, 1, 4, "zb-v: two stages a rank, not v = 1");
    sc_gens_expect_refused("zb-v", 2, 3, 4, "two stages a rank, not v = 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure),        cmocka_unit_test(test_cost_and_peak),
        cmocka_unit_test(test_closed_bubble), cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
