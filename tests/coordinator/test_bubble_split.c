#include "coordinator/bubble_split.h"

#include "base/rng.h"
#include "coordinator/bubble.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void expect_split(const sc_bubble_split *split, int64_t window,
                         const int64_t expected[SC_CAUSE_COUNT])
{
    int64_t sum = 0;
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        if (split->ns[c] != expected[c]) {
            print_error("%s: %lld ns, expected %lld\n", sc_bubble_cause_text((sc_cause)c),
                        (long long)split->ns[c], (long long)expected[c]);
        }
        assert_true(split->ns[c] == expected[c]);
        sum += split->ns[c];
    }
    assert_true(split->window_ns == window);
    assert_true(sum == window);
}

/* Splits a window from 1000 to 1300 with one F of stage 1 from 1100 to 1250: the gap before it is
   100 ns long. S, R and A count from its start; arrived < 0: nothing was received. */
static void expect_gap(int64_t S, int64_t R, int64_t A, int64_t wait, int64_t buffer,
                       int64_t transfer, int64_t control)
{
    sc_msg_span span = {.op = SC_OP_F, .stage = 1, .start_ns = 1100, .end_ns = 1250};
    if (A >= 0) {
        span.sent_ready_ns = 1000 + S;
        span.posted_ns = 1000 + R;
        span.arrived_ns = 1000 + A;
    }
    sc_msg_report report = {.window_start_ns = 1000, .window_end_ns = 1300};
    report.spans = &span;
    report.n_spans = 1;
    sc_bubble_split split;
    sc_bubble_split_report(&report, NULL, NULL, &split);
    const int64_t expected[SC_CAUSE_COUNT] = {
        [SC_CAUSE_FORWARD] = 150,       [SC_CAUSE_WAIT] = wait,       [SC_CAUSE_BUFFER] = buffer,
        [SC_CAUSE_TRANSFER] = transfer, [SC_CAUSE_CONTROL] = control, [SC_CAUSE_IDLE] = 50,
    };
    expect_split(&split, 300, expected);
}

static void each_cause_of_a_gap(void **state)
{
    (void)state;
    //          S    R    A   wait buffer transfer control
    expect_gap(60, 10, 60, 60, 0, 0, 40);   // the sender was late
    expect_gap(20, 50, 50, 20, 30, 0, 50);  // we had posted no receive
    expect_gap(20, 10, 70, 20, 0, 50, 30);  // it took long to come
    expect_gap(20, 50, 70, 20, 30, 20, 30); // all of it
    expect_gap(0, 0, -1, 0, 0, 0, 100);     // no input
    expect_gap(100, 0, 100, 100, 0, 0, 0);  // started as soon as it was ready
    expect_gap(0, 0, 0, 0, 0, 0, 100);      // it had all been there: not yet started
}

static void times_outside_the_gap_are_clipped(void **state)
{
    (void)state;
    expect_gap(-500, -400, 0, 0, 0, 0, 100);  // ready while the action before still ran
    expect_gap(-500, -400, 30, 0, 0, 30, 70); // on its way since then
    expect_gap(-500, 40, 60, 0, 40, 20, 40);  // ready since then, receive posted late
    expect_gap(500, 10, 60, 100, 0, 0, 0);    // another clock: ready after the start
    expect_gap(20, 500, 60, 20, 80, 0, 0);    // posted after the start
    expect_gap(20, 30, 500, 20, 10, 70, 0);   // arrived after the start
    expect_gap(70, 10, 30, 70, 0, 0, 30);     // arrived before it was sent
}

static void a_gap_starts_where_the_action_before_ended(void **state)
{
    (void)state;
    sc_msg_span spans[] = {
        {.op = SC_OP_F, .stage = 1, .mb = 0, .start_ns = 0, .end_ns = 40},
        {.op = SC_OP_F, .stage = 1, .mb = 1, .start_ns = 50, .end_ns = 80},
    };
    spans[1].sent_ready_ns = 10; // 30 ns before the gap
    spans[1].posted_ns = 43;
    spans[1].arrived_ns = 45;
    sc_msg_report report = {.window_end_ns = 80, .spans = spans, .n_spans = 2};
    sc_bubble_split split;
    sc_bubble_split_report(&report, NULL, NULL, &split);
    const int64_t expected[SC_CAUSE_COUNT] = {[SC_CAUSE_FORWARD] = 70,
                                              [SC_CAUSE_BUFFER] = 3,
                                              [SC_CAUSE_TRANSFER] = 2,
                                              [SC_CAUSE_CONTROL] = 5};
    expect_split(&split, 80, expected);
}

static void computing_is_told_apart_and_overlap_counts_once(void **state)
{
    (void)state;
    const sc_msg_span spans[] = {
        {.op = SC_OP_F, .start_ns = 0, .end_ns = 10},
        {.op = SC_OP_B, .start_ns = 10, .end_ns = 40, .weight_ns = 12},
        {.op = SC_OP_I, .start_ns = 35, .end_ns = 45}, // 5 of it are B's
        {.op = SC_OP_W, .start_ns = 45, .end_ns = 52},
    };
    sc_msg_report report = {.window_end_ns = 52, .spans = spans, .n_spans = 4};
    sc_bubble_split split;
    sc_bubble_split_report(&report, NULL, NULL, &split);
    const int64_t expected[SC_CAUSE_COUNT] = {[SC_CAUSE_FORWARD] = 10,
                                              [SC_CAUSE_BACKWARD_INPUT] = 18 + 5,
                                              [SC_CAUSE_BACKWARD_WEIGHT] = 12 + 7};
    expect_split(&split, 52, expected);
}

static void the_tail_is_split_and_clipped(void **state)
{
    (void)state;
    const sc_msg_span span = {.op = SC_OP_F, .start_ns = 0, .end_ns = 10};
    sc_msg_report report = {.window_end_ns = 100, .spans = &span, .n_spans = 1};
    sc_bubble_split split;
    report.reduce_ns = 30;
    report.optimizer_ns = 40;
    report.tail_wait_ns = 15;
    sc_bubble_split_report(&report, NULL, NULL, &split);
    const int64_t fits[SC_CAUSE_COUNT] = {[SC_CAUSE_FORWARD] = 10,
                                          [SC_CAUSE_WAIT] = 15,
                                          [SC_CAUSE_REDUCE] = 30,
                                          [SC_CAUSE_OPTIMIZER] = 40,
                                          [SC_CAUSE_IDLE] = 5};
    expect_split(&split, 100, fits);
    report.reduce_ns = 1000; // from before the row's end
    sc_bubble_split_report(&report, NULL, NULL, &split);
    const int64_t clipped[SC_CAUSE_COUNT] = {
        [SC_CAUSE_FORWARD] = 10, [SC_CAUSE_REDUCE] = 50, [SC_CAUSE_OPTIMIZER] = 40};
    expect_split(&split, 100, clipped);
    report.n_spans = 0;
    report.reduce_ns = 0;
    report.optimizer_ns = 0;
    report.tail_wait_ns = 0;
    sc_bubble_split_report(&report, NULL, NULL, &split);
    const int64_t empty[SC_CAUSE_COUNT] = {[SC_CAUSE_IDLE] = 100};
    expect_split(&split, 100, empty);
}

static void the_senders_clock_is_the_right_ranks(void **state)
{
    (void)state;
    const int rank_of_stage[] = {2, 0, 1};
    const int64_t offset[] = {0, 1000, -1000}; // ranks 1 and 2 to rank 0's clock
    sc_msg_span span = {.op = SC_OP_F, .stage = 1, .start_ns = 100, .end_ns = 100};
    span.sent_ready_ns = 1030;
    span.posted_ns = 1;
    span.arrived_ns = 50;
    sc_msg_report report = {.window_end_ns = 100, .spans = &span, .n_spans = 1};
    sc_bubble_split split;
    sc_bubble_split_report(&report, offset, rank_of_stage, &split); // from stage 0 on rank 2
    const int64_t forward[SC_CAUSE_COUNT] = {
        [SC_CAUSE_WAIT] = 30, [SC_CAUSE_TRANSFER] = 20, [SC_CAUSE_CONTROL] = 50};
    expect_split(&split, 100, forward);
    span.op = SC_OP_B; // from stage 2 on rank 1
    span.sent_ready_ns = -960;
    sc_bubble_split_report(&report, offset, rank_of_stage, &split);
    const int64_t backward[SC_CAUSE_COUNT] = {
        [SC_CAUSE_WAIT] = 40, [SC_CAUSE_TRANSFER] = 10, [SC_CAUSE_CONTROL] = 50};
    expect_split(&split, 100, backward);
}

/* Whatever a worker says, the causes add up to the window and none is negative. */
static void causes_sum_to_the_window_for_any_times(void **state)
{
    (void)state;
    enum {
        N = 12
    };
    for (uint64_t round = 0; round < 20000; round++) {
        sc_msg_span spans[N];
        for (uint64_t i = 0; i < N; i++) {
            int64_t t[6];
            for (uint64_t k = 0; k < 6; k++) {
                t[k] = (int64_t)(sc_rng_u64(7, round, i * 8 + k) % 3000);
            }
            bool has_input = sc_rng_u64(7, round, i * 8 + 6) % 2 == 0;
            spans[i] = (sc_msg_span){.op = (uint32_t)(sc_rng_u64(7, round, i * 8 + 7) % 4),
                                     .stage = 1,
                                     .start_ns = t[0],
                                     .end_ns = t[0] + t[1] / 10,
                                     .weight_ns = t[2]};
            spans[i].sent_ready_ns = t[3];
            spans[i].posted_ns = t[4];
            spans[i].arrived_ns = has_input ? t[5] : 0;
        }
        sc_msg_report report = {.spans = spans, .n_spans = N};
        report.window_start_ns = (int64_t)(sc_rng_u64(8, round, 0) % 1000);
        report.window_end_ns = report.window_start_ns + (int64_t)(sc_rng_u64(8, round, 1) % 3000);
        report.reduce_ns = (int64_t)(sc_rng_u64(8, round, 2) % 1000);
        report.optimizer_ns = (int64_t)(sc_rng_u64(8, round, 3) % 1000);
        report.tail_wait_ns = (int64_t)(sc_rng_u64(8, round, 4) % 1000);
        sc_bubble_split split;
        sc_bubble_split_report(&report, NULL, NULL, &split);
        int64_t sum = 0;
        for (int c = 0; c < SC_CAUSE_COUNT; c++) {
            assert_true(split.ns[c] >= 0);
            sum += split.ns[c];
        }
        assert_true(sum == report.window_end_ns - report.window_start_ns);
        assert_true(sum == split.window_ns);
    }
}

static void expect_refused(const sc_table *table, const sc_msg_report *report, const char *text)
{
    sc_err err = {.text = ""};
    assert_int_equal(sc_bubble_split_check(table, report, &err), SC_PROTOCOL);
    assert_string_equal(err.text, text);
}

/* A report must be the rank's row, action by action. */
static void reports_that_are_not_the_row_are_refused(void **state)
{
    (void)state;
    sc_table *table = NULL;
    assert_int_equal(sc_table_new("test", 2, 2, 1, &table, NULL), SC_OK);
    assert_int_equal(sc_table_append(table, 0, (sc_action){SC_OP_F, 0, 0}, NULL), SC_OK);
    assert_int_equal(sc_table_append(table, 0, (sc_action){SC_OP_B, 0, 0}, NULL), SC_OK);
    sc_msg_span good[] = {
        {.op = SC_OP_F, .start_ns = 1, .end_ns = 2},
        {.op = SC_OP_B, .start_ns = 3, .end_ns = 5, .weight_ns = 1, .arrived_ns = 3}};
    sc_msg_span spans[2];
    memcpy(spans, good, sizeof spans);
    sc_msg_report report = {.step = 7, .window_end_ns = 9, .spans = spans, .n_spans = 2};
    assert_int_equal(sc_bubble_split_check(table, &report, NULL), SC_OK);

    report.rank = 2;
    expect_refused(table, &report, "report of rank 2, there are 2");
    report.rank = 0;
    report.n_spans = 1;
    expect_refused(table, &report, "rank 0 step 7: reports 1 actions, its row has 2");
    report.n_spans = 2;
    spans[1].mb = 1;
    expect_refused(table, &report, "rank 0 step 7 action 1 (0B0): reports op 1 of stage 0 mb 1");
    memcpy(spans, good, sizeof spans);
    spans[1].end_ns = 2;
    expect_refused(table, &report,
                   "rank 0 step 7 action 1 (0B0): from 3 to 2 ns with 1 ns of weight gradients");
    memcpy(spans, good, sizeof spans);
    spans[1].weight_ns = 3;
    expect_refused(table, &report,
                   "rank 0 step 7 action 1 (0B0): from 3 to 5 ns with 3 ns of weight gradients");
    memcpy(spans, good, sizeof spans);
    spans[0].arrived_ns = 1; // stage 0 has nobody before it
    expect_refused(table, &report,
                   "rank 0 step 7 action 0 (0F0): received something, but nobody sends to it");
    memcpy(spans, good, sizeof spans);
    report.window_start_ns = 10;
    expect_refused(table, &report, "rank 0 step 7: window from 10 to 9 ns with 0 and 0 ns of tail");
    sc_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_of_a_gap),
        cmocka_unit_test(times_outside_the_gap_are_clipped),
        cmocka_unit_test(a_gap_starts_where_the_action_before_ended),
        cmocka_unit_test(computing_is_told_apart_and_overlap_counts_once),
        cmocka_unit_test(the_tail_is_split_and_clipped),
        cmocka_unit_test(the_senders_clock_is_the_right_ranks),
        cmocka_unit_test(causes_sum_to_the_window_for_any_times),
        cmocka_unit_test(reports_that_are_not_the_row_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
