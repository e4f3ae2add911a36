/*
 * membership_rig - a made-up fleet whose workers beat as a test says.
 */
#ifndef SC_TESTS_COORDINATOR_MEMBERSHIP_RIG_H
#define SC_TESTS_COORDINATOR_MEMBERSHIP_RIG_H

#include "coordinator/membership.h"

enum {
    MEMBERSHIP_RIG_N = 4,      // workers
    MEMBERSHIP_RIG_EFFECTS = 8 // that a tick may bring
};

#define MEMBERSHIP_RIG_MS INT64_C(1000000) // in ns

/* The workers joined at 0 with ranks in reverse, so that a worker is never its rank; stuck after
   5 s. */
sc_membership *membership_rig_fleet(void);
/* One heartbeat; peer < 0: it waits for nobody. */
void membership_rig_beat(sc_membership *ms, int worker, uint64_t step, const char *state,
                         const char *action, int peer, uint64_t n_done, int64_t now_ns);
/* All workers but `except` say that they compute step `step` and get on. */
void membership_rig_others_get_on(sc_membership *ms, int except, uint64_t step, int64_t now_ns);

/* A tick at this time brings nothing, one probe, one fault with this text. */
void membership_rig_expect_nothing(sc_membership *ms, int64_t now_ns);
void membership_rig_expect_probe(sc_membership *ms, int worker, int64_t now_ns);
void membership_rig_expect_fault(sc_membership *ms, int worker, sc_member_fault fault,
                                 int64_t now_ns, const char *text);

#endif
