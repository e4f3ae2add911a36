/*
 * planner - job -> plan: partition, schedule, memory. Pure.
 */
#ifndef SC_COORDINATOR_PLANNER_H
#define SC_COORDINATOR_PLANNER_H

#include "coordinator/job.h"
#include "model/cost.h"
#include "schedules/gen.h"
#include "schedules/validate.h"

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
    size_t n_params;         // elements held
    size_t state_bytes;      // weights, gradients, optimizer
    size_t activation_bytes; // activation slots, all of them full
    size_t keep_bytes;       // gradients kept by I for W, and a fused B's own
    size_t buffer_bytes;     // message buffers and scratch
    size_t total_bytes;
} sc_plan_rank;

typedef struct sc_plan {
    sc_arena arena;
    int n_ranks;
    int n_stages;
    int n_mb;
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

/* Message buffers of one channel end: receives posted ahead and sends in flight. */
enum {
    SC_PLAN_CHANNEL_SLOTS = 2,
    SC_PLAN_PACED_MESSAGE_BYTES = 64
};

/* Splits layers, generates, checks and lowers the schedule, adds up memory. Refuses a plan over the
   job's cap with the figures. Caller frees. */
sc_status sc_planner_make(const sc_job *job, sc_plan **out, sc_err *err);
void sc_planner_free(sc_plan **plan);

/* planner_format.c: the plan as the table `--dry-run` prints. malloc, caller frees. */
sc_status sc_planner_format(const sc_job *job, const sc_plan *plan, char **out, sc_err *err);
/* planner_json.c: the same as JSON text (plan.json). malloc, caller frees. */
sc_status sc_planner_json(const sc_job *job, const sc_plan *plan, char **out, sc_err *err);

#endif
