/*
 * planner - job -> plan: partition, schedule, memory. Pure.
 *
 * planner_memory.c adds up bytes; planner_format.c and planner_json.c write a plan as text.
 */
#ifndef SC_COORDINATOR_PLANNER_H
#define SC_COORDINATOR_PLANNER_H

#include "coordinator/job.h"
#include "model/cost.h"
#include "schedules/gen.h"
#include "schedules/simulate.h"
#include "schedules/validate.h"

typedef enum sc_plan_placement {
    SC_PLAN_LOOP, // stage s on rank s mod p; with v = 1 there is no other name for it
    SC_PLAN_V,    // rank r hosts stages r and 2p - 1 - r
    SC_PLAN_OTHER // a file's own
} sc_plan_placement;

typedef struct sc_plan_stage {
    int rank;
    sc_stage_range range;
    sc_stage_flops flops; // of one microbatch
    sc_stage_bytes bytes; // per microbatch and slot
    int n_act_slots;      // the schedule's peak of live microbatches
    int n_keep_slots;     // the schedule's peak between I and W
    size_t n_params;      // elements
} sc_plan_stage;

typedef struct sc_plan_rank {
    size_t n_params;         // elements held; a tied embedding with both ends here counts once
    size_t state_bytes;      // weights, gradients, optimizer
    size_t activation_bytes; // activation slots, all of them full
    size_t keep_bytes;       // gradients kept by I for W, and a fused B's own
    size_t buffer_bytes;     // message buffers and scratch
    size_t checkpoint_bytes; // copy of what this rank saves; 0 when the job saves none
    size_t total_bytes;      // allocated: the sum of these
    size_t peak_bytes;       // most of the slots' bytes in use at one time; with several stages a
                             // rank, or with I and W, their peaks need not meet
} sc_plan_rank;

typedef struct sc_plan {
    sc_arena arena;
    const char *schedule; // as requested
    int n_ranks;
    int n_stages;
    int n_chunks; // v: n_stages / n_ranks
    int n_mb;
    sc_plan_placement placement;
    int n_message_slots; // message buffers of each end of a channel between two ranks: the rows
                         // finish with them, and no rank waits for one in the simulation
    sc_table *compute;
    sc_table *lowered;
    sc_validate_report report;
    double bubble_closed;    // by the generator's formula for equal stages; NAN: it has none
    double bubble_simulated; // with the stages' counted or configured costs, without transfers of
                             // a cpu job
    sc_plan_stage *stages;   // (n_stages)
    sc_plan_rank *ranks;     // (n_ranks)
    sc_registry *registry;   // NULL for a paced job: it has no model
} sc_plan;

enum {
    SC_PLAN_CHANNEL_SLOTS = 2, // fewest: one that is received or sent, one that is computed with
    SC_PLAN_PACED_MESSAGE_BYTES = 64,
    SC_PLAN_TRAILER_BYTES = 64 // behind every message, as workers allocate it
};

/* Mean times of one microbatch on one rank in any unit, for schedules that are made to measure
   (zb-auto). All 0: counted FLOPs, or a paced job's times. */
typedef struct sc_plan_costs {
    double f;
    double i;
    double w;
    double comm; // latency of an edge between two ranks
} sc_plan_costs;

/* What of a job may differ from plan to plan. Everything is borrowed for the call. */
typedef struct sc_plan_request {
    const char *schedule;  // generator's name; with `given` only a label
    const sc_table *given; // compute-only table to plan for, copied; NULL: generate
    int n_chunks;          // v; 0: the job's virtual_stages
    double limit_mb;       // zb-auto; 0: the job's schedule_limit
    bool is_uncapped;      // a plan over the job's cap is no error
    sc_plan_costs costs;
} sc_plan_request;

/* Splits layers, generates (or copies), checks and lowers the schedule, adds up memory. Refuses: a
   plan over the job's cap, with the figures (SC_LIMIT); a schedule that cannot run on a real job,
   or that does not fit the job's p, m and layers, with the reason. Caller frees. */
sc_status sc_planner_make(const sc_job *job, const sc_plan_request *request, sc_plan **out,
                          sc_err *err);
void sc_planner_free(sc_plan **plan);

/* True when every stage has the same rank and blocks in both: going from one to the other moves no
   weights. */
bool sc_planner_is_same_layout(const sc_plan *a, const sc_plan *b);

/* SC_LIMIT with the figures when a plan is over the job's cap. */
sc_status sc_planner_check_cap(const sc_job *job, const sc_plan *plan, sc_err *err);

/* The stages' costs that bubble_simulated is made with: ms for a paced job, FLOPs for a model.
   costs: (n_stages). */
void sc_planner_costs(const sc_job *job, const sc_plan *plan, sc_stage_cost *costs);

/* io/plan_load.c: the plan of a schedule as a job or a swap names it: a generator's name,
   "file:PATH" (read, with errors "PATH:LINE:COLUMN: ..."), or "auto": what it begins with, 1f1b.
   When it is not the job's own schedule and refuses the job's virtual_stages, its default v is
   taken. costs may be NULL. Caller frees. */
sc_status sc_plan_load(const sc_job *job, const char *schedule, const sc_plan_costs *costs,
                       sc_plan **out, sc_err *err);

/* planner_format.c: the plan as the table `--dry-run` prints. malloc, caller frees. */
sc_status sc_planner_format(const sc_job *job, const sc_plan *plan, char **out, sc_err *err);
/* planner_json.c: the same as JSON text (plan.json). malloc, caller frees. */
sc_status sc_planner_json(const sc_job *job, const sc_plan *plan, char **out, sc_err *err);

#endif
