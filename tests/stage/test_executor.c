/* The executors of all ranks against a made-up transport that delivers in random order: every row
   finishes, in row order, no slot is used by two microbatches at once, no message buffer is
   overwritten before it was read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "schedules/gen.h"
#include "schedules/lower.h"
#include "schedules/validate.h"
#include "stage/executor_compile.h"

#include <stdlib.h>
#include <string.h>

enum {
    RANKS_MAX = 6,
    MB_MAX = 13,
    SLOTS = 2
};

/* A message under way between two executors. */
typedef struct flight {
    int from_rank;
    int from_edge;
    int to_rank;
    int to_edge;
    int mb;
} flight;

typedef struct world {
    int n_ranks;
    sc_arena arena;
    sc_executor *ex[RANKS_MAX];
    int queue[RANKS_MAX][SC_EXECUTOR_DEPTH]; // dispatched actions in order
    int n_queue[RANKS_MAX];
    int n_posted_total[RANKS_MAX];
    flight flights[1024];
    int n_flights;
    int act_owner[RANKS_MAX][64]; // microbatch in each slot of (one stage a rank), -1 free
    int64_t now;
} world;

static int find_peer_edge(const world *w, int rank, const sc_edge *edge)
{
    const sc_executor *peer = w->ex[edge->peer_rank];
    for (int e = 0; e < peer->n_remote_edges; e++) {
        if (peer->edges[e].from_stage == edge->from_stage &&
            peer->edges[e].to_stage == edge->to_stage) {
            assert_int_equal(peer->edges[e].peer_rank, rank);
            return e;
        }
    }
    fail_msg("rank %d has no such edge", edge->peer_rank);
    return -1;
}

static void take_effects(world *w, int rank)
{
    sc_exec_effect effect;
    while (sc_executor_next(w->ex[rank], &effect)) {
        const sc_edge *edge = &w->ex[rank]->edges[effect.edge];
        if (effect.type == SC_EXEC_DISPATCH) {
            assert_true(w->n_queue[rank] < SC_EXECUTOR_DEPTH);
            w->queue[rank][w->n_queue[rank]++] = effect.index;
        } else if (effect.type == SC_EXEC_SEND) {
            flight *f = &w->flights[w->n_flights++];
            *f = (flight){rank, effect.edge, edge->peer_rank, find_peer_edge(w, rank, edge),
                          effect.mb};
        } else {
            w->n_posted_total[rank]++;
        }
    }
}

static void check_slots(world *w, int rank, const sc_exec_action *xa)
{
    int *owner = &w->act_owner[rank][xa->act_slot];
    if (xa->action.op == SC_OP_F) {
        assert_int_equal(*owner, -1);
        *owner = xa->action.mb;
    } else {
        assert_int_equal(*owner, xa->action.mb);
        *owner = -1;
    }
}

/* Runs the oldest dispatched action of a rank to its end. */
static bool compute(world *w, int rank)
{
    if (w->n_queue[rank] == 0) {
        return false;
    }
    int index = w->queue[rank][0];
    w->n_queue[rank]--;
    memmove(&w->queue[rank][0], &w->queue[rank][1],
            (size_t)w->n_queue[rank] * sizeof w->queue[rank][0]);
    check_slots(w, rank, &w->ex[rank]->actions[index]);
    sc_executor_on_computed(w->ex[rank], index, w->now, w->now + 1, 0);
    w->now++;
    take_effects(w, rank);
    return true;
}

/* Delivers one message if the receiver posted for it; messages of one edge keep their order. */
static bool deliver(world *w, int which)
{
    flight f = w->flights[which];
    for (int i = 0; i < which; i++) {
        if (w->flights[i].to_rank == f.to_rank && w->flights[i].to_edge == f.to_edge) {
            return false;
        }
    }
    sc_edge *to = &w->ex[f.to_rank]->edges[f.to_edge];
    if (to->n_arrived == to->n_posted) {
        return false;
    }
    assert_int_equal(to->mb_of_msg[to->n_arrived], f.mb);
    assert_true(to->n_arrived - to->n_consumed < SLOTS);
    memmove(&w->flights[which], &w->flights[which + 1],
            (size_t)(w->n_flights - which - 1) * sizeof w->flights[0]);
    w->n_flights--;
    sc_executor_on_recv(w->ex[f.to_rank], f.to_edge, w->now, w->now, w->now);
    sc_executor_on_sent(w->ex[f.from_rank], f.from_edge);
    take_effects(w, f.to_rank);
    take_effects(w, f.from_rank);
    return true;
}

static bool is_done(const world *w)
{
    for (int r = 0; r < w->n_ranks; r++) {
        if (!sc_executor_is_row_done(w->ex[r])) {
            return false;
        }
    }
    return true;
}

/* Events in a random order until nothing moves any more. */
static void run_step(world *w, uint64_t seed)
{
    uint64_t n = 0;
    for (int r = 0; r < w->n_ranks; r++) {
        sc_executor_begin(w->ex[r]);
        take_effects(w, r);
    }
    int idle = 0;
    while (!is_done(w)) {
        uint64_t draw = sc_rng_u64(seed, 1, n++);
        bool has_moved;
        if (draw % 2 == 0 && w->n_flights > 0) {
            has_moved = deliver(w, (int)(draw / 2 % (uint64_t)w->n_flights));
        } else {
            has_moved = compute(w, (int)(draw / 2 % (uint64_t)w->n_ranks));
        }
        idle = has_moved ? 0 : idle + 1;
        assert_true(idle < 10000);
    }
    for (int r = 0; r < w->n_ranks; r++) {
        int waits_for;
        assert_int_equal(sc_executor_current(w->ex[r], &waits_for), SC_EXECUTOR_NONE);
        sc_executor_end(w->ex[r]);
    }
}

static void open_world(world *w, const char *schedule, int p, int m)
{
    sc_table *compute_table;
    sc_table *lowered;
    sc_err err;
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    memset(w, 0, sizeof *w);
    w->n_ranks = p;
    memset(w->act_owner, -1, sizeof w->act_owner);
    sc_arena_init(&w->arena, 0);
    assert_int_equal(sc_gen_make(schedule, &params, &compute_table, &err), SC_OK);
    assert_int_equal(sc_lower_table(compute_table, &lowered, &err), SC_OK);
    for (int r = 0; r < p; r++) {
        assert_int_equal(sc_executor_compile_row(lowered, r, SLOTS, &w->arena, &w->ex[r], &err),
                         SC_OK);
        assert_int_equal(w->ex[r]->n_actions, 2 * m);
        assert_int_equal(w->ex[r]->n_act_slots[r], sc_validate_peak(compute_table, r, r));
        assert_int_equal(w->ex[r]->n_keep_slots[r], 0);
    }
    sc_table_free(&compute_table);
    sc_table_free(&lowered);
}

static void test_rows_finish(void **state)
{
    (void)state;
    static const char *const names[] = {"gpipe", "1f1b"};
    for (int s = 0; s < 2; s++) {
        for (int p = 1; p <= RANKS_MAX; p++) {
            for (int m = 1; m <= MB_MAX; m++) {
                world *w = malloc(sizeof *w);
                assert_non_null(w);
                open_world(w, names[s], p, m);
                for (uint64_t seed = 0; seed < 3; seed++) {
                    run_step(w, seed);
                }
                sc_arena_done(&w->arena);
                free(w);
            }
        }
    }
}

/* I and W apart, two stages on one rank in V placement: local edges, keep slots. */
static void test_split_and_local(void **state)
{
    (void)state;
    static const char row[] = "0F0,1F0,0F1,1F1,1I0,0I0,1W0,0W0,1I1,0I1,0W1,1W1";
    sc_table *table;
    sc_err err;
    sc_arena arena;
    sc_executor *ex;
    sc_exec_effect effect;
    sc_arena_init(&arena, 0);
    assert_int_equal(sc_table_new("split", 1, 2, 2, &table, &err), SC_OK);
    table->rank_of_stage[1] = 0;
    assert_int_equal(sc_table_row_parse(table, 0, row, strlen(row), &err), SC_OK);
    assert_int_equal(sc_executor_compile_row(table, 0, SLOTS, &arena, &ex, &err), SC_OK);
    assert_int_equal(ex->n_remote_edges, 0);
    assert_int_equal(ex->n_edges, 2);
    assert_int_equal(ex->edges[0].type, SC_EDGE_LOCAL);
    assert_int_equal(ex->edges[0].n_slots, 1);
    assert_int_equal(ex->n_act_slots[0], 2);
    assert_int_equal(ex->n_keep_slots[0], 1);
    assert_int_equal(ex->n_keep_slots[1], 1);
    sc_executor_begin(ex);
    for (int i = 0; i < ex->n_actions; i++) {
        while (sc_executor_next(ex, &effect)) {
            assert_int_equal(effect.type, SC_EXEC_DISPATCH);
        }
        sc_executor_on_computed(ex, i, i, i + 1, 0);
    }
    assert_true(sc_executor_is_row_done(ex));
    sc_arena_done(&arena);
    sc_table_free(&table);
}

/* Runs what may run on rank 0 of two while nobody answers; returns how many actions ended. */
static int run_alone(sc_executor *ex, int n_taken)
{
    sc_exec_effect effect;
    int n = 0;
    int queue[SC_EXECUTOR_DEPTH];
    int n_queue = 0;
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        while (sc_executor_next(ex, &effect)) {
            if (effect.type == SC_EXEC_DISPATCH) {
                queue[n_queue++] = effect.index;
            } else if (effect.type == SC_EXEC_SEND && n_taken-- > 0) {
                sc_executor_on_sent(ex, effect.edge);
            }
        }
        for (int i = 0; i < n_queue; i++, n++) {
            sc_executor_on_computed(ex, queue[i], n, n + 1, 0);
            has_moved = true;
        }
        n_queue = 0;
    }
    return n;
}

/* Whoever waits names whom: the one that does not send, and the one that does not receive. */
static void test_names_whom_it_waits_for(void **state)
{
    (void)state;
    const int m = 4;
    for (int n_taken = 0; n_taken <= m; n_taken++) {
        world *w = malloc(sizeof *w);
        int waits_for;
        assert_non_null(w);
        open_world(w, "gpipe", 2, m);
        sc_executor_begin(w->ex[0]);
        int n_done = run_alone(w->ex[0], n_taken);
        assert_int_equal(n_done, n_taken + SLOTS < m ? n_taken + SLOTS : m);
        assert_int_equal(sc_executor_current(w->ex[0], &waits_for), n_done);
        assert_int_equal(waits_for, 1); // to take an activation, at last to send a gradient
        sc_arena_done(&w->arena);
        free(w);
    }
}

/* All is computed, but the last message is not taken: the row is not done, and names the taker. */
static void test_names_who_does_not_take_the_last_message(void **state)
{
    (void)state;
    world *w = malloc(sizeof *w);
    int waits_for;
    assert_non_null(w);
    open_world(w, "gpipe", 2, 1);
    sc_executor_begin(w->ex[1]);
    run_alone(w->ex[1], 0);
    assert_int_equal(sc_executor_current(w->ex[1], &waits_for), 0);
    assert_int_equal(waits_for, 0); // its activation has not come
    sc_executor_on_recv(w->ex[1], 0, 0, 0, 0);
    assert_int_equal(run_alone(w->ex[1], 0), 2);
    assert_false(sc_executor_is_row_done(w->ex[1]));
    assert_int_equal(sc_executor_current(w->ex[1], &waits_for), SC_EXECUTOR_NONE);
    assert_int_equal(waits_for, 0);
    sc_executor_on_sent(w->ex[1], 1);
    assert_true(sc_executor_is_row_done(w->ex[1]));
    assert_int_equal(sc_executor_current(w->ex[1], &waits_for), SC_EXECUTOR_NONE);
    assert_int_equal(waits_for, SC_EXECUTOR_NONE);
    sc_arena_done(&w->arena);
    free(w);
}

static void expect_refused(int n_ranks, const char *row, const char *text)
{
    sc_table *table;
    sc_err err = {.text = ""};
    sc_arena arena;
    sc_executor *ex = NULL;
    sc_arena_init(&arena, 0);
    assert_int_equal(sc_table_new("broken", n_ranks, 2, 2, &table, &err), SC_OK);
    assert_int_equal(sc_table_row_parse(table, 0, row, strlen(row), &err), SC_OK);
    assert_int_equal(sc_executor_compile_row(table, 0, SLOTS, &arena, &ex, &err), SC_INVALID);
    assert_string_equal(err.text, text);
    assert_null(ex);
    sc_arena_done(&arena);
    sc_table_free(&table);
}

static void test_broken_rows(void **state)
{
    (void)state;
    expect_refused(2, "0F0,0SEND_F0,0F0",
                   "rank 0 cell 2: 0F0 runs while its activations are still held");
    expect_refused(2, "0B0", "rank 0 cell 0: 0B0 comes before its F");
    expect_refused(2, "0F0,0SEND_F0,0W0", "rank 0 cell 2: 0W0 comes before its I");
    expect_refused(2, "0F0,0SEND_F0,0B0", "rank 0 cell 2: 0B0 has no RECV");
    expect_refused(2, "1F0", "rank 0 cell 0: 1F0 is not this rank's");
    expect_refused(2, "0F0,0RECV_B0,0B0", "rank 0 cell 0: 0F0 has no SEND, or one out of turn");
    expect_refused(2, "0F0,0SEND_F0,0SEND_F1,0RECV_B0,0B0",
                   "rank 0: stages 0 to 1: 1 messages but 2 SEND/RECV cells");
}

/* Rows that would need more slots or messages than there are microbatches. */
static void test_rows_that_repeat(void **state)
{
    (void)state;
    expect_refused(2, "0F0,0SEND_F0,0SEND_F0", "rank 0 cell 2: 0SEND_F0 is there twice");
    expect_refused(2, "0RECV_B1,0RECV_B1", "rank 0 cell 1: 0RECV_B1 is there twice");
    expect_refused(1, "0F0,1F0,1I0,1I0,1I0", "rank 0 cell 3: 1I0 is there twice");
    expect_refused(2, "0F0,0RECV_B0,0B0,0F0,0SEND_F0",
                   "rank 0 cell 3: 0F0 has no SEND, or one out of turn");
    expect_refused(2, "0F1,0F0,0SEND_F0,0SEND_F1",
                   "rank 0 cell 0: 0F1 has no SEND, or one out of turn");
    expect_refused(1, "0F0,1F0,1B0,1F0", "rank 0 cell 3: 1F0 comes before the stage it reads from");
    expect_refused(1, "0F0,0F1,1F0,1I0,1W0,0F0,1F0,1I0",
                   "rank 0 cell 5: 0F0 runs while its activations are still held");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_finish),
        cmocka_unit_test(test_split_and_local),
        cmocka_unit_test(test_names_whom_it_waits_for),
        cmocka_unit_test(test_names_who_does_not_take_the_last_message),
        cmocka_unit_test(test_broken_rows),
        cmocka_unit_test(test_rows_that_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
