/* Who is silent, and what its probe says. */
#include "tests/coordinator/membership_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum {
    N = MEMBERSHIP_RIG_N,
    EFFECTS = MEMBERSHIP_RIG_EFFECTS
};

static const int64_t MS = MEMBERSHIP_RIG_MS;

/* Worker 1 (rank 2) fell silent at 2.0 s in 2F5; the others get on until `now_ns`. */
static sc_membership *fleet_with_silent_rank_2(int64_t now_ns)
{
    sc_membership *ms = membership_rig_fleet();
    for (int64_t t = 200 * MS; t <= 2000 * MS; t += 200 * MS) {
        membership_rig_beat(ms, 1, 3, "step", "2F5", 1, 7, t);
        membership_rig_others_get_on(ms, 1, 3, t);
        membership_rig_expect_nothing(ms, t);
    }
    membership_rig_others_get_on(ms, 1, 3, now_ns);
    return ms;
}

static void silence_asks_for_one_probe_at_a_time(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(2900 * MS);
    membership_rig_expect_nothing(ms, 2999 * MS);
    membership_rig_expect_probe(ms, 1, 3000 * MS);
    membership_rig_others_get_on(ms, 1, 3, 3500 * MS);
    membership_rig_expect_nothing(ms, 3500 * MS); // it is still under way
    sc_membership_probed(ms, 1, SC_PROBE_GREETED, 3600 * MS);
    membership_rig_others_get_on(ms, 1, 3, 4500 * MS);
    membership_rig_expect_nothing(ms, 4599 * MS);
    membership_rig_expect_probe(ms, 1, 4600 * MS); // again a second after it returned
    sc_membership_free(&ms);
    assert_null(ms);
}

static void refused_is_dead(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(3100 * MS);
    membership_rig_expect_probe(ms, 1, 3100 * MS);
    sc_membership_probed(ms, 1, SC_PROBE_REFUSED, 3150 * MS);
    membership_rig_expect_fault(
        ms, 1, SC_MEMBER_DEAD, 3200 * MS,
        "rank 2 (host c, pid 18, cpu:1) is dead: step 3, action 2F5, waiting for rank 1, "
        "last heard 1.2 s ago");
    for (int64_t t = 3300 * MS; t < 30000 * MS; t += 200 * MS) { // told once, and left alone
        membership_rig_others_get_on(ms, 1, 3, t);
        membership_rig_expect_nothing(ms, t);
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
        membership_rig_others_get_on(ms, 1, 3, t);
        membership_rig_expect_probe(ms, 1, t);
        membership_rig_others_get_on(ms, 1, 3, t + 700 * MS);
        sc_membership_probed(ms, 1, outcome, t + 700 * MS);
    }
    membership_rig_expect_probe(ms, 1, 4400 * MS);
    membership_rig_others_get_on(ms, 1, 3, 5100 * MS);
    sc_membership_probed(ms, 1, outcome, 5100 * MS);
    membership_rig_expect_fault(ms, 1, fault, 5100 * MS, text);
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

/* A machine too busy to answer for two seconds, then all is well. */
static void a_starved_worker_is_not_frozen(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(3000 * MS);
    membership_rig_expect_probe(ms, 1, 3000 * MS);
    membership_rig_others_get_on(ms, 1, 3, 3700 * MS);
    sc_membership_probed(ms, 1, SC_PROBE_SILENT, 3700 * MS);
    membership_rig_beat(ms, 1, 3, "step", "2F5", 1, 7, 3800 * MS);
    membership_rig_expect_nothing(ms, 3800 * MS);
    sc_membership_free(&ms);
}

static void greeted_but_unheard_is_lost_after_10_s(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(2900 * MS);
    int n_probes = 0;
    for (int64_t t = 3000 * MS; t < 12000 * MS; t += 100 * MS) {
        membership_rig_others_get_on(ms, 1, 3, t);
        sc_membership_effect effects[EFFECTS];
        int n = sc_membership_tick(ms, t, effects, EFFECTS);
        assert_true(n == 0 || effects[0].type == SC_MEMBERSHIP_PROBE);
        if (n == 1) {
            n_probes++;
            sc_membership_probed(ms, 1, SC_PROBE_GREETED, t);
        }
    }
    assert_int_equal(n_probes, 9); // 3.0, 4.0, ... 11.0
    membership_rig_others_get_on(ms, 1, 3, 12000 * MS);
    membership_rig_expect_fault(
        ms, 1, SC_MEMBER_CUT_OFF, 12000 * MS,
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
        membership_rig_expect_probe(ms, 1, 3100 * MS);
        sc_membership_heard(ms, 1, 3200 * MS);
        sc_membership_probed(ms, 1, slow[i], 3300 * MS);
        membership_rig_expect_nothing(ms, 3300 * MS);
        sc_membership_free(&ms);
    }
    // but a refusal counts: what was heard had been in the queue
    sc_membership *ms = fleet_with_silent_rank_2(3100 * MS);
    membership_rig_expect_probe(ms, 1, 3100 * MS);
    sc_membership_heard(ms, 1, 3200 * MS);
    sc_membership_probed(ms, 1, SC_PROBE_REFUSED, 3300 * MS);
    membership_rig_expect_fault(
        ms, 1, SC_MEMBER_DEAD, 3300 * MS,
        "rank 2 (host c, pid 18, cpu:1) is dead: step 3, action 2F5, waiting for rank 1, "
        "last heard 0.1 s ago");
    sc_membership_free(&ms);
}

static void a_closed_connection_probes_at_once(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(2100 * MS);
    sc_membership_disconnected(ms, 1, 2100 * MS);
    membership_rig_expect_probe(ms, 1, 2100 * MS);
    membership_rig_expect_nothing(ms, 2200 * MS);
    sc_membership_probed(ms, 1, SC_PROBE_REFUSED, 2250 * MS);
    membership_rig_expect_fault(
        ms, 1, SC_MEMBER_DEAD, 2300 * MS,
        "rank 2 (host c, pid 18, cpu:1) is dead: step 3, action 2F5, waiting for rank 1, "
        "last heard 0.3 s ago");
    sc_membership_free(&ms);
}

static void who_left_is_not_missed(void **state)
{
    (void)state;
    sc_membership *ms = fleet_with_silent_rank_2(3100 * MS);
    membership_rig_expect_probe(ms, 1, 3100 * MS);
    sc_membership_leave(ms, 1);
    sc_membership_probed(ms, 1, SC_PROBE_REFUSED, 3200 * MS);
    membership_rig_others_get_on(ms, 1, 3, 9000 * MS);
    membership_rig_expect_nothing(ms, 9000 * MS);
    // its slot is free for another, of whom nothing is known
    sc_membership_join(ms, 1, "e", 99, "cpu:0", 9000 * MS);
    char text[256];
    sc_membership_describe(ms, 1, 9300 * MS, text, sizeof text);
    assert_string_equal(text, "worker 1 (host e, pid 99, cpu:0): no heartbeat yet, last heard 0.3 "
                              "s ago");
    membership_rig_expect_nothing(ms, 9300 * MS);
    sc_membership_free(&ms);
}

static void effects_beyond_the_list_come_with_the_next_tick(void **state)
{
    (void)state;
    sc_membership *ms = membership_rig_fleet();
    sc_membership_effect effects[N];
    assert_int_equal(sc_membership_tick(ms, 1000 * MS, effects, 3), 3);
    assert_int_equal(sc_membership_tick(ms, 1000 * MS, effects, 3), 1);
    assert_int_equal(effects[0].worker, 3);
    membership_rig_expect_nothing(ms, 1000 * MS);
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
    sc_membership *ms = membership_rig_fleet();
    char text[256];
    membership_rig_beat(ms, 1, 3, "step", "2F5", 1, 7, 1000 * MS);
    sc_membership_describe(ms, 1, 1100 * MS, text, sizeof text);
    assert_string_equal(text, "rank 2 (host c, pid 18, cpu:1): step 3, action 2F5, waiting for "
                              "rank 1, last heard 0.1 s ago");
    membership_rig_beat(ms, 1, 3, "tail", "", -1, 8, 1100 * MS);
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
        cmocka_unit_test(a_starved_worker_is_not_frozen),
        cmocka_unit_test(greeted_but_unheard_is_lost_after_10_s),
        cmocka_unit_test(a_beat_during_the_probe_clears_it),
        cmocka_unit_test(a_closed_connection_probes_at_once),
        cmocka_unit_test(who_left_is_not_missed),
        cmocka_unit_test(effects_beyond_the_list_come_with_the_next_tick),
        cmocka_unit_test(describe_says_what_a_worker_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
