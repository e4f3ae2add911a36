/*
 * bubble_rig - made-up runs: reports as workers would send them if time were the simulator's.
 */
#ifndef SC_TESTS_COORDINATOR_BUBBLE_RIG_H
#define SC_TESTS_COORDINATOR_BUBBLE_RIG_H

#include "coordinator/bubble.h"

/* Costs of every stage in ns. */
typedef struct bubble_rig_costs {
    double f;
    double i;
    double w;
    double comm;
} bubble_rig_costs;

/* A schedule by name; the caller frees it. */
sc_table *bubble_rig_table(const char *name, int p, int m);
/* What the simulator says for these costs. */
double bubble_rig_simulate(const sc_table *table, const bubble_rig_costs *costs);
/* Adds every rank's report of a step whose actions take exactly these times, in rank order or from
   the last rank on. Each rank's clock is clock_ns[rank] behind (NULL: one clock). */
void bubble_rig_add_step(sc_bubble *bubble, const sc_table *table, uint64_t step,
                         const bubble_rig_costs *costs, bool is_reversed, const int64_t *clock_ns);

#endif
