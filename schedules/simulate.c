#include "schedules/simulate.h"

#include "schedules/walk.h"

#include <math.h>
#include <stdlib.h>

typedef struct sc_simulation {
    const sc_table *table;
    const sc_costs *costs;
    sc_timeline *timeline;
    double *f_end;    // (n_stages * n_mb)
    double *back_end; // (n_stages * n_mb) of B or I
    double *free_at;  // (n_ranks) end of each rank's last action
    double *work;     // (n_ranks) sum of its actions' times
} sc_simulation;

void sc_simulate_uniform_costs(const sc_table *table, double f, double i, double w,
                               sc_stage_cost *out)
{
    double share = (double)table->n_ranks / table->n_stages;
    for (int stage = 0; stage < table->n_stages; stage++) {
        out[stage] = (sc_stage_cost){f * share, i * share, w * share};
    }
}

void sc_simulate_free(sc_timeline **timeline)
{
    if (*timeline != NULL) {
        sc_arena_done(&(*timeline)->arena);
        free(*timeline);
        *timeline = NULL;
    }
}

/* When the neighbour's output of `mb`, ready at ends[from, mb], is there for `stage`. */
static double arrival(const sc_simulation *sim, const double *ends, int from, int stage, int mb)
{
    bool is_local = sc_table_rank(sim->table, from, mb) == sc_table_rank(sim->table, stage, mb);
    double comm = is_local ? 0 : sim->costs->comm;
    return ends[sc_cover_pair(sim->table, from, mb)] + comm;
}

static double duration(sc_stage_cost cost, sc_op op)
{
    switch (op) {
    case SC_OP_F:
        return cost.f;
    case SC_OP_I:
        return cost.i;
    case SC_OP_W:
        return cost.w;
    default:
        return cost.i + cost.w; // B
    }
}

/* Called in the order of dependencies, so all inputs have their times already. */
static void run_action(void *context, int rank, sc_action action)
{
    sc_simulation *sim = context;
    sc_timeline *timeline = sim->timeline;
    int stage = action.stage;
    double start = sim->free_at[rank];
    if (action.op == SC_OP_F && stage > 0) {
        start = fmax(start, arrival(sim, sim->f_end, stage - 1, stage, action.mb));
    } else if ((action.op == SC_OP_B || action.op == SC_OP_I) && stage + 1 < sim->table->n_stages) {
        start = fmax(start, arrival(sim, sim->back_end, stage + 1, stage, action.mb));
    }
    double took = duration(sim->costs->stages[stage], action.op);
    double end = start + took;
    size_t pair = sc_cover_pair(sim->table, stage, action.mb);
    if (action.op == SC_OP_F) {
        sim->f_end[pair] = end;
    } else if (action.op != SC_OP_W) {
        sim->back_end[pair] = end;
    }
    sim->free_at[rank] = end;
    sim->work[rank] += took;
    timeline->spans[rank][timeline->n_spans[rank]++] = (sc_span){action, start, end};
}

static sc_status check_costs(const sc_table *table, const sc_costs *costs, sc_err *err)
{
    for (int stage = 0; stage < table->n_stages; stage++) {
        sc_stage_cost cost = costs->stages[stage];
        bool is_sound = isfinite(cost.f) && isfinite(cost.i) && isfinite(cost.w) && cost.f >= 0 &&
                        cost.i >= 0 && cost.w >= 0;
        if (!is_sound) {
            return sc_status_fail(
                err, SC_INVALID,
                "costs of stage %d: F %g, I %g, W %g; each must be finite and not "
                "negative",
                stage, cost.f, cost.i, cost.w);
        }
    }
    if (!isfinite(costs->comm) || costs->comm < 0) {
        return sc_status_fail(err, SC_INVALID, "cost of an edge: %g; must be finite, not negative",
                              costs->comm);
    }
    return SC_OK;
}

static sc_status timeline_new(const sc_table *table, sc_timeline **out, sc_err *err)
{
    sc_timeline *timeline = calloc(1, sizeof *timeline);
    if (timeline == NULL) {
        (void)sc_status_fail(err, SC_NO_MEMORY, "a timeline: out of memory");
        return SC_NO_MEMORY;
    }
    sc_arena_init(&timeline->arena, 0);
    size_t n_ranks = (size_t)table->n_ranks;
    timeline->n_ranks = table->n_ranks;
    timeline->spans = sc_arena_alloc(&timeline->arena, n_ranks, sizeof(sc_span *));
    timeline->n_spans = sc_arena_alloc(&timeline->arena, n_ranks, sizeof(size_t));
    bool is_whole = timeline->spans != NULL && timeline->n_spans != NULL;
    for (size_t rank = 0; is_whole && rank < n_ranks; rank++) {
        timeline->spans[rank] =
            sc_arena_alloc(&timeline->arena, table->rows[rank].n_actions, sizeof(sc_span));
        is_whole = timeline->spans[rank] != NULL;
    }
    if (!is_whole) {
        sc_simulate_free(&timeline);
        (void)sc_status_fail(err, SC_NO_MEMORY, "a timeline: out of memory");
        return SC_NO_MEMORY;
    }
    *out = timeline;
    return SC_OK;
}

static void sum_up(sc_timeline *timeline, const double *work)
{
    double first = INFINITY;
    double last = -INFINITY;
    for (int rank = 0; rank < timeline->n_ranks; rank++) {
        size_t n = timeline->n_spans[rank];
        if (n == 0) {
            continue;
        }
        double start = timeline->spans[rank][0].start;
        double end = timeline->spans[rank][n - 1].end;
        first = fmin(first, start);
        last = fmax(last, end);
        timeline->cost = fmax(timeline->cost, end - start);
        timeline->ideal = fmax(timeline->ideal, work[rank]);
    }
    timeline->makespan = last > first ? last - first : 0;
    timeline->bubble = timeline->cost > 0 ? (timeline->cost - timeline->ideal) / timeline->cost : 0;
}

sc_status sc_simulate_run(const sc_table *table, const sc_costs *costs, sc_timeline **out,
                          sc_err *err)
{
    sc_status status = SC_OK;
    sc_cover cover = {0};
    sc_timeline *timeline = NULL;
    sc_simulation sim = {.table = table, .costs = costs};
    sc_place place;
    SC_GOTO(check_costs(table, costs, err));
    SC_GOTO(sc_cover_make(table, &cover, &place, err));
    SC_GOTO(timeline_new(table, &timeline, err));
    sim.timeline = timeline;
    size_t n_pairs = (size_t)table->n_stages * (size_t)table->n_mb;
    sim.f_end = calloc(n_pairs, sizeof *sim.f_end);
    sim.back_end = calloc(n_pairs, sizeof *sim.back_end);
    sim.free_at = calloc((size_t)table->n_ranks, sizeof *sim.free_at);
    sim.work = calloc((size_t)table->n_ranks, sizeof *sim.work);
    if (sim.f_end == NULL || sim.back_end == NULL || sim.free_at == NULL || sim.work == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "a simulation: out of memory");
        goto out;
    }
    SC_GOTO(sc_walk_run(table, SC_WALK_COMPUTE, run_action, &sim, &place, err));
    sum_up(timeline, sim.work);
    *out = timeline;
    timeline = NULL;
out:
    free(sim.work);
    free(sim.free_at);
    free(sim.back_end);
    free(sim.f_end);
    sc_simulate_free(&timeline);
    sc_cover_done(&cover);
    return status;
}
