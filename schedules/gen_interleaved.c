#include "schedules/gen_interleaved.h"

#include <math.h>
#include <stdlib.h>

enum {
    DEFAULT_CHUNKS = 2
};

/* A rank's place in its two orders. */
typedef struct sc_progress {
    int n_f;    // forwards done
    int n_b;    // backwards done
    int warmup; // forwards ahead of backwards, before a backward's turn
} sc_progress;

typedef struct sc_filling {
    sc_table *table;
    int n_chunks;
    int group;
    int n_each;         // forwards, and backwards, of a rank
    sc_progress *ranks; // (n_ranks)
    int *n_f;           // (n_stages) forwards done; a stage takes its microbatches in rising order
    int *n_b;           // (n_stages) backwards done
} sc_filling;

static int chunks_of(const sc_gen_params *params)
{
    return params->n_chunks == 0 ? DEFAULT_CHUNKS : params->n_chunks;
}

static int group_of(const sc_gen_params *params)
{
    int group = params->group == 0 ? params->n_ranks : params->group;
    return group < params->n_mb ? group : params->n_mb;
}

double sc_gen_interleaved_closed_bubble(const sc_gen_params *params, double f, double i, double w)
{
    // All ranks work without a gap from the first forward to the last: each chunk takes max(group,
    // p) turns of (f + i + w) / v, the last one has p - 1 more of filling and draining.
    (void)f;
    (void)i;
    (void)w;
    double p = params->n_ranks;
    double m = params->n_mb;
    double v = chunks_of(params);
    int group = group_of(params);
    double turns = v * m + p - 1;
    if (group == params->n_mb) {
        turns = (v - 1) * fmax(m, p) + m + p - 1;
    } else if (params->n_ranks > 1 && (group < params->n_ranks || params->n_mb % group != 0)) {
        return NAN;
    }
    return (turns - v * m) / turns;
}

/* The k-th forward or backward of `rank`. */
static sc_action at(const sc_filling *filling, sc_op op, int rank, int k)
{
    const sc_table *table = filling->table;
    int per_group = filling->group * filling->n_chunks;
    int first = k / per_group * filling->group;
    int size = table->n_mb - first < filling->group ? table->n_mb - first : filling->group;
    int chunk = k % per_group / size;
    if (op == SC_OP_B) {
        chunk = filling->n_chunks - 1 - chunk;
    }
    return (sc_action){op, chunk * table->n_ranks + rank, first + k % per_group % size};
}

static bool is_f_turn(const sc_filling *filling, int rank)
{
    sc_progress progress = filling->ranks[rank];
    return progress.n_f < filling->n_each && progress.n_f - progress.n_b <= progress.warmup;
}

static bool is_f_ready(const sc_filling *filling, int rank)
{
    if (filling->ranks[rank].n_f == filling->n_each) {
        return false;
    }
    sc_action action = at(filling, SC_OP_F, rank, filling->ranks[rank].n_f);
    return action.stage == 0 || filling->n_f[action.stage - 1] > action.mb;
}

static bool is_b_ready(const sc_filling *filling, int rank)
{
    if (filling->ranks[rank].n_b == filling->n_each) {
        return false;
    }
    sc_action action = at(filling, SC_OP_B, rank, filling->ranks[rank].n_b);
    bool is_last = action.stage == filling->table->n_stages - 1;
    return filling->n_f[action.stage] > action.mb &&
           (is_last || filling->n_b[action.stage + 1] > action.mb);
}

static sc_status put(sc_filling *filling, sc_op op, int rank, sc_err *err)
{
    sc_progress *progress = &filling->ranks[rank];
    int k = op == SC_OP_F ? progress->n_f++ : progress->n_b++;
    sc_action action = at(filling, op, rank, k);
    (op == SC_OP_F ? filling->n_f : filling->n_b)[action.stage]++;
    return sc_table_append(filling->table, rank, action, err);
}

/* Takes `rank` as far as its turns get it. */
static sc_status advance(sc_filling *filling, int rank, bool *has_moved, sc_err *err)
{
    while (filling->ranks[rank].n_b < filling->n_each) {
        bool is_f = is_f_turn(filling, rank);
        if (!(is_f ? is_f_ready(filling, rank) : is_b_ready(filling, rank))) {
            return SC_OK;
        }
        *has_moved = true;
        SC_TRY(put(filling, is_f ? SC_OP_F : SC_OP_B, rank, err));
    }
    return SC_OK;
}

/* Does a forward before its turn, if it can be done. */
static sc_status take_ahead(sc_filling *filling, int rank, sc_err *err)
{
    if (is_f_turn(filling, rank) || !is_f_ready(filling, rank)) {
        return SC_OK;
    }
    return put(filling, SC_OP_F, rank, err);
}

/* Takes every rank on. When all wait for each other, those that can take a forward ahead: of all
   forwards that are left the first, by its place in the order and then by rank, is always ready, so
   there is one. */
static sc_status sweep(sc_filling *filling, sc_err *err)
{
    bool has_moved = false;
    for (int rank = 0; rank < filling->table->n_ranks; rank++) {
        SC_TRY(advance(filling, rank, &has_moved, err));
    }
    // From the last rank down, so that a forward does not lead to one of the rank behind it.
    for (int rank = filling->table->n_ranks - 1; rank >= 0 && !has_moved; rank--) {
        SC_TRY(take_ahead(filling, rank, err));
    }
    return SC_OK;
}

static sc_status fill(sc_filling *filling, sc_err *err)
{
    // The first rank's last backward of its first stage comes last of all.
    while (filling->ranks[0].n_b < filling->n_each) {
        SC_TRY(sweep(filling, err));
    }
    return SC_OK;
}

static sc_status check_params(const sc_gen_params *params, sc_err *err)
{
    if (params->n_chunks == 1) {
        return sc_status_fail(err, SC_INVALID,
                              "interleaved: needs v >= 2 stages a rank, not 1; 1f1b is for one");
    }
    if (params->group < 0) {
        return sc_status_fail(err, SC_INVALID,
                              "interleaved: group of %d microbatches; choose 1 or more, or 0 for p",
                              params->group);
    }
    return SC_OK;
}

sc_status sc_gen_interleaved_make(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_filling filling = {.n_chunks = chunks_of(params), .group = group_of(params)};
    SC_GOTO(check_params(params, err));
    int p = params->n_ranks;
    int n_stages = p * filling.n_chunks;
    SC_GOTO(sc_table_new("interleaved", p, n_stages, params->n_mb, &filling.table, err));
    filling.n_each = params->n_mb * filling.n_chunks;
    filling.ranks = calloc((size_t)p, sizeof *filling.ranks);
    filling.n_f = calloc((size_t)n_stages, sizeof *filling.n_f);
    filling.n_b = calloc((size_t)n_stages, sizeof *filling.n_b);
    if (filling.ranks == NULL || filling.n_f == NULL || filling.n_b == NULL) {
        status =
            sc_status_fail(err, SC_NO_MEMORY, "interleaved: out of memory for %d stages", n_stages);
        goto out;
    }
    for (int rank = 0; rank < p; rank++) {
        filling.ranks[rank].warmup = 2 * (p - rank - 1) + (filling.n_chunks - 1) * filling.group;
    }
    SC_GOTO(fill(&filling, err));
    *out = filling.table;
    filling.table = NULL;
out:
    free(filling.n_b);
    free(filling.n_f);
    free(filling.ranks);
    sc_table_free(&filling.table);
    return status;
}
