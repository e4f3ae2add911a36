#include "stage/executor.h"

#include <assert.h>
#include <string.h>

void sc_executor_begin(sc_executor *ex)
{
    assert(!ex->is_running);
    for (int e = 0; e < ex->n_edges; e++) {
        sc_edge *edge = &ex->edges[e];
        edge->n_posted = edge->n_arrived = edge->n_consumed = 0;
        edge->n_produced = edge->n_ready = edge->n_started = edge->n_sent = 0;
    }
    memset(ex->times, 0, (size_t)ex->n_actions * sizeof *ex->times);
    ex->n_dispatched = 0;
    ex->n_done = 0;
    ex->is_running = true;
}

/* The rank that an action waits for: for its message, or for a slot of ours to be taken off. */
static int find_blocker(const sc_executor *ex, const sc_exec_action *xa)
{
    if (xa->in_edge != SC_EXECUTOR_NONE) {
        const sc_edge *edge = &ex->edges[xa->in_edge];
        if (edge->type == SC_EDGE_RECV && edge->n_arrived <= xa->in_msg) {
            return edge->peer_rank;
        }
    }
    if (xa->out_edge != SC_EXECUTOR_NONE) {
        const sc_edge *edge = &ex->edges[xa->out_edge];
        if (edge->type == SC_EDGE_SEND && edge->n_produced - edge->n_sent >= edge->n_slots) {
            return edge->peer_rank;
        }
    }
    return SC_EXECUTOR_NONE;
}

static bool may_dispatch(const sc_executor *ex, const sc_exec_action *xa)
{
    return ex->n_dispatched - ex->n_done < SC_EXECUTOR_DEPTH &&
           find_blocker(ex, xa) == SC_EXECUTOR_NONE;
}

static bool next_edge_effect(sc_executor *ex, int e, sc_exec_effect *out)
{
    sc_edge *edge = &ex->edges[e];
    if (edge->type == SC_EDGE_RECV && edge->n_posted < edge->n_msgs &&
        edge->n_posted - edge->n_consumed < edge->n_slots) {
        *out = (sc_exec_effect){.type = SC_EXEC_POST_RECV, .edge = e, .msg = edge->n_posted++};
        out->slot = edge->slot_of_msg[out->msg];
        out->mb = edge->mb_of_msg[out->msg];
        return true;
    }
    if (edge->type == SC_EDGE_SEND && edge->n_started < edge->n_ready) {
        *out = (sc_exec_effect){.type = SC_EXEC_SEND, .edge = e, .msg = edge->n_started++};
        out->slot = edge->slot_of_msg[out->msg];
        out->mb = edge->mb_of_msg[out->msg];
        out->ready_ns = ex->ready_ns[e][out->slot];
        return true;
    }
    return false;
}

bool sc_executor_next(sc_executor *ex, sc_exec_effect *out)
{
    if (!ex->is_running) {
        return false;
    }
    if (ex->n_dispatched < ex->n_actions) {
        sc_exec_action *xa = &ex->actions[ex->n_dispatched];
        if (may_dispatch(ex, xa)) {
            *out = (sc_exec_effect){.type = SC_EXEC_DISPATCH, .index = ex->n_dispatched++};
            out->mb = xa->action.mb;
            if (xa->out_edge != SC_EXECUTOR_NONE) {
                ex->edges[xa->out_edge].n_produced++;
            }
            return true;
        }
    }
    for (int e = 0; e < ex->n_remote_edges; e++) {
        if (next_edge_effect(ex, e, out)) {
            return true;
        }
    }
    return false;
}

void sc_executor_on_recv(sc_executor *ex, int edge, int64_t sent_ready_ns, int64_t posted_ns,
                         int64_t arrived_ns)
{
    sc_edge *e = &ex->edges[edge];
    assert(e->type == SC_EDGE_RECV && e->n_arrived < e->n_posted);
    int reader = e->reader_of_msg[e->n_arrived++];
    ex->times[reader].sent_ready_ns = sent_ready_ns;
    ex->times[reader].posted_ns = posted_ns;
    ex->times[reader].arrived_ns = arrived_ns;
}

void sc_executor_on_sent(sc_executor *ex, int edge)
{
    sc_edge *e = &ex->edges[edge];
    assert(e->type == SC_EDGE_SEND && e->n_sent < e->n_started);
    e->n_sent++;
}

void sc_executor_on_computed(sc_executor *ex, int index, int64_t start_ns, int64_t end_ns,
                             int64_t weight_ns)
{
    assert(index == ex->n_done && index < ex->n_dispatched);
    sc_exec_action *xa = &ex->actions[index];
    ex->times[index].start_ns = start_ns;
    ex->times[index].end_ns = end_ns;
    ex->times[index].weight_ns = weight_ns;
    ex->n_done++;
    if (xa->in_edge != SC_EXECUTOR_NONE) {
        ex->edges[xa->in_edge].n_consumed++;
    }
    if (xa->out_edge != SC_EXECUTOR_NONE && ex->edges[xa->out_edge].type == SC_EDGE_SEND) {
        ex->ready_ns[xa->out_edge][xa->out_slot] = end_ns;
        ex->edges[xa->out_edge].n_ready++;
    }
}

/* A SEND edge that has not let go of all its messages; SC_EXECUTOR_NONE when all have. */
static int find_open_send(const sc_executor *ex)
{
    for (int e = 0; e < ex->n_remote_edges; e++) {
        if (ex->edges[e].type == SC_EDGE_SEND && ex->edges[e].n_sent < ex->edges[e].n_msgs) {
            return e;
        }
    }
    return SC_EXECUTOR_NONE;
}

bool sc_executor_is_row_done(const sc_executor *ex)
{
    return ex->is_running && ex->n_done == ex->n_actions && find_open_send(ex) == SC_EXECUTOR_NONE;
}

void sc_executor_end(sc_executor *ex)
{
    assert(sc_executor_is_row_done(ex));
    ex->is_running = false;
}

int sc_executor_current(const sc_executor *ex, int *waits_for_p)
{
    *waits_for_p = SC_EXECUTOR_NONE;
    if (!ex->is_running) {
        return SC_EXECUTOR_NONE;
    }
    if (ex->n_done == ex->n_actions) {
        int open = find_open_send(ex);
        *waits_for_p = open == SC_EXECUTOR_NONE ? SC_EXECUTOR_NONE : ex->edges[open].peer_rank;
        return SC_EXECUTOR_NONE;
    }
    if (ex->n_dispatched == ex->n_done) {
        *waits_for_p = find_blocker(ex, &ex->actions[ex->n_done]);
    }
    return ex->n_done;
}
