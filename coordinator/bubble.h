/*
 * bubble - reports -> causes: where every nanosecond of a rank's step went. Pure.
 *
 * Per rank and step the window runs from tail end to tail end; every nanosecond has one cause and
 * the causes sum to the window. For an action that starts at s after the previous one ended at e,
 * with its last input's sender ready at S, receive posted at R, data arrived at A, all clipped to
 * [e, s]: wait = up to S; buffer = S to max(S, R); transfer = to A; control = to s. (An action
 * without input: e to s is control.) reduce and optimizer are the tail's; idle is what is left
 * (from the row's last end to the tail's start and the like).
 *
 * Measured bubble of a step: cost = max over ranks of (last compute end - first compute start);
 * ideal = largest sum over ranks of compute time; bubble = (cost - ideal) / cost (Qi et al., arXiv
 * 2401.10241: idle / cost).
 */
#ifndef SC_COORDINATOR_BUBBLE_H
#define SC_COORDINATOR_BUBBLE_H

#include "base/arena.h"
#include "proto/messages.h"
#include "schedules/simulate.h"

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

const char *sc_bubble_cause_text(sc_cause cause);

typedef struct sc_bubble_split {
    int64_t ns[SC_CAUSE_COUNT];
    int64_t window_ns; // equals the sum
} sc_bubble_split;

/* Splits one rank's report. offset_ns[r] is added to rank r's clock to get this rank's clock (NULL:
   one host); rank_of_stage (n_stages) tells whose clock sent_ready_ns is on. A fused B counts its
   weight_ns as backward_weight and the rest as backward_input. */
void sc_bubble_split_report(const sc_msg_report *report, const int64_t *offset_ns,
                            const int *rank_of_stage, sc_bubble_split *out);

typedef struct sc_bubble sc_bubble; // collects the reports of a run

typedef struct sc_bubble_result {
    int n_steps;     // steps used; the first (warm-up) step never is
    double measured; // median over the even steps used
    double measured_min;
    double measured_max;
    double
        simulated; // with per-stage median costs of the odd steps and the measured median transfer
    double simulated_cost_ns;
    double measured_cost_ns;         // median
    double step_ns;                  // median window, the longest rank's
    sc_bubble_split total;           // medians over steps of the mean over ranks
    sc_bubble_split *ranks;          // (n_ranks) medians over steps; owned by the collector
    const sc_stage_cost *costs;      // (n_stages) in ns, medians; owned by the collector
    double comm_ns;                  // median transfer A - max(S, R)
    uint64_t activation_peak_bytes;  // largest over ranks
    uint64_t executor_ns_per_action; // CPU of the loop thread per action, mean
} sc_bubble_result;

/* Keeps numbers, never the reports: memory is bounded by keep_steps latest steps. `table`
   (compute-only) is borrowed for simulation. */
sc_status sc_bubble_new(const sc_table *table, int keep_steps, sc_bubble **out, sc_err *err);
void sc_bubble_free(sc_bubble **bubble);
/* Adds one rank's report of a step; reports of one step may come in any order. */
sc_status sc_bubble_add(sc_bubble *bubble, const sc_msg_report *report, sc_err *err);
/* SC_NOT_FOUND when fewer than three steps are complete. */
sc_status sc_bubble_result_get(sc_bubble *bubble, sc_bubble_result *out, sc_err *err);

#endif
