/*
 * metrics - a step's numbers -> one line of metrics.jsonl. Pure.
 */
#ifndef SC_COORDINATOR_METRICS_H
#define SC_COORDINATOR_METRICS_H

#include "base/status.h"
#include "coordinator/bubble_split.h"

typedef struct sc_metrics_step {
    uint64_t step; // 0-based
    double loss;   // mean over the global batch's valid tokens
    double grad_norm;
    double lr;
    double step_ms;
    double tokens_per_second;
    sc_bubble_split causes; // mean over ranks
} sc_metrics_step;

/* {"step":..,"loss":..,"grad_norm":..,"lr":..,"step_ms":..,"tokens_per_second":..,
   "causes_ms":{"forward":..,...}} without a newline. A number that is not finite is null: JSON has
   no word for it. malloc, caller frees. */
sc_status sc_metrics_format(const sc_metrics_step *step, char **out, sc_err *err);

#endif
