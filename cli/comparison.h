/*
 * comparison - the summaries of several runs, side by side.
 *
 * Owns:     a copy of each summary.json.
 * Does not: read files.
 * Threads:  none of its own; one caller.
 *
 * A summary needs these keys, numbers or null where there is nothing to tell: final_loss, step_ms,
 * tokens_per_second, bubble.measured, bubble.simulated, bubble.closed_form (fractions),
 * activation_bytes.measured, activation_bytes.planned; and causes_ms, an object of numbers.
 */
#ifndef SC_CLI_COMPARISON_H
#define SC_CLI_COMPARISON_H

#include "base/status.h"

typedef struct sc_comparison sc_comparison;

sc_status sc_comparison_new(sc_comparison **out, sc_err *err);
void sc_comparison_free(sc_comparison **comparison);

/* Adds the n bytes of a run's summary.json. Every run must have the causes of the first. */
sc_status sc_comparison_add(sc_comparison *comparison, const char *schedule, const char *run_dir,
                            const char *json, size_t n, sc_err *err);

/* Two aligned tables, the second with the time by cause, and a line on whether the losses agree.
   malloc, caller frees. */
sc_status sc_comparison_format(const sc_comparison *comparison, char **out, sc_err *err);
/* {"schedules":[...]}: each summary with "name" set to its schedule, and "run_dir". malloc, caller
   frees. */
sc_status sc_comparison_json(const sc_comparison *comparison, char **out, sc_err *err);

#endif
