/*
 * A rank's checkpoints: loaded in the setup, copied in a step's tail, written beside the next
 * steps.
 */
#include "stage/io/epoch.h"

/* A parameter that several ranks hold is saved by the first. */
static sc_status open_shard(sc_epoch *ep, sc_err *err)
{
    const sc_registry *registry = ep->base->registry;
    bool *is_owned = sc_arena_alloc(&ep->arena, (size_t)registry->n_params, sizeof *is_owned);
    if (is_owned == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of parameters");
    }
    for (int i = 0; i < registry->n_params; i++) {
        is_owned[i] = sc_epoch_move_owner(ep, i) == ep->assign.rank;
    }
    const sc_shard_config config = {.optim = ep->optim,
                                    .is_owned = is_owned,
                                    .rank = (int)ep->assign.rank,
                                    .epoch = ep->assign.epoch,
                                    .folder = ep->assign.checkpoint_path};
    return sc_shard_open(&config, &ep->save.shard, err);
}

sc_status sc_epoch_save_setup(sc_epoch *ep, sc_err *err)
{
    if (ep->is_paced) {
        return SC_OK;
    }
    if (ep->assign.resume_path[0] != '\0') {
        SC_TRY(sc_shard_load(ep->assign.resume_path, ep->assign.start_step, ep->optim, err));
        sc_epoch_move_copy_ties(ep->optim);
    }
    if (ep->old != NULL) {
        sc_shard_close(&ep->old->save.shard); // nothing is written while plans change
    }
    return ep->assign.checkpoint_path[0] == '\0' ? SC_OK : open_shard(ep, err);
}

int sc_epoch_save_fd(const sc_epoch *ep)
{
    bool is_taken = ep->is_set_up && ep->save.shard != NULL && ep->err.status == SC_OK;
    return is_taken ? sc_shard_fd(ep->save.shard) : -1;
}

static sc_status run_copy(void *ctx, uint64_t arg, sc_err *err)
{
    (void)arg;
    return sc_shard_copy(((sc_epoch *)ctx)->save.shard, err);
}

void sc_epoch_save_copy(sc_epoch *ep)
{
    ep->save.wait_ns = 0;
    ep->save.is_waiting = sc_shard_is_writing(ep->save.shard);
    if (ep->save.is_waiting) {
        ep->save.wait_from_ns = sc_compute_now_ns();
        return;
    }
    sc_epoch_step_push(ep, SC_EPOCH_TASK_COPY, 0, run_copy);
}

void sc_epoch_save_write(sc_epoch *ep, int64_t copy_ns)
{
    sc_shard_write(ep->save.shard, ep->step.step + 1, ep->save.wait_ns, copy_ns);
}

void sc_epoch_save_take(sc_epoch *ep)
{
    if (!sc_shard_take(ep->save.shard, &ep->save.saved)) {
        return;
    }
    ep->save.is_ended = true;
    if (ep->save.is_waiting) {
        ep->save.is_waiting = false;
        ep->save.wait_ns = sc_compute_now_ns() - ep->save.wait_from_ns;
        sc_epoch_step_push(ep, SC_EPOCH_TASK_COPY, 0, run_copy);
    }
}
