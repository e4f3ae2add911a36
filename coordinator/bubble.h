/*
 * bubble - reports -> the bubble of a run and its causes. Pure.
 *
 * bubble_split.h tells the causes of one report; this collects those of a run.
 *
 * Measured bubble of a step: cost = max over ranks of (last compute end - first compute start);
 * ideal = largest sum over ranks of compute time; bubble = (cost - ideal) / cost (Qi et al., arXiv
 * 2401.10241: idle / cost).
 */
#ifndef SC_COORDINATOR_BUBBLE_H
#define SC_COORDINATOR_BUBBLE_H

#include "base/arena.h"
#include "coordinator/bubble_split.h"
#include "schedules/simulate.h"

const char *sc_bubble_cause_text(sc_cause cause);

typedef struct sc_bubble sc_bubble; // collects the reports of a run

/* The first step that reports came of is a warm-up and never used. Costs and measured bubble come
   from different steps: costs from the odd ones, the bubble from the even ones. total and ranks are
   one step's, the one with the median window (the lower one of two), because only the causes of one
   step add up to its time. */
typedef struct sc_bubble_result {
    int n_steps;     // steps used
    double measured; // median over the even steps used
    double measured_min;
    double measured_max;
    /* the same steps in the other conventions, medians: idle / ideal as Megatron-LM and Llama 3
       count, and idle over the whole timeline, last end of any rank minus first start of any, as
       GPipe counts */
    double measured_over_ideal;
    double measured_over_makespan;
    double simulated; // with the costs and comm below
    double simulated_over_ideal;
    double simulated_over_makespan;
    double simulated_cost_ns;
    double measured_cost_ns; // median over the even steps
    double step_ns;          // the longest rank's window of the median step
    uint64_t median_step;
    sc_bubble_split total;        // of the median step, mean over ranks
    const sc_bubble_split *ranks; // (n_ranks), of the median step; owned by the collector
    const sc_stage_cost
        *costs;     // (n_stages) in ns: medians over the odd steps of each step's median
    double comm_ns; // median over odd steps and ranks of a step's median transfer A - max(S, R)
    uint64_t activation_peak_bytes;  // largest over ranks and steps
    uint64_t executor_ns_per_action; // CPU of the loop thread per action, mean
} sc_bubble_result;

/* Keeps numbers, never the reports: memory is bounded by keep_steps >= 3 latest steps. `table`
   (compute-only) is borrowed for checks and simulation. */
sc_status sc_bubble_new(const sc_table *table, int keep_steps, sc_bubble **out, sc_err *err);
void sc_bubble_free(sc_bubble **bubble);
/* Clocks of the ranks: to_coordinator_ns[r] (n_ranks) is added to rank r's clock to get the
   coordinator's; copied. Without it all ranks share one clock. */
void sc_bubble_set_clocks(sc_bubble *bubble, const int64_t *to_coordinator_ns);
/* Checks and adds one rank's report of a step; reports of one step may come in any order. */
sc_status sc_bubble_add(sc_bubble *bubble, const sc_msg_report *report, sc_err *err);
/* The longest median time of a stage's F or B (I and W together) in a step so far, the warm-up left
   out; 0 before. For membership's stuck rule. */
int64_t sc_bubble_action_ns(const sc_bubble *bubble);
/* SC_NOT_FOUND when fewer than three steps are complete. What it points to lives until the next
   call. */
sc_status sc_bubble_result_get(sc_bubble *bubble, sc_bubble_result *out, sc_err *err);

#endif
