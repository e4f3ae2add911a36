/*
 * bubble_report - a run's bubble as a table for people, and as JSON. Pure.
 */
#ifndef SC_COORDINATOR_BUBBLE_REPORT_H
#define SC_COORDINATOR_BUBBLE_REPORT_H

#include "coordinator/bubble.h"

#include <cjson/cJSON.h>

/* How well the ranks' clocks agree: 0 on one host; the error bound of the offsets between hosts;
   negative while one is unknown. Waiting and transfer are told apart by both ends' clocks, so when
   the error is larger than a transfer they are printed as one. */
enum {
    SC_BUBBLE_CLOCK_UNKNOWN = -1
};

/* Both take closed_form as (cost - ideal) / cost like the other two; NAN when the schedule has no
   closed form. */

/* The bubble in three conventions, measured, simulated and of the closed form, then per rank and in
   all the milliseconds of each cause and their share of the window. malloc, caller frees. */
sc_status sc_bubble_report_format(const sc_bubble_result *result, int n_ranks, double closed_form,
                                  int64_t clock_error_ns, char **out, sc_err *err);

/* {"forward":ms, ...}: a new object, caller deletes or attaches; NULL when out of memory. */
cJSON *sc_bubble_report_causes(const sc_bubble_split *split);

/* Adds to `object`: "bubble" {measured, measured_min, measured_max, simulated, closed_form,
   measured_over_ideal, simulated_over_ideal, measured_over_makespan, simulated_over_makespan},
   "causes_ms" (mean over ranks), "ranks" [{rank, window_ms, causes_ms}], "stages" [{stage, f_ms,
   i_ms, w_ms}], "comm_ms", "executor_us_per_action". */
sc_status sc_bubble_report_add_json(const sc_bubble_result *result, int n_ranks, int n_stages,
                                    double closed_form, cJSON *object, sc_err *err);

#endif
