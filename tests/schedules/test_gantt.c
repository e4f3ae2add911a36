#include "schedules/gantt.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static char *draw(sc_table *table, double f, double i, double w, sc_gantt_options options)
{
    sc_stage_cost costs[8];
    sc_simulate_uniform_costs(table, f, i, w, costs);
    sc_timeline *timeline = NULL;
    char *text = NULL;
    sc_err err = {0};
    if (sc_simulate_run(table, &(sc_costs){costs, 0}, &timeline, &err) != SC_OK ||
        sc_gantt_write(timeline, &options, &text, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    sc_simulate_free(&timeline);
    sc_table_free(&table);
    return text;
}

static void expect_drawn(sc_table *table, double f, double i, double w, int width,
                         const char *expected)
{
    char *text = draw(table, f, i, w, (sc_gantt_options){width, false});
    assert_string_equal(text, expected);
    free(text);
}

static void test_boxes(void **state)
{
    (void)state;
    // 12 units on 40 - 9 columns: 2 a unit
    expect_drawn(SC_ROWS(2, 3, "0F0,0F1,0B0,0F2,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2"), 1, 1, 1, 40,
                 "rank 0 |F0F1....B0--F2B1--..B2--|\n"
                 "rank 1 |..F0B0--F1B1--F2B2--....|\n"
                 "        0                     12\n");
    // I and W; letters of the second stage are small
    expect_drawn(SC_ROWS(2, 1, "0F0,1F0,1I0,1W0,0I0,0W0"), 2, 2, 2, 41,
                 "rank 0 |F0---f0---i0---w0---I0---W0---|\n"
                 "        0                            6\n");
}

/* 33 columns for 12 boxes: 2.75 each, on borders that are rounded; F10 finds no room for its
   number, and half a number is never shown. */
static void test_narrow(void **state)
{
    (void)state;
    expect_drawn(SC_ROWS(1, 12, "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0F8,0F9,0F10,0F11"), 10, 0, 0, 42,
                 "rank 0 |F0-F1-F2F3-F4-F5-F6F7-F8-F9-F-F11|\n"
                 "        0                             120\n");
}

/* Every line of every picture is as wide as the others and fits. */
static void test_fits(void **state)
{
    (void)state;
    for (int width = 40; width <= 130; width++) {
        char *text = draw(SC_ROWS(2, 3, "0F0,0F1,0B0,0F2,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2"), 1,
                          1.37, 0.2, (sc_gantt_options){width, false});
        size_t first = strcspn(text, "\n");
        assert_true(first <= (size_t)width);
        assert_true(first >= (size_t)width / 2);
        assert_int_equal(strcspn(text + first + 1, "\n"), first);
        free(text);
    }
}

/* Colours add nothing but colours. */
static void test_colour(void **state)
{
    (void)state;
    char *text = draw(SC_ROWS(1, 1, "0F0,0B0"), 1, 1, 1, (sc_gantt_options){40, true});
    assert_string_equal(text, "rank 0 |\x1b[30;104mF0        \x1b[30;102mB0                  "
                              "\x1b[0m|\n"
                              "        0                            3\n");
    free(text);
}

static void test_refused(void **state)
{
    (void)state;
    sc_err err = {0};
    char *text = NULL;
    sc_timeline timeline = {.n_ranks = 0};
    sc_gantt_options options = {39, false};
    assert_int_equal(sc_gantt_write(&timeline, &options, &text, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "39 columns"));
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),  cmocka_unit_test(test_narrow),  cmocka_unit_test(test_fits),
        cmocka_unit_test(test_colour), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
