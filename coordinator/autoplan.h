/*
 * autoplan - measured costs -> which schedule a job is fastest with, within its memory cap. Pure.
 *
 * Every schedule that a job can run is planned, simulated with the measured costs, spread over the
 * plan's own stages, and entered in one list. A step is over when its last rank is (the tail waits
 * for all of them), so the time of a step is the whole timeline's, not a single rank's.
 *
 * autoplan.c makes the list and chooses; autoplan_costs.c spreads costs; autoplan_format.c tells.
 */
#ifndef SC_COORDINATOR_AUTOPLAN_H
#define SC_COORDINATOR_AUTOPLAN_H

#include "coordinator/planner.h"

enum {
    SC_AUTOPLAN_CHUNKS_MAX = 4, // most stages a rank that are tried
    SC_AUTOPLAN_NONE = -1
};

/* What was measured, all borrowed. Times in ns of one microbatch. */
typedef struct sc_autoplan_measured {
    const sc_plan *plan;        // that ran
    const sc_stage_cost *costs; // (plan->n_stages)
    double comm;                // latency of an edge between two ranks
} sc_autoplan_measured;

typedef enum sc_autoplan_verdict {
    SC_AUTOPLAN_FITS,
    SC_AUTOPLAN_OVER_CAP,  // simulated, but needs more memory than the job allows
    SC_AUTOPLAN_NO_ROOM,   // fits, but not beside the measured plan while weights move
    SC_AUTOPLAN_UNORDERED, // simulated, but adds weight gradients in another order: other bits
    SC_AUTOPLAN_REFUSED    // not planned: a constraint on p, v, m or the layers; no times
} sc_autoplan_verdict;

typedef struct sc_autoplan_entry {
    const char *schedule; // generator's name
    int n_chunks;         // v
    double limit_mb;      // of zb-auto; 0: the schedule has none
    sc_autoplan_verdict verdict;
    char reason[256];    // REFUSED: why
    double step_ns;      // first start to last end of a step, without the tail
    double cost_ns;      // the longest rank's own first start to last end, as in sc_timeline
    double bubble;       // of that
    size_t peak_bytes;   // planned, of the rank that needs most
    bool is_measured;    // the very plan that was measured
    bool is_same_layout; // as the plan that was measured: a swap moves no weights
} sc_autoplan_entry;

typedef struct sc_autoplan {
    const sc_job *job;          // borrowed
    sc_autoplan_entry *entries; // (n_entries): by step_ns (ties by memory), the refused ones last
    int n_entries;
    int chosen;    // index of the fastest that fits; SC_AUTOPLAN_NONE: none does
    int measured;  // index of the schedule that was measured; SC_AUTOPLAN_NONE: not in the list
    sc_plan *plan; // of the chosen one; who takes it over nulls it
} sc_autoplan;

/* Makes the list and chooses. Errors are only those that no schedule is to blame for. Caller frees.
 */
sc_status sc_autoplan_make(const sc_job *job, const sc_autoplan_measured *measured,
                           sc_autoplan **out, sc_err *err);
void sc_autoplan_free(sc_autoplan **autoplan);

/* autoplan_costs.c: costs of `plan`'s stages: a measured stage's cost is its parts' (blocks, head)
   by their counted FLOPs, and a stage's is the sum over its parts. A paced job's stages are equal.
   out: (plan->n_stages). */
sc_status sc_autoplan_costs(const sc_job *job, const sc_autoplan_measured *measured,
                            const sc_plan *plan, sc_stage_cost *out, sc_err *err);

/* autoplan_format.c */
/* One sentence: what was chosen and why. malloc, caller frees. */
sc_status sc_autoplan_format_why(const sc_autoplan *autoplan, char **out, sc_err *err);
/* The table of all schedules, that sentence below it. malloc, caller frees. */
sc_status sc_autoplan_format(const sc_autoplan *autoplan, char **out, sc_err *err);

#endif
