#include "coordinator/planner_memory.h"

#include <assert.h>

enum {
    SAVED_ALIGN = 64 // as cost.c counts and the layers allocate
};

static size_t padded_bytes(size_t n_elems)
{
    return (n_elems * sizeof(float) + SAVED_ALIGN - 1) / SAVED_ALIGN * SAVED_ALIGN;
}

/* The most messages that wait on this rank between its own stages `from` and `to`. */
static size_t local_slots(const sc_plan *plan, int from, int to)
{
    const sc_row *row = &plan->compute->rows[plan->stages[from].rank];
    bool is_gradient = to < from;
    size_t n = 0;
    size_t peak = 0;
    for (size_t i = 0; i < row->n_actions; i++) {
        sc_action a = row->actions[i];
        bool is_passing = is_gradient ? a.op == SC_OP_B || a.op == SC_OP_I : a.op == SC_OP_F;
        if (is_passing && a.stage == to) {
            n--;
        }
        if (is_passing && a.stage == from) {
            n++;
            peak = n > peak ? n : peak;
        }
    }
    return peak;
}

/* Message buffers of a stage: both ways towards each neighbour, at this end of a channel; those
   between two stages of a rank belong to the lower one. */
static size_t message_slots(const sc_plan *plan, int s)
{
    size_t n = 0;
    for (int other = s - 1; other <= s + 1; other += 2) {
        if (other < 0 || other >= plan->n_stages) {
            continue;
        }
        if (plan->stages[other].rank != plan->stages[s].rank) {
            n += 2 * (size_t)plan->n_message_slots;
        } else if (other > s) {
            n += local_slots(plan, s, other) + local_slots(plan, other, s);
        }
    }
    return n;
}

/* What an action takes while it runs, beside what is live. */
static size_t during_bytes(const sc_stage_bytes *bytes, sc_op op)
{
    switch (op) {
    case SC_OP_F:
        return bytes->act_per_mb + bytes->work_f;
    case SC_OP_I:
        return bytes->keep_per_mb + bytes->work_i;
    case SC_OP_W:
        return bytes->work_w;
    default:
        return bytes->keep_fused + bytes->work_b;
    }
}

/* Workers use memory row by row: F fills an activation slot, I a keep slot, W frees both; a fused B
   has one layer's gradients beside what is live, and then frees its slot. Recomputed tensors lie
   in work space; what an action needs of it counts while the action runs. */
static size_t peak_bytes(const sc_plan *plan, int rank)
{
    const sc_row *row = &plan->compute->rows[rank];
    size_t live = 0;
    size_t peak = 0;
    for (size_t i = 0; i < row->n_actions; i++) {
        const sc_stage_bytes *bytes = &plan->stages[row->actions[i].stage].bytes;
        sc_op op = row->actions[i].op;
        size_t during = live + during_bytes(bytes, op);
        if (op == SC_OP_F) {
            live += bytes->act_per_mb;
        } else if (op == SC_OP_I) {
            live += bytes->keep_per_mb;
        } else {
            live -= bytes->act_per_mb + (op == SC_OP_W ? bytes->keep_per_mb : 0);
        }
        peak = during > peak ? during : peak;
    }
    assert(live == 0);
    return peak;
}

/* A tied embedding whose two ends are two stages of one rank has weights and gradients in both, but
   one optimizer state; within one stage cost.c has counted it so. */
static void count_tied_once(const sc_job *job, sc_plan *plan)
{
    int last = plan->n_stages - 1;
    int rank = plan->stages[0].rank;
    if (plan->registry == NULL || !job->model.tie_word_embeddings || last == 0 ||
        plan->stages[last].rank != rank) {
        return;
    }
    int wte = sc_registry_find(plan->registry, SC_PARAM_WTE, SC_PARAM_NO_BLOCK);
    size_t n_elems = plan->registry->params[wte].n_elems;
    plan->ranks[rank].n_params -= n_elems;
    if (job->optimizer == SC_JOB_ADAMW) {
        plan->ranks[rank].state_bytes -= 2 * padded_bytes(n_elems);
    }
}

static void add_stage(sc_plan *plan, int s)
{
    const sc_plan_stage *stage = &plan->stages[s];
    const sc_stage_bytes *bytes = &stage->bytes;
    sc_plan_rank *sum = &plan->ranks[stage->rank];
    sum->n_params += stage->n_params;
    sum->state_bytes += bytes->params + bytes->grads + bytes->optimizer;
    sum->activation_bytes += (size_t)stage->n_act_slots * bytes->act_per_mb;
    sum->keep_bytes += (size_t)stage->n_keep_slots * bytes->keep_per_mb + bytes->keep_fused;
    sum->buffer_bytes += bytes->scratch + bytes->work +
                         message_slots(plan, s) * (bytes->message + SC_PLAN_TRAILER_BYTES);
}

/* The copy that a rank writes beside the steps: weights and moments of the parameters that no stage
   before its own holds, as they go into the file. */
static void add_checkpoint(const sc_job *job, sc_plan *plan)
{
    size_t n_parts = job->optimizer == SC_JOB_ADAMW ? 3 : 1;
    bool is_saved = job->checkpoint_every > 0 || job->is_checkpoint_at_end;
    for (int i = 0; is_saved && plan->registry != NULL && i < plan->registry->n_params; i++) {
        int s = 0;
        while (!sc_registry_is_held(plan->registry, i, &plan->stages[s].range)) {
            s++;
        }
        plan->ranks[plan->stages[s].rank].checkpoint_bytes +=
            n_parts * plan->registry->params[i].n_elems * sizeof(float);
    }
}

void sc_planner_memory_add(const sc_job *job, sc_plan *plan)
{
    for (int s = 0; s < plan->n_stages; s++) {
        sc_plan_stage *stage = &plan->stages[s];
        stage->rank = plan->compute->rank_of_stage[s];
        stage->n_act_slots = sc_validate_peak(plan->compute, stage->rank, s);
        stage->n_keep_slots = sc_validate_peak_pending_w(plan->compute, stage->rank, s);
    }
    for (int s = 0; s < plan->n_stages; s++) {
        add_stage(plan, s);
    }
    count_tied_once(job, plan);
    add_checkpoint(job, plan);
    for (int r = 0; r < plan->n_ranks; r++) {
        sc_plan_rank *rank = &plan->ranks[r];
        rank->total_bytes = rank->state_bytes + rank->activation_bytes + rank->keep_bytes +
                            rank->buffer_bytes + rank->checkpoint_bytes;
        rank->peak_bytes = peak_bytes(plan, r);
    }
}
