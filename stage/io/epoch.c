#include "stage/io/epoch.h"

#include "base/log.h"
#include "stage/executor_compile.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_ALL = 0,
    GROUP_TIED = 1,
    PACED_MESSAGE_BYTES = 64,
    RANKS_MAX = 1024,
    THREADS_MAX = 4096,
    MB_TOKENS_MAX = 1 << 30 // of a microbatch: rows of a tensor are counted in an int
};

/* Paced runs have no data: an epoch that no run reaches the end of. */
#define PACED_SAMPLES (UINT64_C(1) << 32)

static sc_status check_sizes(const sc_msg_assign *a, sc_err *err)
{
    if (a->n_ranks < 1 || a->n_ranks > RANKS_MAX || a->rank >= a->n_ranks ||
        a->n_stages < a->n_ranks || a->n_stages > SC_STAGES_MAX || a->n_mb < 1 ||
        a->n_mb > SC_MICROBATCHES_MAX || a->micro_batch_size < 1 || a->sequence_length < 1 ||
        a->threads < 1 || a->threads > THREADS_MAX || a->n_message_slots < 1 ||
        a->n_message_slots > a->n_mb + 1 ||
        (uint64_t)a->micro_batch_size * a->sequence_length > MB_TOKENS_MAX) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "assignment out of range: rank %u of %u, %zu stages, %u microbatches "
                              "of %u x %u tokens, %u threads",
                              a->rank, a->n_ranks, a->n_stages, a->n_mb, a->micro_batch_size,
                              a->sequence_length, a->threads);
    }
    for (size_t s = 0; s < a->n_stages; s++) {
        if (a->stages[s].stage != s || a->stages[s].rank >= a->n_ranks) {
            return sc_status_fail(err, SC_PROTOCOL, "assignment: stage %zu is stage %u on rank %u",
                                  s, a->stages[s].stage, a->stages[s].rank);
        }
    }
    return SC_OK;
}

/* The old epoch's model, data and place go on, so the new plan may change neither. */
static sc_status check_heir(const sc_msg_assign *old, const sc_msg_assign *a, sc_err *err)
{
    const sc_msg_model *m = &old->model;
    const sc_msg_model *n = &a->model;
    bool is_same_place = old->rank == a->rank && old->n_ranks == a->n_ranks;
    bool is_same_batch = old->n_mb == a->n_mb && old->micro_batch_size == a->micro_batch_size &&
                         old->sequence_length == a->sequence_length && old->seed == a->seed;
    bool is_same_model = m->n_layer == n->n_layer && m->n_head == n->n_head &&
                         m->n_embd == n->n_embd && m->n_inner == n->n_inner &&
                         m->vocab_size == n->vocab_size && m->n_positions == n->n_positions &&
                         m->tie_word_embeddings == n->tie_word_embeddings;
    bool is_same_text = strcmp(old->slice, a->slice) == 0 &&
                        strcmp(old->data_path, a->data_path) == 0 &&
                        strcmp(old->data_format, a->data_format) == 0 &&
                        strcmp(old->recompute, a->recompute) == 0 &&
                        strcmp(old->optimizer.name, a->optimizer.name) == 0;
    if (!is_same_place || !is_same_batch || !is_same_model || !is_same_text) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "epoch %llu goes on from epoch %llu with another %s",
                              (unsigned long long)a->epoch, (unsigned long long)old->epoch,
                              !is_same_place   ? "rank"
                              : !is_same_batch ? "batch"
                              : !is_same_model ? "model"
                                               : "slice, recomputation, data or optimizer");
    }
    return SC_OK;
}

/* Every block of the model on one stage, in order; embedding first, head last. */
static sc_status check_blocks(const sc_msg_assign *a, sc_err *err)
{
    uint32_t next = 0;
    for (size_t s = 0; s < a->n_stages; s++) {
        const sc_msg_stage *stage = &a->stages[s];
        bool is_last = s + 1 == a->n_stages;
        if (stage->block_begin != next || stage->block_end < next ||
            (is_last && stage->block_end != a->model.n_layer) || stage->has_embed != (s == 0) ||
            stage->has_head != is_last) {
            return sc_status_fail(
                err, SC_PROTOCOL, "assignment: stage %zu of %zu has blocks %u to %u of %u", s,
                a->n_stages, stage->block_begin, stage->block_end, a->model.n_layer);
        }
        next = stage->block_end;
    }
    return SC_OK;
}

static sc_status compile_plan(sc_epoch *ep, sc_err *err)
{
    const sc_msg_assign *a = &ep->assign;
    SC_TRY(
        sc_table_new("assigned", (int)a->n_ranks, (int)a->n_stages, (int)a->n_mb, &ep->table, err));
    for (size_t s = 0; s < a->n_stages; s++) {
        ep->table->rank_of_stage[s] = (int)a->stages[s].rank;
    }
    ep->table->is_lowered = true;
    SC_TRY(sc_table_row_parse(ep->table, (int)a->rank, a->row, strlen(a->row), err));
    return sc_executor_compile_row(ep->table, (int)a->rank, (int)a->n_message_slots, &ep->arena,
                                   &ep->ex, err);
}

static sc_status open_model(sc_epoch *ep, sc_err *err)
{
    const sc_msg_model *m = &ep->assign.model;
    sc_epoch_base *base = ep->base;
    base->spec = (sc_model_spec){.n_layer = (int)m->n_layer, .n_head = (int)m->n_head};
    base->spec.n_embd = (int)m->n_embd;
    base->spec.n_inner = (int)m->n_inner;
    base->spec.vocab_size = (int)m->vocab_size;
    base->spec.n_positions = (int)m->n_positions;
    base->spec.layer_norm_epsilon = m->layer_norm_epsilon;
    base->spec.initializer_range = m->initializer_range;
    base->spec.tie_word_embeddings = m->tie_word_embeddings;
    SC_TRY(sc_spec_check(&base->spec, err));
    SC_TRY(sc_registry_new(&base->spec, &base->registry, err));
    return sc_dataset_open(ep->assign.data_path, ep->assign.data_format, ep->batch.T,
                           (uint64_t)ep->batch.B * (uint64_t)ep->batch.n_mb, base->spec.vocab_size,
                           &base->dataset, err);
}

/* A new base, or the old epoch's. */
static sc_status open_base(sc_epoch *ep, sc_err *err)
{
    const sc_msg_assign *a = &ep->assign;
    ep->batch = (sc_batch_plan){.seed = a->seed, .n_samples = PACED_SAMPLES};
    ep->batch.B = (int)a->micro_batch_size;
    ep->batch.n_mb = (int)a->n_mb;
    ep->batch.T = (int)a->sequence_length;
    ep->message_bytes = PACED_MESSAGE_BYTES;
    ep->base = ep->old != NULL ? ep->old->base : calloc(1, sizeof *ep->base);
    if (ep->base == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a plan epoch");
    }
    ep->base->n_users++;
    if (ep->is_paced) {
        return SC_OK;
    }
    if (ep->old == NULL) {
        SC_TRY(open_model(ep, err));
    }
    SC_TRY(
        sc_recompute_parse(a->recompute, ep->base->spec.n_layer, &ep->arena, &ep->recompute, err));
    ep->batch.n_samples = sc_dataset_n_samples(ep->base->dataset);
    ep->message_bytes =
        (size_t)ep->batch.B * (size_t)ep->batch.T * (size_t)ep->base->spec.n_embd * sizeof(float);
    return SC_OK;
}

static void *take(sc_epoch *ep, size_t n, size_t size, bool *is_short)
{
    void *p = sc_arena_alloc(&ep->arena, n, size);
    *is_short = *is_short || p == NULL;
    return p;
}

/* Everything small that a step needs; the big blocks come from the backend in the setup. */
static sc_status allocate(sc_epoch *ep, sc_err *err)
{
    bool is_short = false;
    size_t n_tokens = (size_t)ep->batch.B * (size_t)ep->batch.T;
    size_t n_actions = (size_t)ep->ex->n_actions;
    size_t n_mb = (size_t)ep->batch.n_mb;
    ep->slices = take(ep, ep->assign.n_stages, sizeof(sc_slice *), &is_short);
    ep->samples = take(ep, (size_t)ep->batch.B, sizeof *ep->samples, &is_short);
    ep->tokens = take(ep, n_tokens, sizeof *ep->tokens, &is_short);
    ep->targets = take(ep, n_tokens, sizeof *ep->targets, &is_short);
    ep->losses = take(ep, n_mb, sizeof *ep->losses, &is_short);
    ep->valid = take(ep, n_mb, sizeof *ep->valid, &is_short);
    ep->weight_ns = take(ep, n_actions, sizeof *ep->weight_ns, &is_short);
    ep->executed = take(ep, n_actions + 1, SC_ACTION_TEXT_MAX, &is_short);
    ep->spans = take(ep, n_actions, sizeof *ep->spans, &is_short);
    ep->buffers = take(ep, (size_t)ep->ex->n_edges, sizeof *ep->buffers, &is_short);
    ep->n_held_max = ep->ex->n_remote_edges * (int)ep->assign.n_message_slots;
    ep->held = take(ep, (size_t)ep->n_held_max, sizeof *ep->held, &is_short);
    for (int e = 0; !is_short && e < ep->ex->n_edges; e++) {
        ep->buffers[e] = take(ep, (size_t)ep->ex->edges[e].n_slots, sizeof(void *), &is_short);
    }
    if (is_short) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a row of %zu actions", n_actions);
    }
    return SC_OK;
}

/* The group of the tied embedding: the ranks of the first and the last stage, when they differ. */
static bool tied_ranks(const sc_epoch *ep, int ranks[2])
{
    int first = ep->table->rank_of_stage[0];
    int last = ep->table->rank_of_stage[ep->table->n_stages - 1];
    ranks[0] = first < last ? first : last;
    ranks[1] = first < last ? last : first;
    int own = (int)ep->assign.rank;
    return !ep->is_paced && ep->base->spec.tie_word_embeddings && first != last &&
           (own == first || own == last);
}

static void list_channels(const sc_epoch *ep, sc_comm_channel *out)
{
    for (int e = 0; e < ep->ex->n_remote_edges; e++) {
        const sc_edge *edge = &ep->ex->edges[e];
        out[e] = (sc_comm_channel){.from_stage = edge->from_stage, .to_stage = edge->to_stage};
        out[e].kind = edge->is_gradient ? SC_COMM_GRADIENT : SC_COMM_ACTIVATION;
        out[e].peer_rank = edge->peer_rank;
        out[e].is_send = edge->type == SC_EDGE_SEND;
        out[e].message_bytes = ep->message_bytes + SC_EPOCH_TRAILER_BYTES;
        out[e].window = edge->n_slots;
    }
    int own = (int)ep->assign.rank;
    for (int i = 0; i < ep->n_moves; i++) {
        const sc_epoch_move *move = &ep->moves[i];
        sc_comm_channel *channel = &out[ep->ex->n_remote_edges + i];
        *channel = (sc_comm_channel){.kind = SC_COMM_STATE, .peer_rank = move->peer, .window = 1};
        channel->from_stage = move->is_send ? own : move->peer;
        channel->to_stage = move->is_send ? move->peer : own;
        channel->is_send = move->is_send;
        channel->message_bytes = move->bytes;
    }
}

static sc_status open_comm(sc_epoch *ep, const char *bind_address, sc_err *err)
{
    size_t n_ranks = ep->assign.n_ranks;
    size_t n_channels = (size_t)ep->ex->n_remote_edges + (size_t)ep->n_moves;
    bool is_short = false;
    int pair[2];
    int *all = take(ep, n_ranks, sizeof *all, &is_short);
    sc_comm_channel *channels = take(ep, n_channels, sizeof *channels, &is_short);
    if (is_short) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %zu channels", n_channels);
    }
    list_channels(ep, channels);
    for (int r = 0; r < (int)n_ranks; r++) {
        all[r] = r;
    }
    sc_comm_group groups[2] = {{.id = GROUP_ALL, .n_ranks = (int)n_ranks, .ranks = all}};
    groups[0].max_bytes = n_ranks * ep->tail.record_len * sizeof(double);
    sc_comm_config config = {.epoch = ep->assign.epoch, .rank = (int)ep->assign.rank};
    config.n_groups = 1;
    if (tied_ranks(ep, pair)) {
        groups[1] = (sc_comm_group){.id = GROUP_TIED, .n_ranks = 2, .ranks = pair};
        groups[1].max_bytes =
            (size_t)ep->base->spec.vocab_size * (size_t)ep->base->spec.n_embd * sizeof(float);
        config.n_groups = 2;
        ep->tail.tied_group = 1;
    }
    config.n_ranks = (int)n_ranks;
    config.bind_address = bind_address;
    config.channels = channels;
    config.n_channels = (int)n_channels;
    config.groups = groups;
    return sc_comm_host_open(&config, &ep->comm, err);
}

sc_status sc_epoch_new(sc_arena *arena, const sc_msg_assign *assign, sc_compute *compute,
                       const char *bind_address, sc_epoch *old, sc_epoch **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_epoch *ep = sc_arena_alloc(arena, 1, sizeof *ep);
    if (ep == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a plan epoch");
    }
    /* the epoch lives in the arena that it owns from here on */
    ep->arena = *arena;
    sc_arena_init(arena, 0);
    ep->arena.limit_bytes = 0;
    ep->assign = *assign;
    ep->compute = compute;
    ep->old = old;
    ep->tail.tied_group = SC_EXECUTOR_NONE;
    ep->is_one_host = strcmp(assign->bind_address, "ipc") == 0;
    ep->is_paced = strcmp(assign->slice, "paced") == 0;
    SC_GOTO(check_sizes(&ep->assign, err));
    if (!ep->is_paced) {
        SC_GOTO(check_blocks(&ep->assign, err));
    }
    if (old != NULL) {
        SC_GOTO(check_heir(&old->assign, &ep->assign, err));
        ep->step = old->step; // what heartbeats tell until the next one begins
    }
    SC_GOTO(compile_plan(ep, err));
    SC_GOTO(open_base(ep, err));
    SC_GOTO(allocate(ep, err));
    SC_GOTO(sc_epoch_tail_init(ep, err));
    SC_GOTO(sc_epoch_move_list(ep, err));
    if (assign->n_ranks > 1) {
        SC_GOTO(open_comm(ep, bind_address, err));
    }
    sc_epoch_step_push(ep, SC_EPOCH_TASK_SETUP, 0, sc_epoch_setup_run);
    *out = ep;
    return SC_OK;
out:
    ep->old = NULL; // stays the caller's
    sc_epoch_free(&ep);
    return status;
}

/* The compute thread may still hold buffers: nothing is freed before its queue is empty. */
static void drain_tasks(sc_epoch *ep)
{
    sc_compute_result result;
    while (ep->n_tasks > 0) {
        if (sc_compute_pop(ep->compute, &result)) {
            ep->n_tasks--;
        } else {
            sc_spsc_wait(&ep->compute->results);
        }
    }
}

static void free_base(sc_epoch_base *base)
{
    if (base != NULL && --base->n_users == 0) {
        sc_dataset_close(&base->dataset);
        sc_registry_free(&base->registry);
        free(base);
    }
}

void sc_epoch_free(sc_epoch **epoch)
{
    sc_epoch *ep = *epoch;
    if (ep == NULL) {
        return;
    }
    int n_own = ep->old == NULL ? 1 : 2; // users of the base that end here
    if (ep->base != NULL && ep->base->n_users == n_own) {
        atomic_store(&ep->base->is_aborted, true);
    }
    if (ep->comm != NULL) {
        ep->comm->ops->abort(ep->comm);
    }
    drain_tasks(ep);
    sc_epoch_free(&ep->old); // only now: the setup takes from it, and results carry no name
    if (ep->comm != NULL) {
        ep->comm->ops->close(&ep->comm);
    }
    sc_shard_close(&ep->save.shard);
    sc_epoch_step_push(ep, SC_EPOCH_TASK_CLOSE, 0, sc_epoch_setup_close);
    drain_tasks(ep);
    sc_compute_forget(ep->compute);
    free_base(ep->base);
    sc_table_free(&ep->table);
    sc_arena arena = ep->arena; // holds ep itself
    sc_arena_done(&arena);
    *epoch = NULL;
}
