#include "schedules/gen_chimera.h"

#include "schedules/greedy.h"

#include <math.h>

double sc_gen_chimera_closed_bubble(const sc_gen_params *params, double f, double i, double w)
{
    int p = params->n_ranks;
    double b = i + w;
    if (params->n_mb % p != 0 || b < f) {
        return NAN;
    }
    // The paper's (p - 2) F at F = B: half while pipelines fill and half while they drain. Where B
    // takes longer, each unit of p microbatches has its gaps between backwards.
    int n_units = params->n_mb / p;
    double bubble = (p - 2) * (b + (n_units - 1) * (b - f));
    return bubble / (params->n_mb * (f + b) + bubble);
}

sc_status sc_gen_chimera_make(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    int p = params->n_ranks;
    if (params->n_chunks > 1) {
        return sc_status_fail(err, SC_INVALID,
                              "chimera: one stage of each direction a rank only, not v = %d",
                              params->n_chunks);
    }
    if (p % 2 != 0) {
        return sc_status_fail(err, SC_INVALID,
                              "chimera: p must be even, not %d: the two pipelines meet between "
                              "ranks",
                              p);
    }
    sc_status status = SC_OK;
    sc_table *table = NULL;
    SC_GOTO(sc_table_new("chimera", p, p, params->n_mb, &table, err));
    SC_GOTO(sc_table_replicate(table, err));
    SC_GOTO(sc_greedy_fill(table, &(sc_greedy_options){1, 1, p / 2}, err));
    *out = table;
    table = NULL;
out:
    sc_table_free(&table);
    return status;
}
