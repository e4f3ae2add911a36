#include "coordinator/membership.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000;
static const int64_t SILENCE_NS = 1000000000; // without a message for this long: probe
static const int64_t PROBE_AGAIN_NS = 1000000000;
static const int64_t VERDICT_NS =
    3000000000; // silent for this long, probes included: a busy machine is not
static const int64_t LOST_NS = 10000000000; // greets, but its control link is gone

enum {
    STUCK_MEDIANS = 10,
    NO_RANK = -1
};

typedef struct member {
    bool is_used;
    bool is_told; // its fault is out; nothing more is said about it
    char host[64];
    char device[32];
    uint32_t pid;
    int rank;
    int64_t heard_ns;
    /* the latest heartbeat */
    bool has_beat;
    uint64_t step;
    uint64_t first_step; // named by the first beat with this rank: exempt from the stuck rule
    char state[16];
    char action[32];
    bool is_waiting;
    int peer;
    uint64_t n_done;
    int64_t progress_ns; // when a beat last differed from the one before
    /* probes */
    bool is_probe_wanted; // without waiting for silence: its connection was closed
    bool is_probing;
    bool has_greeted; // at the latest probe
    int64_t probe_ns; // the latest probe's start, then its end
    sc_member_fault fault;
} member;

struct sc_membership {
    int n_workers_max;
    int64_t stuck_ns;
    int64_t median_ns;
    member members[];
};

sc_status sc_membership_new(int n_workers_max, int64_t stuck_ns, sc_membership **out, sc_err *err)
{
    assert(n_workers_max >= 1 && stuck_ns > 0);
    sc_membership *ms = calloc(1, sizeof *ms + (size_t)n_workers_max * sizeof ms->members[0]);
    if (ms == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %d workers", n_workers_max);
    }
    ms->n_workers_max = n_workers_max;
    ms->stuck_ns = stuck_ns;
    *out = ms;
    return SC_OK;
}

void sc_membership_free(sc_membership **membership)
{
    free(*membership);
    *membership = NULL;
}

static member *slot(sc_membership *ms, int worker)
{
    assert(worker >= 0 && worker < ms->n_workers_max);
    return &ms->members[worker];
}

void sc_membership_join(sc_membership *ms, int worker, const char *host, uint32_t pid,
                        const char *device, int64_t now_ns)
{
    member *m = slot(ms, worker);
    *m = (member){.is_used = true, .pid = pid, .rank = NO_RANK, .heard_ns = now_ns};
    snprintf(m->host, sizeof m->host, "%s", host);
    snprintf(m->device, sizeof m->device, "%s", device);
}

void sc_membership_set_rank(sc_membership *ms, int worker, int rank)
{
    member *m = slot(ms, worker);
    m->rank = rank;
    m->has_beat = false; // what it said before belongs to another plan, or to none
}

void sc_membership_leave(sc_membership *ms, int worker)
{
    slot(ms, worker)->is_used = false;
}

void sc_membership_heard(sc_membership *ms, int worker, int64_t now_ns)
{
    slot(ms, worker)->heard_ns = now_ns;
}

void sc_membership_beat(sc_membership *ms, int worker, const sc_member_beat *beat, int64_t now_ns)
{
    member *m = slot(ms, worker);
    m->heard_ns = now_ns;
    bool is_first = !m->has_beat;
    if (is_first) {
        m->has_beat = true;
        m->first_step = beat->step;
    }
    if (is_first || beat->n_done != m->n_done || beat->step != m->step ||
        strncmp(beat->state, m->state, sizeof m->state - 1) != 0) {
        m->progress_ns = now_ns;
    }
    m->step = beat->step;
    m->n_done = beat->n_done;
    m->is_waiting = beat->is_waiting;
    m->peer = beat->peer;
    snprintf(m->state, sizeof m->state, "%s", beat->state);
    snprintf(m->action, sizeof m->action, "%s", beat->action);
}

void sc_membership_disconnected(sc_membership *ms, int worker, int64_t now_ns)
{
    (void)now_ns;
    slot(ms, worker)->is_probe_wanted = true;
}

void sc_membership_probed(sc_membership *ms, int worker, sc_probe_outcome outcome, int64_t now_ns)
{
    member *m = slot(ms, worker);
    if (!m->is_used || !m->is_probing) {
        return; // it left, or its slot was taken by another, while the probe was under way
    }
    // one probe that a starved process did not answer proves little: it is asked again
    bool is_silent = m->heard_ns <= m->probe_ns && now_ns - m->heard_ns >= VERDICT_NS;
    m->is_probing = false;
    m->probe_ns = now_ns;
    m->has_greeted = outcome == SC_PROBE_GREETED;
    switch (outcome) {
    case SC_PROBE_REFUSED: // the process that owned the socket is gone, whatever was still queued
        m->fault = SC_MEMBER_DEAD;
        break;
    case SC_PROBE_SILENT:
        m->fault = is_silent ? SC_MEMBER_FROZEN : SC_MEMBER_NONE;
        break;
    case SC_PROBE_TIMEOUT:
        m->fault = is_silent ? SC_MEMBER_CUT_OFF : SC_MEMBER_NONE;
        break;
    case SC_PROBE_GREETED:
        break;
    }
}

void sc_membership_set_median(sc_membership *ms, int64_t median_action_ns)
{
    ms->median_ns = median_action_ns;
}

/* --- the stuck rule --- */

static int64_t stuck_limit(const sc_membership *ms)
{
    // a median of years would overflow; nothing is that slow and not stuck
    int64_t by_median =
        ms->median_ns > INT64_MAX / STUCK_MEDIANS ? INT64_MAX : ms->median_ns * STUCK_MEDIANS;
    return by_median > ms->stuck_ns ? by_median : ms->stuck_ns;
}

static bool is_in(const member *m, const char *state)
{
    return strcmp(m->state, state) == 0;
}

/* Executing. A file may take any time to be written, so no progress is asked of who saves. */
static bool is_active(const member *m)
{
    return m->has_beat && m->rank != NO_RANK &&
           (is_in(m, "step") || is_in(m, "tail") || is_in(m, "saving"));
}

static bool is_idle_too_long(const sc_membership *ms, const member *m, int64_t now_ns)
{
    return now_ns - m->progress_ns > stuck_limit(ms);
}

static const member *find_rank(const sc_membership *ms, int rank)
{
    for (int i = 0; i < ms->n_workers_max; i++) {
        if (ms->members[i].is_used && ms->members[i].rank == rank) {
            return &ms->members[i];
        }
    }
    return NULL;
}

/* Every rank's tail waits for every rank's row: true while one still walks its own. */
static bool is_tail_awaited(const sc_membership *ms, const member *m)
{
    for (int i = 0; i < ms->n_workers_max; i++) {
        const member *other = &ms->members[i];
        if (other != m && other->is_used && is_active(other) &&
            (other->step < m->step || (other->step == m->step && is_in(other, "step")))) {
            return true;
        }
    }
    return false;
}

/* Follows who waits for whom from a worker that waits. True when it is the one to blame: the
   waiting comes back to it in a circle, or it waits for a rank that has nothing to do or has sent
   all of this step, so that the message is lost. */
static bool is_waiting_in_vain(const sc_membership *ms, const member *m, int64_t now_ns)
{
    const member *peer = m;
    for (int hops = 0; hops < ms->n_workers_max; hops++) {
        peer = find_rank(ms, peer->peer);
        if (peer == m) {
            return true;
        }
        if (peer == NULL || peer->is_told || now_ns - peer->heard_ns >= SILENCE_NS ||
            !is_idle_too_long(ms, peer, now_ns)) {
            return false; // it gets on, or is about to be found out itself
        }
        if (!is_active(peer)) {
            return hops == 0;
        }
        if (is_in(peer, "tail") && peer->step >= m->step) {
            return hops == 0;
        }
        if (!peer->is_waiting) {
            return false; // it is stuck: told under its own name
        }
    }
    return false; // a circle of others
}

static bool is_stuck(const sc_membership *ms, const member *m, int64_t now_ns)
{
    if (!is_active(m) || m->step == m->first_step || !is_idle_too_long(ms, m, now_ns)) {
        return false;
    }
    if (is_in(m, "saving") || (is_in(m, "tail") && is_tail_awaited(ms, m))) {
        return false;
    }
    return !m->is_waiting || is_waiting_in_vain(ms, m, now_ns);
}

/* --- texts --- */

static void format_who(const sc_membership *ms, int worker, char *out, size_t n)
{
    const member *m = &ms->members[worker];
    char name[32];
    if (m->rank == NO_RANK) {
        snprintf(name, sizeof name, "worker %d", worker);
    } else {
        snprintf(name, sizeof name, "rank %d", m->rank);
    }
    snprintf(out, n, "%s (host %s, pid %" PRIu32 ", %s)", name, m->host, m->pid, m->device);
}

static double seconds(int64_t ns)
{
    return (double)ns / (double)SECOND_NS;
}

static void format_doing(const member *m, int64_t now_ns, char *out, size_t n)
{
    char doing[128] = "no heartbeat yet";
    if (m->has_beat) {
        char waiting[32] = "";
        if (m->is_waiting) {
            snprintf(waiting, sizeof waiting, ", waiting for rank %d", m->peer);
        }
        bool has_action = m->action[0] != '\0';
        snprintf(doing, sizeof doing, "step %" PRIu64 ", %s%s%s", m->step,
                 has_action ? "action " : "", has_action ? m->action : m->state, waiting);
    }
    snprintf(out, n, "%s, last heard %.1f s ago", doing, seconds(now_ns - m->heard_ns));
}

static const char *fault_text(sc_member_fault fault)
{
#define FAULT_CASE(name, text) \
    case SC_MEMBER_##name: \
        return text;
    switch (fault) {
        SC_MEMBER_FAULT_MAP(FAULT_CASE)
    }
#undef FAULT_CASE
    return "unknown";
}

void sc_membership_describe(const sc_membership *ms, int worker, int64_t now_ns, char *out,
                            size_t n)
{
    assert(worker >= 0 && worker < ms->n_workers_max);
    char who[160];
    char doing[224];
    format_who(ms, worker, who, sizeof who);
    format_doing(&ms->members[worker], now_ns, doing, sizeof doing);
    snprintf(out, n, "%s: %s", who, doing);
}

static void format_fault(const sc_membership *ms, int worker, int64_t now_ns,
                         sc_membership_effect *effect)
{
    const member *m = &ms->members[worker];
    char who[160];
    char doing[224];
    char progress[48] = "";
    format_who(ms, worker, who, sizeof who);
    format_doing(m, now_ns, doing, sizeof doing);
    if (effect->fault == SC_MEMBER_STUCK) {
        snprintf(progress, sizeof progress, ", no progress for %.1f s",
                 seconds(now_ns - m->progress_ns));
    }
    snprintf(effect->text, sizeof effect->text, "%s is %s: %s%s", who, fault_text(effect->fault),
             doing, progress);
}

/* --- the clock --- */

static sc_member_fault find_fault(const sc_membership *ms, const member *m, int64_t now_ns)
{
    if (m->fault != SC_MEMBER_NONE) {
        return m->fault;
    }
    int64_t silent_ns = now_ns - m->heard_ns;
    if (silent_ns >= LOST_NS && m->has_greeted) {
        return SC_MEMBER_CUT_OFF;
    }
    if (silent_ns < SILENCE_NS && is_stuck(ms, m, now_ns)) {
        return SC_MEMBER_STUCK;
    }
    return SC_MEMBER_NONE;
}

static bool needs_probe(const member *m, int64_t now_ns)
{
    if (m->is_probing) {
        return false;
    }
    bool was_probed_lately = m->has_greeted && now_ns - m->probe_ns < PROBE_AGAIN_NS;
    return m->is_probe_wanted || (now_ns - m->heard_ns >= SILENCE_NS && !was_probed_lately);
}

int sc_membership_tick(sc_membership *ms, int64_t now_ns, sc_membership_effect *effects, int n_max)
{
    int n = 0;
    for (int i = 0; i < ms->n_workers_max && n < n_max; i++) {
        member *m = &ms->members[i];
        if (!m->is_used || m->is_told) {
            continue;
        }
        sc_membership_effect *effect = &effects[n];
        sc_member_fault fault = find_fault(ms, m, now_ns);
        if (fault != SC_MEMBER_NONE) {
            *effect =
                (sc_membership_effect){.type = SC_MEMBERSHIP_FAULT, .worker = i, .fault = fault};
            format_fault(ms, i, now_ns, effect);
            m->is_told = true;
            n++;
        } else if (needs_probe(m, now_ns)) {
            *effect = (sc_membership_effect){.type = SC_MEMBERSHIP_PROBE, .worker = i};
            m->is_probe_wanted = false;
            m->is_probing = true;
            m->probe_ns = now_ns;
            n++;
        }
    }
    return n;
}
