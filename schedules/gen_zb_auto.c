#include "schedules/gen_zb_auto.h"

#include <math.h>
#include <stdlib.h>

/* What the rules leave open. */
typedef struct sc_zb_choices {
    bool is_bubble_allowed; // warm-up stops before the forward that would delay the first I
    bool is_i_preferred;    // a rank well ahead of the next one may skip its forward
    bool is_greedy;         // W's fill gaps that are shorter than they
} sc_zb_choices;

/* A rank while its row grows. */
typedef struct sc_zb_rank {
    double clock;  // end of its last action
    double bubble; // time it waited since its first F
    int n_f;
    int n_i;
    int n_w;
    size_t n_ops;
    int n_requested; // forwards of the round, or of the warm-up
} sc_zb_rank;

typedef struct sc_zb_search {
    int p;
    int m;
    double f;
    double i;
    double w;
    double comm;
    double w_share;
    double limit;     // of the run
    double most_live; // that was found to be within it
    double slack; // what rounding may add to a time: sums that are equal on paper compare as equal
    double most_bubble; // of any rank so far
    sc_zb_choices choices;
    sc_zb_rank *ranks;   // (p)
    double *f_end;       // (p * m)
    double *i_end;       // (p * m)
    unsigned char *ops;  // (p * 3m) sc_op
    unsigned char *best; // (p * 3m)
    double best_cost;    // INFINITY: none yet
} sc_zb_search;

static const double MEMORY_SLACK = 1e-9;

enum {
    N_CHOICES = 8,
    /* Actions that all runs under lower limits may put together. */
    OPS_MAX = 1 << 25
};

/* True when the rank has room for so many forwards after so many W's. */
static bool has_room(sc_zb_search *s, int rank, double n_f, int n_w)
{
    double live = n_f - (1 - s->w_share) * s->ranks[rank].n_i - s->w_share * n_w;
    if (live > s->limit + MEMORY_SLACK) {
        return false;
    }
    s->most_live = fmax(s->most_live, live);
    return true;
}

/* When the next F of `rank` has its input; its predecessor has done that F. */
static double f_arrival(const sc_zb_search *s, int rank)
{
    if (rank == 0) {
        return 0;
    }
    size_t pair = (size_t)(rank - 1) * (size_t)s->m + (size_t)s->ranks[rank].n_f;
    return s->f_end[pair] + s->comm;
}

/* The same of its next I. */
static double i_arrival(const sc_zb_search *s, int rank)
{
    if (rank == s->p - 1) {
        return 0;
    }
    size_t pair = (size_t)(rank + 1) * (size_t)s->m + (size_t)s->ranks[rank].n_i;
    return s->i_end[pair] + s->comm;
}

/* Appends the rank's next action of a kind and moves its clock. */
static void put(sc_zb_search *s, int rank, sc_op op)
{
    sc_zb_rank *r = &s->ranks[rank];
    double arrival = 0;
    double took = s->w;
    if (op == SC_OP_F) {
        arrival = f_arrival(s, rank);
        took = s->f;
    } else if (op == SC_OP_I) {
        arrival = i_arrival(s, rank);
        took = s->i;
    }
    if (r->n_f > 0 && arrival > r->clock) {
        r->bubble += arrival - r->clock;
        s->most_bubble = fmax(s->most_bubble, r->bubble);
    }
    r->clock = fmax(r->clock, arrival) + took;
    size_t row = (size_t)rank * (size_t)s->m;
    s->ops[3 * row + r->n_ops++] = (unsigned char)op;
    if (op == SC_OP_F) {
        s->f_end[row + (size_t)r->n_f++] = r->clock;
    } else if (op == SC_OP_I) {
        s->i_end[row + (size_t)r->n_i++] = r->clock;
    } else {
        r->n_w++;
    }
}

/* W's before an action whose input comes at `arrival`: those that fit, and perhaps one more. */
static void fill_gap(sc_zb_search *s, int rank, double arrival)
{
    sc_zb_rank *r = &s->ranks[rank];
    while (r->n_w < r->n_i && r->clock + s->w <= arrival + s->slack) {
        put(s, rank, SC_OP_W);
    }
    if (r->n_w == r->n_i || r->clock >= arrival - s->slack) {
        return;
    }
    // Waiting costs nothing as long as another rank has waited longer in all.
    bool is_harmless = arrival - r->clock <= s->most_bubble - r->bubble + s->slack;
    if (!is_harmless || s->choices.is_greedy) {
        put(s, rank, SC_OP_W);
    }
}

/* How many forwards beyond the first each rank does before its first I. May be more than there are:
   where m is small, ranks still differ by one at least. */
static void plan_warmup(sc_zb_search *s)
{
    double i_end = s->ranks[s->p - 1].clock + s->i; // of the first I, on the rank behind
    s->ranks[s->p - 1].n_requested = 0;
    for (int rank = s->p - 2; rank >= 0; rank--) {
        sc_zb_rank *r = &s->ranks[rank];
        double clock = r->clock;
        double due = i_end + s->comm;
        int n = 0;
        while (n < s->m + s->p && has_room(s, rank, 2.0 + n, 0)) {
            double reached = s->choices.is_bubble_allowed ? clock + s->f : clock;
            bool is_late =
                s->choices.is_bubble_allowed ? reached > due + s->slack : reached >= due - s->slack;
            if (is_late) {
                break;
            }
            clock += s->f;
            n++;
        }
        r->n_requested = n;
        i_end = fmax(clock, due) + s->i;
    }
    for (int rank = 1; rank < s->p; rank++) {
        int most = s->ranks[rank - 1].n_requested - 1;
        if (s->ranks[rank].n_requested > most) {
            s->ranks[rank].n_requested = most > 0 ? most : 0;
        }
    }
}

static void warm_up(sc_zb_search *s)
{
    for (int rank = 0; rank < s->p; rank++) {
        put(s, rank, SC_OP_F);
    }
    plan_warmup(s);
    for (int rank = 0; rank < s->p; rank++) {
        sc_zb_rank *r = &s->ranks[rank];
        for (int n = r->n_requested; n > 0 && r->n_f < s->m; n--) {
            put(s, rank, SC_OP_F);
        }
    }
    for (int rank = s->p - 1; rank >= 0; rank--) {
        put(s, rank, SC_OP_I);
    }
}

/* True when `rank`, at least two forwards ahead of the next one, does better to leave its forward
   out of this round. */
static bool is_skip_better(sc_zb_search *s, int rank)
{
    const sc_zb_rank *r = &s->ranks[rank];
    const sc_zb_rank *next = r + 1;
    // When the next rank has done one more F and I: this rank's next I has its input.
    double due = next->clock + s->f + s->i + s->comm;
    if (r->clock >= due - s->slack) {
        return true;
    }
    double clock = r->clock + s->f;
    for (int n_w = r->n_w; !has_room(s, rank, r->n_f + 1.0, n_w); n_w++) {
        clock += s->w;
    }
    if (clock <= due + s->slack) {
        return false;
    }
    clock = r->clock;
    for (int n_w = r->n_w; n_w < r->n_i && clock + s->w <= due + s->slack; n_w++) {
        clock += s->w;
    }
    return due - clock <= s->most_bubble - r->bubble + s->slack;
}

/* Who does a forward in this round. */
static void plan_round(sc_zb_search *s)
{
    for (int rank = 0; rank < s->p; rank++) {
        sc_zb_rank *r = &s->ranks[rank];
        r->n_requested = r->n_f < s->m;
        bool is_ahead = rank + 1 < s->p && r->n_f - r[1].n_f >= 2;
        if (r->n_requested > 0 && is_ahead && s->choices.is_i_preferred &&
            is_skip_better(s, rank)) {
            r->n_requested = 0;
        }
    }
    for (int rank = s->p - 2; rank >= 0; rank--) {
        if (s->ranks[rank].n_requested > s->ranks[rank + 1].n_requested) {
            s->ranks[rank].n_requested = s->ranks[rank + 1].n_requested;
        }
    }
}

static void do_round(sc_zb_search *s)
{
    plan_round(s);
    for (int rank = 0; rank < s->p; rank++) {
        const sc_zb_rank *r = &s->ranks[rank];
        if (r->n_requested == 0) {
            continue;
        }
        while (!has_room(s, rank, r->n_f + 1.0, r->n_w)) {
            put(s, rank, SC_OP_W);
        }
        fill_gap(s, rank, f_arrival(s, rank));
        put(s, rank, SC_OP_F);
    }
    for (int rank = s->p - 1; rank >= 0; rank--) {
        sc_zb_rank *r = &s->ranks[rank];
        fill_gap(s, rank, i_arrival(s, rank));
        while (rank == 0 && r->n_f == s->m && r->n_w < r->n_i) {
            put(s, rank, SC_OP_W);
        }
        put(s, rank, SC_OP_I);
    }
}

/* One run under a limit; keeps its rows when they are the cheapest so far. */
static void try_choices(sc_zb_search *s, sc_zb_choices choices, double limit)
{
    s->choices = choices;
    s->limit = limit;
    s->most_live = 1;
    s->most_bubble = 0;
    for (int rank = 0; rank < s->p; rank++) {
        s->ranks[rank] = (sc_zb_rank){0};
    }
    warm_up(s);
    for (int round = 1; round < s->m; round++) {
        do_round(s);
    }
    double cost = 0;
    for (int rank = 0; rank < s->p; rank++) {
        while (s->ranks[rank].n_w < s->m) {
            put(s, rank, SC_OP_W);
        }
        double first = s->f_end[(size_t)rank * (size_t)s->m] - s->f;
        cost = fmax(cost, s->ranks[rank].clock - first);
    }
    if (cost < s->best_cost - s->slack) {
        s->best_cost = cost;
        unsigned char *ops = s->best;
        s->best = s->ops;
        s->ops = ops;
    }
}

/* No table within the limit costs less: rank 0 works m (f + i + w) and, before its first I, does at
   most `limit` forwards, but waits until microbatch 0 is through all ranks and back. */
static double lowest_cost(const sc_zb_search *s, double limit)
{
    double n_f = fmin(floor(limit + MEMORY_SLACK), s->m);
    double back = s->p * s->f + (s->p - 1) * (s->i + 2 * s->comm);
    return s->m * (s->f + s->i + s->w) + fmax(0, back - n_f * s->f);
}

/* All choices under the limit. The rules are greedy, so that less memory is better now and then:
   then under lower limits too, where one could be better. A run is the same for all limits down to
   the most that it found to be within its own, so the next lower one is just below that. */
static void search(sc_zb_search *s, double limit)
{
    double next[N_CHOICES];
    size_t n_ops = 0;
    for (unsigned bits = 0; bits < N_CHOICES; bits++) {
        sc_zb_choices choices = {(bits & 1) == 0, (bits & 2) == 0, (bits & 4) == 0};
        try_choices(s, choices, limit);
        next[bits] = s->most_live - 2 * MEMORY_SLACK;
    }
    for (unsigned bits = 0; bits < N_CHOICES; bits++) {
        sc_zb_choices choices = {(bits & 1) == 0, (bits & 2) == 0, (bits & 4) == 0};
        while (next[bits] >= 1 && lowest_cost(s, next[bits]) < s->best_cost - s->slack &&
               n_ops < OPS_MAX) {
            try_choices(s, choices, next[bits]);
            next[bits] = s->most_live - 2 * MEMORY_SLACK;
            n_ops += 3 * (size_t)s->p * (size_t)s->m;
        }
    }
}

static sc_status write_row(const sc_zb_search *s, int rank, sc_table *table, sc_err *err)
{
    const unsigned char *ops = s->best + 3 * (size_t)rank * (size_t)s->m;
    int n_done[SC_OP_COUNT] = {0};
    for (size_t k = 0; k < 3 * (size_t)s->m; k++) {
        sc_op op = (sc_op)ops[k];
        SC_TRY(sc_table_append(table, rank, (sc_action){op, rank, n_done[op]++}, err));
    }
    return SC_OK;
}

static bool is_time(double value)
{
    return isfinite(value) && value >= 0;
}

static sc_status check_params(const sc_gen_params *params, sc_err *err)
{
    if (params->n_chunks > 1) {
        return sc_status_fail(err, SC_INVALID, "zb-auto: one stage a rank only, not v = %d",
                              params->n_chunks);
    }
    if (!is_time(params->f) || !is_time(params->i) || !is_time(params->w) ||
        !is_time(params->comm)) {
        return sc_status_fail(err, SC_INVALID,
                              "zb-auto: times F %g, I %g, W %g, comm %g; each must be finite and "
                              "not negative",
                              params->f, params->i, params->w, params->comm);
    }
    if (params->limit_mb != 0 && !(params->limit_mb >= 1)) {
        return sc_status_fail(err, SC_INVALID,
                              "zb-auto: a limit of %g microbatches a rank; needs 1 or more, or 0 "
                              "for p",
                              params->limit_mb);
    }
    if (!(params->w_share >= 0 && params->w_share <= 1)) {
        return sc_status_fail(err, SC_INVALID,
                              "zb-auto: a share of %g stays from I to W; choose above 0 to 1, or 0 "
                              "for one half",
                              params->w_share);
    }
    return SC_OK;
}

static sc_zb_search search_of(const sc_gen_params *params)
{
    sc_zb_search s = {.p = params->n_ranks,
                      .m = params->n_mb,
                      .f = params->f,
                      .i = params->i,
                      .w = params->w,
                      .comm = params->comm,
                      .w_share = params->w_share == 0 ? 0.5 : params->w_share,
                      .best_cost = INFINITY};
    if (s.f == 0 && s.i == 0 && s.w == 0) {
        s.f = s.i = s.w = 1;
    }
    s.slack = 1e-9 * (s.f + s.i + s.w + s.comm);
    return s;
}

sc_status sc_gen_zb_auto_make(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_table *table = NULL;
    sc_zb_search s = search_of(params);
    SC_GOTO(check_params(params, err));
    SC_GOTO(sc_table_new("zb-auto", s.p, s.p, s.m, &table, err));
    size_t n_pairs = (size_t)s.p * (size_t)s.m;
    s.ranks = calloc((size_t)s.p, sizeof *s.ranks);
    s.f_end = calloc(n_pairs, sizeof *s.f_end);
    s.i_end = calloc(n_pairs, sizeof *s.i_end);
    s.ops = calloc(n_pairs, 3);
    s.best = calloc(n_pairs, 3);
    if (s.ranks == NULL || s.f_end == NULL || s.i_end == NULL || s.ops == NULL || s.best == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "zb-auto: out of memory for %d ranks", s.p);
        goto out;
    }
    search(&s, params->limit_mb == 0 ? s.p : params->limit_mb);
    for (int rank = 0; rank < s.p; rank++) {
        SC_GOTO(write_row(&s, rank, table, err));
    }
    *out = table;
    table = NULL;
out:
    free(s.best);
    free(s.ops);
    free(s.i_end);
    free(s.f_end);
    free(s.ranks);
    sc_table_free(&table);
    return status;
}
