/*
 * simulate - table + costs -> timeline, by exact discrete-event simulation in O(actions).
 *
 * A rank is one sequential list in fixed order; an action starts at max(rank free, inputs ready).
 * F(s,j) needs F(s-1,j) + comm; B or I(s,j) needs B or I(s+1,j) + comm and F(s,j); W(s,j) needs
 * I(s,j). comm is paid only between ranks. A fused B's output is there only at its end (Qi et al.,
 * arXiv 2401.10241, App.).
 */
#ifndef SC_SCHEDULES_SIMULATE_H
#define SC_SCHEDULES_SIMULATE_H

#include "schedules/table.h"

/* Times in any unit, for one microbatch of one stage. B = I + W. */
typedef struct sc_stage_cost {
    double f;
    double i;
    double w;
} sc_stage_cost;

typedef struct sc_costs {
    const sc_stage_cost *stages; // (n_stages), borrowed
    double comm;                 // latency of an edge between two ranks
} sc_costs;

typedef struct sc_span {
    sc_action action;
    double start;
    double end;
} sc_span;

typedef struct sc_timeline {
    sc_arena arena;
    int n_ranks;
    sc_span **spans; // (n_ranks)(n_spans[rank]), compute actions in order
    size_t *n_spans; // (n_ranks)
    double makespan; // last end - first start over all ranks
    double cost;     // largest over ranks of last end - first start
    double ideal;    // largest over ranks of the sum of its actions' times
    double bubble;   // (cost - ideal) / cost
} sc_timeline;

/* Uniform costs: f, i, w of one microbatch on one rank, split over its n_stages / n_ranks stages.
   out: (table->n_stages). */
void sc_simulate_uniform_costs(const sc_table *table, double f, double i, double w,
                               sc_stage_cost *out);
/* SC_INVALID with the actions that wait for each other when the table deadlocks. Caller frees with
   sc_simulate_free. */
sc_status sc_simulate_run(const sc_table *table, const sc_costs *costs, sc_timeline **out,
                          sc_err *err);
void sc_simulate_free(sc_timeline **timeline);

#endif
