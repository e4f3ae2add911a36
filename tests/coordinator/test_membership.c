#include "coordinator/membership.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum {
    N = 4,
    EFFECTS = 8
};

static const int64_t MS = 1000000;

/* N workers joined at 0 with ranks in reverse, so that a worker is never its rank. */
static sc_membership *fleet(void)
{
    static const char *const hosts[N] = {"d", "c", "b", "a"};
    sc_membership *ms = NULL;
    assert_int_equal(sc_membership_new(N, 5000 * MS, &ms, NULL), SC_OK);
    for (int w = 0; w < N; w++) {
        sc_membership_join(ms, w, hosts[w], 17 + (uint32_t)w, "cpu:1", 0);
        sc_membership_set_rank(ms, w, N - 1 - w);
    }
    return ms;
}

static void beat(sc_membership *ms, int worker, uint64_t step, const char *state,
                 const char *action, int peer, uint64_t n_done, int64_t now_ns)
{
    sc_member_beat b = {.step = step, .state = state, .action = action, .n_done = n_done};
    b.is_waiting = peer >= 0;
    b.peer = peer >= 0 ? peer : 0;
    sc_membership_beat(ms, worker, &b, now_ns);
}

/* All workers but `except` say that they compute step `step` and get on. */
static void others_get_on(sc_membership *ms, int except, uint64_t step, int64_t now_ns)
{
    for (int w = 0; w < N; w++) {
        if (w != except) {
            beat(ms, w, step, "step", "0F0", -1, (uint64_t)(now_ns / MS), now_ns);
        }
    }
}

static void expect_nothing(sc_membership *ms, int64_t now_ns)
{
    sc_membership_effect effects[EFFECTS];
    assert_int_equal(sc_membership_tick(ms, now_ns, effects, EFFECTS), 0);
}

static void expect_probe(sc_membership *ms, int worker, int64_t now_ns)
{
    sc_membership_effect effects[EFFECTS];
    assert_int_equal(sc_membership_tick(ms, now_ns, effects, EFFECTS), 1);
    assert_int_equal(effects[0].type, SC_MEMBERSHIP_PROBE);
    assert_int_equal(effects[0].worker, worker);
}

static void expect_fault(sc_membership *ms, int worker, sc_member_fault fault, int64_t now_ns,
                         const char *text)
{
    sc_membership_effect effects[EFFECTS];
    assert_int_equal(sc_membership_tick(ms, now_ns, effects, EFFECTS), 1);
    assert_int_equal(effects[0].type, SC_MEMBERSHIP_FAULT);
    assert_int_equal(effects[0].worker, worker);
    assert_int_equal(effects[0].fault, fault);
    assert_string_equal(effects[0].text, text);
}

/* Worker 1 (rank 2) fell silent at 2.0 s in 2F5; the others get on until `now_ns`. */
static sc_membership *fleet_with_silent_rank_2(int64_t now_ns)
{
    sc_membership *ms = fleet();
    for (int64_t t = 200 * MS; t <= 2000 * MS; t += 200 * MS) {
        beat(ms, 1, 3, "step", "2F5", 1, 7, t);
        others_get_on(ms, 1, 3, t);
        expect_nothing(ms, t);
    }
    others_get_on(ms, 1, 3, now_ns);
    return ms;
}

static void silence_asks_for_one_probe_at_a_time(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(2900 * MS);
    expect_nothing(ms, 2999 * MS);
    expect_probe(ms, 1, 3000 * MS);
    others_get_on(ms, 1, 3, 3500 * MS);
    expect_nothing(ms, 3500 * MS); // it is still under way
    sc_membership_probed(ms, 1, SC_PROBE_GREETED, 3600 * MS);
    others_get_on(ms, 1, 3, 4500 * MS);
    expect_nothing(ms, 4599 * MS);
    expect_probe(ms, 1, 4600 * MS); // again a second after it returned
    sc_membership_free(&ms);
    assert_null(ms);
}

static void refused_is_dead(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(3100 * MS);
    expect_probe(ms, 1, 3100 * MS);
    sc_membership_probed(ms, 1, SC_PROBE_REFUSED, 3150 * MS);
    expect_fault(ms, 1, SC_MEMBER_DEAD, 3200 * MS,
                 "rank 2 (host c, pid 18, cpu:1) is dead: step 3, action 2F5, waiting for rank 1, "
                 "last heard 1.2 s ago");
    for (int64_t t = 3300 * MS; t < 30000 * MS; t += 200 * MS) { // told once, and left alone
        others_get_on(ms, 1, 3, t);
        expect_nothing(ms, t);
    }
    sc_membership_free(&ms);
}

/* Silent at 2.0 s: a first probe without an answer at 3.7 s is not enough, the third, at 5.1 s, is.
 */
static void silence_counts_after_three_seconds(sc_probe_outcome outcome, sc_member_fault fault,
                                               const char *text)
{
    sc_membership *ms = fleet_with_silent_rank_2(3000 * MS);
    for (int64_t t = 3000 * MS; t < 4400 * MS; t += 700 * MS) {
        others_get_on(ms, 1, 3, t);
        expect_probe(ms, 1, t);
        others_get_on(ms, 1, 3, t + 700 * MS);
        sc_membership_probed(ms, 1, outcome, t + 700 * MS);
    }
    expect_probe(ms, 1, 4400 * MS);
    others_get_on(ms, 1, 3, 5100 * MS);
    sc_membership_probed(ms, 1, outcome, 5100 * MS);
    expect_fault(ms, 1, fault, 5100 * MS, text);
    sc_membership_free(&ms);
}

static void silent_is_frozen(void **state)
{
    (void)state;
    silence_counts_after_three_seconds(
        SC_PROBE_SILENT, SC_MEMBER_FROZEN,
        "rank 2 (host c, pid 18, cpu:1) is frozen: step 3, action 2F5, waiting for rank "
        "1, last heard 3.1 s ago");
}

static void timeout_is_cut_off(void **state)
{
    (void)state;
    silence_counts_after_three_seconds(
        SC_PROBE_TIMEOUT, SC_MEMBER_CUT_OFF,
        "rank 2 (host c, pid 18, cpu:1) is cut off: step 3, action 2F5, waiting for rank "
        "1, last heard 3.1 s ago");
}

static void greeted_but_unheard_is_lost_after_10_s(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(2900 * MS);
    int n_probes = 0;
    for (int64_t t = 3000 * MS; t < 12000 * MS; t += 100 * MS) {
        others_get_on(ms, 1, 3, t);
        sc_membership_effect effects[EFFECTS];
        int n = sc_membership_tick(ms, t, effects, EFFECTS);
        assert_true(n == 0 || effects[0].type == SC_MEMBERSHIP_PROBE);
        if (n == 1) {
            n_probes++;
            sc_membership_probed(ms, 1, SC_PROBE_GREETED, t);
        }
    }
    assert_int_equal(n_probes, 9); // 3.0, 4.0, ... 11.0
    others_get_on(ms, 1, 3, 12000 * MS);
    expect_fault(ms, 1, SC_MEMBER_CUT_OFF, 12000 * MS,
                 "rank 2 (host c, pid 18, cpu:1) is cut off: step 3, action 2F5, waiting for rank "
                 "1, last heard 10.0 s ago");
    sc_membership_free(&ms);
}

static void a_beat_during_the_probe_clears_it(void **state)
{
    (void)state;
    const sc_probe_outcome slow[] = {SC_PROBE_SILENT, SC_PROBE_TIMEOUT, SC_PROBE_GREETED};
    for (size_t i = 0; i < sizeof slow / sizeof slow[0]; i++) {
        sc_membership *ms = fleet_with_silent_rank_2(3100 * MS);
        expect_probe(ms, 1, 3100 * MS);
        sc_membership_heard(ms, 1, 3200 * MS);
        sc_membership_probed(ms, 1, slow[i], 3300 * MS);
        expect_nothing(ms, 3300 * MS);
        sc_membership_free(&ms);
    }
    // but a refusal counts: what was heard had been in the queue
    sc_membership *ms = fleet_with_silent_rank_2(3100 * MS);
    expect_probe(ms, 1, 3100 * MS);
    sc_membership_heard(ms, 1, 3200 * MS);
    sc_membership_probed(ms, 1, SC_PROBE_REFUSED, 3300 * MS);
    expect_fault(ms, 1, SC_MEMBER_DEAD, 3300 * MS,
                 "rank 2 (host c, pid 18, cpu:1) is dead: step 3, action 2F5, waiting for rank 1, "
                 "last heard 0.1 s ago");
    sc_membership_free(&ms);
}

static void a_closed_connection_probes_at_once(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(2100 * MS);
    sc_membership_disconnected(ms, 1, 2100 * MS);
    expect_probe(ms, 1, 2100 * MS);
    expect_nothing(ms, 2200 * MS);
    sc_membership_probed(ms, 1, SC_PROBE_REFUSED, 2250 * MS);
    expect_fault(ms, 1, SC_MEMBER_DEAD, 2300 * MS,
                 "rank 2 (host c, pid 18, cpu:1) is dead: step 3, action 2F5, waiting for rank 1, "
                 "last heard 0.3 s ago");
    sc_membership_free(&ms);
}

static void who_left_is_not_missed(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(3100 * MS);
    expect_probe(ms, 1, 3100 * MS);
    sc_membership_leave(ms, 1);
    sc_membership_probed(ms, 1, SC_PROBE_REFUSED, 3200 * MS);
    others_get_on(ms, 1, 3, 9000 * MS);
    expect_nothing(ms, 9000 * MS);
    // its slot is free for another, of whom nothing is known
    sc_membership_join(ms, 1, "e", 99, "cpu:0", 9000 * MS);
    char text[256];
    sc_membership_describe(ms, 1, 9300 * MS, text, sizeof text);
    assert_string_equal(text, "worker 1 (host e, pid 99, cpu:0): no heartbeat yet, last heard 0.3 "
                              "s ago");
    expect_nothing(ms, 9300 * MS);
    sc_membership_free(&ms);
}

/* Worker 1 computes 2F5 of step `step` from 1.0 s on and beats without progress until `end_ns`. */
static void compute_without_progress(sc_membership *ms, uint64_t step, int peer, int64_t end_ns)
{
    for (int64_t t = 0; t < 1000 * MS; t += 200 * MS) {
        beat(ms, 1, 0, "step", "2F0", -1, 1, t);
        others_get_on(ms, 1, 0, t);
    }
    for (int64_t t = 1000 * MS; t <= end_ns; t += 200 * MS) {
        beat(ms, 1, step, "step", "2F5", peer, 7, t);
        others_get_on(ms, 1, step, t);
    }
}

static void beats_without_progress_are_stuck(void **state)
{
    (void)state;
    sc_membership *ms = fleet();
    compute_without_progress(ms, 1, -1, 6000 * MS);
    expect_nothing(ms, 6000 * MS); // 5.0 s: not yet longer
    sc_membership_free(&ms);
    ms = fleet();
    compute_without_progress(ms, 1, -1, 6200 * MS);
    expect_fault(ms, 1, SC_MEMBER_STUCK, 6200 * MS,
                 "rank 2 (host c, pid 18, cpu:1) is stuck: step 1, action 2F5, last heard 0.0 s "
                 "ago, no progress for 5.2 s");
    sc_membership_free(&ms);
}

static void the_first_step_is_exempt(void **state)
{
    (void)state;
    sc_membership *ms = fleet();
    compute_without_progress(ms, 0, -1, 60000 * MS);
    expect_nothing(ms, 60000 * MS);
    sc_membership_free(&ms);
}

static void slow_actions_get_ten_medians(void **state)
{
    (void)state;
    sc_membership *ms = fleet();
    sc_membership_set_median(ms, 800 * MS);
    compute_without_progress(ms, 1, -1, 9000 * MS);
    expect_nothing(ms, 9000 * MS);
    beat(ms, 1, 1, "step", "2F5", -1, 7, 9001 * MS);
    others_get_on(ms, 1, 1, 9001 * MS);
    expect_fault(ms, 1, SC_MEMBER_STUCK, 9001 * MS,
                 "rank 2 (host c, pid 18, cpu:1) is stuck: step 1, action 2F5, last heard 0.0 s "
                 "ago, no progress for 8.0 s");
    sc_membership_free(&ms);
}

static void waiting_for_one_that_gets_on_is_not_stuck(void **state)
{
    (void)state;
    sc_membership *ms = fleet();
    compute_without_progress(ms, 1, 1, 30000 * MS);
    expect_nothing(ms, 30000 * MS);
    sc_membership_free(&ms);
}

static void idle_and_setup_are_not_stuck(void **state)
{
    (void)state;
    const char *states[] = {"idle", "setup"};
    for (int i = 0; i < 2; i++) {
        sc_membership *ms = fleet();
        compute_without_progress(ms, 1, -1, 1200 * MS);
        for (int64_t t = 1400 * MS; t <= 20000 * MS; t += 200 * MS) {
            beat(ms, 1, 1, states[i], "", -1, 7, t);
            others_get_on(ms, 1, 1, t);
            expect_nothing(ms, t);
        }
        sc_membership_free(&ms);
    }
}

/* Everybody beats the same from 1.0 s to 7.0 s: rank r in states[r], waiting for peers[r]. */
static sc_membership *all_stand_still(const char *const states[N], const int peers[N])
{
    sc_membership *ms = fleet();
    for (int r = 0; r < N; r++) {
        beat(ms, N - 1 - r, 0, "step", "0F0", -1, 1, 0);
    }
    for (int64_t t = 1000 * MS; t <= 7000 * MS; t += 200 * MS) {
        for (int r = 0; r < N; r++) {
            beat(ms, N - 1 - r, 2, states[r], "0F1", peers[r], 9, t);
        }
    }
    return ms;
}

static void the_end_of_a_chain_of_waits_is_to_blame(void **state)
{
    (void)state;
    const char *states[N] = {"step", "step", "step", "step"};
    const int peers[N] = {-1, 0, 1, 2};
    sc_membership *ms = all_stand_still(states, peers);
    expect_fault(ms, 3, SC_MEMBER_STUCK, 7000 * MS,
                 "rank 0 (host a, pid 20, cpu:1) is stuck: step 2, action 0F1, last heard 0.0 s "
                 "ago, no progress for 6.0 s");
    expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

static void a_circle_of_waits_is_told_once(void **state)
{
    (void)state;
    const char *states[N] = {"step", "step", "step", "step"};
    const int peers[N] = {1, 0, 1, 2};
    sc_membership *ms = all_stand_still(states, peers);
    expect_fault(ms, 2, SC_MEMBER_STUCK, 7000 * MS,
                 "rank 1 (host b, pid 19, cpu:1) is stuck: step 2, action 0F1, waiting for rank 0, "
                 "last heard 0.0 s ago, no progress for 6.0 s");
    expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

static void waiting_for_an_idle_rank_is_stuck(void **state)
{
    (void)state;
    const char *states[N] = {"idle", "step", "idle", "idle"};
    const int peers[N] = {-1, 0, -1, -1};
    sc_membership *ms = all_stand_still(states, peers);
    expect_fault(ms, 2, SC_MEMBER_STUCK, 7000 * MS,
                 "rank 1 (host b, pid 19, cpu:1) is stuck: step 2, action 0F1, waiting for rank 0, "
                 "last heard 0.0 s ago, no progress for 6.0 s");
    sc_membership_free(&ms);
}

/* A rank that is through waits in its tail for the slow ones, however long they take. */
static void a_tail_waits_for_rows_that_get_on(void **state)
{
    (void)state;
    sc_membership *ms = fleet();
    compute_without_progress(ms, 1, -1, 1200 * MS);
    for (int64_t t = 1400 * MS; t <= 60000 * MS; t += 200 * MS) {
        beat(ms, 1, 1, "tail", "", -1, 8, t);
        others_get_on(ms, 1, 1, t);
        expect_nothing(ms, t);
    }
    sc_membership_free(&ms);
}

static void a_row_that_tails_wait_for_is_stuck(void **state)
{
    (void)state;
    const char *states[N] = {"tail", "tail", "step", "tail"};
    const int peers[N] = {-1, -1, -1, -1};
    sc_membership *ms = all_stand_still(states, peers);
    expect_fault(ms, 1, SC_MEMBER_STUCK, 7000 * MS,
                 "rank 2 (host c, pid 18, cpu:1) is stuck: step 2, action 0F1, last heard 0.0 s "
                 "ago, no progress for 6.0 s");
    expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

/* Whoever is in its tail has sent all: a message of it that has not come will not come. */
static void waiting_for_a_rank_in_its_tail_is_stuck(void **state)
{
    (void)state;
    const char *states[N] = {"tail", "step", "step", "tail"};
    const int peers[N] = {-1, 0, 1, -1};
    sc_membership *ms = all_stand_still(states, peers);
    expect_fault(ms, 2, SC_MEMBER_STUCK, 7000 * MS,
                 "rank 1 (host b, pid 19, cpu:1) is stuck: step 2, action 0F1, waiting for rank 0, "
                 "last heard 0.0 s ago, no progress for 6.0 s");
    expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

/* The others are a step ahead and wait for the one whose tail does not end. */
static void a_tail_that_nobody_holds_up_is_stuck(void **state)
{
    (void)state;
    sc_membership *ms = fleet();
    others_get_on(ms, -1, 0, 0);
    for (int64_t t = 1000 * MS; t <= 7000 * MS; t += 200 * MS) {
        beat(ms, 3, 2, "tail", "", -1, 9, t);
        for (int r = 1; r < N; r++) {
            beat(ms, N - 1 - r, 3, "step", "0F0", r - 1, 9, t);
        }
    }
    expect_fault(ms, 3, SC_MEMBER_STUCK, 7000 * MS,
                 "rank 0 (host a, pid 20, cpu:1) is stuck: step 2, tail, last heard 0.0 s ago, no "
                 "progress for 6.0 s");
    expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

/* Large weights take a slow disk longer than any action takes. */
static void saving_is_not_stuck(void **state)
{
    (void)state;
    const char *states[N] = {"saving", "step", "step", "saving"};
    const int peers[N] = {-1, 0, 1, -1};
    sc_membership *ms = all_stand_still(states, peers);
    expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

static void effects_beyond_the_list_come_with_the_next_tick(void **state)
{
    (void)state;
    sc_membership *ms = fleet();
    sc_membership_effect effects[N];
    assert_int_equal(sc_membership_tick(ms, 1000 * MS, effects, 3), 3);
    assert_int_equal(sc_membership_tick(ms, 1000 * MS, effects, 3), 1);
    assert_int_equal(effects[0].worker, 3);
    expect_nothing(ms, 1000 * MS);
    for (int w = 0; w < N; w++) {
        sc_membership_probed(ms, w, SC_PROBE_REFUSED, 1100 * MS);
    }
    assert_int_equal(sc_membership_tick(ms, 1200 * MS, effects, 3), 3);
    assert_int_equal(sc_membership_tick(ms, 1200 * MS, effects, 3), 1);
    assert_string_equal(effects[0].text, "rank 0 (host a, pid 20, cpu:1) is dead: no heartbeat "
                                         "yet, last heard 1.2 s ago");
    sc_membership_free(&ms);
}

static void describe_says_what_a_worker_does(void **state)
{
    (void)state;
    sc_membership *ms = fleet();
    char text[256];
    beat(ms, 1, 3, "step", "2F5", 1, 7, 1000 * MS);
    sc_membership_describe(ms, 1, 1100 * MS, text, sizeof text);
    assert_string_equal(text, "rank 2 (host c, pid 18, cpu:1): step 3, action 2F5, waiting for "
                              "rank 1, last heard 0.1 s ago");
    beat(ms, 1, 3, "tail", "", -1, 8, 1100 * MS);
    sc_membership_describe(ms, 1, 1100 * MS, text, sizeof text);
    assert_string_equal(text, "rank 2 (host c, pid 18, cpu:1): step 3, tail, last heard 0.0 s ago");
    sc_membership_describe(ms, 1, 1100 * MS, text, 7); // cut, and ended
    assert_string_equal(text, "rank 2");
    sc_membership_free(&ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_asks_for_one_probe_at_a_time),
        cmocka_unit_test(refused_is_dead),
        cmocka_unit_test(silent_is_frozen),
        cmocka_unit_test(timeout_is_cut_off),
        cmocka_unit_test(greeted_but_unheard_is_lost_after_10_s),
        cmocka_unit_test(a_beat_during_the_probe_clears_it),
        cmocka_unit_test(a_closed_connection_probes_at_once),
        cmocka_unit_test(who_left_is_not_missed),
        cmocka_unit_test(beats_without_progress_are_stuck),
        cmocka_unit_test(the_first_step_is_exempt),
        cmocka_unit_test(slow_actions_get_ten_medians),
        cmocka_unit_test(waiting_for_one_that_gets_on_is_not_stuck),
        cmocka_unit_test(idle_and_setup_are_not_stuck),
        cmocka_unit_test(the_end_of_a_chain_of_waits_is_to_blame),
        cmocka_unit_test(a_circle_of_waits_is_told_once),
        cmocka_unit_test(waiting_for_an_idle_rank_is_stuck),
        cmocka_unit_test(a_tail_waits_for_rows_that_get_on),
        cmocka_unit_test(a_row_that_tails_wait_for_is_stuck),
        cmocka_unit_test(waiting_for_a_rank_in_its_tail_is_stuck),
        cmocka_unit_test(a_tail_that_nobody_holds_up_is_stuck),
        cmocka_unit_test(saving_is_not_stuck),
        cmocka_unit_test(effects_beyond_the_list_come_with_the_next_tick),
        cmocka_unit_test(describe_says_what_a_worker_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
