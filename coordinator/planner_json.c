/*
 * planner_json - a plan as JSON: plan.json of a run folder.
 */
#include "coordinator/planner.h"
#include "schedules/text.h"

#include <math.h>
#include <stdlib.h>

static void add_text(sc_text *text, const char *name, const char *value)
{
    sc_text_add(text, "\"%s\": \"", name);
    sc_text_add_json(text, value);
    sc_text_add(text, "\"");
}

/* JSON has no NaN. */
static void add_fraction(sc_text *text, const char *name, double value)
{
    if (isnan(value)) {
        sc_text_add(text, "\"%s\": null", name);
    } else {
        sc_text_add(text, "\"%s\": %.17g", name, value);
    }
}

static const char *bool_text(bool value)
{
    return value ? "true" : "false";
}

/* As the job has it: a name, or the list of blocks. */
static void add_recompute(const sc_recompute *recompute, sc_text *text)
{
    static const char *const NAMES[] = {"\"none\"", "\"selective\"", "\"full\""};
    if (recompute->kind != SC_RECOMPUTE_BLOCKS) {
        sc_text_add(text, "%s", NAMES[recompute->kind]);
        return;
    }
    sc_text_add(text, "[");
    for (int i = 0; i < recompute->n_blocks; i++) {
        sc_text_add(text, "%s%d", i == 0 ? "" : ", ", recompute->blocks[i]);
    }
    sc_text_add(text, "]");
}

static void add_head(const sc_job *job, const sc_plan *plan, sc_text *text)
{
    static const char *const PLACEMENTS[] = {"loop", "v", "other"};
    bool is_paced = job->device == SC_JOB_PACED;
    sc_text_add(text, "{\n  ");
    add_text(text, "name", job->name);
    sc_text_add(text, ",\n  ");
    add_text(text, "device", is_paced ? "paced" : "cpu");
    sc_text_add(text, ",\n  ");
    add_text(text, "schedule", plan->schedule);
    sc_text_add(
        text,
        ",\n  \"pipeline_parallel\": %d,\n  \"virtual_stages\": %d,\n  \"n_stages\": %d,\n  "
        "\"num_microbatches\": %d,\n  \"message_slots\": %d,\n  ",
        plan->n_ranks, plan->n_chunks, plan->n_stages, plan->n_mb, plan->n_message_slots);
    add_text(text, "placement", PLACEMENTS[plan->placement]);
    if (!is_paced) {
        sc_text_add(text,
                    ",\n  \"micro_batch_size\": %d,\n  \"sequence_length\": %d,\n  \"params\": %zu",
                    job->micro_batch_size, job->sequence_length, plan->registry->n_elems);
    }
    if (!is_paced) {
        sc_text_add(text, ",\n  \"recompute\": ");
        add_recompute(&job->recompute, text);
    }
    sc_text_add(text, ",\n  \"steps\": %d,\n  ", job->steps);
    add_fraction(text, "bubble_closed_form", plan->bubble_closed);
    sc_text_add(text, ",\n  ");
    add_fraction(text, "bubble_simulated", plan->bubble_simulated);
    sc_text_add(text, ",\n  \"blocking_deadlock\": %s,\n  \"ordered_w\": %s",
                bool_text(plan->report.is_blocking_deadlock),
                bool_text(plan->report.has_ordered_w));
}

static void add_stage(const sc_plan *plan, int s, sc_text *text)
{
    const sc_plan_stage *stage = &plan->stages[s];
    const sc_stage_flops *flops = &stage->flops;
    sc_text_add(text,
                "%s\n    {\"stage\": %d, \"rank\": %d, \"block_begin\": %d, \"block_end\": %d, "
                "\"has_embed\": %s, \"has_head\": %s, \"params\": %zu, ",
                s == 0 ? "" : ",", s, stage->rank, stage->range.block_begin, stage->range.block_end,
                bool_text(stage->range.has_embed), bool_text(stage->range.has_head),
                stage->n_params);
    sc_text_add(text,
                "\"forward_flops\": %.17g, \"backward_input_flops\": %.17g, "
                "\"backward_weight_flops\": %.17g, \"recomputed_flops\": %.17g, ",
                flops->forward, flops->backward_input, flops->backward_weight, flops->recomputed);
    sc_text_add(text,
                "\"act_slots\": %d, \"keep_slots\": %d, \"act_bytes_per_mb\": %zu, "
                "\"keep_bytes_per_mb\": %zu, \"work_bytes\": %zu, \"message_bytes\": %zu}",
                stage->n_act_slots, stage->n_keep_slots, stage->bytes.act_per_mb,
                stage->bytes.keep_per_mb, stage->bytes.work, stage->bytes.message);
}

static sc_status add_rank(const sc_plan *plan, int r, sc_text *text, sc_err *err)
{
    const sc_plan_rank *rank = &plan->ranks[r];
    char *row = NULL;
    SC_TRY(sc_table_row_format(plan->compute, r, &row, err));
    sc_text_add(text,
                "%s\n    {\"rank\": %d, \"params\": %zu, \"state_bytes\": %zu, "
                "\"activation_bytes\": %zu, \"keep_bytes\": %zu, \"buffer_bytes\": %zu, "
                "\"checkpoint_bytes\": %zu, "
                "\"total_bytes\": %zu, \"peak_bytes\": %zu, ",
                r == 0 ? "" : ",", r, rank->n_params, rank->state_bytes, rank->activation_bytes,
                rank->keep_bytes, rank->buffer_bytes, rank->checkpoint_bytes, rank->total_bytes,
                rank->peak_bytes);
    add_text(text, "row", row);
    sc_text_add(text, "}");
    free(row);
    return SC_OK;
}

sc_status sc_planner_json(const sc_job *job, const sc_plan *plan, char **out, sc_err *err)
{
    sc_text text = {0};
    add_head(job, plan, &text);
    sc_text_add(&text, ",\n  \"stages\": [");
    for (int s = 0; s < plan->n_stages; s++) {
        add_stage(plan, s, &text);
    }
    sc_text_add(&text, "\n  ],\n  \"ranks\": [");
    for (int r = 0; r < plan->n_ranks; r++) {
        sc_status status = add_rank(plan, r, &text, err);
        if (status != SC_OK) {
            sc_text_free(&text);
            return status;
        }
    }
    sc_text_add(&text, "\n  ]\n}\n");
    return sc_text_take(&text, out, err);
}
