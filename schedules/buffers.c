#include "schedules/buffers.h"

#include <assert.h>
#include <string.h>

enum {
    NONE = -1
};

/* An edge between neighbouring stages on two ranks: 2 s from s up to s + 1, 2 s + 1 back down. */
typedef struct edge {
    bool is_remote;
    int *msg_of_mb; // (n_mb), in the order of the SEND cells
    int n_msgs;
    int n_produced;
    int n_consumed;
} edge;

typedef struct state {
    const sc_table *table;
    edge *edges;  // (2 n_stages)
    size_t *next; // (n_ranks) cell
} state;

static int input_edge(sc_action a, int n_stages)
{
    if (a.op == SC_OP_F) {
        return a.stage > 0 ? 2 * (a.stage - 1) : NONE;
    }
    if (a.op == SC_OP_B || a.op == SC_OP_I) {
        return a.stage + 1 < n_stages ? 2 * a.stage + 1 : NONE;
    }
    return NONE;
}

static int output_edge(sc_action a, int n_stages)
{
    if (a.op == SC_OP_F) {
        return a.stage + 1 < n_stages ? 2 * a.stage : NONE;
    }
    if (a.op == SC_OP_B || a.op == SC_OP_I) {
        return a.stage > 0 ? 2 * (a.stage - 1) + 1 : NONE;
    }
    return NONE;
}

static sc_status open_state(state *st, const sc_table *table, sc_arena *arena, sc_err *err)
{
    size_t n_edges = 2 * (size_t)table->n_stages;
    st->table = table;
    st->edges = sc_arena_alloc(arena, n_edges, sizeof *st->edges);
    st->next = sc_arena_alloc(arena, (size_t)table->n_ranks, sizeof *st->next);
    bool is_short = st->edges == NULL || st->next == NULL;
    for (int s = 0; !is_short && s + 1 < table->n_stages; s++) {
        for (int e = 2 * s; e <= 2 * s + 1 && !is_short; e++) {
            st->edges[e].is_remote = table->rank_of_stage[s] != table->rank_of_stage[s + 1];
            st->edges[e].msg_of_mb =
                sc_arena_alloc(arena, (size_t)table->n_mb, sizeof *st->edges[e].msg_of_mb);
            is_short = st->edges[e].msg_of_mb == NULL;
        }
    }
    return is_short ? sc_status_fail(err, SC_NO_MEMORY, "no memory for %zu edges", n_edges) : SC_OK;
}

static void number_messages(state *st)
{
    for (int r = 0; r < st->table->n_ranks; r++) {
        const sc_row *row = &st->table->rows[r];
        for (size_t i = 0; i < row->n_actions; i++) {
            sc_action a = row->actions[i];
            if (sc_action_is_send(a.op)) {
                edge *e = &st->edges[a.op == SC_OP_SEND_F ? 2 * a.stage : 2 * (a.stage - 1) + 1];
                e->msg_of_mb[a.mb] = e->n_msgs++;
            }
        }
    }
}

static bool may_pass(const state *st, sc_action a, int n)
{
    int in = input_edge(a, st->table->n_stages);
    int out = output_edge(a, st->table->n_stages);
    if (in != NONE && st->edges[in].is_remote) {
        const edge *e = &st->edges[in];
        int msg = e->msg_of_mb[a.mb];
        if (msg >= e->n_produced || msg >= e->n_consumed + n) {
            return false;
        }
    }
    return out == NONE || !st->edges[out].is_remote ||
           st->edges[out].n_produced < st->edges[out].n_consumed + 2 * n;
}

/* Takes a rank as far as it goes; true when it moved. */
static bool advance(state *st, int rank, int n)
{
    const sc_row *row = &st->table->rows[rank];
    bool has_moved = false;
    while (st->next[rank] < row->n_actions) {
        sc_action a = row->actions[st->next[rank]];
        if (sc_action_is_compute(a.op)) {
            if (!may_pass(st, a, n)) {
                return has_moved;
            }
            int in = input_edge(a, st->table->n_stages);
            int out = output_edge(a, st->table->n_stages);
            if (in != NONE) {
                st->edges[in].n_consumed++;
            }
            if (out != NONE) {
                st->edges[out].n_produced++;
            }
        }
        st->next[rank]++;
        has_moved = true;
    }
    return has_moved;
}

static bool finishes(state *st, int n)
{
    memset(st->next, 0, (size_t)st->table->n_ranks * sizeof *st->next);
    for (int e = 0; e < 2 * st->table->n_stages; e++) {
        st->edges[e].n_produced = 0;
        st->edges[e].n_consumed = 0;
    }
    bool has_moved = true;
    while (has_moved) {
        has_moved = false;
        for (int r = 0; r < st->table->n_ranks; r++) {
            has_moved = advance(st, r, n) || has_moved;
        }
    }
    for (int r = 0; r < st->table->n_ranks; r++) {
        if (st->next[r] < st->table->rows[r].n_actions) {
            return false;
        }
    }
    return true;
}

sc_status sc_buffers_need(const sc_table *lowered, int n_min, int *out, sc_err *err)
{
    assert(lowered->is_lowered && n_min >= 1);
    state st = {.table = lowered};
    sc_arena arena;
    sc_arena_init(&arena, 0);
    sc_status status = open_state(&st, lowered, &arena, err);
    if (status == SC_OK) {
        number_messages(&st);
        /* more buffers never stop what fewer let pass, so the bound may be doubled, then halved in
         */
        int high = n_min;
        int low = n_min - 1;
        while (!finishes(&st, high) && high < lowered->n_mb) {
            low = high;
            high = 2 * high < lowered->n_mb ? 2 * high : lowered->n_mb;
        }
        while (high - low > 1) {
            int middle = low + (high - low) / 2;
            if (finishes(&st, middle)) {
                high = middle;
            } else {
                low = middle;
            }
        }
        *out = high;
    }
    sc_arena_done(&arena);
    return status;
}
