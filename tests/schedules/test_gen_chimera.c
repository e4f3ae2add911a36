#include "schedules/validate.h"
#include "tests/schedules/gens.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_two_directions(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "0F0,0F2,3F1,3B1,3F3,3B3,0B0,0B2",
        "1F0,2F1,1F2,2F3,2B1,1B0,2B3,1B2",
        "1F1,2F0,1F3,2F2,2B0,1B1,2B2,1B3",
        "0F1,0F3,3F0,3B0,3F2,3B2,0B1,0B3",
    };
    sc_table *table = sc_gens_make("chimera", 4, 0, 4);
    sc_gens_expect_rows(table, rows, 4);
    sc_table_free(&table);
}

/* Li and Hoefler, arXiv 2107.06925: p - 2 slots of bubble at F = B, twice as many at B = 2F, so
   ratios of (p - 2) / (2m + p - 2) and (p - 2) / (3m / 2 + p - 2) for m = p. */
static void test_makespans(void **state)
{
    (void)state;
    static const struct {
        int p;
        int cost_equal; // F = B = 1
        int cost_twice; // F = 1, B = 2
    } cases[] = {{2, 4, 6}, {4, 10, 16}, {6, 16, 26}, {8, 22, 36}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        int p = cases[c].p;
        sc_table *table = sc_gens_make("chimera", p, 0, p);
        assert_true(sc_gens_cost(table, 1, 0.5, 0.5) == cases[c].cost_equal);
        assert_true(sc_gens_cost(table, 1, 1, 1) == cases[c].cost_twice);
        sc_table_free(&table);
    }
}

/* Peaks of p / 2 + 1 to p for m = p, and no more for larger m. */
static void test_peaks(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p += 2) {
        for (int m = p; m <= 4 * p; m += p) {
            sc_table *table = sc_gens_make("chimera", p, 0, m);
            for (int rank = 0; rank < p; rank++) {
                int peak = sc_validate_peak(table, rank, -1);
                assert_true(peak >= p / 2 + 1 && peak <= p);
            }
            assert_int_equal(sc_validate_peak(table, 0, -1), p / 2 + 1);
            assert_int_equal(sc_gens_peak(table), p);
            sc_table_free(&table);
        }
    }
}

static void test_closed_bubble(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p += 2) {
        for (int m = p; m <= 4 * p; m += p) {
            sc_gens_expect_closed("chimera", p, m, 1, 0.5, 0.5);
            sc_gens_expect_closed("chimera", p, m, 1, 1, 1);
            sc_gens_expect_closed("chimera", p, m, 2, 2, 1);
        }
        sc_gens_expect_open("chimera", p, 2 * p + 1, 1, 1, 1);
        sc_gens_expect_open("chimera", p, 2 * p, 1, 0.5, 0.25);
    }
}

static void test_all_sizes(void **state)
{
    (void)state;
    sc_gens_check_even_grid("chimera", 0);
}

static void test_refused(void **state)
{
    (void)state;
    assert_true(sc_gen_find("chimera")->is_replicated);
    sc_gens_expect_refused("chimera", 3, 0, 4, "chimera: p must be even, not 3");
    sc_gens_expect_refused("chimera", 1, 0, 4, "chimera: p must be even, not 1");
    sc_gens_expect_refused("chimera", 2, 2, 4, "a rank only, not v = 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_directions), cmocka_unit_test(test_makespans),
        cmocka_unit_test(test_peaks),          cmocka_unit_test(test_closed_bubble),
        cmocka_unit_test(test_all_sizes),      cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
