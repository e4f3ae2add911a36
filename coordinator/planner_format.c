/*
 * planner_format - a plan as the tables that `stagecoach run --dry-run` prints.
 */
#include "coordinator/planner_format.h"

#include "coordinator/planner.h"
#include "schedules/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *sc_planner_format_size(size_t bytes, char out[SC_PLANNER_FORMAT_SIZE_MAX])
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof UNITS / sizeof UNITS[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, SC_PLANNER_FORMAT_SIZE_MAX, "%.*f %s", unit == 0 ? 0 : 1, value,
                   UNITS[unit]);
    return out;
}

/* 2430000 -> "2.43 M" */
static const char *count_text(double count, char out[SC_PLANNER_FORMAT_SIZE_MAX])
{
    static const char *const UNITS[] = {"", " k", " M", " G", " T", " P", " E"};
    size_t unit = 0;
    while (count >= 1000 && unit + 1 < sizeof UNITS / sizeof UNITS[0]) {
        count /= 1000;
        unit++;
    }
    int digits = unit == 0 ? 0 : count < 10 ? 2 : count < 100 ? 1 : 0;
    (void)snprintf(out, SC_PLANNER_FORMAT_SIZE_MAX, "%.*f%s", digits, count, UNITS[unit]);
    return out;
}

static void add_percent(sc_text *text, double fraction)
{
    if (isnan(fraction)) {
        sc_text_add(text, "-");
    } else {
        sc_text_add(text, "%.1f %%", 100 * fraction);
    }
}

/* What is made again, and how far the hardware's FLOPs are above the model's. */
static void add_recompute(const sc_job *job, const sc_plan *plan, sc_text *text)
{
    static const char *const NAMES[] = {[SC_RECOMPUTE_NONE] = "none",
                                        [SC_RECOMPUTE_SELECTIVE] = "selective: norms and gelu",
                                        [SC_RECOMPUTE_FULL] = "full: every block",
                                        [SC_RECOMPUTE_BLOCKS] = "full: blocks"};
    double hardware = 0;
    double recomputed = 0;
    for (int s = 0; s < plan->n_stages; s++) {
        const sc_stage_flops *flops = &plan->stages[s].flops;
        hardware += flops->forward + flops->backward_input + flops->backward_weight;
        recomputed += flops->recomputed;
    }
    char model_text[SC_PLANNER_FORMAT_SIZE_MAX];
    char hardware_text[SC_PLANNER_FORMAT_SIZE_MAX];
    sc_text_add(text, "recompute %s", NAMES[job->recompute.kind]);
    for (int i = 0; job->recompute.kind == SC_RECOMPUTE_BLOCKS && i < job->recompute.n_blocks;
         i++) {
        sc_text_add(text, " %d", job->recompute.blocks[i]);
    }
    sc_text_add(text, "; model FLOPs of a step %s, hardware FLOPs %s",
                count_text(plan->n_mb * (hardware - recomputed), model_text),
                count_text(plan->n_mb * hardware, hardware_text));
    sc_text_add(text, " (+%.1f %%)\n", 100 * recomputed / (hardware - recomputed));
}

static void add_head(const sc_job *job, const sc_plan *plan, sc_text *text)
{
    bool is_paced = job->device == SC_JOB_PACED;
    sc_text_add(text, "job       %s (%s)\n", job->name, job->path);
    sc_text_add(text, "device    %s, %d rank%s of %d thread%s\n", is_paced ? "paced" : "cpu",
                plan->n_ranks, plan->n_ranks == 1 ? "" : "s", job->threads,
                job->threads == 1 ? "" : "s");
    if (!is_paced) {
        char params[SC_PLANNER_FORMAT_SIZE_MAX];
        sc_text_add(text, "model     %d layers, %d heads, width %d, vocabulary %d: %s parameters\n",
                    job->model.n_layer, job->model.n_head, job->model.n_embd, job->model.vocab_size,
                    count_text((double)plan->registry->n_elems, params));
        sc_text_add(text,
                    "batch     %d microbatches of %d samples of %d tokens: %lld tokens a step\n",
                    plan->n_mb, job->micro_batch_size, job->sequence_length,
                    (long long)plan->n_mb * job->micro_batch_size * job->sequence_length);
        add_recompute(job, plan, text);
    } else {
        sc_text_add(text,
                    "batch     %d microbatches of %g + %g + %g ms (F + I + W), transfer %g ms\n",
                    plan->n_mb, job->pace_f_ms, job->pace_i_ms, job->pace_w_ms, job->pace_comm_ms);
    }
    sc_text_add(text, "steps     %d\n", job->steps);
    sc_text_add(text, "schedule  %s; bubble ", plan->schedule);
    add_percent(text, plan->bubble_closed);
    sc_text_add(text, " by closed form, ");
    add_percent(text, plan->bubble_simulated);
    sc_text_add(text, " simulated with %s\n",
                is_paced ? "the configured times" : "counted FLOPs and no transfers");
}

static void add_ranks_of_stages(const sc_plan *plan, sc_text *text)
{
    sc_text_add(text, "ranks of stages 0 to %d:", plan->n_stages - 1);
    for (int s = 0; s < plan->n_stages; s++) {
        sc_text_add(text, " %d", plan->stages[s].rank);
    }
}

/* Where the stages are, and what a user must know of the order of the rows. */
static void add_placement(const sc_plan *plan, sc_text *text)
{
    sc_text_add(text, "placement %d stage%s, ", plan->n_stages, plan->n_stages == 1 ? "" : "s");
    switch (plan->placement) {
    case SC_PLAN_LOOP:
        if (plan->n_chunks == 1) {
            sc_text_add(text, "one a rank");
        } else {
            sc_text_add(text, "%d a rank: stage s on rank s mod %d", plan->n_chunks, plan->n_ranks);
        }
        break;
    case SC_PLAN_V:
        sc_text_add(text, "2 a rank, as a V: rank r has stages r and %d - r", plan->n_stages - 1);
        break;
    case SC_PLAN_OTHER:
        add_ranks_of_stages(plan, text);
        break;
    }
    if (plan->n_ranks > 1) {
        sc_text_add(text, "; %d message buffers at each end of a channel", plan->n_message_slots);
    }
    sc_text_add(text, "\n");
    if (!plan->report.has_ordered_w) {
        sc_text_add(text, "note      weight gradients are not added in microbatch order: the "
                          "loss's last bits differ from other schedules'\n");
    }
}

static void layers_text(const sc_stage_range *range, char *out, size_t n)
{
    int n_blocks = range->block_end - range->block_begin;
    if (n_blocks == 0) {
        (void)snprintf(out, n, "-");
        return;
    }
    (void)snprintf(out, n, "%s%d block%s (%d to %d)%s", range->has_embed ? "embedding, " : "",
                   n_blocks, n_blocks == 1 ? "" : "s", range->block_begin, range->block_end - 1,
                   range->has_head ? ", head" : "");
}

static void add_stages(const sc_plan *plan, sc_text *text)
{
    double total = 0;
    for (int s = 0; s < plan->n_stages; s++) {
        const sc_stage_flops *flops = &plan->stages[s].flops;
        total += flops->forward + flops->backward_input + flops->backward_weight;
    }
    sc_text_add(text, "\n%5s  %4s  %-34s %10s  %12s  %6s  %7s  %7s\n", "stage", "rank", "layers",
                "parameters", "FLOPs/microb", "share", "live mb", "kept mb");
    for (int s = 0; s < plan->n_stages; s++) {
        const sc_plan_stage *stage = &plan->stages[s];
        const sc_stage_flops *flops = &stage->flops;
        double cost = flops->forward + flops->backward_input + flops->backward_weight;
        char layers[64];
        char params[SC_PLANNER_FORMAT_SIZE_MAX];
        char work[SC_PLANNER_FORMAT_SIZE_MAX];
        char share[SC_PLANNER_FORMAT_SIZE_MAX] = "-";
        layers_text(&stage->range, layers, sizeof layers);
        if (total > 0) {
            (void)snprintf(share, sizeof share, "%.1f %%", 100 * cost / total);
        }
        sc_text_add(text, "%5d  %4d  %-34s %10s  %12s  %6s  %7d  %7d\n", s, stage->rank, layers,
                    count_text((double)stage->n_params, params), count_text(cost, work), share,
                    stage->n_act_slots, stage->n_keep_slots);
    }
}

static void add_rank(const char *name, const sc_plan_rank *rank, sc_text *text)
{
    char state[SC_PLANNER_FORMAT_SIZE_MAX];
    char activations[SC_PLANNER_FORMAT_SIZE_MAX];
    char keep[SC_PLANNER_FORMAT_SIZE_MAX];
    char buffers[SC_PLANNER_FORMAT_SIZE_MAX];
    char checkpoint[SC_PLANNER_FORMAT_SIZE_MAX];
    char total[SC_PLANNER_FORMAT_SIZE_MAX];
    char peak[SC_PLANNER_FORMAT_SIZE_MAX];
    sc_text_add(text, "%5s  %12s  %12s  %12s  %12s  %12s  %12s  %12s\n", name,
                sc_planner_format_size(rank->state_bytes, state),
                sc_planner_format_size(rank->activation_bytes, activations),
                sc_planner_format_size(rank->keep_bytes, keep),
                sc_planner_format_size(rank->buffer_bytes, buffers),
                sc_planner_format_size(rank->checkpoint_bytes, checkpoint),
                sc_planner_format_size(rank->total_bytes, total),
                sc_planner_format_size(rank->peak_bytes, peak));
}

static void add_ranks(const sc_plan *plan, sc_text *text)
{
    sc_plan_rank sum = {0};
    sc_text_add(text, "\n%5s  %12s  %12s  %12s  %12s  %12s  %12s  %12s\n", "rank", "state",
                "activations", "kept", "buffers", "checkpoint", "memory", "live peak");
    for (int r = 0; r < plan->n_ranks; r++) {
        const sc_plan_rank *rank = &plan->ranks[r];
        char name[SC_PLANNER_FORMAT_SIZE_MAX];
        (void)snprintf(name, sizeof name, "%d", r);
        add_rank(name, rank, text);
        sum.state_bytes += rank->state_bytes;
        sum.activation_bytes += rank->activation_bytes;
        sum.keep_bytes += rank->keep_bytes;
        sum.buffer_bytes += rank->buffer_bytes;
        sum.checkpoint_bytes += rank->checkpoint_bytes;
        sum.total_bytes += rank->total_bytes;
        sum.peak_bytes += rank->peak_bytes;
    }
    add_rank("all", &sum, text);
    sc_text_add(text,
                "state: weights, gradients, optimizer; activations: of the live microbatches; "
                "kept: from I to W, gradients and what a recomputed block leaves; live peak: most "
                "of these two, and of work space for recomputed tensors, in use at one time; "
                "checkpoint: a copy that is written beside the steps\n");
}

sc_status sc_planner_format(const sc_job *job, const sc_plan *plan, char **out, sc_err *err)
{
    sc_text text = {0};
    add_head(job, plan, &text);
    add_placement(plan, &text);
    add_stages(plan, &text);
    add_ranks(plan, &text);
    return sc_text_take(&text, out, err);
}
