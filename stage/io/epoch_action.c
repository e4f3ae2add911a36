#include "stage/io/epoch.h"

#include <string.h>

/* Behind each message: which samples it was made from. Every stage hands the word on, the stage
   with the labels compares: activations of one batch can't meet labels of another. */
static void write_trailer(const sc_epoch *ep, void *message, uint64_t digest)
{
    memcpy((char *)message + ep->message_bytes, &digest, sizeof digest);
}

static uint64_t read_trailer(const sc_epoch *ep, const void *message)
{
    uint64_t digest;
    memcpy(&digest, (const char *)message + ep->message_bytes, sizeof digest);
    return digest;
}

static sc_status check_samples(const sc_epoch *ep, const sc_exec_action *xa, const void *message,
                               uint64_t expected, sc_err *err)
{
    uint64_t got = read_trailer(ep, message);
    if (got == expected) {
        return SC_OK;
    }
    return sc_status_fail(
        err, SC_FAILED,
        "step %llu stage %d microbatch %d: the message is of other samples than the "
        "labels (digest %016llx, expected %016llx)",
        (unsigned long long)ep->step.step, xa->action.stage, xa->action.mb, (unsigned long long)got,
        (unsigned long long)expected);
}

static sc_status read_data(sc_epoch *ep, const sc_exec_action *xa, sc_slice_mb *mb, sc_err *err)
{
    const sc_msg_stage *stage = &ep->assign.stages[xa->action.stage];
    bool is_first = xa->action.stage == 0;
    bool is_last = xa->action.stage + 1 == (int)ep->assign.n_stages;
    mb->sample_ids = ep->samples;
    if (ep->is_paced || !(is_first || is_last)) {
        return SC_OK;
    }
    mb->tokens = is_first && stage->has_embed ? ep->tokens : NULL;
    mb->targets = is_last && stage->has_head && xa->action.op == SC_OP_F ? ep->targets : NULL;
    if (mb->tokens == NULL && mb->targets == NULL) {
        return SC_OK;
    }
    return sc_dataset_read(ep->base->dataset, ep->samples, ep->batch.B,
                           mb->tokens == NULL ? NULL : ep->tokens,
                           mb->targets == NULL ? NULL : ep->targets, err);
}

static sc_status run_op(sc_slice *slice, sc_op op, sc_slice_mb *mb, sc_err *err)
{
    switch (op) {
    case SC_OP_F:
        return slice->ops->forward(slice, mb, err);
    case SC_OP_B:
        return slice->ops->backward(slice, mb, err);
    case SC_OP_I:
        return slice->ops->backward_input(slice, mb, err);
    default:
        return slice->ops->backward_weight(slice, mb, err);
    }
}

/* The log of what ran, written where it runs: it must read as the row's compute actions do. */
static void log_executed(sc_epoch *ep, sc_action action)
{
    char *at = ep->executed + ep->n_executed;
    if (ep->n_executed > 0) {
        *at++ = ',';
        ep->n_executed++;
    }
    sc_action_format(action, at, SC_ACTION_TEXT_MAX);
    ep->n_executed += strlen(at);
}

static size_t live_bytes(const sc_epoch *ep)
{
    size_t bytes = 0;
    for (size_t s = 0; s < ep->assign.n_stages; s++) {
        if (ep->slices[s] != NULL) {
            bytes += ep->slices[s]->ops->activation_bytes(ep->slices[s]);
        }
    }
    return bytes;
}

/* An action's peak is what was live before it with what it took meanwhile: the slot it fills and
   its work space. */
static void note_memory(sc_epoch *ep, size_t before, const sc_slice_mb *mb)
{
    size_t during = before + mb->during_bytes;
    size_t after = live_bytes(ep);
    size_t bytes = after > during ? after : during;
    ep->activation_peak = bytes > ep->activation_peak ? bytes : ep->activation_peak;
}

sc_status sc_epoch_action_run(void *ctx, uint64_t index, sc_err *err)
{
    sc_epoch *ep = ctx;
    const sc_exec_action *xa = &ep->ex->actions[index];
    sc_op op = xa->action.op;
    sc_slice_mb mb = {.step = ep->step.step, .mb = xa->action.mb, .act_slot = xa->act_slot};
    mb.keep_slot = xa->keep_slot;
    mb.loss_scale = ep->loss_scale;
    void *in = xa->in_edge == SC_EXECUTOR_NONE ? NULL : ep->buffers[xa->in_edge][xa->in_slot];
    void *out = xa->out_edge == SC_EXECUTOR_NONE ? NULL : ep->buffers[xa->out_edge][xa->out_slot];
    mb.x = op == SC_OP_F ? in : NULL;
    mb.y = op == SC_OP_F ? out : NULL;
    mb.dy = op == SC_OP_F ? NULL : in;
    mb.dx = op == SC_OP_F ? NULL : out;
    if (atomic_load(&ep->base->is_aborted)) {
        return sc_status_fail(err, SC_ABORTED, "aborted");
    }
    sc_batch_samples(&ep->batch, ep->step.step, xa->action.mb, ep->samples);
    uint64_t digest = sc_batch_digest(ep->step.step, xa->action.mb, ep->samples, ep->batch.B);
    SC_TRY(read_data(ep, xa, &mb, err));
    if (in != NULL) {
        SC_TRY(check_samples(ep, xa, in, digest, err));
    }
    size_t before = live_bytes(ep);
    SC_TRY(run_op(ep->slices[xa->action.stage], op, &mb, err));
    if (out != NULL) {
        write_trailer(ep, out, in != NULL ? read_trailer(ep, in) : digest);
    }
    if (op == SC_OP_F && xa->action.stage + 1 == (int)ep->assign.n_stages) {
        ep->losses[mb.mb] = mb.loss_sum;
        ep->valid[mb.mb] = mb.n_valid;
    }
    ep->weight_ns[index] = mb.weight_ns;
    log_executed(ep, xa->action);
    note_memory(ep, before, &mb);
    return SC_OK;
}
