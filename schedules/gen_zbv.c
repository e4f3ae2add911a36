#include "schedules/gen_zbv.h"

#include <math.h>

/* One rank's row while it is written. Chunk 0 is stage `rank`, chunk 1 stage 2p - 1 - rank. */
typedef struct sc_zbv_row {
    sc_table *table;
    int rank;
    int n_f[2];    // forwards of each chunk so far
    int n_i[2];    // input gradients
    int n_w[2];    // weight gradients
    int *chunk_of; // (n_queued) chunks of the input gradients in order: W's come first in first out
    int n_queued;
    int n_taken;
} sc_zbv_row;

double sc_gen_zbv_closed_bubble(const sc_gen_params *params, double f, double i, double w)
{
    bool is_known = f == i && i == w && params->n_mb >= 2 * params->n_ranks - 1;
    return is_known ? 0 : NAN;
}

/* Appends the next action of its kind; one whose microbatch does not exist is left out. */
static sc_status put(sc_zbv_row *row, sc_op op, int chunk, sc_err *err)
{
    int *n = op == SC_OP_F ? row->n_f : op == SC_OP_I ? row->n_i : row->n_w;
    int mb = n[chunk]++;
    if (op == SC_OP_I) {
        row->chunk_of[row->n_queued++] = chunk;
    }
    if (mb >= row->table->n_mb) {
        return SC_OK;
    }
    int stage = chunk == 0 ? row->rank : row->table->n_stages - 1 - row->rank;
    return sc_table_append(row->table, row->rank, (sc_action){op, stage, mb}, err);
}

static sc_status put_oldest_w(sc_zbv_row *row, sc_err *err)
{
    return put(row, SC_OP_W, row->chunk_of[row->n_taken++], err);
}

static sc_status put_i_and_w(sc_zbv_row *row, int chunk, sc_err *err)
{
    SC_TRY(put(row, SC_OP_I, chunk, err));
    return put_oldest_w(row, err);
}

/* Forwards until this rank's first turn of chunk 1, and on until its first backwards come back. */
static sc_status fill_warmup(sc_zbv_row *row, sc_err *err)
{
    int p = row->table->n_ranks;
    for (int k = 0; k < 2 * (p - row->rank) - 1; k++) {
        SC_TRY(put(row, SC_OP_F, 0, err));
    }
    for (int k = 0; k < row->rank; k++) {
        SC_TRY(put(row, SC_OP_F, 1, err));
        SC_TRY(put(row, SC_OP_F, 0, err));
    }
    for (int k = 0; k < p - row->rank; k++) {
        SC_TRY(put(row, SC_OP_F, 1, err));
        SC_TRY(put_i_and_w(row, 1, err));
    }
    return SC_OK;
}

static sc_status fill_steady(sc_zbv_row *row, int n_mb, sc_err *err)
{
    while (row->n_f[1] < n_mb) {
        SC_TRY(row->n_f[0] < n_mb ? put(row, SC_OP_F, 0, err) : SC_OK);
        SC_TRY(put_i_and_w(row, 0, err));
        SC_TRY(put(row, SC_OP_F, 1, err));
        SC_TRY(put_i_and_w(row, 1, err));
    }
    return SC_OK;
}

static sc_status fill_cooldown(sc_zbv_row *row, sc_err *err)
{
    for (int k = 0; k < row->rank; k++) {
        SC_TRY(put(row, SC_OP_I, 0, err));
        SC_TRY(put(row, SC_OP_I, 1, err));
    }
    for (int k = 0; k < row->table->n_ranks - row->rank; k++) {
        SC_TRY(put_i_and_w(row, 0, err));
    }
    while (row->n_taken < row->n_queued) {
        SC_TRY(put_oldest_w(row, err));
    }
    return SC_OK;
}

static sc_status fill_row(sc_zbv_row *row, int n_mb, sc_err *err)
{
    SC_TRY(fill_warmup(row, err));
    SC_TRY(fill_steady(row, n_mb, err));
    return fill_cooldown(row, err);
}

sc_status sc_gen_zbv_make(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    int p = params->n_ranks;
    if (params->n_chunks != 0 && params->n_chunks != 2) {
        return sc_status_fail(err, SC_INVALID, "zb-v: two stages a rank, not v = %d",
                              params->n_chunks);
    }
    // The warm-up alone has 2p - 1 forwards.
    int n_mb = params->n_mb < 2 * p - 1 ? 2 * p - 1 : params->n_mb;
    sc_status status = SC_OK;
    sc_table *table = NULL;
    SC_GOTO(sc_table_new("zb-v", p, 2 * p, params->n_mb, &table, err));
    int *chunk_of = sc_arena_alloc(&table->arena, 2 * (size_t)n_mb, sizeof *chunk_of);
    if (chunk_of == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "zb-v: out of memory");
        goto out;
    }
    for (int rank = 0; rank < p; rank++) {
        table->rank_of_stage[2 * p - 1 - rank] = rank;
        sc_zbv_row row = {.table = table, .rank = rank, .chunk_of = chunk_of};
        SC_GOTO(fill_row(&row, n_mb, err));
    }
    *out = table;
    table = NULL;
out:
    sc_table_free(&table);
    return status;
}
