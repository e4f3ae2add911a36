/*
 * Weights and optimizer state follow their stages when a new plan places them elsewhere.
 *
 * Both ends know both plans, so nothing is negotiated: a parameter comes from the first old stage
 * that holds it, to every rank that holds it now and did not before. All that goes from one rank to
 * another is one message, parameters in registry order, each its weights and then its optimizer
 * state.
 */
#include "stage/io/epoch.h"

#include <string.h>

static bool holds(const sc_epoch *ep, uint32_t rank, int param)
{
    for (size_t s = 0; s < ep->assign.n_stages; s++) {
        const sc_msg_stage *stage = &ep->assign.stages[s];
        sc_stage_range range = {(int)stage->block_begin, (int)stage->block_end, stage->has_embed,
                                stage->has_head};
        if (stage->rank == rank && sc_registry_is_held(ep->base->registry, param, &range)) {
            return true;
        }
    }
    return false;
}

uint32_t sc_epoch_move_owner(const sc_epoch *ep, int param)
{
    for (size_t s = 0; s < ep->assign.n_stages; s++) {
        const sc_msg_stage *stage = &ep->assign.stages[s];
        sc_stage_range range = {(int)stage->block_begin, (int)stage->block_end, stage->has_embed,
                                stage->has_head};
        if (sc_registry_is_held(ep->base->registry, param, &range)) {
            return stage->rank;
        }
    }
    return 0;
}

static bool is_adamw(const sc_epoch *ep)
{
    return strcmp(ep->assign.optimizer.name, "sgd") != 0;
}

static size_t state_elems(const sc_epoch *ep, int param)
{
    return is_adamw(ep) ? sc_adamw_state_elems(ep->base->registry->params[param].n_elems) : 0;
}

static size_t moved_bytes(const sc_epoch *ep, int param)
{
    return (ep->base->registry->params[param].n_elems + state_elems(ep, param)) * sizeof(float);
}

/* True when the parameter goes from rank `from` to rank `to`. */
static bool moves(const sc_epoch *ep, int param, uint32_t from, uint32_t to)
{
    return sc_epoch_move_owner(ep->old, param) == from && holds(ep, to, param) &&
           !holds(ep->old, to, param);
}

static size_t bytes_between(const sc_epoch *ep, uint32_t from, uint32_t to)
{
    size_t bytes = 0;
    for (int i = 0; i < ep->base->registry->n_params; i++) {
        bytes += moves(ep, i, from, to) ? moved_bytes(ep, i) : 0;
    }
    return bytes;
}

sc_status sc_epoch_move_list(sc_epoch *ep, sc_err *err)
{
    uint32_t own = ep->assign.rank;
    if (ep->old == NULL || ep->is_paced) {
        return SC_OK;
    }
    ep->moves = sc_arena_alloc(&ep->arena, 2 * (size_t)ep->assign.n_ranks, sizeof *ep->moves);
    if (ep->moves == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the moves of %u ranks",
                              ep->assign.n_ranks);
    }
    for (uint32_t peer = 0; peer < ep->assign.n_ranks; peer++) {
        size_t out = peer == own ? 0 : bytes_between(ep, own, peer);
        size_t in = peer == own ? 0 : bytes_between(ep, peer, own);
        if (out > 0) {
            ep->moves[ep->n_moves++] =
                (sc_epoch_move){.peer = (int)peer, .is_send = true, .bytes = out};
        }
        if (in > 0) {
            ep->moves[ep->n_moves++] = (sc_epoch_move){.peer = (int)peer, .bytes = in};
        }
    }
    ep->n_moves_left = ep->n_moves;
    return SC_OK;
}

/* The entry that has the parameter's state on this rank; NULL when the rank does not hold it. */
static const sc_optim_entry *find_entry(const sc_optim *optim, int param)
{
    for (int i = 0; i < optim->n_entries; i++) {
        if (optim->entries[i].held.param == param && optim->entries[i].primary == i) {
            return &optim->entries[i];
        }
    }
    return NULL;
}

static void copy_floats(float *to, const float *from, size_t n)
{
    if (to != from && n > 0) {
        memcpy(to, from, n * sizeof *to);
    }
}

void sc_epoch_move_copy_ties(sc_optim *optim)
{
    for (int i = 0; i < optim->n_entries; i++) {
        const sc_optim_entry *entry = &optim->entries[i];
        const sc_optim_entry *primary = &optim->entries[entry->primary];
        copy_floats(entry->held.w, primary->held.w, entry->held.n_elems);
    }
}

static void copy_local(sc_epoch *ep)
{
    for (int i = 0; i < ep->optim->n_entries; i++) {
        const sc_optim_entry *to = &ep->optim->entries[i];
        const sc_optim_entry *from = find_entry(ep->old->optim, to->held.param);
        if (to->primary == i && from != NULL) {
            copy_floats(to->held.w, from->held.w, to->held.n_elems);
            copy_floats(to->state, from->state, state_elems(ep, to->held.param));
        }
    }
    sc_epoch_move_copy_ties(ep->optim);
}

/* Goes over the message's parameters; to_message packs from `optim`, otherwise unpacks into it. */
static void transfer(const sc_epoch *ep, const sc_optim *optim, uint32_t from, uint32_t to,
                     float *message, bool to_message)
{
    for (int i = 0; i < ep->base->registry->n_params; i++) {
        if (!moves(ep, i, from, to)) {
            continue;
        }
        const sc_optim_entry *entry = find_entry(optim, i);
        size_t n = entry->held.n_elems;
        size_t n_state = state_elems(ep, i);
        if (to_message) {
            copy_floats(message, entry->held.w, n);
            copy_floats(message + n, entry->state, n_state);
        } else {
            copy_floats(entry->held.w, message, n);
            copy_floats(entry->state, message + n, n_state);
        }
        message += n + n_state;
    }
}

sc_status sc_epoch_move_pack(sc_epoch *ep, sc_err *err)
{
    sc_backend *be = ep->base->backend;
    if (ep->old == NULL || ep->is_paced) {
        return SC_OK;
    }
    copy_local(ep);
    for (int i = 0; i < ep->n_moves; i++) {
        sc_epoch_move *move = &ep->moves[i];
        SC_TRY(be->memory_alloc(be, move->bytes, &move->buffer, err));
        if (move->is_send) {
            transfer(ep, ep->old->optim, ep->assign.rank, (uint32_t)move->peer, move->buffer, true);
        }
    }
    return SC_OK;
}

static sc_status start(sc_epoch *ep, int i, sc_err *err)
{
    sc_epoch_move *move = &ep->moves[i];
    int channel = ep->ex->n_remote_edges + i;
    sc_comm_tag tag = {.stage = move->is_send ? (int)ep->assign.rank : move->peer};
    if (!move->is_send) {
        return ep->comm->ops->post_recv(ep->comm, channel, move->buffer, tag, 0, err);
    }
    return ep->comm->ops->send(ep->comm, channel, move->buffer, tag, sc_compute_now_ns(), 0, err);
}

sc_status sc_epoch_move_start(sc_epoch *ep, sc_err *err)
{
    ep->is_moving = true;
    for (int i = 0; i < ep->n_moves; i++) {
        SC_TRY(start(ep, i, err));
    }
    return SC_OK;
}

sc_status sc_epoch_move_unpack(void *ctx, uint64_t arg, sc_err *err)
{
    sc_epoch *ep = ctx;
    sc_backend *be = ep->base->backend;
    (void)arg;
    (void)err;
    for (int i = 0; i < ep->n_moves; i++) {
        sc_epoch_move *move = &ep->moves[i];
        if (!move->is_send) {
            transfer(ep, ep->optim, (uint32_t)move->peer, ep->assign.rank, move->buffer, false);
        }
        be->memory_free(be, move->buffer);
        move->buffer = NULL;
    }
    if (ep->n_moves > 0) {
        sc_epoch_move_copy_ties(ep->optim);
    }
    return SC_OK;
}
