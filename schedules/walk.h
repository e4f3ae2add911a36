/*
 * walk - runs a table in the order of its dependencies, or says who waits for whom.
 *
 * Every rank takes its cells in row order; a cell is passed when what it needs is there. O(cells).
 * Where the walk ends does not depend on the order in which ranks are looked at, so one walk
 * decides freedom from deadlock.
 */
#ifndef SC_SCHEDULES_WALK_H
#define SC_SCHEDULES_WALK_H

#include "schedules/cover.h"

typedef enum sc_walk_rule {
    SC_WALK_COMPUTE, // a neighbour's output is there once it is computed; communication cells are
                     // passed over
    SC_WALK_ENGINE,  // it is there once its SEND was reached; receives are posted ahead
    SC_WALK_BLOCKING // a SEND and its RECV wait in place for each other
} sc_walk_rule;

/* Called for each compute action when it is passed: after all it depends on. */
typedef void (*sc_walk_visit)(void *context, int rank, sc_action action);

/* The table must have a cover; one for ENGINE or BLOCKING must also be lowered and paired. visit
   may be NULL. SC_INVALID with the waiting ranks, their cells and what they wait for when the table
   deadlocks; *place is then the first of them. */
sc_status sc_walk_run(const sc_table *table, sc_walk_rule rule, sc_walk_visit visit, void *context,
                      sc_place *place, sc_err *err);

#endif
