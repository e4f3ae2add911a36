#include "schedules/gen.h"
#include "schedules/lower.h"
#include "schedules/validate.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* Checks a table that must be refused with exactly `why`, and frees it. */
static void expect_refused(sc_table *table, const char *why)
{
    sc_err err = {0};
    assert_int_equal(sc_validate_table(table, NULL, NULL, &err), SC_INVALID);
    assert_string_equal(err.text, why);
    sc_table_free(&table);
}

static void expect_fine(sc_table *table, sc_validate_report *report)
{
    sc_err err = {0};
    if (sc_validate_table(table, NULL, report, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    sc_table_free(&table);
}

static void test_actions(void **state)
{
    (void)state;
    expect_refused(SC_ROWS(2, 2, "0F0,0F1,0F0,0B0,0B1", "1F0,1B0,1F1,1B1"),
                   "rank 0 cell 2: duplicate 0F0; cell 0 has it already");
    expect_refused(SC_ROWS(1, 1, "0F0,0B0,0B0"), "rank 0 cell 2: duplicate 0B0; cell 1 has it "
                                                 "already");
    expect_refused(SC_ROWS(1, 1, "0F0,0I0,0W0,0W0"),
                   "rank 0 cell 3: duplicate 0W0; cell 2 has it already");
    expect_refused(SC_ROWS(2, 2, "0F0,0F7,0B0,0B1", "1F0,1B0,1F1,1B1"),
                   "rank 0 cell 1: 0F7: microbatch 7 is out of range; the microbatches are 0 to 1");
    expect_refused(SC_ROWS(2, 1, "0F0,0B0", "1F0,1B0,2F0"),
                   "rank 1 cell 2: 2F0: unknown stage 2; the stages are 0 to 1");
    expect_refused(SC_ROWS(2, 1, "0F0,0B0,1F0", "1B0"),
                   "rank 0 cell 2: 1F0: stage 1 is placed on rank 1, not on rank 0");
    sc_table *table = SC_ROWS(1, 1, "0F0,0B0,0REDUCE_GRAD");
    table->is_lowered = false;
    expect_refused(table, "rank 0 cell 2: 0REDUCE_GRAD: a compute-only table has no REDUCE_GRAD");
}

static void test_missing(void **state)
{
    (void)state;
    expect_refused(SC_ROWS(2, 2, "0F0,0F1,0B0,0B1", "1F0,1B0,1F1"),
                   "rank 1 cell 2: missing backward: stage 1 has 1F1, but neither 1B1 nor 1I1 with "
                   "1W1");
    // as many backwards as microbatches when B, I and W are only counted
    expect_refused(SC_ROWS(1, 2, "0F0,0F1,0B0,0I0,0W0"),
                   "rank 0 cell 3: 0I0 beside 0B0 of cell 2: a backward is either B, or I and then "
                   "W");
    expect_refused(SC_ROWS(1, 3, "0F0,0F1,0F2,0B0,0I1,0W2,0B2"),
                   "rank 0 cell 6: 0B2 beside 0W2 of cell 5: a backward is either B, or I and then "
                   "W");
    expect_refused(SC_ROWS(1, 3, "0F0,0F1,0F2,0B0,0I1,0W2,0B1"),
                   "rank 0 cell 6: 0B1 beside 0I1 of cell 4: a backward is either B, or I and then "
                   "W");
    expect_refused(SC_ROWS(1, 2, "0F0,0F1,0B0,0W0"),
                   "rank 0 cell 3: 0W0 beside 0B0 of cell 2: a backward is either B, or I and then "
                   "W");
    expect_refused(SC_ROWS(1, 2, "0F0,0F1,0I0,0I1,0W1"),
                   "rank 0 cell 2: missing backward: stage 0 has 0I0, but no 0W0");
    expect_refused(SC_ROWS(1, 2, "0F0,0F1,0I0,0W0,0W1"),
                   "rank 0 cell 4: missing backward: stage 0 has 0W1, but no 0I1");
    expect_refused(SC_ROWS(1, 2, "0F0,0B0,0B1"),
                   "rank 0 cell 2: missing forward: stage 0 has no 0F1; it needs one of each "
                   "microbatch 0 to 1");
    expect_refused(SC_ROWS(2, 1, "0F0,0B0", ""),
                   "rank 1: missing forward: stage 1 has no 1F0; it needs one of each microbatch 0 "
                   "to 0");
    sc_table *table = SC_ROWS(1, 1, "0F0,0B0");
    table->is_forward_only = true;
    expect_refused(table, "rank 0 cell 1: 0B0: a forward-only table has no B");
}

static void test_placement(void **state)
{
    (void)state;
    sc_table *table = SC_ROWS(2, 1, "0F0,0B0", "1F0,1B0");
    table->rank_of_stage[1] = 2;
    expect_refused(table, "stage 1 is placed on rank 2 of 2 ranks");
    table = SC_ROWS(2, 1, "0F0,1F0,1B0,0B0", "");
    table->rank_of_stage[1] = 0;
    expect_refused(table, "rank 1: no stage is placed on rank 1");
}

static void test_order(void **state)
{
    (void)state;
    expect_refused(SC_ROWS(1, 2, "0F0,0F1,0W0,0I0,0I1,0W1"),
                   "rank 0 cell 2: 0W0 before its 0I0 of cell 3");
    expect_refused(SC_ROWS(1, 2, "0F0,0B1,0F1,0B0"), "rank 0 cell 1: 0B1 before its 0F1 of cell 2");
}

static void test_deadlock(void **state)
{
    (void)state;
    // each rank wants the other's second cell first
    expect_refused(SC_ROWS(4, 1, "2F0,0F0,2B0,0B0", "1F0,3F0,3B0,1B0"),
                   "rank 0 cell 0: deadlock: rank 0 cell 0 (2F0) waits for 1F0 of rank 1 cell 0, "
                   "rank 1 cell 0 (1F0) waits for 0F0 of rank 0 cell 1");
    expect_refused(SC_ROWS(2, 2, "0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"),
                   "rank 0 cell 1: deadlock: rank 0 cell 1 (0B0) waits for 1B0 of rank 1 cell 2, "
                   "rank 1 cell 1 (1F1) waits for 0F1 of rank 0 cell 2");
    // a stage in front of its own input on one rank
    sc_table *table = SC_ROWS(2, 1, "1F0,0F0,1B0,0B0");
    expect_refused(table, "rank 0 cell 0: deadlock: rank 0 cell 0 (1F0) waits for 0F0 of rank 0 "
                          "cell 1");
    // three ranks behind a circle of two: the circle is named
    expect_refused(SC_ROWS(3, 2, "0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1", "2F0,2B0,2F1,2B1"),
                   "rank 0 cell 1: deadlock: rank 0 cell 1 (0B0) waits for 1B0 of rank 1 cell 2, "
                   "rank 1 cell 1 (1F1) waits for 0F1 of rank 0 cell 2");
}

static void test_lowered(void **state)
{
    (void)state;
    const char *first = "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD";
    const char *second = "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD";
    expect_fine(SC_ROWS(2, 1, first, second), NULL);
    // no REDUCE_GRAD at all is fine, one alone is not
    expect_fine(SC_ROWS(2, 1, "0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"), NULL);
    expect_refused(SC_ROWS(2, 1, first, "1RECV_F0,1F0,1B0,1SEND_B0"),
                   "rank 1: missing 1REDUCE_GRAD: stage 0 has one");
    expect_refused(SC_ROWS(2, 1, first, "1RECV_F0,1F0,1REDUCE_GRAD,1B0,1SEND_B0"),
                   "rank 1 cell 3: 1B0 after 1REDUCE_GRAD: its gradient is lost");
    expect_refused(SC_ROWS(2, 1, "0F0,0RECV_B0,0B0", second),
                   "rank 1 cell 0: 1RECV_F0 has no 0SEND_F0 on rank 0 to receive from");
    expect_refused(SC_ROWS(2, 1, "0F0,0RECV_B0,0B0", "1F0,1B0,1SEND_B0"),
                   "rank 0 cell 0: missing 0SEND_F0: stage 1 on rank 1 needs it");
    expect_refused(SC_ROWS(2, 1, first, "1F0,1B0,1SEND_B0"),
                   "rank 1 cell 0: missing 1RECV_F0: stage 0 on rank 0 sends it");
    expect_refused(SC_ROWS(2, 1, first, "1F0,1RECV_F0,1B0,1SEND_B0"),
                   "rank 1 cell 1: 1RECV_F0 after cell 0 needed what it receives");
    expect_refused(SC_ROWS(2, 1, "0SEND_F0,0F0,0RECV_B0,0B0", second),
                   "rank 0 cell 0: 0SEND_F0 before cell 1 makes what it sends");
    expect_refused(SC_ROWS(2, 1, "0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0", second),
                   "rank 0 cell 2: duplicate 0SEND_F0");
    expect_refused(SC_ROWS(2, 1, first, "1RECV_F0,1RECV_F0,1F0,1B0,1SEND_B0"),
                   "rank 1 cell 1: duplicate 1RECV_F0");
    expect_refused(SC_ROWS(2, 1, "0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0", second),
                   "rank 0 cell 4: 0SEND_B0: stage 0 has no neighbour on another rank to send to");
    expect_refused(SC_ROWS(2, 1, "0RECV_F0,0F0,0SEND_F0,0RECV_B0,0B0", second),
                   "rank 0 cell 0: 0RECV_F0: stage 0 has no neighbour on another rank to receive "
                   "from");
    expect_refused(SC_ROWS(2, 2, "0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B0,0B0,0RECV_B1,0B1",
                           "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1"),
                   "rank 1 cell 0: 1RECV_F0 is receive 0 from stage 0, but its 0SEND_F0 is send 1: "
                   "a channel keeps one order");
    // the send stands behind what waits for its answer
    expect_refused(SC_ROWS(2, 1, "0F0,0RECV_B0,0B0,0SEND_F0", "1RECV_F0,1F0,1B0,1SEND_B0"),
                   "rank 0 cell 2: deadlock: rank 0 cell 2 (0B0) waits for 1SEND_B0 of rank 1 cell "
                   "3, rank 1 cell 1 (1F0) waits for 0SEND_F0 of rank 0 cell 3");
}

static void drop_sends(sc_row *row)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < row->n_actions; i++) {
        if (!sc_action_is_send(row->actions[i].op)) {
            row->actions[n_kept++] = row->actions[i];
        }
    }
    row->n_actions = n_kept;
}

/* Every SEND taken out of a lowered 1F1B, at every size that has one. */
static void test_no_sends(void **state)
{
    (void)state;
    for (int size = 0; size < 7 * 8; size++) {
        sc_gen_params params = {.n_ranks = size / 8 + 2, .n_mb = size % 8 + 1};
        sc_table *compute = NULL;
        sc_table *lowered = NULL;
        assert_int_equal(sc_gen_make("1f1b", &params, &compute, NULL), SC_OK);
        assert_int_equal(sc_lower_table(compute, &lowered, NULL), SC_OK);
        for (int r = 0; r < lowered->n_ranks; r++) {
            drop_sends(&lowered->rows[r]);
        }
        expect_refused(lowered,
                       "rank 1 cell 0: 1RECV_F0 has no 0SEND_F0 on rank 0 to receive from");
        sc_table_free(&compute);
    }
}

/* Two ranks that both send before they receive: fine when sends are posted, stuck when they block.
   The first is a compute-only table, judged after lowering. */
static void test_blocking(void **state)
{
    (void)state;
    sc_validate_report report;
    expect_fine(SC_ROWS(2, 2, "0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"), &report);
    assert_true(report.is_blocking_deadlock);
    assert_string_equal(report.blocking.text,
                        "deadlock: rank 0 cell 3 (0SEND_F1) waits for 1RECV_F1 of rank 1 cell 4, "
                        "rank 1 cell 3 (1SEND_B0) waits for 0RECV_B0 of rank 0 cell 4");
    // the receive posted earlier, by hand: no deadlock
    expect_fine(SC_ROWS(2, 2, "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1"),
                &report);
    assert_false(report.is_blocking_deadlock);
    // GPipe never crosses
    expect_fine(SC_ROWS(2, 2, "0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"), &report);
    assert_false(report.is_blocking_deadlock);
}

static void test_peak(void **state)
{
    (void)state;
    sc_table *table =
        SC_ROWS(2, 3, "0F0,0F1,0F2,0I0,0I1,0W0,0I2,0W1,0W2", "1F0,1B0,1F1,1B1,1F2,1B2");
    assert_int_equal(sc_validate_peak(table, 0, -1), 3);
    assert_int_equal(sc_validate_peak(table, 1, -1), 1);
    assert_int_equal(sc_validate_peak_pending_w(table, 0, 0), 2);
    assert_int_equal(sc_validate_peak_pending_w(table, 1, 1), 0);
    sc_err err = {0};
    sc_validate_limits limits = {3};
    assert_int_equal(sc_validate_table(table, &limits, NULL, &err), SC_OK);
    limits.peak_mb_max = 2;
    assert_int_equal(sc_validate_table(table, &limits, NULL, &err), SC_INVALID);
    assert_string_equal(err.text, "rank 0 cell 2: 0F2: live activations exceed the cap of 2; this "
                                  "row's peak is 3");
    sc_table_free(&table);
    // two stages on one rank count together, and each alone
    table = SC_ROWS(2, 1, "0F0,1F0,1B0,0B0");
    assert_int_equal(sc_validate_peak(table, 0, -1), 2);
    assert_int_equal(sc_validate_peak(table, 0, 1), 1);
    sc_table_free(&table);
}

static void test_w_order(void **state)
{
    (void)state;
    sc_validate_report report;
    expect_fine(SC_ROWS(1, 2, "0F0,0F1,0I0,0I1,0W0,0W1"), &report);
    assert_true(report.has_ordered_w);
    expect_fine(SC_ROWS(1, 2, "0F0,0F1,0I0,0I1,0W1,0W0"), &report);
    assert_false(report.has_ordered_w);
    expect_fine(SC_ROWS(1, 2, "0F0,0F1,0B1,0B0"), &report);
    assert_false(report.has_ordered_w);
    expect_fine(SC_ROWS(1, 3, "0F0,0F1,0F2,0I0,0B1,0W0,0B2"), &report);
    assert_false(report.has_ordered_w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actions),   cmocka_unit_test(test_missing),
        cmocka_unit_test(test_placement), cmocka_unit_test(test_order),
        cmocka_unit_test(test_deadlock),  cmocka_unit_test(test_lowered),
        cmocka_unit_test(test_no_sends),  cmocka_unit_test(test_blocking),
        cmocka_unit_test(test_peak),      cmocka_unit_test(test_w_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
