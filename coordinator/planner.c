#include "coordinator/planner.h"

#include "coordinator/partition.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GIB 1073741824.0

static sc_status no_memory(sc_err *err)
{
    return sc_status_fail(err, SC_NO_MEMORY, "no memory for the plan");
}

static sc_status make_schedule(const sc_job *job, sc_plan *plan, sc_err *err)
{
    const sc_gen_params params = {.n_ranks = job->pipeline_parallel, .n_mb = job->num_microbatches};
    SC_TRY(sc_gen_make(job->schedule, &params, &plan->compute, err));
    SC_TRY(sc_lower_table(plan->compute, &plan->lowered, err));
    SC_TRY(sc_validate_table(plan->lowered, NULL, &plan->report, err));
    plan->n_ranks = plan->compute->n_ranks;
    plan->n_stages = plan->compute->n_stages;
    plan->n_mb = plan->compute->n_mb;
    return SC_OK;
}

/* Where the blocks go, and what a stage holds and computes. */
static sc_status plan_model(const sc_job *job, sc_plan *plan, sc_err *err)
{
    const sc_model_spec *spec = &job->model;
    int B = job->micro_batch_size;
    int T = job->sequence_length;
    const int *by_hand = job->n_layers_per_stage > 0 ? job->layers_per_stage : NULL;
    if (by_hand != NULL && job->n_layers_per_stage != plan->n_stages) {
        return sc_status_fail(
            err, SC_INVALID,
            "%s: parallel.layers_per_stage: %d entries, schedule %s has %d stages; "
            "give one a stage",
            job->path, job->n_layers_per_stage, job->schedule, plan->n_stages);
    }
    sc_stage_range *ranges = sc_arena_alloc(&plan->arena, (size_t)plan->n_stages, sizeof *ranges);
    if (ranges == NULL) {
        return no_memory(err);
    }
    SC_TRY(sc_partition_make(spec, plan->n_stages, by_hand, B, T, ranges, err));
    SC_TRY(sc_registry_new(spec, &plan->registry, err));
    for (int s = 0; s < plan->n_stages; s++) {
        sc_plan_stage *stage = &plan->stages[s];
        stage->range = ranges[s];
        sc_cost_flops(spec, &ranges[s], B, T, &stage->flops);
        sc_cost_bytes(spec, &ranges[s], B, T, job->optimizer == SC_JOB_ADAMW, &stage->bytes);
        for (int i = 0; i < plan->registry->n_params; i++) {
            if (sc_registry_is_held(plan->registry, i, &ranges[s])) {
                stage->n_params += plan->registry->params[i].n_elems;
            }
        }
    }
    return SC_OK;
}

static void plan_paced(sc_plan *plan)
{
    for (int s = 0; s < plan->n_stages; s++) {
        plan->stages[s].range =
            (sc_stage_range){.has_embed = s == 0, .has_head = s == plan->n_stages - 1};
        plan->stages[s].bytes.message = SC_PLAN_PACED_MESSAGE_BYTES;
    }
}

/* Bytes of the message buffers of a stage: a channel end each way towards each neighbour. */
static size_t channel_bytes(const sc_plan *plan, int s)
{
    size_t n_neighbours = (s > 0) + (s + 1 < plan->n_stages);
    return n_neighbours * 2 * SC_PLAN_CHANNEL_SLOTS * plan->stages[s].bytes.message;
}

/* A rank's bytes; a tied embedding whose two ends are on one rank has one value there, which
   cost.c knows only within one stage. */
static void add_up_rank(sc_plan *plan, int rank)
{
    sc_plan_rank *sum = &plan->ranks[rank];
    for (int s = 0; s < plan->n_stages; s++) {
        const sc_plan_stage *stage = &plan->stages[s];
        if (stage->rank != rank) {
            continue;
        }
        const sc_stage_bytes *bytes = &stage->bytes;
        sum->n_params += stage->n_params;
        sum->state_bytes += bytes->params + bytes->grads + bytes->optimizer;
        sum->activation_bytes += (size_t)stage->n_act_slots * bytes->act_per_mb;
        sum->keep_bytes += (size_t)stage->n_keep_slots * bytes->keep_per_mb + bytes->keep_fused;
        sum->buffer_bytes += bytes->scratch + channel_bytes(plan, s);
    }
    sum->total_bytes =
        sum->state_bytes + sum->activation_bytes + sum->keep_bytes + sum->buffer_bytes;
}

static void plan_memory(sc_plan *plan)
{
    for (int s = 0; s < plan->n_stages; s++) {
        sc_plan_stage *stage = &plan->stages[s];
        stage->rank = plan->compute->rank_of_stage[s];
        stage->n_act_slots = sc_validate_peak(plan->compute, stage->rank, s);
        stage->n_keep_slots = sc_validate_peak_pending_w(plan->compute, stage->rank, s);
    }
    for (int r = 0; r < plan->n_ranks; r++) {
        add_up_rank(plan, r);
    }
}

static sc_status check_cap(const sc_job *job, const sc_plan *plan, sc_err *err)
{
    if (job->peak_memory_gib <= 0) {
        return SC_OK;
    }
    int worst = 0;
    for (int r = 1; r < plan->n_ranks; r++) {
        worst = plan->ranks[r].total_bytes > plan->ranks[worst].total_bytes ? r : worst;
    }
    const sc_plan_rank *rank = &plan->ranks[worst];
    if ((double)rank->total_bytes <= job->peak_memory_gib * GIB) {
        return SC_OK;
    }
    return sc_status_fail(
        err, SC_LIMIT,
        "%s: memory.cap_gib: rank %d needs %.3f GiB (weights, gradients and optimizer %.3f, "
        "activations %.3f, kept gradients %.3f, buffers %.3f), over the cap of %g; take more "
        "stages, a smaller micro_batch_size or a schedule with fewer live microbatches",
        job->path, worst, (double)rank->total_bytes / GIB, (double)rank->state_bytes / GIB,
        (double)rank->activation_bytes / GIB, (double)rank->keep_bytes / GIB,
        (double)rank->buffer_bytes / GIB, job->peak_memory_gib);
}

/* Costs in ms for a paced job, in FLOPs for a model; only their ratios matter for the bubble. */
static void fill_costs(const sc_job *job, const sc_plan *plan, sc_stage_cost *costs)
{
    if (job->device == SC_JOB_PACED) {
        sc_simulate_uniform_costs(plan->compute, job->pace_f_ms, job->pace_i_ms, job->pace_w_ms,
                                  costs);
        return;
    }
    for (int s = 0; s < plan->n_stages; s++) {
        const sc_stage_flops *flops = &plan->stages[s].flops;
        costs[s] = (sc_stage_cost){
            .f = flops->forward, .i = flops->backward_input, .w = flops->backward_weight};
    }
}

static sc_status predict_bubble(const sc_job *job, sc_plan *plan, sc_err *err)
{
    sc_stage_cost *stages = sc_arena_alloc(&plan->arena, (size_t)plan->n_stages, sizeof *stages);
    sc_timeline *timeline = NULL;
    if (stages == NULL) {
        return no_memory(err);
    }
    fill_costs(job, plan, stages);
    bool is_paced = job->device == SC_JOB_PACED;
    const sc_costs costs = {.stages = stages, .comm = is_paced ? job->pace_comm_ms : 0};
    SC_TRY(sc_simulate_run(plan->compute, &costs, &timeline, err));
    plan->bubble_simulated = timeline->bubble;
    sc_simulate_free(&timeline);

    sc_stage_cost rank = {0}; // the mean rank's, for the formula of equal stages
    for (int s = 0; s < plan->n_stages; s++) {
        rank.f += stages[s].f / plan->n_ranks;
        rank.i += stages[s].i / plan->n_ranks;
        rank.w += stages[s].w / plan->n_ranks;
    }
    const sc_gen_info *info = sc_gen_find(job->schedule);
    const sc_gen_params params = {
        .n_ranks = plan->n_ranks, .n_mb = plan->n_mb, .n_chunks = plan->n_stages / plan->n_ranks};
    plan->bubble_closed = info == NULL || info->closed_bubble == NULL
                              ? NAN
                              : info->closed_bubble(&params, rank.f, rank.i, rank.w);
    return SC_OK;
}

sc_status sc_planner_make(const sc_job *job, sc_plan **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        return no_memory(err);
    }
    sc_arena_init(&plan->arena, 0);
    SC_GOTO(make_schedule(job, plan, err));
    plan->stages = sc_arena_alloc(&plan->arena, (size_t)plan->n_stages, sizeof *plan->stages);
    plan->ranks = sc_arena_alloc(&plan->arena, (size_t)plan->n_ranks, sizeof *plan->ranks);
    if (plan->stages == NULL || plan->ranks == NULL) {
        status = no_memory(err);
        goto out;
    }
    if (job->device == SC_JOB_PACED) {
        plan_paced(plan);
    } else {
        SC_GOTO(plan_model(job, plan, err));
    }
    plan_memory(plan);
    SC_GOTO(check_cap(job, plan, err));
    SC_GOTO(predict_bubble(job, plan, err));
    *out = plan;
    plan = NULL;
out:
    sc_planner_free(&plan);
    return status;
}

void sc_planner_free(sc_plan **plan)
{
    if (*plan == NULL) {
        return;
    }
    sc_registry_free(&(*plan)->registry);
    sc_table_free(&(*plan)->lowered);
    sc_table_free(&(*plan)->compute);
    sc_arena_done(&(*plan)->arena);
    free(*plan);
    *plan = NULL;
}
