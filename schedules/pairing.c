#include "schedules/pairing.h"

#include <assert.h>
#include <stdlib.h>

/* One kind of message and its direction over the stages. */
typedef struct sc_kind {
    sc_op send;
    sc_op recv;
    int step; // from the sending stage to the receiving one
} sc_kind;

static const sc_kind KINDS[] = {{SC_OP_SEND_F, SC_OP_RECV_F, 1}, {SC_OP_SEND_B, SC_OP_RECV_B, -1}};

typedef struct sc_pairing {
    const sc_table *table;
    const sc_cover *cover;
    sc_kind kind;
    int *sent;     // (n_stages * n_mb) by the sender's pair: k + 1 of its SEND, 0: none
    int *received; // (n_stages * n_mb) by the sender's pair: k + 1 of its RECV, 0: none
    int *n_sent;   // (n_replicas) by the sender
    int *n_received;
} sc_pairing;

/* True when the stage sends this kind, for this microbatch, to a stage on another rank. */
static bool is_sender(const sc_table *table, int stage, int mb, sc_kind kind)
{
    int to = stage + kind.step;
    return stage >= 0 && stage < table->n_stages && to >= 0 && to < table->n_stages &&
           sc_table_rank(table, stage, mb) != sc_table_rank(table, to, mb);
}

/* Index of the replica that sends the stage's messages of this microbatch. */
static int sender_of(const sc_table *table, int stage, int mb)
{
    return sc_table_replica(table, stage, sc_table_rank(table, stage, mb));
}

/* Cell + 1 of the action that makes (F, B, I) the stage's message of this kind; the same action of
   the receiving stage needs it. */
static int compute_cell(const sc_pairing *pairing, int stage, int mb)
{
    size_t pair = sc_cover_pair(pairing->table, stage, mb);
    return pairing->kind.step > 0 ? pairing->cover->f[pair] : pairing->cover->back[pair];
}

static sc_status enter_send(sc_pairing *pairing, sc_action action, int cell, sc_err *err)
{
    char text[SC_ACTION_TEXT_MAX];
    if (!is_sender(pairing->table, action.stage, action.mb, pairing->kind)) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: stage %d has no neighbour on another rank to send to",
                              sc_action_format(action, text, sizeof text), action.stage);
    }
    int made = compute_cell(pairing, action.stage, action.mb);
    if (made - 1 > cell) {
        return sc_status_fail(err, SC_INVALID, "%s before cell %d makes what it sends",
                              sc_action_format(action, text, sizeof text), made - 1);
    }
    int *slot = &pairing->sent[sc_cover_pair(pairing->table, action.stage, action.mb)];
    if (*slot != 0) {
        return sc_status_fail(err, SC_INVALID, "duplicate %s",
                              sc_action_format(action, text, sizeof text));
    }
    *slot = ++pairing->n_sent[sender_of(pairing->table, action.stage, action.mb)];
    return SC_OK;
}

static sc_status enter_recv(sc_pairing *pairing, sc_action action, int cell, sc_err *err)
{
    char text[SC_ACTION_TEXT_MAX];
    int from = action.stage - pairing->kind.step;
    if (!is_sender(pairing->table, from, action.mb, pairing->kind)) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: stage %d has no neighbour on another rank to receive from",
                              sc_action_format(action, text, sizeof text), action.stage);
    }
    int needed = compute_cell(pairing, action.stage, action.mb);
    if (needed - 1 < cell) {
        return sc_status_fail(err, SC_INVALID, "%s after cell %d needed what it receives",
                              sc_action_format(action, text, sizeof text), needed - 1);
    }
    size_t pair = sc_cover_pair(pairing->table, from, action.mb);
    if (pairing->received[pair] != 0) {
        return sc_status_fail(err, SC_INVALID, "duplicate %s",
                              sc_action_format(action, text, sizeof text));
    }
    pairing->received[pair] = ++pairing->n_received[sender_of(pairing->table, from, action.mb)];
    sc_action send = {pairing->kind.send, from, action.mb};
    char send_text[SC_ACTION_TEXT_MAX];
    if (pairing->sent[pair] == 0) {
        return sc_status_fail(err, SC_INVALID, "%s has no %s on rank %d to receive from",
                              sc_action_format(action, text, sizeof text),
                              sc_action_format(send, send_text, sizeof send_text),
                              sc_table_rank(pairing->table, from, action.mb));
    }
    if (pairing->sent[pair] != pairing->received[pair]) {
        return sc_status_fail(
            err, SC_INVALID,
            "%s is receive %d from stage %d, but its %s is send %d: a channel "
            "keeps one order",
            sc_action_format(action, text, sizeof text), pairing->received[pair] - 1, from,
            sc_action_format(send, send_text, sizeof send_text), pairing->sent[pair] - 1);
    }
    return SC_OK;
}

/* A row's cells of one operation. */
static sc_status enter_row(sc_pairing *pairing, sc_op op, int rank, sc_place *place, sc_err *err)
{
    const sc_row *row = &pairing->table->rows[rank];
    sc_status status = SC_OK;
    for (size_t i = 0; i < row->n_actions && status == SC_OK; i++) {
        sc_action action = row->actions[i];
        if (action.op == op) {
            *place = (sc_place){rank, (int)i};
            status = sc_action_is_send(op) ? enter_send(pairing, action, (int)i, err)
                                           : enter_recv(pairing, action, (int)i, err);
        }
    }
    return status;
}

/* All cells of one operation. */
static sc_status enter_all(sc_pairing *pairing, sc_op op, sc_place *place, sc_err *err)
{
    for (int rank = 0; rank < pairing->table->n_ranks; rank++) {
        SC_TRY(enter_row(pairing, op, rank, place, err));
    }
    return SC_OK;
}

/* Every message has its SEND and its RECV. */
static sc_status check_missing(const sc_pairing *pairing, sc_place *place, sc_err *err)
{
    const sc_table *table = pairing->table;
    for (int stage = 0; stage < table->n_stages; stage++) {
        int to = stage + pairing->kind.step;
        for (int mb = 0; mb < table->n_mb; mb++) {
            size_t pair = sc_cover_pair(table, stage, mb);
            char text[SC_ACTION_TEXT_MAX];
            sc_action action = {pairing->kind.send, stage, mb};
            bool is_paired = pairing->sent[pair] != 0 && pairing->received[pair] != 0;
            if (is_paired || !is_sender(table, stage, mb, pairing->kind)) {
                continue;
            }
            int from_rank = sc_table_rank(table, stage, mb);
            int to_rank = sc_table_rank(table, to, mb);
            if (pairing->sent[pair] == 0) {
                *place = (sc_place){from_rank, compute_cell(pairing, stage, mb) - 1};
                return sc_status_fail(err, SC_INVALID, "missing %s: stage %d on rank %d needs it",
                                      sc_action_format(action, text, sizeof text), to, to_rank);
            }
            action = (sc_action){pairing->kind.recv, to, mb};
            *place = (sc_place){to_rank, compute_cell(pairing, to, mb) - 1};
            return sc_status_fail(err, SC_INVALID, "missing %s: stage %d on rank %d sends it",
                                  sc_action_format(action, text, sizeof text), stage, from_rank);
        }
    }
    return SC_OK;
}

static sc_status check_kind(const sc_table *table, const sc_cover *cover, sc_kind kind,
                            sc_place *place, sc_err *err)
{
    size_t n_replicas = (size_t)sc_table_n_replicas(table);
    size_t n_pairs = (size_t)table->n_stages * (size_t)table->n_mb;
    sc_pairing pairing = {.table = table, .cover = cover, .kind = kind};
    pairing.sent = calloc(n_pairs, sizeof *pairing.sent);
    pairing.received = calloc(n_pairs, sizeof *pairing.received);
    pairing.n_sent = calloc(n_replicas, sizeof *pairing.n_sent);
    pairing.n_received = calloc(n_replicas, sizeof *pairing.n_received);
    sc_status status = SC_OK;
    if (pairing.sent == NULL || pairing.received == NULL || pairing.n_sent == NULL ||
        pairing.n_received == NULL) {
        *place = (sc_place){-1, -1};
        status = sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", table->n_stages);
        goto out;
    }
    SC_GOTO(enter_all(&pairing, kind.send, place, err));
    SC_GOTO(enter_all(&pairing, kind.recv, place, err));
    SC_GOTO(check_missing(&pairing, place, err));
out:
    free(pairing.sent);
    free(pairing.received);
    free(pairing.n_sent);
    free(pairing.n_received);
    return status;
}

/* One row's part of the REDUCE_GRAD rule; n_reduce (n_replicas) counts. */
static sc_status check_reduce_row(const sc_table *table, int rank, int *n_reduce, sc_place *place,
                                  sc_err *err)
{
    const sc_row *row = &table->rows[rank];
    for (size_t i = 0; i < row->n_actions; i++) {
        sc_action action = row->actions[i];
        *place = (sc_place){rank, (int)i};
        int *n = &n_reduce[sc_table_replica(table, action.stage, rank)];
        if (action.op == SC_OP_REDUCE_GRAD && ++*n > 1) {
            return sc_status_fail(err, SC_INVALID, "duplicate %dREDUCE_GRAD", action.stage);
        }
        if (sc_action_is_backward(action.op) && *n > 0) {
            char text[SC_ACTION_TEXT_MAX];
            return sc_status_fail(err, SC_INVALID, "%s after %dREDUCE_GRAD: its gradient is lost",
                                  sc_action_format(action, text, sizeof text), action.stage);
        }
    }
    return SC_OK;
}

static sc_status check_reduce(const sc_table *table, sc_place *place, sc_err *err)
{
    sc_status status = SC_OK;
    int n_replicas = sc_table_n_replicas(table);
    int *n_reduce = calloc((size_t)n_replicas, sizeof *n_reduce);
    if (n_reduce == NULL) {
        *place = (sc_place){-1, -1};
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", table->n_stages);
    }
    for (int rank = 0; rank < table->n_ranks; rank++) {
        SC_GOTO(check_reduce_row(table, rank, n_reduce, place, err));
    }
    int with = -1;
    int without = -1;
    // A single microbatch leaves the second replicas without a gradient.
    int n_used = table->n_mb == 1 ? table->n_stages : n_replicas;
    for (int replica = 0; replica < n_used; replica++) {
        if (n_reduce[replica] != 0) {
            with = replica;
        } else if (without < 0) {
            without = replica;
        }
    }
    if (with >= 0 && without >= 0) {
        int stage = without % table->n_stages;
        *place = (sc_place){sc_table_rank(table, stage, without / table->n_stages), -1};
        status = sc_status_fail(err, SC_INVALID, "missing %dREDUCE_GRAD: stage %d has one", stage,
                                with % table->n_stages);
    }
out:
    free(n_reduce);
    return status;
}

sc_status sc_pairing_check(const sc_table *table, const sc_cover *cover, sc_place *place,
                           sc_err *err)
{
    assert(table->is_lowered);
    SC_TRY(check_kind(table, cover, KINDS[0], place, err));
    if (!table->is_forward_only) {
        SC_TRY(check_kind(table, cover, KINDS[1], place, err));
        SC_TRY(check_reduce(table, place, err));
    }
    return SC_OK;
}
