#include "stage/alloc_count.h"
#include "stage/io/epoch.h"
#include "stage/io/save.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A rank's record: the tensors' sums of squares that it answers for, then losses and counts of
   microbatches if it has the last stage; zeros elsewhere, so that adding records in rank order is
   exact. */
static size_t n_registry_params(const sc_epoch *ep)
{
    return ep->base->registry == NULL ? 0 : (size_t)ep->base->registry->n_params;
}

sc_status sc_epoch_tail_init(sc_epoch *ep, sc_err *err)
{
    sc_epoch_tail *tail = &ep->tail;
    size_t n_ranks = ep->assign.n_ranks;
    tail->record_len = n_registry_params(ep) + 2 * (size_t)ep->batch.n_mb;
    tail->record = sc_arena_alloc(&ep->arena, tail->record_len, sizeof *tail->record);
    tail->gathered = sc_arena_alloc(&ep->arena, n_ranks * tail->record_len, sizeof *tail->gathered);
    tail->sums = sc_arena_alloc(&ep->arena, n_ranks * n_registry_params(ep), sizeof *tail->sums);
    if (tail->record == NULL || tail->gathered == NULL || tail->sums == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the records of %zu ranks", n_ranks);
    }
    return SC_OK;
}

static sc_status run_merge(void *ctx, uint64_t arg, sc_err *err)
{
    (void)arg;
    return sc_optim_merge_tied(((sc_epoch *)ctx)->optim, err);
}

static sc_status run_sums(void *ctx, uint64_t arg, sc_err *err)
{
    sc_epoch *ep = ctx;
    (void)arg;
    size_t n_params = n_registry_params(ep);
    if (n_params > 0) {
        SC_TRY(sc_gradnorm_local(&ep->gradnorm, ep->tail.record, err));
    }
    for (int mb = 0; mb < ep->batch.n_mb; mb++) {
        ep->tail.record[n_params + 2 * (size_t)mb] = ep->losses[mb];
        ep->tail.record[n_params + 2 * (size_t)mb + 1] = (double)ep->valid[mb];
    }
    return SC_OK;
}

static sc_status run_update(void *ctx, uint64_t arg, sc_err *err)
{
    sc_epoch *ep = ctx;
    (void)arg;
    return sc_optim_step(ep->optim, ep->step.lr_bits, ep->step.step + 1, ep->tail.grad_scale, err);
}

static sc_status run_save_gradients(void *ctx, uint64_t arg, sc_err *err)
{
    sc_epoch *ep = ctx;
    (void)arg;
    return sc_save_entries(ep->optim, (int)ep->assign.rank, SC_SAVE_GRADIENTS,
                           ep->assign.gradients_path, err);
}

static sc_status run_save_weights(void *ctx, uint64_t arg, sc_err *err)
{
    sc_epoch *ep = ctx;
    (void)arg;
    return sc_save_entries(ep->optim, (int)ep->assign.rank, SC_SAVE_WEIGHTS,
                           ep->assign.weights_path, err);
}

/* Every rank has every record and comes to the same numbers, in the same order: microbatches, then
 * tensors. */
static sc_status decide(sc_epoch *ep, sc_err *err)
{
    sc_epoch_tail *tail = &ep->tail;
    size_t n_params = n_registry_params(ep);
    tail->loss_sum = 0;
    double n_valid = 0;
    for (int mb = 0; mb < ep->batch.n_mb; mb++) {
        for (size_t r = 0; r < ep->assign.n_ranks; r++) {
            const double *pair = tail->gathered + r * tail->record_len + n_params + 2 * (size_t)mb;
            tail->loss_sum += pair[0];
            n_valid += pair[1];
        }
    }
    tail->n_valid = (int64_t)n_valid;
    for (size_t r = 0; n_params > 0 && r < ep->assign.n_ranks; r++) {
        memcpy(tail->sums + r * n_params, tail->gathered + r * tail->record_len,
               n_params * sizeof *tail->sums);
    }
    if (!isfinite(tail->loss_sum)) {
        return sc_status_fail(err, SC_NUMERIC,
                              "step %llu: the loss is %g: lower optimizer.lr or check the data",
                              (unsigned long long)ep->step.step, tail->loss_sum);
    }
    if (!ep->is_paced && tail->n_valid != sc_batch_valid_tokens(&ep->batch, ep->step.step)) {
        return sc_status_fail(err, SC_FAILED,
                              "step %llu: %lld tokens counted at the loss, the batch has %lld",
                              (unsigned long long)ep->step.step, (long long)tail->n_valid,
                              (long long)sc_batch_valid_tokens(&ep->batch, ep->step.step));
    }
    tail->grad_norm = sc_gradnorm_total(tail->sums, (int)ep->assign.n_ranks, (int)n_params);
    return sc_gradnorm_scale(tail->grad_norm, ep->assign.optimizer.grad_clip, &tail->grad_scale,
                             err);
}

/* Starts the current phase; *is_started tells that something will end it later. */
static sc_status start_phase(sc_epoch *ep, bool *is_started, sc_err *err)
{
    sc_epoch_tail *tail = &ep->tail;
    size_t n = 0;
    float *tied;
    *is_started = true;
    switch (tail->phase) {
    case SC_TAIL_MERGE:
        sc_epoch_step_push(ep, SC_EPOCH_TASK_MERGE, 0, run_merge);
        return SC_OK;
    case SC_TAIL_REDUCE:
        tied = tail->tied_group == SC_EXECUTOR_NONE ? NULL : sc_optim_tied_grad(ep->optim, &n);
        if (tied == NULL) {
            break;
        }
        tail->call_ns = sc_compute_now_ns();
        return ep->comm->ops->all_reduce(ep->comm, tail->tied_group, tied, n, 0, err);
    case SC_TAIL_SUMS:
        sc_epoch_step_push(ep, SC_EPOCH_TASK_SUMS, 0, run_sums);
        return SC_OK;
    case SC_TAIL_GATHER:
        if (ep->comm == NULL) {
            memcpy(tail->gathered, tail->record, tail->record_len * sizeof *tail->record);
            break;
        }
        tail->call_ns = sc_compute_now_ns();
        return ep->comm->ops->all_gather(ep->comm, 0, tail->record,
                                         tail->record_len * sizeof *tail->record, tail->gathered, 0,
                                         err);
    case SC_TAIL_SAVE_GRADIENTS:
        if (ep->step.step > 0 || ep->assign.gradients_path[0] == '\0') {
            break;
        }
        sc_epoch_step_push(ep, SC_EPOCH_TASK_SAVE_GRADIENTS, 0, run_save_gradients);
        return SC_OK;
    case SC_TAIL_UPDATE:
        sc_epoch_step_push(ep, SC_EPOCH_TASK_UPDATE, 0, run_update);
        return SC_OK;
    case SC_TAIL_COPY:
        if (!ep->step.should_save || ep->save.shard == NULL) {
            break;
        }
        sc_epoch_save_copy(ep);
        return SC_OK;
    case SC_TAIL_SAVE_WEIGHTS:
        if (!ep->step.is_last || ep->assign.weights_path[0] == '\0') {
            break;
        }
        sc_epoch_step_push(ep, SC_EPOCH_TASK_SAVE_WEIGHTS, 0, run_save_weights);
        return SC_OK;
    case SC_TAIL_DONE:
        break;
    }
    *is_started = false;
    return SC_OK;
}

void sc_epoch_tail_begin(sc_epoch *ep, int64_t now_ns)
{
    ep->tail.phase = SC_TAIL_MERGE;
    ep->tail.row_end_ns = now_ns;
    ep->tail.optimizer_ns = 0;
    ep->tail.wait_ns = 0;
    ep->row_cpu_ns = sc_compute_cpu_ns() - ep->cpu_start_ns;
}

/* Between hosts the clocks are not aligned here: there the wait stays within reduce. */
void sc_epoch_tail_waited(sc_epoch *ep, int64_t last_call_ns)
{
    if (ep->is_one_host && last_call_ns > ep->tail.call_ns) {
        ep->tail.wait_ns += last_call_ns - ep->tail.call_ns;
    }
}

/* What the end of a phase means. */
static sc_status end_phase(sc_epoch *ep, int64_t start_ns, int64_t end_ns, sc_err *err)
{
    if (ep->tail.phase == SC_TAIL_GATHER) {
        ep->tail.reduce_end_ns = sc_compute_now_ns();
        return decide(ep, err);
    }
    if (ep->tail.phase == SC_TAIL_COPY && end_ns != 0) {
        sc_epoch_save_write(ep, end_ns - start_ns);
    }
    if (ep->tail.phase == SC_TAIL_UPDATE) {
        ep->tail.optimizer_ns = end_ns - start_ns;
    }
    return SC_OK;
}

/* Called with the phase not started (0, 0: from begin) or with what ended it. */
sc_status sc_epoch_tail_advance(sc_epoch *ep, int64_t start_ns, int64_t end_ns, sc_err *err)
{
    assert(ep->state == SC_EPOCH_TAIL);
    bool is_started;
    if (end_ns != 0) {
        SC_TRY(end_phase(ep, start_ns, end_ns, err));
        ep->tail.phase++;
    }
    while (ep->tail.phase != SC_TAIL_DONE) {
        SC_TRY(start_phase(ep, &is_started, err));
        if (is_started) {
            return SC_OK;
        }
        SC_TRY(end_phase(ep, 0, 0, err));
        ep->tail.phase++;
    }
    return SC_OK;
}

void sc_epoch_tail_report(sc_epoch *ep, sc_msg_report *out)
{
    const sc_executor *ex = ep->ex;
    for (int i = 0; i < ex->n_actions; i++) {
        const sc_exec_times *t = &ex->times[i];
        sc_action a = ex->actions[i].action;
        ep->spans[i] = (sc_msg_span){.op = (uint32_t)a.op, .stage = (uint32_t)a.stage, .mb = a.mb};
        ep->spans[i].start_ns = t->start_ns;
        ep->spans[i].end_ns = t->end_ns;
        ep->spans[i].weight_ns = t->weight_ns;
        ep->spans[i].sent_ready_ns = t->sent_ready_ns;
        ep->spans[i].posted_ns = t->posted_ns;
        ep->spans[i].arrived_ns = t->arrived_ns;
    }
    *out =
        (sc_msg_report){.epoch = ep->assign.epoch, .step = ep->step.step, .rank = ep->assign.rank};
    out->loss_sum = ep->tail.loss_sum;
    out->n_valid = (uint64_t)ep->tail.n_valid;
    out->grad_norm = ep->tail.grad_norm;
    out->window_start_ns = ep->window_start_ns;
    out->row_end_ns = ex->n_actions > 0 ? ex->times[ex->n_actions - 1].end_ns : ep->tail.row_end_ns;
    out->tail_wait_ns = ep->tail.wait_ns;
    out->reduce_ns = ep->tail.reduce_end_ns - ep->tail.row_end_ns - ep->tail.wait_ns;
    out->optimizer_ns = ep->tail.optimizer_ns;
    out->window_end_ns = sc_compute_now_ns();
    out->activation_peak_bytes = ep->activation_peak;
    out->executor_cpu_ns = (uint64_t)ep->row_cpu_ns;
    uint64_t n_allocs = sc_alloc_count_get();
    out->n_allocs = n_allocs - ep->allocs_start;
    ep->allocs_start = n_allocs;
    out->executed = ep->executed;
    out->spans = ep->spans;
    out->n_spans = (size_t)ex->n_actions;
    ep->window_start_ns = out->window_end_ns;
}
