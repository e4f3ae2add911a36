#include "tests/coordinator/membership_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* MEMBERSHIP_RIG_N workers joined at 0 with ranks in reverse, so that a worker is never its rank.
 */
sc_membership *membership_rig_fleet(void)
{
    static const char *const hosts[MEMBERSHIP_RIG_N] = {"d", "c", "b", "a"};
    sc_membership *ms = NULL;
    assert_int_equal(sc_membership_new(MEMBERSHIP_RIG_N, 5000 * MEMBERSHIP_RIG_MS, &ms, NULL),
                     SC_OK);
    for (int w = 0; w < MEMBERSHIP_RIG_N; w++) {
        sc_membership_join(ms, w, hosts[w], 17 + (uint32_t)w, "cpu:1", 0);
        sc_membership_set_rank(ms, w, MEMBERSHIP_RIG_N - 1 - w);
    }
    return ms;
}

void membership_rig_beat(sc_membership *ms, int worker, uint64_t step, const char *state,
                         const char *action, int peer, uint64_t n_done, int64_t now_ns)
{
    sc_member_beat b = {.step = step, .state = state, .action = action, .n_done = n_done};
    b.is_waiting = peer >= 0;
    b.peer = peer >= 0 ? peer : 0;
    sc_membership_beat(ms, worker, &b, now_ns);
}

/* All workers but `except` say that they compute step `step` and get on. */
void membership_rig_others_get_on(sc_membership *ms, int except, uint64_t step, int64_t now_ns)
{
    for (int w = 0; w < MEMBERSHIP_RIG_N; w++) {
        if (w != except) {
            membership_rig_beat(ms, w, step, "step", "0F0", -1,
                                (uint64_t)(now_ns / MEMBERSHIP_RIG_MS), now_ns);
        }
    }
}

void membership_rig_expect_nothing(sc_membership *ms, int64_t now_ns)
{
    sc_membership_effect effects[MEMBERSHIP_RIG_EFFECTS];
    assert_int_equal(sc_membership_tick(ms, now_ns, effects, MEMBERSHIP_RIG_EFFECTS), 0);
}

void membership_rig_expect_probe(sc_membership *ms, int worker, int64_t now_ns)
{
    sc_membership_effect effects[MEMBERSHIP_RIG_EFFECTS];
    assert_int_equal(sc_membership_tick(ms, now_ns, effects, MEMBERSHIP_RIG_EFFECTS), 1);
    assert_int_equal(effects[0].type, SC_MEMBERSHIP_PROBE);
    assert_int_equal(effects[0].worker, worker);
}

void membership_rig_expect_fault(sc_membership *ms, int worker, sc_member_fault fault,
                                 int64_t now_ns, const char *text)
{
    sc_membership_effect effects[MEMBERSHIP_RIG_EFFECTS];
    assert_int_equal(sc_membership_tick(ms, now_ns, effects, MEMBERSHIP_RIG_EFFECTS), 1);
    assert_int_equal(effects[0].type, SC_MEMBERSHIP_FAULT);
    assert_int_equal(effects[0].worker, worker);
    assert_int_equal(effects[0].fault, fault);
    assert_string_equal(effects[0].text, text);
}
