#include "schedules/greedy.h"

#include <assert.h>
#include <stdlib.h>

/* A stage, or one of its two replicas. Its microbatches are first, first + step, ... */
typedef struct sc_lane {
    int stage;
    int first;
    int step;
    int n_mb;
    int n_f_begun; // counts of its microbatches, in order
    int n_f_done;
    int n_b_begun;
    int n_b_done;
    int next; // lane of the same rank, -1: none
} sc_lane;

/* What a rank can do: F or B of its lane's next microbatch. lane = -1: nothing. */
typedef struct sc_pick {
    sc_op op;
    int lane;
} sc_pick;

typedef struct sc_greedy_rank {
    int first_lane;
    sc_pick running;
    int n_ticks_left; // of what is running
} sc_greedy_rank;

typedef struct sc_greedy {
    sc_table *table;
    const sc_greedy_options *options;
    sc_lane *lanes; // (n_replicas) indexed like them
    sc_greedy_rank *ranks;
} sc_greedy;

static const sc_pick NOTHING = {SC_OP_F, -1};

static int mb_of(const sc_lane *lane, int k)
{
    return lane->first + k * lane->step;
}

/* The lane before or behind this one in the direction of its microbatches; lanes of a direction
   stand together. */
static const sc_lane *neighbour(const sc_greedy *greedy, int lane, int step)
{
    int stage = greedy->lanes[lane].stage + step;
    return stage < 0 || stage >= greedy->table->n_stages ? NULL : &greedy->lanes[lane + step];
}

static bool can_forward(const sc_greedy *greedy, int index)
{
    const sc_lane *lane = &greedy->lanes[index];
    const sc_lane *before = neighbour(greedy, index, -1);
    if (lane->n_f_begun == lane->n_mb) {
        return false;
    }
    if (before == NULL) {
        return lane->n_f_begun - lane->n_b_done < greedy->options->in_flight_max;
    }
    return before->n_f_done > lane->n_f_begun;
}

static bool can_backward(const sc_greedy *greedy, int index)
{
    const sc_lane *lane = &greedy->lanes[index];
    const sc_lane *behind = neighbour(greedy, index, 1);
    return lane->n_b_begun < lane->n_f_done &&
           (behind == NULL || behind->n_b_done > lane->n_b_begun);
}

/* True when backward `a` goes before `b`; lanes of one rank. */
static bool is_sooner(const sc_lane *a, const sc_lane *b)
{
    int mb_a = mb_of(a, a->n_b_begun);
    int mb_b = mb_of(b, b->n_b_begun);
    return mb_a < mb_b || (mb_a == mb_b && a->stage > b->stage);
}

static sc_pick choose(const sc_greedy *greedy, int rank)
{
    const sc_lane *lanes = greedy->lanes;
    int f = -1;
    int b = -1;
    for (int i = greedy->ranks[rank].first_lane; i >= 0; i = lanes[i].next) {
        if (can_backward(greedy, i) && (b < 0 || is_sooner(&lanes[i], &lanes[b]))) {
            b = i;
        }
        if (can_forward(greedy, i) && (f < 0 || lanes[i].stage > lanes[f].stage)) {
            f = i;
        }
    }
    return b >= 0 ? (sc_pick){SC_OP_B, b} : (sc_pick){SC_OP_F, f};
}

static sc_status begin(sc_greedy *greedy, int rank, sc_pick pick, sc_err *err)
{
    sc_lane *lane = &greedy->lanes[pick.lane];
    bool is_forward = pick.op == SC_OP_F;
    int k = is_forward ? lane->n_f_begun++ : lane->n_b_begun++;
    greedy->ranks[rank].running = pick;
    greedy->ranks[rank].n_ticks_left =
        is_forward ? greedy->options->f_ticks : greedy->options->b_ticks;
    return sc_table_append(greedy->table, rank, (sc_action){pick.op, lane->stage, mb_of(lane, k)},
                           err);
}

/* Every free rank begins what it can; *n_begun gets more by one an action. */
static sc_status begin_all(sc_greedy *greedy, size_t *n_begun, sc_err *err)
{
    for (int rank = 0; rank < greedy->table->n_ranks; rank++) {
        sc_pick pick = greedy->ranks[rank].n_ticks_left == 0 ? choose(greedy, rank) : NOTHING;
        *n_begun += pick.lane >= 0;
        SC_TRY(pick.lane >= 0 ? begin(greedy, rank, pick, err) : SC_OK);
    }
    return SC_OK;
}

/* One tick passes. False when nothing was running. */
static bool pass(sc_greedy *greedy)
{
    bool is_running = false;
    for (int r = 0; r < greedy->table->n_ranks; r++) {
        sc_greedy_rank *rank = &greedy->ranks[r];
        if (rank->n_ticks_left == 0) {
            continue;
        }
        is_running = true;
        if (--rank->n_ticks_left == 0) {
            sc_lane *lane = &greedy->lanes[rank->running.lane];
            lane->n_f_done += rank->running.op == SC_OP_F;
            lane->n_b_done += rank->running.op == SC_OP_B;
        }
    }
    return is_running;
}

static void set_lanes(sc_greedy *greedy)
{
    const sc_table *table = greedy->table;
    int n_replicas = sc_table_n_replicas(table);
    int n_ways = n_replicas / table->n_stages;
    for (int rank = 0; rank < table->n_ranks; rank++) {
        greedy->ranks[rank].first_lane = -1;
    }
    for (int i = 0; i < n_replicas; i++) {
        int way = i / table->n_stages;
        int stage = i % table->n_stages;
        int rank = sc_table_rank(table, stage, way);
        greedy->lanes[i] = (sc_lane){.stage = stage,
                                     .first = way,
                                     .step = n_ways,
                                     .n_mb = (table->n_mb - way + n_ways - 1) / n_ways,
                                     .next = greedy->ranks[rank].first_lane};
        greedy->ranks[rank].first_lane = i;
    }
}

sc_status sc_greedy_fill(sc_table *table, const sc_greedy_options *options, sc_err *err)
{
    assert(options->f_ticks > 0 && options->b_ticks > 0 && options->in_flight_max > 0);
    sc_status status = SC_OK;
    sc_greedy greedy = {.table = table, .options = options};
    greedy.lanes = calloc((size_t)sc_table_n_replicas(table), sizeof *greedy.lanes);
    greedy.ranks = calloc((size_t)table->n_ranks, sizeof *greedy.ranks);
    if (greedy.lanes == NULL || greedy.ranks == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "%s: out of memory", table->name);
        goto out;
    }
    set_lanes(&greedy);
    size_t n_begun = 0;
    do {
        SC_GOTO(begin_all(&greedy, &n_begun, err));
    } while (pass(&greedy));
    // The oldest microbatch in flight can always go on, so nothing stands still before the end.
    assert(n_begun == 2 * (size_t)table->n_stages * (size_t)table->n_mb);
out:
    free(greedy.ranks);
    free(greedy.lanes);
    return status;
}
