/*
 * trace - spans of time -> Chrome trace JSON, which Perfetto and chrome://tracing open.
 *
 * The spans may be a simulation's or measured ones of several steps. A process is a rank, a thread
 * of it a lane; arrows lead from the action that made a message to the one that used it.
 */
#ifndef SC_SCHEDULES_TRACE_H
#define SC_SCHEDULES_TRACE_H

#include "schedules/simulate.h"

typedef struct sc_trace_span {
    int rank;
    int lane;          // 0: compute; others as named by the caller
    int64_t step;      // shown with the span; arrows stay within one step
    const char *label; // NULL: the action's text form
    sc_action action;  // without meaning when label is given
    double start_ns;
    double end_ns;
} sc_trace_span;

typedef struct sc_trace {
    const char *title;             // of the whole trace
    int n_ranks;                   // processes
    const char *const *rank_names; // (n_ranks) NULL: "rank 0", ...
    int n_lanes;                   // threads a rank, at least 1
    const char *const *lane_names; // (n_lanes) NULL: "compute", "lane 1", ...
    const sc_trace_span *spans;    // (n_spans) in any order
    size_t n_spans;
} sc_trace;

/* Spans of a timeline's compute actions, with ns_per_unit nanoseconds a unit of its times. malloc,
   caller frees *out (n_out). */
sc_status sc_trace_from_timeline(const sc_timeline *timeline, int64_t step, double ns_per_unit,
                                 sc_trace_span **out, size_t *n_out, sc_err *err);

/* The JSON text. malloc, caller frees. Everything in *trace is borrowed for the call. */
sc_status sc_trace_write(const sc_trace *trace, char **out, sc_err *err);

#endif
