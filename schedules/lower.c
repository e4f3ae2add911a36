#include "schedules/lower.h"

#include "schedules/cover.h"

#include <stdlib.h>

/* The order in which each replica of a stage makes one kind of message: what the channel to its
   neighbour carries. */
typedef struct sc_order {
    int *mb_at;    // (n_replicas * n_mb) [replica, k]: microbatch of the k-th
    int *place_of; // (n_stages * n_mb) [stage, mb]: its k
    int *n_taken;  // (n_replicas) RECVs of the neighbour that were placed
} sc_order;

typedef struct sc_lowering {
    const sc_table *in;
    sc_table *out;
    sc_order f;  // of F
    sc_order b;  // of B or I
    int *n_left; // (n_replicas) B or W that are still to come
} sc_lowering;

static void order_done(sc_order *order)
{
    free(order->mb_at);
    free(order->place_of);
    free(order->n_taken);
    *order = (sc_order){0};
}

static sc_status order_init(sc_order *order, const sc_table *table, unsigned ops, sc_err *err)
{
    size_t n_replicas = (size_t)sc_table_n_replicas(table);
    size_t n_mb = (size_t)table->n_mb;
    order->mb_at = calloc(n_replicas * n_mb, sizeof(int));
    order->place_of = calloc((size_t)table->n_stages * n_mb, sizeof(int));
    order->n_taken = calloc(n_replicas, sizeof(int));
    if (order->mb_at == NULL || order->place_of == NULL || order->n_taken == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "lowering %d stages: out of memory",
                              table->n_stages);
    }
    int *n_made = order->n_taken; // counts here first, and is cleared for its own use below
    for (int rank = 0; rank < table->n_ranks; rank++) {
        const sc_row *row = &table->rows[rank];
        for (size_t i = 0; i < row->n_actions; i++) {
            sc_action action = row->actions[i];
            if ((ops & (1U << action.op)) != 0) {
                int replica = sc_table_replica(table, action.stage, rank);
                int k = n_made[replica]++;
                order->mb_at[sc_cover_pair(table, replica, k)] = action.mb;
                order->place_of[sc_cover_pair(table, action.stage, action.mb)] = k;
            }
        }
    }
    for (size_t replica = 0; replica < n_replicas; replica++) {
        n_made[replica] = 0;
    }
    return SC_OK;
}

/* True when `stage` and `other` exist and run the microbatch on two ranks. */
static bool is_remote(const sc_table *table, int stage, int other, int mb)
{
    return other >= 0 && other < table->n_stages &&
           sc_table_rank(table, stage, mb) != sc_table_rank(table, other, mb);
}

/* RECVs of `stage` from `from` until microbatch mb is in. They come in the sender's order, so an
   earlier message that this stage wants later is received first. */
static sc_status place_recvs(sc_lowering *lowering, sc_order *order, sc_op recv, int stage,
                             int from, int mb, sc_err *err)
{
    const sc_table *in = lowering->in;
    if (!is_remote(in, stage, from, mb)) {
        return SC_OK;
    }
    int rank = sc_table_rank(in, stage, mb);
    int sender = sc_table_replica(in, from, sc_table_rank(in, from, mb));
    while (order->n_taken[sender] <= order->place_of[sc_cover_pair(in, from, mb)]) {
        int next = order->mb_at[sc_cover_pair(in, sender, order->n_taken[sender]++)];
        SC_TRY(sc_table_append(lowering->out, rank, (sc_action){recv, stage, next}, err));
    }
    return SC_OK;
}

static sc_status place_send(sc_lowering *lowering, sc_op send, int stage, int to, int mb,
                            sc_err *err)
{
    if (!is_remote(lowering->in, stage, to, mb)) {
        return SC_OK;
    }
    return sc_table_append(lowering->out, sc_table_rank(lowering->in, stage, mb),
                           (sc_action){send, stage, mb}, err);
}

/* One compute action with the communication around it. */
static sc_status place_action(sc_lowering *lowering, int rank, sc_action action, sc_err *err)
{
    int stage = action.stage;
    bool makes_dx = action.op == SC_OP_B || action.op == SC_OP_I;
    if (action.op == SC_OP_F) {
        SC_TRY(place_recvs(lowering, &lowering->f, SC_OP_RECV_F, stage, stage - 1, action.mb, err));
    } else if (makes_dx) {
        SC_TRY(place_recvs(lowering, &lowering->b, SC_OP_RECV_B, stage, stage + 1, action.mb, err));
    }
    SC_TRY(sc_table_append(lowering->out, rank, action, err));
    if (action.op == SC_OP_F) {
        SC_TRY(place_send(lowering, SC_OP_SEND_F, stage, stage + 1, action.mb, err));
    } else if (makes_dx) {
        SC_TRY(place_send(lowering, SC_OP_SEND_B, stage, stage - 1, action.mb, err));
    }
    bool makes_dw = action.op == SC_OP_B || action.op == SC_OP_W;
    if (makes_dw && --lowering->n_left[sc_table_replica(lowering->in, stage, rank)] == 0) {
        SC_TRY(
            sc_table_append(lowering->out, rank, (sc_action){SC_OP_REDUCE_GRAD, stage, -1}, err));
    }
    return SC_OK;
}

static sc_status place_row(sc_lowering *lowering, int rank, sc_err *err)
{
    const sc_row *row = &lowering->in->rows[rank];
    for (size_t i = 0; i < row->n_actions; i++) {
        SC_TRY(place_action(lowering, rank, row->actions[i], err));
    }
    return SC_OK;
}

static sc_status place_all(sc_lowering *lowering, sc_err *err)
{
    const sc_table *in = lowering->in;
    SC_TRY(sc_table_place_like(lowering->out, in, err));
    for (int stage = 0; stage < in->n_stages; stage++) {
        for (int mb = 0; mb < in->n_mb; mb++) {
            lowering->n_left[sc_table_replica(in, stage, sc_table_rank(in, stage, mb))]++;
        }
    }
    for (int rank = 0; rank < in->n_ranks; rank++) {
        SC_TRY(place_row(lowering, rank, err));
    }
    return SC_OK;
}

sc_status sc_lower_table(const sc_table *compute, sc_table **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_cover cover = {0};
    sc_lowering lowering = {.in = compute};
    if (compute->is_lowered) {
        return sc_status_fail(err, SC_INVALID, "%s: is lowered already", compute->name);
    }
    sc_place place;
    SC_GOTO(sc_cover_make(compute, &cover, &place, err));
    SC_GOTO(order_init(&lowering.f, compute, 1U << SC_OP_F, err));
    SC_GOTO(order_init(&lowering.b, compute, 1U << SC_OP_B | 1U << SC_OP_I, err));
    SC_GOTO(sc_table_new(compute->name, compute->n_ranks, compute->n_stages, compute->n_mb,
                         &lowering.out, err));
    lowering.out->is_lowered = true;
    lowering.out->is_forward_only = compute->is_forward_only;
    lowering.n_left = calloc((size_t)sc_table_n_replicas(compute), sizeof(int));
    if (lowering.n_left == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "lowering %d stages: out of memory",
                                compute->n_stages);
        goto out;
    }
    SC_GOTO(place_all(&lowering, err));
    *out = lowering.out;
    lowering.out = NULL;
out:
    free(lowering.n_left);
    sc_table_free(&lowering.out);
    order_done(&lowering.b);
    order_done(&lowering.f);
    sc_cover_done(&cover);
    return status;
}
