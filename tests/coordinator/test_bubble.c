#include "coordinator/bubble.h"

#include "tests/coordinator/bubble_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const bubble_rig_costs WARMUP = {90000, 5000, 100, 70000};
static const bubble_rig_costs ODD = {1000, 1100, 700, 90};
static const bubble_rig_costs EVEN = {2000, 1000, 900, 400};

static void assert_near(double a, double b)
{
    if (fabs(a - b) > 1e-12) {
        fail_msg("%.15g is not %.15g", a, b);
    }
}

static sc_bubble *new_bubble(const sc_table *table, int keep_steps)
{
    sc_bubble *bubble = NULL;
    assert_int_equal(sc_bubble_new(table, keep_steps, &bubble, NULL), SC_OK);
    return bubble;
}

static sc_bubble_result result_of(sc_bubble *bubble)
{
    sc_bubble_result result = {.n_steps = 0};
    sc_err err = {.text = ""};
    assert_int_equal(sc_bubble_result_get(bubble, &result, &err), SC_OK);
    return result;
}

/* The bubble comes from the even steps, the costs from the odd ones, nothing from the first. */
static void measured_and_simulated_come_from_different_steps(void **state)
{
    (void)state;
    const char *names[] = {"gpipe", "1f1b"};
    for (int p = 1; p <= 4; p++) {
        for (int m = 1; m <= 6; m++) {
            sc_table *table = bubble_rig_table(names[m % 2], p, m);
            sc_bubble *bubble = new_bubble(table, 16);
            bubble_rig_add_step(bubble, table, 0, &WARMUP, false, NULL);
            for (uint64_t step = 1; step <= 6; step++) {
                bubble_rig_add_step(bubble, table, step, step % 2 == 1 ? &ODD : &EVEN,
                                    step % 3 == 0, NULL);
            }
            sc_bubble_result result = result_of(bubble);
            assert_int_equal(result.n_steps, 6);
            assert_near(result.measured, bubble_rig_simulate(table, &EVEN));
            assert_near(result.measured_min, result.measured);
            assert_near(result.measured_max, result.measured);
            assert_near(result.simulated, bubble_rig_simulate(table, &ODD));
            for (int s = 0; s < p; s++) {
                assert_near(result.costs[s].f, ODD.f);
                assert_near(result.costs[s].i, ODD.i);
                assert_near(result.costs[s].w, ODD.w);
            }
            assert_near(result.comm_ns, p == 1 ? 0 : ODD.comm);
            assert_int_equal(result.activation_peak_bytes, 1000 * p + 6);
            assert_int_equal(result.executor_ns_per_action, 70);
            sc_bubble_free(&bubble);
            sc_table_free(&table);
        }
    }
}

/* The same costs on every step: measured, simulated and the closed form (p-1)/(m+p-1) agree. */
static void equal_costs_give_the_closed_form(void **state)
{
    (void)state;
    const bubble_rig_costs costs = {1000, 1000, 1000, 0};
    sc_table *table = bubble_rig_table("1f1b", 4, 8);
    sc_bubble *bubble = new_bubble(table, 8);
    for (uint64_t step = 0; step < 4; step++) {
        bubble_rig_add_step(bubble, table, step, &costs, false, NULL);
    }
    sc_bubble_result result = result_of(bubble);
    assert_near(result.measured, 3.0 / 11);
    assert_near(result.measured_over_ideal, 3.0 / 8);
    assert_near(result.measured_over_makespan, result.simulated_over_makespan);
    assert_near(result.simulated_over_ideal, 3.0 / 8);
    assert_near(result.simulated, 3.0 / 11);
    assert_near(result.measured_cost_ns, 33000);
    assert_near(result.simulated_cost_ns, 33000);
    sc_bubble_free(&bubble);
    assert_null(bubble);
    sc_table_free(&table);
}

static void medians_are_exact(void **state)
{
    (void)state;
    sc_table *table = bubble_rig_table("gpipe", 2, 2);
    sc_bubble *bubble = new_bubble(table, 16);
    const double f_of_step[] = {1, 400, 10000, 100, 50000, 300, 20000, 200, 40000, 1000};
    for (uint64_t step = 0; step < 10; step++) { // odd: 400 100 300 200 1000, even: 4 steps
        const bubble_rig_costs costs = {f_of_step[step], 2000, 1000, 0};
        bubble_rig_add_step(bubble, table, step, &costs, false, NULL);
    }
    sc_bubble_result result = result_of(bubble);
    assert_int_equal(result.n_steps, 9);
    assert_near(result.costs[1].f, 300);
    assert_near(result.measured_cost_ns, 3 * (30000 + 3000)); // mean of 20000 and 40000
    // p = 2, m = 2 with equal stages: always a third
    assert_near(result.measured, 1.0 / 3);
    // windows rise with f; the fifth of nine is step 9
    assert_int_equal(result.median_step, 9);
    assert_near(result.step_ns, 5000 + 3 * 4000 + 600);
    sc_bubble_free(&bubble);
    sc_table_free(&table);
}

/* The causes are one step's, so they add up; of two steps in the middle the shorter one. */
static void causes_of_the_median_step_add_up(void **state)
{
    (void)state;
    sc_table *table = bubble_rig_table("gpipe", 3, 2);
    sc_bubble *bubble = new_bubble(table, 16);
    for (uint64_t step = 0; step < 3; step++) {
        bubble_rig_add_step(bubble, table, step, step == 1 ? &ODD : &EVEN, false, NULL);
    }
    sc_bubble_result result = result_of(bubble);
    assert_int_equal(result.median_step, 1);
    int64_t mean = 0;
    for (int r = 0; r < 3; r++) {
        int64_t sum = 0;
        for (int c = 0; c < SC_CAUSE_COUNT; c++) {
            sum += result.ranks[r].ns[c];
        }
        assert_true(sum == result.ranks[r].window_ns);
        assert_true(result.ranks[r].ns[SC_CAUSE_FORWARD] == 2000);
        assert_true(result.ranks[r].ns[SC_CAUSE_BACKWARD_INPUT] == 2200);
        assert_true(result.ranks[r].ns[SC_CAUSE_BACKWARD_WEIGHT] == 1400);
        assert_true(result.ranks[r].ns[SC_CAUSE_REDUCE] == 300);
        assert_true(result.ranks[r].ns[SC_CAUSE_OPTIMIZER] == 200);
        mean += sum;
    }
    // rank 2 waits for two forwards and a message; one message is on its way when it starts
    assert_true(result.ranks[2].ns[SC_CAUSE_WAIT] == 5000 + 2 * 1000 + 90);
    assert_true(result.ranks[2].ns[SC_CAUSE_TRANSFER] == 90);
    int64_t sum = 0;
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        sum += result.total.ns[c];
    }
    assert_true(sum == result.total.window_ns);
    assert_true(mean / 3 - sum >= 0 && mean / 3 - sum < SC_CAUSE_COUNT); // rounding
    assert_true(result.total.ns[SC_CAUSE_FORWARD] == 2000);
    sc_bubble_free(&bubble);
    sc_table_free(&table);
}

static void clocks_of_other_hosts_are_set_right(void **state)
{
    (void)state;
    const int64_t clocks[] = {0, 123456, -500000};
    sc_table *table = bubble_rig_table("1f1b", 3, 4);
    sc_bubble *same = new_bubble(table, 8);
    sc_bubble *apart = new_bubble(table, 8);
    sc_bubble_set_clocks(apart, clocks);
    for (uint64_t step = 0; step < 3; step++) {
        bubble_rig_add_step(same, table, step, &EVEN, false, NULL);
        bubble_rig_add_step(apart, table, step, &EVEN, false, clocks);
    }
    sc_bubble_result a = result_of(same);
    sc_bubble_result b = result_of(apart);
    assert_near(a.comm_ns, EVEN.comm);
    assert_near(b.comm_ns, EVEN.comm);
    for (int r = 0; r < 3; r++) {
        assert_memory_equal(&a.ranks[r], &b.ranks[r], sizeof a.ranks[r]);
    }
    sc_bubble_free(&same);
    sc_bubble_free(&apart);
    sc_table_free(&table);
}

static void only_the_latest_steps_count(void **state)
{
    (void)state;
    sc_table *table = bubble_rig_table("gpipe", 2, 3);
    sc_bubble *bubble = new_bubble(table, 4);
    for (uint64_t step = 0; step < 10; step++) {
        bubble_rig_add_step(bubble, table, step, step < 6 ? &WARMUP : &ODD, false, NULL);
    }
    sc_bubble_result result = result_of(bubble);
    assert_int_equal(result.n_steps, 4);
    assert_near(result.measured, bubble_rig_simulate(table, &ODD));
    assert_near(result.simulated, bubble_rig_simulate(table, &ODD));
    sc_bubble_free(&bubble);
    sc_table_free(&table);
}

static void three_complete_steps_are_needed(void **state)
{
    (void)state;
    sc_table *table = bubble_rig_table("gpipe", 2, 1);
    sc_bubble *bubble = new_bubble(table, 4);
    sc_bubble_result result;
    sc_err err;
    assert_int_equal(sc_bubble_result_get(bubble, &result, &err), SC_NOT_FOUND);
    for (uint64_t step = 37; step < 39; step++) { // a run that was taken up again
        bubble_rig_add_step(bubble, table, step, &ODD, false, NULL);
        assert_int_equal(sc_bubble_result_get(bubble, &result, &err), SC_NOT_FOUND);
    }
    assert_string_equal(err.text, "no bubble yet: it takes three complete steps, a warm-up, one "
                                  "for the costs and one to measure");
    const sc_msg_span spans[2] = {{.op = SC_OP_F}, {.op = SC_OP_B}};
    sc_msg_report half = {.step = 39, .spans = spans, .n_spans = 2};
    assert_int_equal(sc_bubble_add(bubble, &half, &err), SC_OK);
    assert_int_equal(sc_bubble_result_get(bubble, &result, &err), SC_NOT_FOUND);
    assert_int_equal(sc_bubble_add(bubble, &half, &err), SC_PROTOCOL);
    assert_string_equal(err.text, "rank 0 reports step 39 twice");
    half.step = 35;
    assert_int_equal(sc_bubble_add(bubble, &half, &err), SC_PROTOCOL);
    assert_string_equal(err.text, "rank 0 reports step 35 much too late");
    half.n_spans = 1;
    assert_int_equal(sc_bubble_add(bubble, &half, &err), SC_PROTOCOL);
    sc_bubble_free(&bubble);
    sc_table_free(&table);
}

static void action_time_is_the_longest_median(void **state)
{
    (void)state;
    sc_table *table = bubble_rig_table("1f1b", 2, 3);
    sc_bubble *bubble = new_bubble(table, 4);
    assert_int_equal(sc_bubble_action_ns(bubble), 0);
    bubble_rig_add_step(bubble, table, 0, &WARMUP, false, NULL);
    assert_int_equal(sc_bubble_action_ns(bubble), 0);
    bubble_rig_add_step(bubble, table, 1, &ODD, false, NULL);
    assert_int_equal(sc_bubble_action_ns(bubble), 1100 + 700);
    bubble_rig_add_step(bubble, table, 2, &EVEN, false, NULL);
    assert_int_equal(sc_bubble_action_ns(bubble), 2000);
    sc_bubble_free(&bubble);
    sc_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_and_simulated_come_from_different_steps),
        cmocka_unit_test(equal_costs_give_the_closed_form),
        cmocka_unit_test(medians_are_exact),
        cmocka_unit_test(causes_of_the_median_step_add_up),
        cmocka_unit_test(clocks_of_other_hosts_are_set_right),
        cmocka_unit_test(only_the_latest_steps_count),
        cmocka_unit_test(three_complete_steps_are_needed),
        cmocka_unit_test(action_time_is_the_longest_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
