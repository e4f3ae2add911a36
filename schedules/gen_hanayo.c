#include "schedules/gen_hanayo.h"

#include "schedules/greedy.h"

sc_status sc_gen_hanayo_make(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    int p = params->n_ranks;
    int v = params->n_chunks == 0 ? 2 : params->n_chunks;
    if (v % 2 != 0) {
        return sc_status_fail(err, SC_INVALID,
                              "hanayo: v must be even, not %d: a wave has two stages on each rank",
                              v);
    }
    sc_status status = SC_OK;
    sc_table *table = NULL;
    SC_GOTO(sc_table_new("hanayo", p, v * p, params->n_mb, &table, err));
    for (int stage = 0; stage < table->n_stages; stage++) {
        int at = stage % p;
        table->rank_of_stage[stage] = stage / p % 2 == 0 ? at : p - 1 - at;
    }
    int b_ticks = params->n_mb <= p ? 2 : 1;
    SC_GOTO(sc_greedy_fill(table, &(sc_greedy_options){1, b_ticks, p}, err));
    *out = table;
    table = NULL;
out:
    sc_table_free(&table);
    return status;
}
