/* Who beats without getting on, and who is to blame. */
#include "tests/coordinator/membership_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum {
    N = MEMBERSHIP_RIG_N
};

static const int64_t MS = MEMBERSHIP_RIG_MS;

/* Worker 1 computes 2F5 of step `step` from 1.0 s on and beats without progress until `end_ns`. */
static void compute_without_progress(sc_membership *ms, uint64_t step, int peer, int64_t end_ns)
{
    for (int64_t t = 0; t < 1000 * MS; t += 200 * MS) {
        membership_rig_beat(ms, 1, 0, "step", "2F0", -1, 1, t);
        membership_rig_others_get_on(ms, 1, 0, t);
    }
    for (int64_t t = 1000 * MS; t <= end_ns; t += 200 * MS) {
        membership_rig_beat(ms, 1, step, "step", "2F5", peer, 7, t);
        membership_rig_others_get_on(ms, 1, step, t);
    }
}

static void beats_without_progress_are_stuck(void **state)
{
    (void)state;
    sc_membership *ms = membership_rig_fleet();
    compute_without_progress(ms, 1, -1, 6000 * MS);
    membership_rig_expect_nothing(ms, 6000 * MS); // 5.0 s: not yet longer
    sc_membership_free(&ms);

    ms = membership_rig_fleet();
    compute_without_progress(ms, 1, -1, 6200 * MS);
    membership_rig_expect_fault(
        ms, 1, SC_MEMBER_STUCK, 6200 * MS,
        "rank 2 (host c, pid 18, cpu:1) is stuck: step 1, action 2F5, last heard 0.0 s "
        "ago, no progress for 5.2 s");
    sc_membership_free(&ms);
}

static void the_first_step_is_exempt(void **state)
{
    (void)state;
    sc_membership *ms = membership_rig_fleet();
    compute_without_progress(ms, 0, -1, 60000 * MS);
    membership_rig_expect_nothing(ms, 60000 * MS);
    sc_membership_free(&ms);
}

static void slow_actions_get_ten_medians(void **state)
{
    (void)state;
    sc_membership *ms = membership_rig_fleet();
    sc_membership_set_median(ms, 800 * MS);
    compute_without_progress(ms, 1, -1, 9000 * MS);
    membership_rig_expect_nothing(ms, 9000 * MS);
    membership_rig_beat(ms, 1, 1, "step", "2F5", -1, 7, 9001 * MS);
    membership_rig_others_get_on(ms, 1, 1, 9001 * MS);
    membership_rig_expect_fault(
        ms, 1, SC_MEMBER_STUCK, 9001 * MS,
        "rank 2 (host c, pid 18, cpu:1) is stuck: step 1, action 2F5, last heard 0.0 s "
        "ago, no progress for 8.0 s");
    sc_membership_free(&ms);
}

static void waiting_for_one_that_gets_on_is_not_stuck(void **state)
{
    (void)state;
    sc_membership *ms = membership_rig_fleet();
    compute_without_progress(ms, 1, 1, 30000 * MS);
    membership_rig_expect_nothing(ms, 30000 * MS);
    sc_membership_free(&ms);
}

static void idle_and_setup_are_not_stuck(void **state)
{
    (void)state;
    const char *states[] = {"idle", "setup"};
    for (int i = 0; i < 2; i++) {
        sc_membership *ms = membership_rig_fleet();
        compute_without_progress(ms, 1, -1, 1200 * MS);
        for (int64_t t = 1400 * MS; t <= 20000 * MS; t += 200 * MS) {
            membership_rig_beat(ms, 1, 1, states[i], "", -1, 7, t);
            membership_rig_others_get_on(ms, 1, 1, t);
            membership_rig_expect_nothing(ms, t);
        }
        sc_membership_free(&ms);
    }
}

/* Everybody beats the same from 1.0 s to 7.0 s: rank r in states[r], waiting for peers[r]. */
static sc_membership *all_stand_still(const char *const states[N], const int peers[N])
{
    sc_membership *ms = membership_rig_fleet();
    for (int r = 0; r < N; r++) {
        membership_rig_beat(ms, N - 1 - r, 0, "step", "0F0", -1, 1, 0);
    }
    for (int64_t t = 1000 * MS; t <= 7000 * MS; t += 200 * MS) {
        for (int r = 0; r < N; r++) {
            membership_rig_beat(ms, N - 1 - r, 2, states[r], "0F1", peers[r], 9, t);
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
    membership_rig_expect_fault(
        ms, 3, SC_MEMBER_STUCK, 7000 * MS,
        "rank 0 (host a, pid 20, cpu:1) is stuck: step 2, action 0F1, last heard 0.0 s "
        "ago, no progress for 6.0 s");
    membership_rig_expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

static void a_circle_of_waits_is_told_once(void **state)
{
    (void)state;
    const char *states[N] = {"step", "step", "step", "step"};
    const int peers[N] = {1, 0, 1, 2};
    sc_membership *ms = all_stand_still(states, peers);
    membership_rig_expect_fault(
        ms, 2, SC_MEMBER_STUCK, 7000 * MS,
        "rank 1 (host b, pid 19, cpu:1) is stuck: step 2, action 0F1, waiting for rank 0, "
        "last heard 0.0 s ago, no progress for 6.0 s");
    membership_rig_expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

static void waiting_for_an_idle_rank_is_stuck(void **state)
{
    (void)state;
    const char *states[N] = {"idle", "step", "idle", "idle"};
    const int peers[N] = {-1, 0, -1, -1};
    sc_membership *ms = all_stand_still(states, peers);
    membership_rig_expect_fault(
        ms, 2, SC_MEMBER_STUCK, 7000 * MS,
        "rank 1 (host b, pid 19, cpu:1) is stuck: step 2, action 0F1, waiting for rank 0, "
        "last heard 0.0 s ago, no progress for 6.0 s");
    sc_membership_free(&ms);
}

/* A rank that is through waits in its tail for the slow ones, however long they take. */
static void a_tail_waits_for_rows_that_get_on(void **state)
{
    (void)state;
    sc_membership *ms = membership_rig_fleet();
    compute_without_progress(ms, 1, -1, 1200 * MS);
    for (int64_t t = 1400 * MS; t <= 60000 * MS; t += 200 * MS) {
        membership_rig_beat(ms, 1, 1, "tail", "", -1, 8, t);
        membership_rig_others_get_on(ms, 1, 1, t);
        membership_rig_expect_nothing(ms, t);
    }
    sc_membership_free(&ms);
}

static void a_row_that_tails_wait_for_is_stuck(void **state)
{
    (void)state;
    const char *states[N] = {"tail", "tail", "step", "tail"};
    const int peers[N] = {-1, -1, -1, -1};
    sc_membership *ms = all_stand_still(states, peers);
    membership_rig_expect_fault(
        ms, 1, SC_MEMBER_STUCK, 7000 * MS,
        "rank 2 (host c, pid 18, cpu:1) is stuck: step 2, action 0F1, last heard 0.0 s "
        "ago, no progress for 6.0 s");
    membership_rig_expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

/* Whoever is in its tail has sent all: a message of it that has not come will not come. */
static void waiting_for_a_rank_in_its_tail_is_stuck(void **state)
{
    (void)state;
    const char *states[N] = {"tail", "step", "step", "tail"};
    const int peers[N] = {-1, 0, 1, -1};
    sc_membership *ms = all_stand_still(states, peers);
    membership_rig_expect_fault(
        ms, 2, SC_MEMBER_STUCK, 7000 * MS,
        "rank 1 (host b, pid 19, cpu:1) is stuck: step 2, action 0F1, waiting for rank 0, "
        "last heard 0.0 s ago, no progress for 6.0 s");
    membership_rig_expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

/* The others are a step ahead and wait for the one whose tail does not end. */
static void a_tail_that_nobody_holds_up_is_stuck(void **state)
{
    (void)state;
    sc_membership *ms = membership_rig_fleet();
    membership_rig_others_get_on(ms, -1, 0, 0);
    for (int64_t t = 1000 * MS; t <= 7000 * MS; t += 200 * MS) {
        membership_rig_beat(ms, 3, 2, "tail", "", -1, 9, t);
        for (int r = 1; r < N; r++) {
            membership_rig_beat(ms, N - 1 - r, 3, "step", "0F0", r - 1, 9, t);
        }
    }
    membership_rig_expect_fault(
        ms, 3, SC_MEMBER_STUCK, 7000 * MS,
        "rank 0 (host a, pid 20, cpu:1) is stuck: step 2, tail, last heard 0.0 s ago, no "
        "progress for 6.0 s");
    membership_rig_expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

/* Large weights take a slow disk longer than any action takes. */
static void saving_is_not_stuck(void **state)
{
    (void)state;
    const char *states[N] = {"saving", "step", "step", "saving"};
    const int peers[N] = {-1, 0, 1, -1};
    sc_membership *ms = all_stand_still(states, peers);
    membership_rig_expect_nothing(ms, 7000 * MS);
    sc_membership_free(&ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
