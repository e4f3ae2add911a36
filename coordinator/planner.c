#include "coordinator/planner.h"

#include "coordinator/partition.h"
#include "coordinator/planner_memory.h"
#include "coordinator/planner_slots.h"
#include "schedules/buffers.h"
#include "schedules/lower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GIB 1073741824.0

static sc_status no_memory(sc_err *err)
{
    return sc_status_fail(err, SC_NO_MEMORY, "no memory for the plan");
}

/* --- schedule --------------------------------------------------------------------------------- */

static sc_status copy_rows(const sc_table *given, sc_table *table, sc_err *err)
{
    sc_status status = SC_OK;
    for (int r = 0; r < given->n_ranks; r++) {
        const sc_row *row = &given->rows[r];
        for (size_t i = 0; i < row->n_actions && status == SC_OK; i++) {
            status = sc_table_append(table, r, row->actions[i], err);
        }
    }
    return status;
}

static sc_status copy_table(const sc_table *given, sc_table **out, sc_err *err)
{
    sc_table *table = NULL;
    SC_TRY(sc_table_new(given->name, given->n_ranks, given->n_stages, given->n_mb, &table, err));
    memcpy(table->rank_of_stage, given->rank_of_stage,
           (size_t)given->n_stages * sizeof *given->rank_of_stage);
    sc_status status = copy_rows(given, table, err);
    if (status != SC_OK) {
        sc_table_free(&table);
        return status;
    }
    *out = table;
    return SC_OK;
}

/* A table from outside must be for this job. */
static sc_status check_given(const sc_job *job, const sc_plan_request *request, int n_chunks,
                             sc_err *err)
{
    const sc_table *given = request->given;
    if (given->n_ranks != job->pipeline_parallel || given->n_mb != job->num_microbatches) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: %d ranks and %d microbatches, but the job has "
                              "parallel.pipeline_parallel %d and batch.num_microbatches %d",
                              request->schedule, given->n_ranks, given->n_mb,
                              job->pipeline_parallel, job->num_microbatches);
    }
    if (given->is_lowered || given->is_forward_only) {
        return sc_status_fail(err, SC_INVALID, "%s: %s; a job needs rows of F, B, I and W",
                              request->schedule,
                              given->is_lowered ? "has communication cells" : "has no backward");
    }
    if (given->odd_rank_of_stage != NULL) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s keeps each stage's parameters on two ranks (odd_placement), so "
                              "it cannot train a job; simulate it with `stagecoach schedule`",
                              request->schedule);
    }
    if (n_chunks != 0 && given->n_stages != n_chunks * given->n_ranks) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: %d stages on %d ranks, but the job has parallel.virtual_stages "
                              "%d; leave it out",
                              request->schedule, given->n_stages, given->n_ranks, n_chunks);
    }
    return SC_OK;
}

/* A rank's mean costs: as measured, as configured, or counted over the whole model. */
static sc_plan_costs costs_of(const sc_job *job, const sc_plan_request *request)
{
    const sc_plan_costs *given = &request->costs;
    if (given->f > 0 || given->i > 0 || given->w > 0) {
        return *given;
    }
    if (job->device == SC_JOB_PACED) {
        return (sc_plan_costs){.f = job->pace_f_ms,
                               .i = job->pace_i_ms,
                               .w = job->pace_w_ms,
                               .comm = job->pace_comm_ms};
    }
    const sc_stage_range all = {
        .block_end = job->model.n_layer, .has_embed = true, .has_head = true};
    sc_stage_flops flops;
    const sc_cost_layout layout = sc_job_layout(job);
    sc_cost_flops(&job->model, &all, &layout, &flops);
    return (sc_plan_costs){.f = flops.forward / job->pipeline_parallel,
                           .i = flops.backward_input / job->pipeline_parallel,
                           .w = flops.backward_weight / job->pipeline_parallel};
}

/* Activation slots are held until W, so all of an activation stays from I to W. */
static sc_status generate(const sc_job *job, const sc_plan_request *request, int n_chunks,
                          sc_table **out, sc_err *err)
{
    const sc_gen_info *info = sc_gen_find(request->schedule);
    if (info != NULL && info->is_replicated) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s keeps each stage's parameters on two ranks, so it cannot train a "
                              "job; simulate it with `stagecoach schedule`",
                              request->schedule);
    }
    const sc_plan_costs costs = costs_of(job, request);
    const sc_gen_params params = {
        .n_ranks = job->pipeline_parallel,
        .n_mb = job->num_microbatches,
        .n_chunks = n_chunks,
        .group = job->schedule_group,
        .limit_mb = request->limit_mb > 0 ? request->limit_mb : job->schedule_limit,
        .w_share = 1,
        .f = costs.f,
        .i = costs.i,
        .w = costs.w,
        .comm = costs.comm,
    };
    return sc_gen_make(request->schedule, &params, out, err);
}

static sc_plan_placement placement_of(const sc_table *table)
{
    int p = table->n_ranks;
    bool is_loop = true;
    bool is_v = table->n_stages == 2 * p && p > 1;
    for (int s = 0; s < table->n_stages; s++) {
        int rank = table->rank_of_stage[s];
        is_loop = is_loop && rank == s % p;
        is_v = is_v && rank == (s < p ? s : 2 * p - 1 - s);
    }
    return is_loop ? SC_PLAN_LOOP : is_v ? SC_PLAN_V : SC_PLAN_OTHER;
}

static sc_status make_schedule(const sc_job *job, const sc_plan_request *request, sc_plan *plan,
                               sc_err *err)
{
    int n_chunks = request->n_chunks != 0 ? request->n_chunks : job->virtual_stages;
    plan->schedule = sc_arena_strndup(&plan->arena, request->schedule, strlen(request->schedule));
    if (plan->schedule == NULL) {
        return no_memory(err);
    }
    if (request->given != NULL) {
        SC_TRY(check_given(job, request, n_chunks, err));
        SC_TRY(copy_table(request->given, &plan->compute, err));
    } else {
        SC_TRY(generate(job, request, n_chunks, &plan->compute, err));
    }
    SC_TRY(sc_lower_table(plan->compute, &plan->lowered, err));
    SC_TRY(sc_validate_table(plan->lowered, NULL, &plan->report, err));
    plan->n_ranks = plan->compute->n_ranks;
    plan->n_stages = plan->compute->n_stages;
    plan->n_chunks = plan->n_stages / plan->n_ranks;
    plan->n_mb = plan->compute->n_mb;
    plan->placement = placement_of(plan->compute);
    return sc_buffers_need(plan->lowered, SC_PLAN_CHANNEL_SLOTS, &plan->n_message_slots, err);
}

/* --- stages ----------------------------------------------------------------------------------- */

static sc_status check_stages(const sc_job *job, const sc_plan *plan, sc_err *err)
{
    if (plan->n_stages > job->model.n_layer) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: schedule %s with v = %d stages a rank has %d stages, more than "
                              "model.n_layer %d; take fewer ranks or a smaller "
                              "parallel.virtual_stages",
                              job->path, plan->schedule, plan->n_chunks, plan->n_stages,
                              job->model.n_layer);
    }
    if (job->n_layers_per_stage > 0 && job->n_layers_per_stage != plan->n_stages) {
        return sc_status_fail(
            err, SC_INVALID,
            "%s: parallel.layers_per_stage: %d entries, schedule %s has %d stages; "
            "give one a stage",
            job->path, job->n_layers_per_stage, plan->schedule, plan->n_stages);
    }
    return SC_OK;
}

/* Where the blocks go, and what a stage holds and computes. */
static sc_status plan_model(const sc_job *job, sc_plan *plan, sc_err *err)
{
    const sc_model_spec *spec = &job->model;
    const sc_cost_layout layout = sc_job_layout(job);
    const int *by_hand = job->n_layers_per_stage > 0 ? job->layers_per_stage : NULL;
    SC_TRY(check_stages(job, plan, err));
    sc_stage_range *ranges = sc_arena_alloc(&plan->arena, (size_t)plan->n_stages, sizeof *ranges);
    if (ranges == NULL) {
        return no_memory(err);
    }
    SC_TRY(sc_partition_make(spec, plan->n_stages, plan->compute->rank_of_stage, by_hand, &layout,
                             ranges, err));
    SC_TRY(sc_registry_new(spec, &plan->registry, err));
    for (int s = 0; s < plan->n_stages; s++) {
        sc_plan_stage *stage = &plan->stages[s];
        stage->range = ranges[s];
        sc_cost_flops(spec, &ranges[s], &layout, &stage->flops);
        sc_cost_bytes(spec, &ranges[s], &layout, &stage->bytes);
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

/* --- prediction ------------------------------------------------------------------------------- */

void sc_planner_costs(const sc_job *job, const sc_plan *plan, sc_stage_cost *costs)
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

/* The bubble, and the message slots that it takes. */
static sc_status predict(const sc_job *job, sc_plan *plan, sc_err *err)
{
    sc_stage_cost *stages = sc_arena_alloc(&plan->arena, (size_t)plan->n_stages, sizeof *stages);
    sc_timeline *timeline = NULL;
    if (stages == NULL) {
        return no_memory(err);
    }
    sc_planner_costs(job, plan, stages);
    bool is_paced = job->device == SC_JOB_PACED;
    const sc_costs costs = {.stages = stages, .comm = is_paced ? job->pace_comm_ms : 0};
    SC_TRY(sc_simulate_run(plan->compute, &costs, &timeline, err));
    plan->bubble_simulated = timeline->bubble;
    int n_slots = sc_planner_slots_count(plan->compute, timeline);
    plan->n_message_slots = n_slots > plan->n_message_slots ? n_slots : plan->n_message_slots;
    sc_simulate_free(&timeline);

    sc_stage_cost rank = {0}; // the mean rank's, for the formula of equal stages
    for (int s = 0; s < plan->n_stages; s++) {
        rank.f += stages[s].f / plan->n_ranks;
        rank.i += stages[s].i / plan->n_ranks;
        rank.w += stages[s].w / plan->n_ranks;
    }
    const sc_gen_info *info = sc_gen_find(plan->schedule);
    const sc_gen_params params = {.n_ranks = plan->n_ranks,
                                  .n_mb = plan->n_mb,
                                  .n_chunks = plan->n_chunks,
                                  .group = job->schedule_group};
    plan->bubble_closed = info == NULL || info->closed_bubble == NULL
                              ? NAN
                              : info->closed_bubble(&params, rank.f, rank.i, rank.w);
    return SC_OK;
}

sc_status sc_planner_check_cap(const sc_job *job, const sc_plan *plan, sc_err *err)
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
        "stages, a smaller micro_batch_size, recompute: full or a schedule with fewer live "
        "microbatches",
        job->path, worst, (double)rank->total_bytes / GIB, (double)rank->state_bytes / GIB,
        (double)rank->activation_bytes / GIB, (double)rank->keep_bytes / GIB,
        (double)rank->buffer_bytes / GIB, job->peak_memory_gib);
}

sc_status sc_planner_make(const sc_job *job, const sc_plan_request *request, sc_plan **out,
                          sc_err *err)
{
    sc_status status = SC_OK;
    sc_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        return no_memory(err);
    }
    sc_arena_init(&plan->arena, 0);
    SC_GOTO(make_schedule(job, request, plan, err));
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
    SC_GOTO(predict(job, plan, err));
    sc_planner_memory_add(job, plan);
    if (!request->is_uncapped) {
        SC_GOTO(sc_planner_check_cap(job, plan, err));
    }
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

bool sc_planner_is_same_layout(const sc_plan *a, const sc_plan *b)
{
    if (a->n_ranks != b->n_ranks || a->n_stages != b->n_stages) {
        return false;
    }
    for (int s = 0; s < a->n_stages; s++) {
        const sc_stage_range *x = &a->stages[s].range;
        const sc_stage_range *y = &b->stages[s].range;
        if (a->stages[s].rank != b->stages[s].rank || x->block_begin != y->block_begin ||
            x->block_end != y->block_end || x->has_embed != y->has_embed ||
            x->has_head != y->has_head) {
            return false;
        }
    }
    return true;
}
