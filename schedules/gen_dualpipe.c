#include "schedules/gen_dualpipe.h"

#include <math.h>

/* One rank's row while it is written. End 0 is the rank's near stage, `depth`, and end 1 the far
   one, S - 1 - depth, each with its own direction of microbatches. */
typedef struct sc_dual_row {
    sc_table *table;
    int rank;
    int depth;    // stages before the near one in its direction
    int half;     // S / 2: depths are 0 to half - 1
    int first[2]; // an end's microbatches are first, first + step, ...
    int step;
    int n_f[2]; // forwards of each end so far
    int n_b[2]; // backwards, split or not
    int n_w[2]; // weight gradients, those of unsplit backwards too
    bool is_split;
    int *end_of; // (n_queued) ends of the split backwards in order: W's come first in first out
    int n_queued;
    int n_taken;
} sc_dual_row;

/* (S / 2 - 1)(F + B - 2W): less by B - W than the README's, whose pairs give their outputs only at
   their end. */
static double bubble_rate(int half, double work, double f, double i, double w)
{
    double bubble = (half - 1) * (f + i - w);
    return bubble / (work + bubble);
}

double sc_gen_dualpipe_closed_bubble_v(const sc_gen_params *params, double f, double i, double w)
{
    int p = params->n_ranks;
    bool is_known = i == f && w <= f && params->n_mb >= 2 * p;
    // A stage has half of the rank's time.
    return is_known ? bubble_rate(p, params->n_mb * (f + i + w), f / 2, i / 2, w / 2) : NAN;
}

double sc_gen_dualpipe_closed_bubble(const sc_gen_params *params, double f, double i, double w)
{
    int p = params->n_ranks;
    bool is_known = i == f && w <= f && params->n_mb >= 2 * p && params->n_mb % 2 == 0;
    return is_known ? bubble_rate(p / 2, params->n_mb * (f + i + w), f, i, w) : NAN;
}

/* Appends an action on an end's k-th microbatch; leaves it out when there is none. */
static sc_status put(sc_dual_row *row, sc_op op, int end, int k, sc_err *err)
{
    int mb = row->first[end] + k * row->step;
    if (mb >= row->table->n_mb) {
        return SC_OK;
    }
    int stage = end == 0 ? row->depth : row->table->n_stages - 1 - row->depth;
    return sc_table_append(row->table, row->rank, (sc_action){op, stage, mb}, err);
}

static sc_status put_f(sc_dual_row *row, int end, sc_err *err)
{
    return put(row, SC_OP_F, end, row->n_f[end]++, err);
}

static sc_status put_b(sc_dual_row *row, int end, sc_err *err)
{
    if (row->is_split) {
        row->end_of[row->n_queued++] = end;
        return put(row, SC_OP_I, end, row->n_b[end]++, err);
    }
    row->n_w[end]++;
    return put(row, SC_OP_B, end, row->n_b[end]++, err);
}

static sc_status put_w(sc_dual_row *row, sc_err *err)
{
    int end = row->end_of[row->n_taken++];
    return put(row, SC_OP_W, end, row->n_w[end]++, err);
}

/* Phases 1 to 3: forwards of the near end until those of the far one arrive, both in turn, then the
   far end's backwards, whose weight gradients fill the gaps. */
static sc_status fill_start(sc_dual_row *row, sc_err *err)
{
    int n_behind = row->half - row->depth - 1;
    for (int k = 0; k < 2 * n_behind; k++) {
        SC_TRY(put_f(row, 0, err));
    }
    for (int k = 0; k <= row->depth; k++) {
        SC_TRY(put_f(row, 0, err));
        SC_TRY(put_f(row, 1, err));
    }
    row->is_split = true;
    for (int k = 0; k < n_behind; k++) {
        SC_TRY(put_b(row, 1, err));
        SC_TRY(put_w(row, err));
        SC_TRY(put_f(row, 1, err));
    }
    row->is_split = false;
    return SC_OK;
}

static sc_status put_pair(sc_dual_row *row, int f_end, int b_end, sc_err *err)
{
    SC_TRY(put_f(row, f_end, err));
    return put_b(row, b_end, err);
}

/* Phases 4 and 5: pairs of a forward and the other end's backward. n_mb is of one direction. */
static sc_status fill_pairs(sc_dual_row *row, int n_mb, sc_err *err)
{
    for (int k = 0; k < n_mb - 2 * row->half + row->depth + 1; k++) {
        SC_TRY(put_pair(row, 0, 1, err));
        SC_TRY(put_pair(row, 1, 0, err));
    }
    for (int k = 0; k < row->half - row->depth - 1; k++) {
        SC_TRY(put_b(row, 1, err));
        SC_TRY(put_pair(row, 1, 0, err));
    }
    return SC_OK;
}

/* Phases 6 to 8: the backwards that are left, of which the second half leaves its weight gradients
   for the end. */
static sc_status fill_end(sc_dual_row *row, sc_err *err)
{
    int first_split = (row->depth + 1) / 2;
    for (int k = 0; k <= row->depth; k++) {
        row->is_split = row->is_split || (k == first_split && row->depth % 2 != 0);
        SC_TRY(put_b(row, 1, err));
        row->is_split = row->is_split || k == first_split;
        SC_TRY(put_b(row, 0, err));
    }
    row->is_split = true;
    for (int k = 0; k < row->half - row->depth - 1; k++) {
        SC_TRY(put_w(row, err));
        SC_TRY(put_b(row, 0, err));
    }
    while (row->n_taken < row->n_queued) {
        SC_TRY(put_w(row, err));
    }
    return SC_OK;
}

static sc_status fill_row(sc_dual_row *row, sc_err *err)
{
    // The first phases alone have 2 half - depth - 1 forwards of each direction.
    int n_mb = (row->table->n_mb + row->step - 1) / row->step;
    n_mb = n_mb < 2 * row->half ? 2 * row->half : n_mb;
    SC_TRY(fill_start(row, err));
    SC_TRY(fill_pairs(row, n_mb, err));
    return fill_end(row, err);
}

/* Room for the ends of a rank's split backwards, of which phases 3, 6 and 7 have less than 4 half.
 */
static sc_status alloc_ends(sc_table *table, int half, int **out, sc_err *err)
{
    *out = sc_arena_alloc(&table->arena, 4 * (size_t)half, sizeof **out);
    if (*out == NULL) {
        (void)sc_status_fail(err, SC_NO_MEMORY, "%s: out of memory", table->name);
        return SC_NO_MEMORY;
    }
    return SC_OK;
}

sc_status sc_gen_dualpipe_make_v(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    int p = params->n_ranks;
    if (params->n_chunks != 0 && params->n_chunks != 2) {
        return sc_status_fail(err, SC_INVALID, "dualpipe-v: two stages a rank, not v = %d",
                              params->n_chunks);
    }
    sc_status status = SC_OK;
    sc_table *table = NULL;
    int *end_of = NULL;
    SC_GOTO(sc_table_new("dualpipe-v", p, 2 * p, params->n_mb, &table, err));
    SC_GOTO(alloc_ends(table, p, &end_of, err));
    for (int rank = 0; rank < p; rank++) {
        table->rank_of_stage[2 * p - 1 - rank] = rank;
        sc_dual_row row = {
            .table = table, .rank = rank, .depth = rank, .half = p, .step = 1, .end_of = end_of};
        SC_GOTO(fill_row(&row, err));
    }
    *out = table;
    table = NULL;
out:
    sc_table_free(&table);
    return status;
}

sc_status sc_gen_dualpipe_make(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    int p = params->n_ranks;
    if (params->n_chunks > 1) {
        return sc_status_fail(err, SC_INVALID,
                              "dualpipe: one stage of each direction a rank only, not v = %d",
                              params->n_chunks);
    }
    if (p % 2 != 0) {
        return sc_status_fail(err, SC_INVALID,
                              "dualpipe: p must be even, not %d: the two directions meet between "
                              "ranks",
                              p);
    }
    sc_status status = SC_OK;
    sc_table *table = NULL;
    int *end_of = NULL;
    SC_GOTO(sc_table_new("dualpipe", p, p, params->n_mb, &table, err));
    SC_GOTO(sc_table_replicate(table, err));
    SC_GOTO(alloc_ends(table, p / 2, &end_of, err));
    for (int rank = 0; rank < p; rank++) {
        // Even microbatches begin at rank 0, odd ones at p - 1.
        int is_upper = rank >= p / 2;
        sc_dual_row row = {.table = table,
                           .rank = rank,
                           .depth = is_upper ? p - 1 - rank : rank,
                           .half = p / 2,
                           .first = {is_upper, !is_upper},
                           .step = 2,
                           .end_of = end_of};
        SC_GOTO(fill_row(&row, err));
    }
    *out = table;
    table = NULL;
out:
    sc_table_free(&table);
    return status;
}
