/*
 * metrics - a step's numbers -> one line of metrics.jsonl. Pure.
 */
#ifndef SC_COORDINATOR_METRICS_H
#define SC_COORDINATOR_METRICS_H

#include "base/status.h"
#include "coordinator/bubble_split.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

typedef struct sc_metrics_step {
    uint64_t step; // 0-based
    double loss;   // mean over the global batch's valid tokens
    double grad_norm;
    double lr;
    double step_ms;
    double tokens_per_second;
    sc_bubble_split causes; // mean over ranks
} sc_metrics_step;

/* Adds a number with as many digits as it takes to read the same bits back (cJSON's own numbers may
   lose the last one), null when it is not finite: JSON has no word for it. False when out of
   memory. */
bool sc_metrics_add_real(cJSON *object, const char *name, double value);

/* {"step":..,"loss":..,"grad_norm":..,"lr":..,"step_ms":..,"tokens_per_second":..,
   "causes_ms":{"forward":..,...}} without a newline, numbers as sc_metrics_add_real
   writes them. malloc, caller frees. */
sc_status sc_metrics_format(const sc_metrics_step *step, char **out, sc_err *err);

#endif
