#include "schedules/gen_zb.h"

#include <math.h>

/* Of the p - 1 filling and draining turns, h of W's each are hidden, but never the last W. */
static double closed_bubble(const sc_gen_params *params, double f, double i, double w, int h)
{
    double p = params->n_ranks;
    double m = params->n_mb;
    if (params->n_ranks > 1 && (w > f || (h == 2 && 2 * w > f + i))) {
        return NAN;
    }
    double cost = (m + p - 1) * (f + i) + fmax(1, m - h * (p - 1)) * w;
    return cost > 0 ? (cost - m * (f + i + w)) / cost : 0;
}

double sc_gen_zb_closed_bubble_h1(const sc_gen_params *params, double f, double i, double w)
{
    return closed_bubble(params, f, i, w, 1);
}

double sc_gen_zb_closed_bubble_h2(const sc_gen_params *params, double f, double i, double w)
{
    return closed_bubble(params, f, i, w, 2);
}

/* Appends the next action of a kind; *n counts them. */
static sc_status put(sc_table *table, int rank, sc_op op, int *n, sc_err *err)
{
    return sc_table_append(table, rank, (sc_action){op, rank, (*n)++}, err);
}

/* The next F, if one is left, the next I, and a W that has waited long enough. */
static sc_status put_turn(sc_table *table, int rank, int h, int n_done[static SC_OP_COUNT],
                          sc_err *err)
{
    if (n_done[SC_OP_F] < table->n_mb) {
        SC_TRY(put(table, rank, SC_OP_F, &n_done[SC_OP_F], err));
    }
    SC_TRY(put(table, rank, SC_OP_I, &n_done[SC_OP_I], err));
    if (n_done[SC_OP_I] > h * rank) {
        SC_TRY(put(table, rank, SC_OP_W, &n_done[SC_OP_W], err));
    }
    return SC_OK;
}

static sc_status fill_row(sc_table *table, int rank, int h, sc_err *err)
{
    int m = table->n_mb;
    int n_warmup = h * (table->n_ranks - rank - 1);
    int n_done[SC_OP_COUNT] = {0};
    while (n_done[SC_OP_F] < n_warmup && n_done[SC_OP_F] < m) {
        SC_TRY(put(table, rank, SC_OP_F, &n_done[SC_OP_F], err));
    }
    while (n_done[SC_OP_I] < m) {
        SC_TRY(put_turn(table, rank, h, n_done, err));
    }
    while (n_done[SC_OP_W] < m) {
        SC_TRY(put(table, rank, SC_OP_W, &n_done[SC_OP_W], err));
    }
    return SC_OK;
}

static sc_status make(const char *name, const sc_gen_params *params, int h, sc_table **out,
                      sc_err *err)
{
    if (params->n_chunks > 1) {
        return sc_status_fail(err, SC_INVALID, "%s: one stage a rank only, not v = %d", name,
                              params->n_chunks);
    }
    sc_status status = SC_OK;
    sc_table *table = NULL;
    SC_GOTO(sc_table_new(name, params->n_ranks, params->n_ranks, params->n_mb, &table, err));
    for (int rank = 0; rank < table->n_ranks; rank++) {
        SC_GOTO(fill_row(table, rank, h, err));
    }
    *out = table;
    table = NULL;
out:
    sc_table_free(&table);
    return status;
}

sc_status sc_gen_zb_make_h1(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    return make("zb-h1", params, 1, out, err);
}

sc_status sc_gen_zb_make_h2(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    return make("zb-h2", params, 2, out, err);
}
