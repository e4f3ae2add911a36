#include "schedules/gen_looped_bfs.h"

#include <math.h>

enum {
    DEFAULT_CHUNKS = 2
};

static int chunks_of(const sc_gen_params *params)
{
    return params->n_chunks == 0 ? DEFAULT_CHUNKS : params->n_chunks;
}

double sc_gen_looped_bfs_closed_bubble(const sc_gen_params *params, double f, double i, double w)
{
    // Each chunk but the last takes max(m, p) turns: a microbatch comes round after p. The last one
    // has p - 1 more of filling and draining. A turn is (f + i + w) / v.
    (void)f;
    (void)i;
    (void)w;
    double p = params->n_ranks;
    double m = params->n_mb;
    double v = chunks_of(params);
    double turns = (v - 1) * fmax(m, p) + m + p - 1;
    return (turns - v * m) / turns;
}

static sc_status fill_chunk(sc_table *table, sc_op op, int stage, sc_err *err)
{
    for (int mb = 0; mb < table->n_mb; mb++) {
        SC_TRY(
            sc_table_append(table, table->rank_of_stage[stage], (sc_action){op, stage, mb}, err));
    }
    return SC_OK;
}

sc_status sc_gen_looped_bfs_make(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_table *table = NULL;
    int n_stages = params->n_ranks * chunks_of(params);
    SC_GOTO(sc_table_new("looped-bfs", params->n_ranks, n_stages, params->n_mb, &table, err));
    for (int stage = 0; stage < n_stages; stage++) {
        SC_GOTO(fill_chunk(table, SC_OP_F, stage, err));
    }
    for (int stage = n_stages - 1; stage >= 0; stage--) {
        SC_GOTO(fill_chunk(table, SC_OP_B, stage, err));
    }
    *out = table;
    table = NULL;
out:
    sc_table_free(&table);
    return status;
}
