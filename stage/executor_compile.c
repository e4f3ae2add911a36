#include "stage/executor_compile.h"

#include <assert.h>

static int neighbour(sc_op op, int stage, bool is_input)
{
    int below = stage - 1;
    int above = stage + 1;
    if (op == SC_OP_F) {
        return is_input ? below : above;
    }
    return is_input ? above : below;
}

/* F, B and I have messages; W has none. */
static bool has_messages(sc_op op)
{
    return op == SC_OP_F || op == SC_OP_B || op == SC_OP_I;
}

static int find_edge(const sc_executor *ex, int from_stage, int to_stage)
{
    for (int e = 0; e < ex->n_edges; e++) {
        if (ex->edges[e].from_stage == from_stage && ex->edges[e].to_stage == to_stage) {
            return e;
        }
    }
    return SC_EXECUTOR_NONE;
}

static sc_status add_edge(sc_executor *ex, const sc_table *table, int from, int to, int n_slots,
                          sc_arena *arena, sc_err *err)
{
    sc_edge *edge = &ex->edges[ex->n_edges];
    int from_rank = table->rank_of_stage[from];
    int to_rank = table->rank_of_stage[to];
    *edge = (sc_edge){.from_stage = from, .to_stage = to, .is_gradient = to < from};
    edge->n_slots = n_slots;
    if (from_rank == to_rank) {
        edge->type = SC_EDGE_LOCAL;
        edge->n_slots = 0; // counted while the row is walked
        edge->peer_rank = ex->rank;
    } else {
        edge->type = from_rank == ex->rank ? SC_EDGE_SEND : SC_EDGE_RECV;
        edge->peer_rank = from_rank == ex->rank ? to_rank : from_rank;
    }
    edge->mb_of_msg = sc_arena_alloc(arena, (size_t)table->n_mb, sizeof *edge->mb_of_msg);
    edge->reader_of_msg = sc_arena_alloc(arena, (size_t)table->n_mb, sizeof *edge->reader_of_msg);
    edge->slot_of_msg = sc_arena_alloc(arena, (size_t)table->n_mb, sizeof *edge->slot_of_msg);
    if (edge->mb_of_msg == NULL || edge->reader_of_msg == NULL || edge->slot_of_msg == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %d messages of an edge",
                              table->n_mb);
    }
    ex->n_edges++;
    return SC_OK;
}

/* Remote edges first, in rising (from_stage, to_stage): the same order on both ends. */
static sc_status allocate_edges(sc_executor *ex, int n_stages, sc_arena *arena, sc_err *err)
{
    ex->edges = sc_arena_alloc(arena, 2 * (size_t)n_stages, sizeof *ex->edges);
    ex->ready_ns = sc_arena_alloc(arena, 2 * (size_t)n_stages, sizeof *ex->ready_ns);
    if (ex->edges == NULL || ex->ready_ns == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the edges of %d stages", n_stages);
    }
    return SC_OK;
}

/* Both ways between stages s and s + 1. */
static sc_status add_pair(sc_executor *ex, const sc_table *table, int s, int n_slots,
                          sc_arena *arena, sc_err *err)
{
    SC_TRY(add_edge(ex, table, s, s + 1, n_slots, arena, err));
    return table->is_forward_only ? SC_OK : add_edge(ex, table, s + 1, s, n_slots, arena, err);
}

/* Edges of this rank that are local or not, in rising (from_stage, to_stage): the same order on
 * both ends. */
static sc_status add_edges(sc_executor *ex, const sc_table *table, bool is_local, int n_slots,
                           sc_arena *arena, sc_err *err)
{
    sc_status status = SC_OK;
    for (int s = 0; s + 1 < table->n_stages && status == SC_OK; s++) {
        int a = table->rank_of_stage[s];
        int b = table->rank_of_stage[s + 1];
        if ((a == ex->rank || b == ex->rank) && (a == b) == is_local) {
            status = add_pair(ex, table, s, n_slots, arena, err);
        }
    }
    return status;
}

/* Remote edges first. */
static sc_status add_all_edges(sc_executor *ex, const sc_table *table, int n_slots, sc_arena *arena,
                               sc_err *err)
{
    SC_TRY(allocate_edges(ex, table->n_stages, arena, err));
    SC_TRY(add_edges(ex, table, false, n_slots, arena, err));
    ex->n_remote_edges = ex->n_edges;
    SC_TRY(add_edges(ex, table, true, n_slots, arena, err));
    for (int e = 0; e < ex->n_remote_edges; e++) {
        ex->ready_ns[e] = sc_arena_alloc(arena, (size_t)n_slots, sizeof **ex->ready_ns);
        if (ex->ready_ns[e] == NULL) {
            return sc_status_fail(err, SC_NO_MEMORY, "no memory for the slots of an edge");
        }
    }
    return SC_OK;
}

/* Slots of one kind (activations, kept gradients, a local edge's buffers): the lowest free one is
 * taken. */
typedef struct slot_pool {
    int *slot_of_mb; // (n_mb), -1 when the microbatch holds none
    bool *is_taken;  // (n_mb)
    int n_used;      // highest slot taken so far, plus one
} slot_pool;

static sc_status init_pool(slot_pool *pool, int n_mb, sc_arena *arena, sc_err *err)
{
    pool->slot_of_mb = sc_arena_alloc(arena, (size_t)n_mb, sizeof *pool->slot_of_mb);
    pool->is_taken = sc_arena_alloc(arena, (size_t)n_mb, sizeof *pool->is_taken);
    pool->n_used = 0;
    if (pool->slot_of_mb == NULL || pool->is_taken == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the slots of %d microbatches",
                              n_mb);
    }
    for (int mb = 0; mb < n_mb; mb++) {
        pool->slot_of_mb[mb] = -1;
    }
    return SC_OK;
}

static int take_slot(slot_pool *pool, int mb)
{
    int slot = 0;
    while (pool->is_taken[slot]) {
        slot++;
    }
    pool->is_taken[slot] = true;
    pool->slot_of_mb[mb] = slot;
    if (slot + 1 > pool->n_used) {
        pool->n_used = slot + 1;
    }
    return slot;
}

static int drop_slot(slot_pool *pool, int mb)
{
    int slot = pool->slot_of_mb[mb];
    if (slot >= 0) {
        pool->is_taken[slot] = false;
        pool->slot_of_mb[mb] = -1;
    }
    return slot;
}

/* What compiling a row needs beside the executor itself. */
typedef struct compile_state {
    const sc_table *table;
    slot_pool *act;   // (n_stages)
    slot_pool *keep;  // (n_stages)
    slot_pool *local; // (n_edges)
    int **msg_of_mb;  // (n_edges)(n_mb), which message a microbatch is; SC_EXECUTOR_NONE: none
} compile_state;

static sc_status broken_row(sc_err *err, int rank, int cell, sc_action action, const char *what)
{
    char text[SC_ACTION_TEXT_MAX];
    return sc_status_fail(err, SC_INVALID, "rank %d cell %d: %s %s", rank, cell,
                          sc_action_format(action, text, sizeof text), what);
}

static sc_status assign_slots(compile_state *cs, sc_executor *ex, int cell, sc_exec_action *out,
                              sc_err *err)
{
    sc_action a = out->action;
    slot_pool *act = &cs->act[a.stage];
    slot_pool *keep = &cs->keep[a.stage];
    out->keep_slot = -1;
    switch (a.op) {
    case SC_OP_F:
        if (act->slot_of_mb[a.mb] >= 0) {
            return broken_row(err, ex->rank, cell, a, "runs while its activations are still held");
        }
        out->act_slot = take_slot(act, a.mb);
        if (cs->table->is_forward_only) {
            drop_slot(act, a.mb);
        }
        return SC_OK;
    case SC_OP_B:
        out->act_slot = drop_slot(act, a.mb);
        break;
    case SC_OP_I:
        if (keep->slot_of_mb[a.mb] >= 0) {
            return broken_row(err, ex->rank, cell, a, "is there twice");
        }
        out->act_slot = act->slot_of_mb[a.mb];
        out->keep_slot = take_slot(keep, a.mb);
        break;
    default: // W
        out->act_slot = drop_slot(act, a.mb);
        out->keep_slot = drop_slot(keep, a.mb);
        if (out->keep_slot < 0) {
            return broken_row(err, ex->rank, cell, a, "comes before its I");
        }
        break;
    }
    if (out->act_slot < 0) {
        return broken_row(err, ex->rank, cell, a, "comes before its F");
    }
    return SC_OK;
}

/* A receive is posted when a slot frees, so receive n + j takes the slot of the message that is
   read as the j-th, in whatever order messages are read. */
static sc_status read_message(compile_state *cs, sc_executor *ex, int cell, sc_exec_action *out,
                              sc_err *err)
{
    sc_action a = out->action;
    sc_edge *edge = &ex->edges[out->in_edge];
    int msg = cs->msg_of_mb[out->in_edge][a.mb];
    if (msg == SC_EXECUTOR_NONE) {
        return broken_row(err, ex->rank, cell, a, "has no RECV");
    }
    int posted = edge->n_consumed + edge->n_slots;
    if (msg >= posted) {
        return broken_row(err, ex->rank, cell, a, "reads further ahead than there are buffers");
    }
    cs->msg_of_mb[out->in_edge][a.mb] = SC_EXECUTOR_NONE;
    edge->reader_of_msg[msg] = (int)(out - ex->actions);
    edge->n_consumed++;
    out->in_msg = msg;
    out->in_slot = edge->slot_of_msg[msg];
    if (posted < edge->n_msgs) {
        edge->slot_of_msg[posted] = out->in_slot;
    }
    return SC_OK;
}

static sc_status assign_input(compile_state *cs, sc_executor *ex, int cell, sc_exec_action *out,
                              sc_err *err)
{
    sc_action a = out->action;
    int from = neighbour(a.op, a.stage, true);
    out->in_edge = SC_EXECUTOR_NONE;
    if (!has_messages(a.op) || from < 0 || from >= cs->table->n_stages) {
        return SC_OK;
    }
    int e = find_edge(ex, from, a.stage);
    assert(e != SC_EXECUTOR_NONE);
    sc_edge *edge = &ex->edges[e];
    out->in_edge = e;
    if (edge->type == SC_EDGE_LOCAL) {
        out->in_slot = drop_slot(&cs->local[e], a.mb);
        if (out->in_slot < 0) {
            return broken_row(err, ex->rank, cell, a, "comes before the stage it reads from");
        }
        return SC_OK;
    }
    return read_message(cs, ex, cell, out, err);
}

static sc_status assign_output(compile_state *cs, sc_executor *ex, int cell, sc_exec_action *out,
                               sc_err *err)
{
    sc_action a = out->action;
    int to = neighbour(a.op, a.stage, false);
    out->out_edge = SC_EXECUTOR_NONE;
    if (!has_messages(a.op) || to < 0 || to >= cs->table->n_stages) {
        return SC_OK;
    }
    int e = find_edge(ex, a.stage, to);
    assert(e != SC_EXECUTOR_NONE);
    sc_edge *edge = &ex->edges[e];
    out->out_edge = e;
    if (edge->type == SC_EDGE_LOCAL) {
        if (cs->local[e].slot_of_mb[a.mb] >= 0) {
            return broken_row(err, ex->rank, cell, a, "runs while its output is not read");
        }
        out->out_slot = take_slot(&cs->local[e], a.mb);
        edge->n_slots = cs->local[e].n_used;
        return SC_OK;
    }
    out->out_msg = edge->n_produced++;
    if (out->out_msg >= edge->n_msgs || edge->mb_of_msg[out->out_msg] != a.mb) {
        return broken_row(err, ex->rank, cell, a, "has no SEND, or one out of turn");
    }
    out->out_slot = edge->slot_of_msg[out->out_msg];
    return SC_OK;
}

/* Messages in the order of the row's RECV and SEND cells. */
static sc_status add_message(compile_state *cs, sc_executor *ex, int cell, sc_action a, sc_err *err)
{
    bool is_recv = sc_action_is_recv(a.op);
    bool is_forward = a.op == SC_OP_RECV_F || a.op == SC_OP_SEND_F;
    int other = is_recv == is_forward ? a.stage - 1 : a.stage + 1;
    int e = is_recv ? find_edge(ex, other, a.stage) : find_edge(ex, a.stage, other);
    if (e == SC_EXECUTOR_NONE || ex->edges[e].type == SC_EDGE_LOCAL) {
        return broken_row(err, ex->rank, cell, a, "has no neighbour on another rank");
    }
    sc_edge *edge = &ex->edges[e];
    if (cs->msg_of_mb[e][a.mb] != SC_EXECUTOR_NONE) {
        return broken_row(err, ex->rank, cell, a, "is there twice");
    }
    edge->slot_of_msg[edge->n_msgs] =
        edge->n_msgs % edge->n_slots; // for a receive: while there are new ones
    cs->msg_of_mb[e][a.mb] = edge->n_msgs;
    edge->mb_of_msg[edge->n_msgs++] = a.mb;
    return SC_OK;
}

static sc_status check_cell(const sc_executor *ex, const sc_table *table, int cell, sc_action a,
                            sc_err *err)
{
    if (a.stage < 0 || a.stage >= table->n_stages || a.mb >= table->n_mb ||
        table->rank_of_stage[a.stage] != ex->rank) {
        return broken_row(err, ex->rank, cell, a, "is not this rank's");
    }
    return SC_OK;
}

static sc_status add_messages(compile_state *cs, sc_executor *ex, const sc_row *row, sc_err *err)
{
    sc_status status = SC_OK;
    for (size_t i = 0; i < row->n_actions && status == SC_OK; i++) {
        sc_action a = row->actions[i];
        status = check_cell(ex, cs->table, (int)i, a, err);
        if (status == SC_OK && !sc_action_is_compute(a.op) && a.op != SC_OP_REDUCE_GRAD) {
            status = add_message(cs, ex, (int)i, a, err);
        }
    }
    return status;
}

static sc_status add_action(compile_state *cs, sc_executor *ex, int cell, sc_action action,
                            sc_err *err)
{
    sc_exec_action *out = &ex->actions[ex->n_actions++];
    out->action = action;
    SC_TRY(assign_slots(cs, ex, cell, out, err));
    SC_TRY(assign_input(cs, ex, cell, out, err));
    return assign_output(cs, ex, cell, out, err);
}

/* As many SEND and RECV cells as actions need; the counters served for the walk and go back to
 * zero. */
static sc_status check_counts(sc_executor *ex, sc_err *err)
{
    for (int e = 0; e < ex->n_remote_edges; e++) {
        sc_edge *edge = &ex->edges[e];
        int n = edge->type == SC_EDGE_RECV ? edge->n_consumed : edge->n_produced;
        if (n != edge->n_msgs) {
            return sc_status_fail(err, SC_INVALID,
                                  "rank %d: stages %d to %d: %d messages but %d SEND/RECV cells",
                                  ex->rank, edge->from_stage, edge->to_stage, n, edge->n_msgs);
        }
        edge->n_consumed = 0;
        edge->n_produced = 0;
    }
    return SC_OK;
}

static sc_status compile_row(compile_state *cs, sc_executor *ex, const sc_row *row, sc_err *err)
{
    sc_status status = add_messages(cs, ex, row, err);
    for (size_t i = 0; i < row->n_actions && status == SC_OK; i++) {
        if (sc_action_is_compute(row->actions[i].op)) {
            status = add_action(cs, ex, (int)i, row->actions[i], err);
        }
    }
    return status == SC_OK ? check_counts(ex, err) : status;
}

static sc_status init_pools(slot_pool **out, int n, int n_mb, sc_arena *arena, sc_err *err)
{
    slot_pool *pools = sc_arena_alloc(arena, (size_t)n, sizeof *pools);
    if (pools == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %d slot pools", n);
    }
    for (int i = 0; i < n; i++) {
        SC_TRY(init_pool(&pools[i], n_mb, arena, err));
    }
    *out = pools;
    return SC_OK;
}

static sc_status init_messages(compile_state *cs, int n_edges, sc_arena *scratch, sc_err *err)
{
    size_t n_mb = (size_t)cs->table->n_mb;
    cs->msg_of_mb = sc_arena_alloc(scratch, (size_t)n_edges, sizeof *cs->msg_of_mb);
    int *all = sc_arena_alloc(scratch, (size_t)n_edges * n_mb, sizeof *all);
    if (cs->msg_of_mb == NULL || all == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the messages of %d edges", n_edges);
    }
    for (int e = 0; e < n_edges; e++) {
        cs->msg_of_mb[e] = all + (size_t)e * n_mb;
        for (size_t mb = 0; mb < n_mb; mb++) {
            cs->msg_of_mb[e][mb] = SC_EXECUTOR_NONE;
        }
    }
    return SC_OK;
}

static sc_status compile_into(sc_executor *ex, const sc_table *table, int n_slots, sc_arena *arena,
                              sc_arena *scratch, sc_err *err)
{
    const sc_row *row = &table->rows[ex->rank];
    ex->actions = sc_arena_alloc(arena, row->n_actions, sizeof *ex->actions);
    ex->times = sc_arena_alloc(arena, row->n_actions, sizeof *ex->times);
    ex->n_act_slots = sc_arena_alloc(arena, (size_t)table->n_stages, sizeof *ex->n_act_slots);
    ex->n_keep_slots = sc_arena_alloc(arena, (size_t)table->n_stages, sizeof *ex->n_keep_slots);
    if (ex->actions == NULL || ex->times == NULL || ex->n_act_slots == NULL ||
        ex->n_keep_slots == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a row of %zu actions",
                              row->n_actions);
    }
    SC_TRY(add_all_edges(ex, table, n_slots, arena, err));
    compile_state cs = {.table = table};
    SC_TRY(init_pools(&cs.act, table->n_stages, table->n_mb, scratch, err));
    SC_TRY(init_pools(&cs.keep, table->n_stages, table->n_mb, scratch, err));
    SC_TRY(init_pools(&cs.local, ex->n_edges, table->n_mb, scratch, err));
    SC_TRY(init_messages(&cs, ex->n_edges, scratch, err));
    assert(cs.act != NULL && cs.keep != NULL && cs.local != NULL);
    SC_TRY(compile_row(&cs, ex, row, err));
    for (int s = 0; s < table->n_stages; s++) {
        ex->n_act_slots[s] = cs.act[s].n_used;
        ex->n_keep_slots[s] = cs.keep[s].n_used;
    }
    return SC_OK;
}

sc_status sc_executor_compile_row(const sc_table *lowered, int rank, int n_slots, sc_arena *arena,
                                  sc_executor **out, sc_err *err)
{
    assert(rank >= 0 && rank < lowered->n_ranks && n_slots >= 1);
    sc_executor *ex = sc_arena_alloc(arena, 1, sizeof *ex);
    if (ex == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the executor");
    }
    ex->rank = rank;
    ex->n_stages = lowered->n_stages;
    ex->n_mb = lowered->n_mb;
    sc_arena scratch;
    sc_arena_init(&scratch, 0);
    sc_status status = compile_into(ex, lowered, n_slots, arena, &scratch, err);
    sc_arena_done(&scratch);
    if (status == SC_OK) {
        *out = ex;
    }
    return status;
}
