/*
 * bubble_split - one rank's report of a step -> causes: where every nanosecond went. Pure.
 *
 * The window runs from tail end to tail end; every nanosecond has one cause and the causes sum to
 * the window. For an action that starts at s after the previous one ended at e, with its last
 * input's sender ready at S, receive posted at R, data arrived at A, all clipped to [e, s]: wait =
 * up to S; buffer = S to max(S, R); transfer = to A; control = to s. (An action without input: e to
 * s is control.) reduce and optimizer are the tail's; waiting there for slower ranks is wait; idle
 * is what is left (from the row's last end to the tail's start and the like).
 */
#ifndef SC_COORDINATOR_BUBBLE_SPLIT_H
#define SC_COORDINATOR_BUBBLE_SPLIT_H

#include "proto/messages.h"
#include "schedules/table.h"

#define SC_CAUSE_MAP(X) \
    X(FORWARD, "forward") \
    X(BACKWARD_INPUT, "backward_input") \
    X(BACKWARD_WEIGHT, "backward_weight") \
    X(WAIT, "wait") \
    X(BUFFER, "buffer") \
    X(TRANSFER, "transfer") \
    X(CONTROL, "control") \
    X(REDUCE, "reduce") \
    X(OPTIMIZER, "optimizer") \
    X(IDLE, "idle")

#define SC_CAUSE_ENUM(name, text) SC_CAUSE_##name,
typedef enum sc_cause {
    SC_CAUSE_MAP(SC_CAUSE_ENUM) SC_CAUSE_COUNT
} sc_cause;
#undef SC_CAUSE_ENUM

typedef struct sc_bubble_split {
    int64_t ns[SC_CAUSE_COUNT];
    int64_t window_ns; // equals the sum
} sc_bubble_split;

/* SC_PROTOCOL unless the report is of a rank of `table` (compute-only), its spans are that rank's
   row, action by action, inputs came only where there is a sender, and no time runs backwards.
   Everything below takes checked reports only. */
sc_status sc_bubble_split_check(const sc_table *table, const sc_msg_report *report, sc_err *err);

/* Splits one rank's report. offset_ns[r] is added to rank r's clock to get this rank's clock (NULL:
   one host); rank_of_stage (n_stages) tells whose clock sent_ready_ns is on. A fused B counts its
   weight_ns as backward_weight and the rest as backward_input. */
void sc_bubble_split_report(const sc_msg_report *report, const int64_t *offset_ns,
                            const int *rank_of_stage, sc_bubble_split *out);

/* True when something was received for the action. */
bool sc_bubble_split_has_input(const sc_msg_span *span);
/* When the action's last input was ready at its sender, on this rank's clock; has_input only. */
int64_t sc_bubble_split_ready_ns(const sc_msg_span *span, const int64_t *offset_ns,
                                 const int *rank_of_stage);

#endif
