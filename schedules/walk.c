#include "schedules/walk.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a cell waits for: an action of any of `ops`, found on `rank`. ops = 0: nothing. */
typedef struct sc_need {
    unsigned ops; // bits 1 << sc_op
    int stage;
    int mb;
    int rank;
} sc_need;

typedef struct sc_walk {
    const sc_table *table;
    sc_walk_rule rule;
    sc_walk_visit visit;
    void *context;
    uint16_t *done; // (n_stages * n_mb) bits 1 << sc_op of the actions passed
    size_t *at;     // (n_ranks) the cell each rank stands at
    sc_need *needs; // (n_ranks) why it stands there
    int *queue;     // (n_ranks) ranks to look at, last in first out
    int n_queue;
    bool *is_queued; // (n_ranks)
} sc_walk;

enum {
    FORWARD = 1U << SC_OP_F,
    BACKWARD = 1U << SC_OP_B | 1U << SC_OP_I
};

static void push(sc_walk *walk, int rank)
{
    if (!walk->is_queued[rank]) {
        walk->is_queued[rank] = true;
        walk->queue[walk->n_queue++] = rank;
    }
}

static const sc_action *head(const sc_walk *walk, int rank)
{
    const sc_row *row = &walk->table->rows[rank];
    return walk->at[rank] < row->n_actions ? &row->actions[walk->at[rank]] : NULL;
}

static bool is_met(const sc_walk *walk, sc_need need)
{
    return need.ops == 0 ||
           (walk->done[sc_cover_pair(walk->table, need.stage, need.mb)] & need.ops) != 0;
}

/* The message that `stage` needs from its neighbour `from`: `made` there, sent by `send`, received
   by `recv`. */
static sc_need message_need(const sc_walk *walk, int stage, int from, int mb, unsigned made,
                            sc_op send, sc_op recv)
{
    int rank = sc_table_rank(walk->table, stage, mb);
    int from_rank = sc_table_rank(walk->table, from, mb);
    if (from_rank == rank || walk->rule == SC_WALK_COMPUTE) {
        return (sc_need){made, from, mb, from_rank};
    }
    if (walk->rule == SC_WALK_ENGINE) {
        return (sc_need){1U << send, from, mb, from_rank};
    }
    return (sc_need){1U << recv, stage, mb, rank};
}

/* The first thing that is missing before `action` can run; ops = 0 when nothing is. */
static sc_need compute_need(const sc_walk *walk, sc_action action)
{
    const sc_table *table = walk->table;
    int rank = sc_table_rank(table, action.stage, action.mb);
    sc_need need = {0};
    if (action.op == SC_OP_F) {
        if (action.stage > 0) {
            need = message_need(walk, action.stage, action.stage - 1, action.mb, FORWARD,
                                SC_OP_SEND_F, SC_OP_RECV_F);
        }
    } else if (action.op == SC_OP_W || action.op == SC_OP_SEND_B) {
        need = (sc_need){BACKWARD, action.stage, action.mb, rank};
    } else if (action.op == SC_OP_SEND_F) {
        need = (sc_need){FORWARD, action.stage, action.mb, rank};
    } else if (action.op == SC_OP_B || action.op == SC_OP_I) {
        need = (sc_need){FORWARD, action.stage, action.mb, rank};
        if (is_met(walk, need) && action.stage + 1 < table->n_stages) {
            need = message_need(walk, action.stage, action.stage + 1, action.mb, BACKWARD,
                                SC_OP_SEND_B, SC_OP_RECV_B);
        }
    }
    return is_met(walk, need) ? (sc_need){0} : need;
}

/* The other half of a SEND or RECV. */
static sc_action partner(sc_action action)
{
    switch (action.op) {
    case SC_OP_SEND_F:
        return (sc_action){SC_OP_RECV_F, action.stage + 1, action.mb};
    case SC_OP_RECV_F:
        return (sc_action){SC_OP_SEND_F, action.stage - 1, action.mb};
    case SC_OP_SEND_B:
        return (sc_action){SC_OP_RECV_B, action.stage - 1, action.mb};
    default:
        assert(action.op == SC_OP_RECV_B);
        return (sc_action){SC_OP_SEND_B, action.stage + 1, action.mb};
    }
}

/* Marks the head of `rank` as passed, steps on and wakes the rank that waited for it, if any. */
static void pass(sc_walk *walk, int rank)
{
    const sc_table *table = walk->table;
    sc_action action = *head(walk, rank);
    walk->at[rank]++;
    if (action.op == SC_OP_REDUCE_GRAD) {
        return;
    }
    walk->done[sc_cover_pair(table, action.stage, action.mb)] |= (uint16_t)(1U << action.op);
    if (walk->visit != NULL && sc_action_is_compute(action.op)) {
        walk->visit(walk->context, rank, action);
    }
    int consumer = -1; // the only stage on another rank that can wait for this action
    if (action.op == SC_OP_F || action.op == SC_OP_SEND_F) {
        consumer = action.stage + 1;
    } else if (action.op == SC_OP_B || action.op == SC_OP_I || action.op == SC_OP_SEND_B) {
        consumer = action.stage - 1;
    }
    if (consumer < 0 || consumer >= table->n_stages) {
        return;
    }
    int waiter = sc_table_rank(table, consumer, action.mb);
    sc_need need = walk->needs[waiter];
    if (waiter != rank && (need.ops & (1U << action.op)) != 0 && need.stage == action.stage &&
        need.mb == action.mb) {
        push(walk, waiter);
    }
}

/* A SEND or RECV that blocks in place: both ranks step on together, or this one waits. */
static bool meet(sc_walk *walk, int rank, sc_action action)
{
    sc_action other = partner(action);
    int peer = sc_table_rank(walk->table, other.stage, other.mb);
    const sc_action *peer_head = head(walk, peer);
    if (peer_head == NULL || !sc_action_equals(*peer_head, other)) {
        walk->needs[rank] = (sc_need){1U << other.op, other.stage, other.mb, peer};
        return false;
    }
    pass(walk, rank);
    pass(walk, peer);
    walk->needs[peer] = (sc_need){0};
    push(walk, peer);
    return true;
}

/* Takes `rank` as far as it gets. */
static void advance(sc_walk *walk, int rank)
{
    const sc_action *action = NULL;
    walk->needs[rank] = (sc_need){0};
    while ((action = head(walk, rank)) != NULL) {
        bool is_comm = sc_action_is_send(action->op) || sc_action_is_recv(action->op);
        if (!is_comm || walk->rule != SC_WALK_COMPUTE) {
            walk->needs[rank] = compute_need(walk, *action);
        }
        if (walk->needs[rank].ops != 0) {
            return;
        }
        if (is_comm && walk->rule == SC_WALK_BLOCKING) {
            if (!meet(walk, rank, *action)) {
                return;
            }
        } else {
            pass(walk, rank);
        }
    }
}

/* The cell of the rank's row that has what is needed, from where the rank stands; -1: none. */
static int find_cell(const sc_walk *walk, sc_need need)
{
    const sc_row *row = &walk->table->rows[need.rank];
    for (size_t i = walk->at[need.rank]; i < row->n_actions; i++) {
        sc_action action = row->actions[i];
        if ((need.ops & (1U << action.op)) != 0 && action.stage == need.stage &&
            action.mb == need.mb) {
            return (int)i;
        }
    }
    return -1;
}

/* Appends "rank 0 cell 3 (0B0) waits for 1B0 of rank 1 cell 5". */
static void describe_wait(const sc_walk *walk, int rank, char *out, size_t n)
{
    size_t used = strlen(out);
    sc_need need = walk->needs[rank];
    char text[SC_ACTION_TEXT_MAX];
    char wanted[SC_ACTION_TEXT_MAX];
    int cell = find_cell(walk, need);
    sc_action action = {SC_OP_F, need.stage, need.mb};
    if (cell >= 0) {
        action = walk->table->rows[need.rank].actions[cell];
    } else {
        while ((need.ops & (1U << action.op)) == 0) {
            action.op++;
        }
    }
    (void)sc_action_format(action, wanted, sizeof wanted);
    (void)snprintf(out + used, n - used, "%srank %d cell %zu (%s) waits for %s of rank %d",
                   used == 0 ? "" : ", ", rank, walk->at[rank],
                   sc_action_format(*head(walk, rank), text, sizeof text), wanted, need.rank);
    used = strlen(out);
    if (cell >= 0) {
        (void)snprintf(out + used, n - used, " cell %d", cell);
    } else {
        (void)snprintf(out + used, n - used, ", which never comes");
    }
}

/* Names the ranks that wait for each other: follows the needs from the first rank that stands until
   a rank comes up again, or one that has nothing left to do. */
static sc_status fail_deadlock(const sc_walk *walk, int first, sc_place *place, sc_err *err)
{
    enum {
        N_NAMED_MAX = 8
    };
    int rank = first;
    // n_ranks steps lead to the chain's end or into its circle.
    for (int i = 0; i < walk->table->n_ranks; i++) {
        if (head(walk, walk->needs[rank].rank) == NULL) {
            break;
        }
        rank = walk->needs[rank].rank;
    }
    int start = rank; // the lowest rank of the circle
    for (int next = walk->needs[rank].rank; next != rank && head(walk, next) != NULL;
         next = walk->needs[next].rank) {
        start = next < start ? next : start;
    }
    rank = start;
    char text[900] = "";
    int n_named = 0;
    do {
        describe_wait(walk, rank, text, sizeof text);
        rank = walk->needs[rank].rank;
        n_named++;
    } while (rank != start && head(walk, rank) != NULL && n_named < N_NAMED_MAX);
    *place = (sc_place){start, (int)walk->at[start]};
    return sc_status_fail(err, SC_INVALID, "deadlock: %s%s", text,
                          n_named == N_NAMED_MAX && rank != start ? ", ..." : "");
}

static sc_status run(sc_walk *walk, sc_place *place, sc_err *err)
{
    int n_ranks = walk->table->n_ranks;
    for (int rank = n_ranks - 1; rank >= 0; rank--) {
        push(walk, rank);
    }
    while (walk->n_queue > 0) {
        int rank = walk->queue[--walk->n_queue];
        walk->is_queued[rank] = false;
        advance(walk, rank);
    }
    for (int rank = 0; rank < n_ranks; rank++) {
        if (head(walk, rank) != NULL) {
            return fail_deadlock(walk, rank, place, err);
        }
    }
    return SC_OK;
}

sc_status sc_walk_run(const sc_table *table, sc_walk_rule rule, sc_walk_visit visit, void *context,
                      sc_place *place, sc_err *err)
{
    size_t n_ranks = (size_t)table->n_ranks;
    size_t n_pairs = (size_t)table->n_stages * (size_t)table->n_mb;
    sc_walk walk = {.table = table, .rule = rule, .visit = visit, .context = context};
    walk.done = calloc(n_pairs, sizeof *walk.done);
    walk.at = calloc(n_ranks, sizeof *walk.at);
    walk.needs = calloc(n_ranks, sizeof *walk.needs);
    walk.queue = calloc(n_ranks, sizeof *walk.queue);
    walk.is_queued = calloc(n_ranks, sizeof *walk.is_queued);
    sc_status status = SC_OK;
    if (walk.done == NULL || walk.at == NULL || walk.needs == NULL || walk.queue == NULL ||
        walk.is_queued == NULL) {
        *place = (sc_place){-1, -1};
        status = sc_status_fail(err, SC_NO_MEMORY, "out of memory for a walk over %d stages",
                                table->n_stages);
    } else {
        status = run(&walk, place, err);
    }
    free(walk.done);
    free(walk.at);
    free(walk.needs);
    free(walk.queue);
    free(walk.is_queued);
    return status;
}
