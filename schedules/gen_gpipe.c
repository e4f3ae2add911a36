#include "schedules/gen_gpipe.h"

double sc_gen_gpipe_closed_bubble(const sc_gen_params *params, double f, double i, double w)
{
    // The cost is (m + p - 1)(f + i + w), of which m(f + i + w) is work: the times cancel.
    (void)f;
    (void)i;
    (void)w;
    return (params->n_ranks - 1.0) / (params->n_mb + params->n_ranks - 1.0);
}

static sc_status fill_row(sc_table *table, int rank, sc_err *err)
{
    for (int mb = 0; mb < table->n_mb; mb++) {
        SC_TRY(sc_table_append(table, rank, (sc_action){SC_OP_F, rank, mb}, err));
    }
    for (int mb = 0; mb < table->n_mb; mb++) {
        SC_TRY(sc_table_append(table, rank, (sc_action){SC_OP_B, rank, mb}, err));
    }
    return SC_OK;
}

sc_status sc_gen_gpipe_make(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    if (params->n_chunks > 1) {
        return sc_status_fail(err, SC_INVALID, "gpipe: one stage a rank only, not v = %d",
                              params->n_chunks);
    }
    sc_status status = SC_OK;
    sc_table *table = NULL;
    SC_GOTO(sc_table_new("gpipe", params->n_ranks, params->n_ranks, params->n_mb, &table, err));
    for (int rank = 0; rank < table->n_ranks; rank++) {
        SC_GOTO(fill_row(table, rank, err));
    }
    *out = table;
    table = NULL;
out:
    sc_table_free(&table);
    return status;
}
