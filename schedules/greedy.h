/*
 * greedy - fills the rows of a placed table by list scheduling: at each moment every free rank
 * takes the most urgent action whose inputs are there.
 *
 * A backward (B) is more urgent than any forward; of backwards the one of the lowest microbatch is,
 * of forwards the one of the deepest stage. A stage's microbatches keep their order.
 */
#ifndef SC_SCHEDULES_GREEDY_H
#define SC_SCHEDULES_GREEDY_H

#include "schedules/table.h"

typedef struct sc_greedy_options {
    int f_ticks; // what a forward of one stage takes, in ticks of the decisions' clock
    int b_ticks;
    /* Most microbatches between their first F and their last B; where parameters are replicated,
       of each direction. */
    int in_flight_max;
} sc_greedy_options;

/* The rows must be empty; the placement stands. */
sc_status sc_greedy_fill(sc_table *table, const sc_greedy_options *options, sc_err *err);

#endif
