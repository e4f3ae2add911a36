#include "stage/alloc_count.h"
#include "stage/io/epoch.h"

#include <assert.h>
#include <string.h>

void sc_epoch_step_push(sc_epoch *ep, sc_epoch_task kind, uint64_t arg,
                        sc_status (*fn)(void *ctx, uint64_t arg, sc_err *err))
{
    sc_compute_task task = {.fn = fn, .ctx = ep, .arg = arg, .kind = (int)kind};
    sc_compute_push(ep->compute, &task);
    ep->n_tasks++;
}

sc_status sc_epoch_step_connect(sc_epoch *ep, const sc_msg_connect *connect, sc_err *err)
{
    if (connect->n_endpoints != ep->assign.n_ranks) {
        return sc_status_fail(err, SC_PROTOCOL, "%zu endpoints for %u ranks", connect->n_endpoints,
                              ep->assign.n_ranks);
    }
    if (ep->comm == NULL) {
        ep->is_connected = true; // a single rank is ready when it is asked, not before
        return SC_OK;
    }
    return ep->comm->ops->connect(ep->comm, connect->endpoints, err);
}

sc_status sc_epoch_step_queue(sc_epoch *ep, const sc_msg_step *step, sc_err *err)
{
    if (ep->n_queued == SC_EPOCH_STEPS_AHEAD) {
        return sc_status_fail(err, SC_PROTOCOL, "step %llu was issued more than %d steps ahead",
                              (unsigned long long)step->step, SC_EPOCH_STEPS_AHEAD);
    }
    ep->queue[ep->n_queued++] = *step;
    return SC_OK;
}

static void begin_step(sc_epoch *ep)
{
    ep->step = ep->queue[0];
    ep->n_queued--;
    memmove(&ep->queue[0], &ep->queue[1], (size_t)ep->n_queued * sizeof ep->queue[0]);
    ep->loss_scale = 1.0F / (float)sc_batch_valid_tokens(&ep->batch, ep->step.step);
    memset(ep->losses, 0, (size_t)ep->batch.n_mb * sizeof *ep->losses);
    memset(ep->valid, 0, (size_t)ep->batch.n_mb * sizeof *ep->valid);
    ep->n_executed = 0;
    ep->executed[0] = '\0';
    ep->activation_peak = 0;
    ep->cpu_start_ns = sc_compute_cpu_ns();
    ep->current_since_ns = sc_compute_now_ns();
    ep->state = SC_EPOCH_ROW;
    sc_executor_begin(ep->ex);
}

static sc_status act(sc_epoch *ep, const sc_exec_effect *effect, sc_err *err)
{
    if (effect->type == SC_EXEC_DISPATCH) {
        sc_epoch_step_push(ep, SC_EPOCH_TASK_ACTION, (uint64_t)effect->index, sc_epoch_action_run);
        return SC_OK;
    }
    const sc_edge *edge = &ep->ex->edges[effect->edge];
    void *buffer = ep->buffers[effect->edge][effect->slot];
    sc_comm_tag tag = {.step = ep->step.step, .stage = edge->from_stage, .mb = effect->mb};
    if (effect->type == SC_EXEC_POST_RECV) {
        return ep->comm->ops->post_recv(ep->comm, effect->edge, buffer, tag, (uint64_t)effect->msg,
                                        err);
    }
    return ep->comm->ops->send(ep->comm, effect->edge, buffer, tag, effect->ready_ns,
                               (uint64_t)effect->msg, err);
}

static sc_status take_result(sc_epoch *ep, const sc_compute_result *result, sc_err *err)
{
    ep->n_tasks--;
    if (result->status != SC_OK) {
        *err = *result->err;
        return result->status;
    }
    switch ((sc_epoch_task)result->kind) {
    case SC_EPOCH_TASK_SETUP:
        ep->is_set_up = true;
        return SC_OK;
    case SC_EPOCH_TASK_UNPACK:
        ep->is_moved = true;
        return SC_OK;
    case SC_EPOCH_TASK_ACTION:
        sc_executor_on_computed(ep->ex, (int)result->arg, result->start_ns, result->end_ns,
                                ep->weight_ns[result->arg]);
        ep->n_actions_done++;
        ep->current_since_ns = result->end_ns;
        return SC_OK;
    default:
        return sc_epoch_tail_advance(ep, result->start_ns, result->end_ns, err);
    }
}

static void deliver(sc_epoch *ep, const sc_comm_event *event)
{
    sc_executor_on_recv(ep->ex, event->channel, event->sent_ready_ns, event->posted_ns,
                        event->arrived_ns);
}

/* A paced job's edges have a latency: the message counts as arrived when it is over. */
static void receive(sc_epoch *ep, sc_comm_event *event)
{
    int64_t due_ns = event->sent_ready_ns + ep->assign.pace_comm_ns;
    if (!ep->is_paced || (due_ns <= event->arrived_ns && ep->n_held == 0)) {
        deliver(ep, event);
        return;
    }
    assert(ep->n_held < ep->n_held_max); // behind others even when it is due: channels keep order
    event->arrived_ns = due_ns > event->arrived_ns ? due_ns : event->arrived_ns;
    ep->held[ep->n_held++] = *event;
}

static void release_held(sc_epoch *ep)
{
    int64_t now_ns = ep->n_held > 0 ? sc_compute_now_ns() : 0;
    int kept = 0;
    for (int i = 0; i < ep->n_held; i++) {
        if (ep->held[i].arrived_ns <= now_ns) {
            deliver(ep, &ep->held[i]);
        } else {
            ep->held[kept++] = ep->held[i];
        }
    }
    ep->n_held = kept;
}

int64_t sc_epoch_step_deadline(const sc_epoch *ep)
{
    int64_t deadline = 0;
    for (int i = 0; i < ep->n_held; i++) {
        if (deadline == 0 || ep->held[i].arrived_ns < deadline) {
            deadline = ep->held[i].arrived_ns;
        }
    }
    return deadline;
}

/* A piece of state has arrived, or has left. */
static void end_move(sc_epoch *ep)
{
    if (--ep->n_moves_left == 0) {
        sc_epoch_step_push(ep, SC_EPOCH_TASK_UNPACK, 0, sc_epoch_move_unpack);
    }
}

static sc_status take_comm_event(sc_epoch *ep, sc_comm_event *event, sc_err *err)
{
    int64_t now_ns;
    switch (event->type) {
    case SC_COMM_CONNECTED:
        ep->is_connected = true;
        return SC_OK;
    case SC_COMM_RECV_DONE:
        if (event->channel >= ep->ex->n_remote_edges) {
            end_move(ep);
            return SC_OK;
        }
        receive(ep, event);
        return SC_OK;
    case SC_COMM_SEND_DONE:
        if (event->channel >= ep->ex->n_remote_edges) {
            end_move(ep);
            return SC_OK;
        }
        sc_executor_on_sent(ep->ex, event->channel);
        return SC_OK;
    case SC_COMM_GROUP_DONE:
        sc_epoch_tail_waited(ep, event->sent_ready_ns);
        now_ns = sc_compute_now_ns();
        return sc_epoch_tail_advance(ep, now_ns, now_ns, err);
    case SC_COMM_FAILED:
        *err = event->err;
        return event->err.status != SC_OK ? event->err.status : SC_FAILED;
    }
    return SC_OK;
}

static sc_status take_events(sc_epoch *ep, sc_err *err)
{
    sc_compute_result result;
    sc_comm_event event;
    while (sc_compute_pop(ep->compute, &result)) {
        SC_TRY(take_result(ep, &result, err));
    }
    while (ep->comm != NULL && ep->comm->ops->next_event(ep->comm, &event)) {
        SC_TRY(take_comm_event(ep, &event, err));
    }
    if (ep->is_set_up && ep->save.shard != NULL && sc_shard_is_writing(ep->save.shard)) {
        sc_epoch_save_take(ep);
    }
    release_held(ep);
    return SC_OK;
}

static sc_status go_on(sc_epoch *ep, sc_err *err)
{
    sc_exec_effect effect;
    if (ep->state == SC_EPOCH_IDLE && ep->n_queued > 0) {
        begin_step(ep);
    }
    if (ep->state != SC_EPOCH_ROW) {
        return SC_OK;
    }
    while (sc_executor_next(ep->ex, &effect)) {
        SC_TRY(act(ep, &effect, err));
    }
    if (sc_executor_is_row_done(ep->ex)) {
        sc_executor_end(ep->ex);
        ep->state = SC_EPOCH_TAIL;
        sc_epoch_tail_begin(ep, sc_compute_now_ns());
        return sc_epoch_tail_advance(ep, 0, 0, err);
    }
    return SC_OK;
}

/* Memory and connections first, then state from the epoch before, then ready. */
static sc_status set_up(sc_epoch *ep, sc_err *err)
{
    if (!ep->is_set_up || !ep->is_connected) {
        return SC_OK;
    }
    if (ep->n_moves > 0 && !ep->is_moving) {
        return sc_epoch_move_start(ep, err);
    }
    if (ep->n_moves > 0 && !ep->is_moved) {
        return SC_OK;
    }
    sc_epoch_free(&ep->old);
    ep->state = SC_EPOCH_IDLE;
    ep->window_start_ns = sc_compute_now_ns();
    return SC_OK;
}

sc_epoch_news sc_epoch_step_pump(sc_epoch *ep)
{
    if (ep->err.status != SC_OK) {
        return SC_EPOCH_NOTHING; // told already; the coordinator decides
    }
    sc_status status = take_events(ep, &ep->err);
    if (status == SC_OK && ep->save.is_ended) {
        ep->save.is_ended = false;
        return SC_EPOCH_SAVED;
    }
    if (status == SC_OK && ep->state == SC_EPOCH_SETUP) {
        status = set_up(ep, &ep->err);
        if (status == SC_OK && ep->state == SC_EPOCH_IDLE) {
            return SC_EPOCH_READY;
        }
    }
    if (status == SC_OK && ep->state == SC_EPOCH_TAIL && ep->tail.phase == SC_TAIL_DONE) {
        ep->state = SC_EPOCH_IDLE;
        return SC_EPOCH_REPORT;
    }
    if (status == SC_OK) {
        status = go_on(ep, &ep->err);
    }
    if (status != SC_OK) {
        ep->err.status = status;
        return SC_EPOCH_FAILED;
    }
    if (ep->state == SC_EPOCH_TAIL && ep->tail.phase == SC_TAIL_DONE) {
        ep->state = SC_EPOCH_IDLE;
        return SC_EPOCH_REPORT;
    }
    return SC_EPOCH_NOTHING;
}

void sc_epoch_step_current(const sc_epoch *ep, char *out, size_t n, int *waits_for_p)
{
    int index = sc_executor_current(ep->ex, waits_for_p);
    out[0] = '\0';
    if (index != SC_EXECUTOR_NONE) {
        sc_action_format(ep->ex->actions[index].action, out, n);
    }
}
