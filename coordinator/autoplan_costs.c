#include "coordinator/autoplan.h"

#include <assert.h>
#include <stdlib.h>

/* Costs of a model's parts: each of its blocks, and the head. The embedding multiplies nothing, so
   by counted FLOPs its time is the first block's. */
typedef struct parts {
    sc_stage_cost *blocks; // (n_layer)
    sc_stage_cost head;
} parts;

static double share(double cost, double part_flops, double stage_flops)
{
    return stage_flops > 0 ? cost * part_flops / stage_flops : 0;
}

/* A part's share of its stage's cost, each kind of work by itself. */
static sc_stage_cost part_cost(const sc_stage_cost *cost, const sc_stage_flops *part,
                               const sc_stage_flops *stage)
{
    return (sc_stage_cost){.f = share(cost->f, part->forward, stage->forward),
                           .i = share(cost->i, part->backward_input, stage->backward_input),
                           .w = share(cost->w, part->backward_weight, stage->backward_weight)};
}

static void add_cost(sc_stage_cost *sum, const sc_stage_cost *cost)
{
    sum->f += cost->f;
    sum->i += cost->i;
    sum->w += cost->w;
}

static void split_stage(const sc_job *job, const sc_plan_stage *stage, const sc_stage_cost *cost,
                        parts *out)
{
    const sc_cost_layout layout = sc_job_layout(job);
    const sc_stage_range head = {.has_head = true};
    sc_stage_flops flops;
    for (int b = stage->range.block_begin; b < stage->range.block_end; b++) {
        const sc_stage_range block = {.block_begin = b, .block_end = b + 1};
        sc_cost_flops(&job->model, &block, &layout, &flops);
        out->blocks[b] = part_cost(cost, &flops, &stage->flops);
    }
    if (stage->range.has_head) {
        sc_cost_flops(&job->model, &head, &layout, &flops);
        out->head = part_cost(cost, &flops, &stage->flops);
    }
}

static void sum_stage(const parts *all, const sc_stage_range *range, sc_stage_cost *out)
{
    *out = (sc_stage_cost){0};
    for (int b = range->block_begin; b < range->block_end; b++) {
        add_cost(out, &all->blocks[b]);
    }
    if (range->has_head) {
        add_cost(out, &all->head);
    }
}

/* Paced workers sleep the same share of a rank's times for each stage. */
static void split_evenly(const sc_autoplan_measured *measured, const sc_plan *plan,
                         sc_stage_cost *out)
{
    sc_stage_cost sum = {0};
    for (int s = 0; s < measured->plan->n_stages; s++) {
        add_cost(&sum, &measured->costs[s]);
    }
    for (int s = 0; s < plan->n_stages; s++) {
        out[s] = (sc_stage_cost){
            .f = sum.f / plan->n_stages, .i = sum.i / plan->n_stages, .w = sum.w / plan->n_stages};
    }
}

sc_status sc_autoplan_costs(const sc_job *job, const sc_autoplan_measured *measured,
                            const sc_plan *plan, sc_stage_cost *out, sc_err *err)
{
    if (job->device == SC_JOB_PACED) {
        split_evenly(measured, plan, out);
        return SC_OK;
    }
    parts all = {.blocks = calloc((size_t)job->model.n_layer, sizeof *all.blocks)};
    if (all.blocks == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the costs of %d layers",
                              job->model.n_layer);
    }
    for (int s = 0; s < measured->plan->n_stages; s++) {
        split_stage(job, &measured->plan->stages[s], &measured->costs[s], &all);
    }
    for (int s = 0; s < plan->n_stages; s++) {
        sum_stage(&all, &plan->stages[s].range, &out[s]);
    }
    free(all.blocks);
    return SC_OK;
}
