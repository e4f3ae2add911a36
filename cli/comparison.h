/*
 * comparison - the schedules that took turns in one job, side by side.
 *
 * Owns:     a copy of the job's summary.json.
 * Does not: read files.
 * Threads:  none of its own; one caller.
 *
 * Each entry of the summary's list "schedules" needs "name", and these keys, numbers or null where
 * there is nothing to tell: v, final_loss, step_ms, tokens_per_second, bubble.measured,
 * bubble.simulated, bubble.closed_form (fractions), activation_bytes.measured,
 * activation_bytes.planned; and causes_ms, an object of numbers. bubble.measured_min and
 * bubble.measured_max may be missing.
 */
#ifndef SC_CLI_COMPARISON_H
#define SC_CLI_COMPARISON_H

#include "base/status.h"

typedef struct sc_comparison sc_comparison;

/* Takes the n bytes of a run's summary.json; every schedule must have the causes of the first.
   Caller frees. */
sc_status sc_comparison_read(const char *json, size_t n, sc_comparison **out, sc_err *err);
/* Accepts NULL. */
void sc_comparison_free(sc_comparison **comparison);

/* Two aligned tables, the second with the time by cause. malloc, caller frees. */
sc_status sc_comparison_format(const sc_comparison *comparison, char **out, sc_err *err);
/* {"run_dir":...,"schedules":[...]}: the schedules as the summary has them. malloc, caller frees.
 */
sc_status sc_comparison_json(const sc_comparison *comparison, const char *run_dir, char **out,
                             sc_err *err);

#endif
