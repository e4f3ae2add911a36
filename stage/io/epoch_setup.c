#include "kernels/backends.h"
#include "stage/io/epoch.h"

#include <string.h>

static sc_status open_slice(sc_epoch *ep, int s, sc_err *err)
{
    const sc_msg_stage *stage = &ep->assign.stages[s];
    sc_slice_config config = {.stage = s, .n_stages = (int)ep->assign.n_stages};
    config.n_mb = (int)ep->assign.n_mb;
    config.range.block_begin = (int)stage->block_begin;
    config.range.block_end = (int)stage->block_end;
    config.range.has_embed = stage->has_embed;
    config.range.has_head = stage->has_head;
    config.spec = ep->is_paced ? NULL : &ep->base->spec;
    config.registry = ep->base->registry;
    config.backend = ep->base->backend;
    config.B = ep->batch.B;
    config.T = ep->batch.T;
    config.recompute = ep->recompute;
    config.seed = ep->assign.seed;
    config.n_act_slots = ep->ex->n_act_slots[s];
    config.n_keep_slots = ep->ex->n_keep_slots[s];
    config.pace.f_ns = stage->pace_f_ns;
    config.pace.i_ns = stage->pace_i_ns;
    config.pace.w_ns = stage->pace_w_ns;
    config.is_aborted = &ep->base->is_aborted;
    config.is_blank = ep->old != NULL || ep->assign.resume_path[0] != '\0';
    if (config.n_act_slots > (int)stage->n_act_slots ||
        config.n_keep_slots > (int)stage->n_keep_slots) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "stage %d: the row needs %d activation slots, the plan has %u", s,
                              config.n_act_slots, stage->n_act_slots);
    }
    return ep->is_paced ? sc_slice_paced_open(&config, &ep->slices[s], err)
                        : sc_slice_layers_open(&config, &ep->slices[s], err);
}

/* The old epoch's slice of the same blocks goes on here. */
static sc_status take_slice(sc_epoch *ep, int s, sc_err *err)
{
    const sc_msg_stage *stage = &ep->assign.stages[s];
    for (size_t i = 0; ep->old != NULL && !ep->is_paced && i < ep->old->assign.n_stages; i++) {
        const sc_msg_stage *other = &ep->old->assign.stages[i];
        if (ep->old->slices[i] != NULL && other->block_begin == stage->block_begin &&
            other->block_end == stage->block_end && other->has_embed == stage->has_embed &&
            other->has_head == stage->has_head) {
            ep->slices[s] = ep->old->slices[i];
            ep->old->slices[i] = NULL;
            return ep->slices[s]->ops->resize(ep->slices[s], ep->ex->n_act_slots[s],
                                              ep->ex->n_keep_slots[s], err);
        }
    }
    return open_slice(ep, s, err);
}

static sc_status open_optimizer(sc_epoch *ep, sc_err *err)
{
    const sc_msg_optimizer *o = &ep->assign.optimizer;
    const sc_slice **held =
        sc_arena_alloc(&ep->arena, ep->assign.n_stages, sizeof(const sc_slice *));
    if (held == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of slices");
    }
    sc_optim_config config = {.registry = ep->base->registry, .slices = held};
    config.backend = ep->base->backend;
    for (size_t s = 0; s < ep->assign.n_stages; s++) {
        if (ep->slices[s] != NULL) {
            held[config.n_slices++] = ep->slices[s];
        }
    }
    config.kind = strcmp(o->name, "sgd") == 0 ? SC_OPTIM_SGD : SC_OPTIM_ADAMW;
    config.beta1 = o->beta1;
    config.beta2 = o->beta2;
    config.epsilon = o->epsilon;
    config.weight_decay = o->weight_decay;
    SC_TRY(sc_optim_open(&config, &ep->optim, err));
    return sc_gradnorm_open(ep->optim, &ep->gradnorm, err);
}

static sc_status open_edge(sc_epoch *ep, int e, sc_err *err)
{
    size_t bytes = ep->message_bytes + SC_EPOCH_TRAILER_BYTES;
    for (int i = 0; i < ep->ex->edges[e].n_slots; i++) {
        SC_TRY(ep->base->backend->memory_alloc(ep->base->backend, bytes, &ep->buffers[e][i], err));
    }
    return SC_OK;
}

static sc_status open_slices(sc_epoch *ep, sc_err *err)
{
    sc_status status = SC_OK;
    for (size_t s = 0; s < ep->assign.n_stages && status == SC_OK; s++) {
        if (ep->assign.stages[s].rank == ep->assign.rank) {
            status = take_slice(ep, (int)s, err);
        }
    }
    return status;
}

sc_status sc_epoch_setup_run(void *ctx, uint64_t arg, sc_err *err)
{
    sc_epoch *ep = ctx;
    (void)arg;
    const char *isa = ep->assign.isa_max[0] != '\0' ? ep->assign.isa_max : NULL;
    if (ep->base->backend == NULL) {
        SC_TRY(sc_backends_open("cpu", (int)ep->assign.threads, isa, &ep->base->backend, err));
    }
    SC_TRY(open_slices(ep, err));
    SC_TRY(open_optimizer(ep, err));
    SC_TRY(sc_epoch_move_pack(ep, err));
    SC_TRY(sc_epoch_save_setup(ep, err));
    for (int e = 0; e < ep->ex->n_edges; e++) {
        SC_TRY(open_edge(ep, e, err));
    }
    return SC_OK;
}

sc_status sc_epoch_setup_close(void *ctx, uint64_t arg, sc_err *err)
{
    sc_epoch *ep = ctx;
    (void)arg;
    (void)err;
    for (int e = 0; ep->buffers != NULL && e < ep->ex->n_edges; e++) {
        for (int i = 0; ep->buffers[e] != NULL && i < ep->ex->edges[e].n_slots; i++) {
            if (ep->buffers[e][i] != NULL) {
                ep->base->backend->memory_free(ep->base->backend, ep->buffers[e][i]);
            }
        }
    }
    sc_gradnorm_close(&ep->gradnorm);
    sc_optim_close(&ep->optim);
    for (size_t s = 0; ep->slices != NULL && s < ep->assign.n_stages; s++) {
        if (ep->slices[s] != NULL) {
            ep->slices[s]->ops->close(&ep->slices[s]);
        }
    }
    for (int i = 0; i < ep->n_moves; i++) {
        if (ep->moves[i].buffer != NULL) {
            ep->base->backend->memory_free(ep->base->backend, ep->moves[i].buffer);
        }
    }
    if (ep->base != NULL && ep->base->n_users == 1 && ep->base->backend != NULL) {
        ep->base->backend->free(&ep->base->backend);
    }
    return SC_OK;
}

void sc_epoch_setup_bytes(const sc_epoch *ep, sc_msg_ready *out)
{
    size_t message = ep->message_bytes + SC_EPOCH_TRAILER_BYTES;
    const sc_cost_layout layout = {.B = ep->batch.B,
                                   .T = ep->batch.T,
                                   .is_adamw = strcmp(ep->assign.optimizer.name, "adamw") == 0,
                                   .recompute = ep->recompute};
    out->total_bytes = ep->save.shard == NULL ? 0 : sc_shard_bytes(ep->save.shard);
    for (int e = 0; e < ep->ex->n_edges; e++) {
        out->total_bytes += (uint64_t)ep->ex->edges[e].n_slots * message;
    }
    for (size_t s = 0; !ep->is_paced && s < ep->assign.n_stages; s++) {
        const sc_msg_stage *stage = &ep->assign.stages[s];
        sc_stage_range range = {(int)stage->block_begin, (int)stage->block_end, stage->has_embed,
                                stage->has_head};
        sc_stage_bytes bytes;
        if (ep->slices[s] == NULL) {
            continue;
        }
        sc_cost_bytes(&ep->base->spec, &range, &layout, &bytes);
        out->param_bytes += bytes.params;
        out->activation_bytes += (uint64_t)ep->ex->n_act_slots[s] * bytes.act_per_mb +
                                 (uint64_t)ep->ex->n_keep_slots[s] * bytes.keep_per_mb;
        out->total_bytes +=
            bytes.params + bytes.grads + bytes.optimizer + bytes.scratch + bytes.work;
    }
    out->total_bytes += out->activation_bytes;
}
