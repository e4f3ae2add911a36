/* Tables whose parameters are replicated: even microbatches one way, odd ones the other. */
#include "schedules/csv.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const char *const ROWS[] = {"0F0,1F1,1B1,0B0", "0F1,1F0,1B0,0B1", NULL};

/* Two ranks, two stages: stage 0 of microbatch 0 and stage 1 of microbatch 1 on rank 0. */
static sc_table *make(const char *const *rows, int n_mb)
{
    sc_table *table = sc_rows_make(2, n_mb, rows);
    assert_int_equal(sc_table_replicate(table, NULL), SC_OK);
    return table;
}

static void expect_broken(sc_table *table, const char *why)
{
    sc_err err = {0};
    assert_int_equal(sc_validate_table(table, NULL, NULL, &err), SC_INVALID);
    assert_string_equal(err.text, why);
    sc_table_free(&table);
}

static void test_placement(void **state)
{
    (void)state;
    sc_table *table = SC_ROWS(2, 2, "0F0,0B0", "1F0,1B0");
    assert_int_equal(sc_table_n_replicas(table), 2);
    assert_int_equal(sc_table_rank(table, 1, 1), 1);
    assert_int_equal(sc_table_replica(table, 1, 1), 1);
    sc_table_free(&table);
    table = make(ROWS, 2);
    assert_int_equal(sc_table_n_replicas(table), 4);
    for (int stage = 0; stage < 2; stage++) {
        assert_int_equal(sc_table_rank(table, stage, 0), stage);
        assert_int_equal(sc_table_rank(table, stage, 1), 1 - stage);
        assert_int_equal(sc_table_rank(table, stage, 2), stage);
        assert_int_equal(sc_table_replica(table, stage, stage), stage);
        assert_int_equal(sc_table_replica(table, stage, 1 - stage), 2 + stage);
    }
    // the second placement is a part of what is compared and copied
    sc_table *other = SC_ROWS(2, 2, "0F0,1F1,1B1,0B0", "0F1,1F0,1B0,0B1");
    assert_false(sc_table_equals(table, other));
    assert_int_equal(sc_table_place_like(other, table, NULL), SC_OK);
    assert_true(sc_table_equals(table, other));
    other->odd_rank_of_stage[0] = 0;
    assert_false(sc_table_equals(table, other));
    sc_table_free(&other);
    sc_table_free(&table);
}

static void test_valid(void **state)
{
    (void)state;
    sc_err err = {0};
    sc_validate_report report = {0};
    sc_table *table = make(ROWS, 2);
    if (sc_validate_table(table, NULL, &report, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    assert_false(report.has_ordered_w); // each replica has a sum of its own
    sc_table_free(&table);
}

static void test_broken(void **state)
{
    (void)state;
    expect_broken(make((const char *const[]){"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1", NULL}, 2),
                  "rank 0 cell 1: 0F1: stage 0 is placed on rank 1, not on rank 0");
    expect_broken(make((const char *const[]){"0F0,0B0,1F1", "0F1,1F0,1B0,0B1", NULL}, 2),
                  "rank 0 cell 2: missing backward: stage 1 has 1F1, but neither 1B1 nor 1I1 with "
                  "1W1");
    expect_broken(make((const char *const[]){"0F0,0B0,1F1,1B1", "0F1,0B1,1F0,1B0", NULL}, 2),
                  "rank 0 cell 1: deadlock: rank 0 cell 1 (0B0) waits for 1B0 of rank 1 cell 3, "
                  "rank 1 cell 1 (0B1) waits for 1B1 of rank 0 cell 3");
    sc_table *table = make(ROWS, 2);
    table->odd_rank_of_stage[1] = 2;
    expect_broken(table, "stage 1 is placed on rank 2 of 2 ranks");
    table = make(ROWS, 2);
    table->odd_rank_of_stage[1] = 1;
    expect_broken(table, "both replicas of stage 1 are placed on rank 1; even and odd microbatches "
                         "need one each");
}

/* Each replica has channels of its own and reduces its own sum. */
static void test_lowered(void **state)
{
    (void)state;
    sc_table *table = make(ROWS, 2);
    sc_table *lowered = NULL;
    sc_err err = {0};
    assert_int_equal(sc_lower_table(table, &lowered, NULL), SC_OK);
    sc_rows_expect(lowered, 0,
                   "0F0,0SEND_F0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD,0RECV_B0,0B0,"
                   "0REDUCE_GRAD");
    sc_rows_expect(lowered, 1,
                   "0F1,0SEND_F1,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,0RECV_B1,0B1,"
                   "0REDUCE_GRAD");
    if (sc_validate_table(lowered, NULL, NULL, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    // a channel of each direction: the order between the directions is free, within one it is not
    sc_table_free(&lowered);
    sc_table_free(&table);
    table = make((const char *const[]){"0F0,0SEND_F0,0F2,0SEND_F2,1RECV_F1,1F1,1B1,1SEND_B1,"
                                       "0RECV_B0,0B0,0RECV_B2,0B2",
                                       "0F1,0SEND_F1,1RECV_F2,1RECV_F0,1F0,1B0,1SEND_B0,1F2,1B2,"
                                       "1SEND_B2,0RECV_B1,0B1",
                                       NULL},
                 3);
    expect_broken(table, "rank 1 cell 2: 1RECV_F2 is receive 0 from stage 0, but its 0SEND_F2 is "
                         "send 1: a channel keeps one order");
}

static void test_reduce(void **state)
{
    (void)state;
    sc_table *table = make((const char *const[]){"0F0,0SEND_F0,1RECV_F1,1F1,1B1,1SEND_B1,"
                                                 "1REDUCE_GRAD,0RECV_B0,0B0,0REDUCE_GRAD",
                                                 "0F1,0SEND_F1,1RECV_F0,1F0,1B0,1SEND_B0,"
                                                 "1REDUCE_GRAD,0RECV_B1,0B1",
                                                 NULL},
                           2);
    expect_broken(table, "rank 1: missing 0REDUCE_GRAD: stage 1 has one");
    // a single microbatch leaves one replica of each stage without a gradient
    sc_table *lowered = NULL;
    table = make((const char *const[]){"0F0,0B0", "1F0,1B0", NULL}, 1);
    assert_int_equal(sc_lower_table(table, &lowered, NULL), SC_OK);
    assert_int_equal(sc_validate_table(lowered, NULL, NULL, NULL), SC_OK);
    sc_table_free(&lowered);
    sc_table_free(&table);
}

/* F = 1, B = 2, an edge 10: both directions at once, each with two edges there and back. */
static void test_simulated(void **state)
{
    (void)state;
    sc_table *table = make(ROWS, 2);
    const sc_stage_cost stages[] = {{1, 1, 1}, {1, 1, 1}};
    sc_timeline *timeline = NULL;
    assert_int_equal(sc_simulate_run(table, &(sc_costs){stages, 10}, &timeline, NULL), SC_OK);
    assert_true(timeline->makespan == 1 + 10 + 1 + 2 + 10 + 2);
    assert_true(timeline->ideal == 6);
    sc_simulate_free(&timeline);
    sc_table_free(&table);
}

static void expect_refused(const char *text, const char *why)
{
    sc_table *table = NULL;
    sc_err err = {0};
    sc_csv_options options = {.path = "f.csv"};
    assert_int_equal(sc_csv_read(text, strlen(text), &options, &table, NULL, &err), SC_INVALID);
    assert_string_equal(err.text, why);
}

/* A header line carries the second placement; without it the rows make no sense. */
static void test_csv(void **state)
{
    (void)state;
    sc_table *table = make(ROWS, 2);
    char *text = NULL;
    assert_int_equal(sc_csv_write(table, false, &text, NULL), SC_UNSUPPORTED);
    assert_int_equal(sc_csv_write(table, true, &text, NULL), SC_OK);
    assert_string_equal(text, "# Stagecoach schedule, one row a rank\n# version: 1\n# name: test\n"
                              "# p: 2\n# stages: 2\n# m: 2\n# placement: 0 1\n"
                              "# odd_placement: 1 0\n0F0,1F1,1B1,0B0\n0F1,1F0,1B0,0B1\n");
    sc_table *back = NULL;
    sc_csv_options options = {.path = "f.csv"};
    assert_int_equal(sc_csv_read(text, strlen(text), &options, &back, NULL, NULL), SC_OK);
    assert_true(sc_table_equals(table, back));
    sc_table_free(&back);
    free(text);
    // with communication too
    sc_table *lowered = NULL;
    assert_int_equal(sc_lower_table(table, &lowered, NULL), SC_OK);
    assert_int_equal(sc_csv_write(lowered, true, &text, NULL), SC_OK);
    assert_int_equal(sc_csv_read(text, strlen(text), &options, &back, NULL, NULL), SC_OK);
    assert_true(sc_table_equals(table, back));
    sc_table_free(&back);
    free(text);
    sc_table_free(&lowered);
    sc_table_free(&table);
    expect_refused("# placement: 0 1\n0F0,1F1,1B1,0B0\n0F1,1F0,1B0,0B1\n",
                   "f.csv:2:5: 1F1: stage 1 is placed on rank 1, not on rank 0");
}

static void test_csv_refused(void **state)
{
    (void)state;
    expect_refused("# odd_placement: 1 0\n0F0,0B0\n1F0,1B0\n",
                   "f.csv:1:18: odd_placement of 2 of 2 stages without a placement, which is then "
                   "that of even microbatches");
    expect_refused("# placement: 0 1\n# odd_placement: 1 0 1\n0F0,0B0\n1F0,1B0\n",
                   "f.csv:2:18: odd_placement of 3 stages, but there are 2");
    expect_refused("# odd_placement: 1 0\n# odd_placement: 1 0\n0F0,0B0\n1F0,1B0\n",
                   "f.csv:2:3: key \"odd_placement\" a second time");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement), cmocka_unit_test(test_valid),
        cmocka_unit_test(test_broken),    cmocka_unit_test(test_lowered),
        cmocka_unit_test(test_reduce),    cmocka_unit_test(test_simulated),
        cmocka_unit_test(test_csv),       cmocka_unit_test(test_csv_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
