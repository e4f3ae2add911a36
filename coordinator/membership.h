/*
 * membership - which ranks are alive and getting on, from the heartbeats and probes seen so far.
 *
 * Owns:     the last-seen time, action and state of each worker.
 * Does not: send, read a clock, or decide what happens next (steploop does).
 * Threads:  none of its own; one caller.
 *
 * Told apart: heartbeats missing for 1 s ask for a probe of the worker's
 * liveness socket; its outcome decides: refused or closed = dead; connected but no greeting =
 * frozen; no connection in time = cut off; greeted = alive, only the control link is slow: wait on,
 * lost after 10 s. Frozen and cut off need 3 s of silence, with probe after probe unanswered: a
 * process that a busy machine starves for a second or two is neither. Heartbeats that come but show
 * no progress for longer than max(stuck_ns, 10 x that action's median) = stuck, unless the worker
 * waits for a peer (then the peer is to blame), is in its tail while another rank is still in its
 * row, saves, or the step is the first, which is the one that its first heartbeat with this rank
 * names. When the waiting goes in a circle, or for a rank that has nothing to do or nothing more to
 * send, nobody else is to blame: then the one that waits is the one that is stuck.
 */
#ifndef SC_COORDINATOR_MEMBERSHIP_H
#define SC_COORDINATOR_MEMBERSHIP_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define SC_MEMBER_FAULT_MAP(X) \
    X(NONE, "alive") \
    X(DEAD, "dead") \
    X(FROZEN, "frozen") \
    X(CUT_OFF, "cut off") \
    X(STUCK, "stuck")

#define SC_MEMBER_FAULT_ENUM(name, text) SC_MEMBER_##name,
typedef enum sc_member_fault {
    SC_MEMBER_FAULT_MAP(SC_MEMBER_FAULT_ENUM)
} sc_member_fault;
#undef SC_MEMBER_FAULT_ENUM

typedef enum sc_probe_outcome {
    SC_PROBE_REFUSED, // refused, reset or closed
    SC_PROBE_SILENT,  // connected, no greeting in time
    SC_PROBE_TIMEOUT, // no connection in time
    SC_PROBE_GREETED
} sc_probe_outcome;

typedef struct sc_membership sc_membership;

/* What a heartbeat says; texts are copied. */
typedef struct sc_member_beat {
    uint64_t step;
    const char *state;
    const char *action; // text form, "" when idle
    bool is_waiting;
    int peer; // rank waited for
    uint64_t n_done;
} sc_member_beat;

typedef enum sc_membership_effect_type {
    SC_MEMBERSHIP_PROBE, // probe this worker now
    SC_MEMBERSHIP_FAULT  // this worker is out: text is the whole report
} sc_membership_effect_type;

typedef struct sc_membership_effect {
    sc_membership_effect_type type;
    int worker;
    sc_member_fault fault;
    char text[512]; // "rank 2 (host a, pid 17, cpu:1) is frozen: step 3, action 2F5, waiting for
                    // rank 1, last heard 1.2 s ago"
} sc_membership_effect;

sc_status sc_membership_new(int n_workers_max, int64_t stuck_ns, sc_membership **out, sc_err *err);
void sc_membership_free(sc_membership **membership);

/* A worker joined (worker = slot in [0, n_workers_max)); its rank is -1 until assigned. */
void sc_membership_join(sc_membership *ms, int worker, const char *host, uint32_t pid,
                        const char *device, int64_t now_ns);
void sc_membership_set_rank(sc_membership *ms, int worker, int rank);
void sc_membership_leave(sc_membership *ms, int worker);

/* Any message was heard from the worker. */
void sc_membership_heard(sc_membership *ms, int worker, int64_t now_ns);
void sc_membership_beat(sc_membership *ms, int worker, const sc_member_beat *beat, int64_t now_ns);
/* Its control connection was closed (by the peer or the kernel): probe at once. */
void sc_membership_disconnected(sc_membership *ms, int worker, int64_t now_ns);
void sc_membership_probed(sc_membership *ms, int worker, sc_probe_outcome outcome, int64_t now_ns);
/* Median time of an action of this kind so far, for the stuck rule; fed by the coordinator from
 * reports. */
void sc_membership_set_median(sc_membership *ms, int64_t median_action_ns);

/* Looks at the clock; fills up to n_max effects, returns how many. Each fault is told once. */
int sc_membership_tick(sc_membership *ms, int64_t now_ns, sc_membership_effect *effects, int n_max);
/* "rank 2 (host a, pid 17, cpu:1): step 3, action 2F5, waiting for rank 1, last heard 0.1 s ago" */
void sc_membership_describe(const sc_membership *ms, int worker, int64_t now_ns, char *out,
                            size_t n);

#endif
