/*
 * planner_slots - how many message buffers a plan's channels need so that no rank waits for one.
 * Pure.
 */
#ifndef SC_COORDINATOR_PLANNER_SLOTS_H
#define SC_COORDINATOR_PLANNER_SLOTS_H

#include "schedules/simulate.h"

/* With n buffers at each end of a channel an action may start when its message is less than 2n
   ahead of what the other end has read. The smallest n with which every action of a simulated
   timeline of this compute-only table may start when it does there; at least 1. */
int sc_planner_slots_count(const sc_table *table, const sc_timeline *timeline);

#endif
