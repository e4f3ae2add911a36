/*
 * executor - a rank's row + finished work -> the next things to do. Pure.
 *
 * The row is fixed, so everything that can be decided before a step is: which slot a microbatch's
 * activations live in, which edge feeds an action and which takes its output. During a step only
 * counters move.
 *
 * The engine's rule: compute actions are dispatched in row order, at most SC_EXECUTOR_DEPTH ahead
 * of the one that is running; one is dispatched when its input message has arrived and a slot for
 * its output is free. The k-th receive of an edge is posted when a slot frees. A send starts when
 * its action is done and never holds the row up.
 *
 * Owns:     the compiled row and its counters, in the caller's arena.
 * Does not: read a clock, touch buffers or sockets. Effects say what the loop must do.
 * Threads:  none of its own; one caller.
 */
#ifndef SC_STAGE_EXECUTOR_H
#define SC_STAGE_EXECUTOR_H

#include "base/arena.h"
#include "schedules/table.h"

enum {
    SC_EXECUTOR_DEPTH = 2,
    SC_EXECUTOR_NONE = -1
};

typedef enum sc_edge_type {
    SC_EDGE_RECV,
    SC_EDGE_SEND,
    SC_EDGE_LOCAL
} sc_edge_type;

/* A one-way path of messages between two neighbouring stages, at least one of them on this rank. */
typedef struct sc_edge {
    sc_edge_type type;
    int from_stage;
    int to_stage;
    bool is_gradient;   // from stage s + 1 to s
    int peer_rank;      // of RECV and SEND
    int n_slots;        // message buffers
    int n_msgs;         // a step
    int *mb_of_msg;     // (n_msgs), the order
    int *reader_of_msg; // RECV: (n_msgs), index of the action that reads it
    int *slot_of_msg;   // (n_msgs); a receive takes the slot that was read longest ago
    /* counters of the current step */
    int n_posted;   // RECV: receives posted
    int n_arrived;  // RECV: messages here
    int n_consumed; // RECV, LOCAL: read by their action
    int n_produced; // SEND, LOCAL: actions dispatched that fill a slot
    int n_ready;    // SEND: filled, so may be sent
    int n_started;  // SEND: sends started
    int n_sent;     // SEND: slots free again
} sc_edge;

/* One compute action with all that is known before the step. */
typedef struct sc_exec_action {
    sc_action action;
    int act_slot;
    int keep_slot; // -1: a fused B (or F)
    int in_edge;   // SC_EXECUTOR_NONE: no message needed
    int in_msg;    // which message of the edge
    int in_slot;
    int out_edge;
    int out_msg;
    int out_slot;
} sc_exec_action;

typedef struct sc_exec_times {
    int64_t start_ns;
    int64_t end_ns;
    int64_t weight_ns;
    int64_t sent_ready_ns;
    int64_t posted_ns;
    int64_t arrived_ns;
} sc_exec_times;

typedef enum sc_exec_effect_type {
    SC_EXEC_POST_RECV, // post a receive of message `msg` of `edge` into `slot`
    SC_EXEC_DISPATCH,  // queue actions[index] on the compute thread
    SC_EXEC_SEND       // send message `msg` of `edge` from `slot`
} sc_exec_effect_type;

typedef struct sc_exec_effect {
    sc_exec_effect_type type;
    int index; // DISPATCH
    int edge;
    int msg;
    int slot;
    int mb;
    int64_t ready_ns; // SEND: when its action ended
} sc_exec_effect;

typedef struct sc_executor {
    int rank;
    int n_stages;
    int n_mb;
    int n_actions;
    sc_exec_action *actions; // (n_actions), compute actions in row order
    sc_exec_times *times;    // (n_actions), of the current step
    int n_edges;
    sc_edge *edges;     // (n_edges); RECV and SEND edges first, in an order both ends can compute
    int n_remote_edges; // edges[0 .. n_remote_edges)
    int *n_act_slots;   // (n_stages), slots each local stage needs
    int *n_keep_slots;  // (n_stages)
    int64_t **ready_ns; // (n_edges)(n_slots), SEND: end of the action that filled it
    /* counters of the current step */
    bool is_running;
    int n_dispatched;
    int n_done;
} sc_executor;

/* Starts a step: counters to zero. Not while one runs. */
void sc_executor_begin(sc_executor *ex);
/* Takes the next effect; false when there is nothing to do until the next event. */
bool sc_executor_next(sc_executor *ex, sc_exec_effect *out);

/* Events. on_recv: message arrived on `edge` (in order). on_sent: the oldest started send of `edge`
   let go of its slot. on_computed: actions[index] is done (in order). Times go into times[]. */
void sc_executor_on_recv(sc_executor *ex, int edge, int64_t sent_ready_ns, int64_t posted_ns,
                         int64_t arrived_ns);
void sc_executor_on_sent(sc_executor *ex, int edge);
void sc_executor_on_computed(sc_executor *ex, int index, int64_t start_ns, int64_t end_ns,
                             int64_t weight_ns);
/* Every action is done and every send has let go. */
bool sc_executor_is_row_done(const sc_executor *ex);
/* Ends the step; only when the row is done. */
void sc_executor_end(sc_executor *ex);

/* Where the row stands: the first action not done (SC_EXECUTOR_NONE when all are), and the rank it
   waits for: to send it its input, or to take a message off; SC_EXECUTOR_NONE when it runs. */
int sc_executor_current(const sc_executor *ex, int *waits_for_p);

#endif
