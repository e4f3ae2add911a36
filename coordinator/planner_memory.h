/*
 * planner_memory - bytes of a plan's ranks, as its workers allocate and use them. Pure.
 */
#ifndef SC_COORDINATOR_PLANNER_MEMORY_H
#define SC_COORDINATOR_PLANNER_MEMORY_H

#include "coordinator/planner.h"

/* Fills slots and ranks of a plan whose schedule, stages' bytes and message slots are known. */
void sc_planner_memory_add(const sc_job *job, sc_plan *plan);

#endif
