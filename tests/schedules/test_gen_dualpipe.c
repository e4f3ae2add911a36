#include "schedules/validate.h"
#include "tests/schedules/gens.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

/* The published order of 4 ranks and 10 microbatches, with overlapped pairs as their halves. */
static void test_v_order(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,0F7,7B3,7F4,0B0,"
        "0F8,7B4,7F5,0B1,0F9,7B5,7F6,0B2,7B6,7F7,0B3,7B7,7F8,0B4,7B8,7F9,0B5,7B9,0I6,0W6,0I7,"
        "0W7,0I8,0W8,0I9,0W9",
        "1F0,1F1,1F2,1F3,1F4,6F0,1F5,6F1,6I0,6W0,6F2,6I1,6W1,6F3,1F6,6B2,6F4,1B0,1F7,6B3,6F5,"
        "1B1,1F8,6B4,6F6,1B2,1F9,6B5,6F7,1B3,6B6,6F8,1B4,6B7,6F9,1B5,6B8,1B6,6I9,1I7,6W9,1I8,"
        "1W7,1I9,1W8,1W9",
        "2F0,2F1,2F2,5F0,2F3,5F1,2F4,5F2,5I0,5W0,5F3,2F5,5B1,5F4,2B0,2F6,5B2,5F5,2B1,2F7,5B3,"
        "5F6,2B2,2F8,5B4,5F7,2B3,2F9,5B5,5F8,2B4,5B6,5F9,2B5,5B7,2B6,5B8,2I7,5I9,2I8,2W7,2I9,"
        "5W9,2W8,2W9",
        "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,3F4,4B0,4F4,3B0,3F5,4B1,4F5,3B1,3F6,4B2,4F6,3B2,3F7,"
        "4B3,4F7,3B3,3F8,4B4,4F8,3B4,3F9,4B5,4F9,3B5,4B6,3B6,4B7,3B7,4I8,3I8,4I9,3I9,4W8,3W8,"
        "4W9,3W9",
    };
    sc_table *table = sc_gens_make("dualpipe-v", 4, 0, 10);
    sc_gens_expect_rows(table, rows, 4);
    sc_table_free(&table);
}

/* A simulation in which a forward and the backward behind it are one block: both begin when both
   have their inputs, and both outputs are there at its end. That is how the published bubbles count
   an overlapped pair, F&B, here with F&B = F + B. */
typedef struct sc_blocks {
    const sc_table *table;
    double times[SC_OP_COUNT];
    double *f_end; // (n_stages * n_mb) NAN until known
    double *b_end; // of B or I
    size_t *at;    // (n_ranks)
    double *free_at;
} sc_blocks;

static double *end_of(const sc_blocks *blocks, sc_op op, int stage, int mb)
{
    double *ends = op == SC_OP_F ? blocks->f_end : blocks->b_end;
    return &ends[stage * blocks->table->n_mb + mb];
}

/* When the inputs of an action are there; NAN when that is not known yet. */
static double ready(const sc_blocks *blocks, sc_action action)
{
    int next = action.stage + (action.op == SC_OP_F ? -1 : 1);
    bool is_first = next < 0 || next == blocks->table->n_stages;
    if (action.op == SC_OP_W) {
        return 0; // stands behind its I in the row
    }
    return is_first ? 0 : *end_of(blocks, action.op, next, action.mb);
}

/* Number of actions in the block at which the rank stands. On the ranks where the directions meet,
   the first pair is no block. */
static int block_size(const sc_blocks *blocks, int rank)
{
    const sc_table *table = blocks->table;
    const sc_row *row = &table->rows[rank];
    size_t i = blocks->at[rank];
    bool is_pair = i + 1 < row->n_actions && row->actions[i].op == SC_OP_F &&
                   row->actions[i + 1].op == SC_OP_B;
    bool is_middle = table->n_stages == table->n_ranks
                         ? rank == table->n_ranks / 2 - 1 || rank == table->n_ranks / 2
                         : rank == table->n_ranks - 1;
    for (size_t k = 0; is_pair && is_middle && k < i; k++) {
        is_middle = row->actions[k].op != SC_OP_B;
    }
    return is_pair && !is_middle ? 2 : 1;
}

/* Runs the rank's next block; false when it has to wait, or is at the end. */
static bool run_block(sc_blocks *blocks, int rank)
{
    const sc_row *row = &blocks->table->rows[rank];
    if (blocks->at[rank] == row->n_actions) {
        return false;
    }
    const sc_action *actions = &row->actions[blocks->at[rank]];
    int n = block_size(blocks, rank);
    double end = blocks->free_at[rank];
    double took = 0;
    for (int k = 0; k < n; k++) {
        double from = ready(blocks, actions[k]);
        if (isnan(from)) {
            return false;
        }
        end = fmax(end, from);
        took += blocks->times[actions[k].op];
    }
    end += took;
    for (int k = 0; k < n; k++) {
        if (actions[k].op != SC_OP_W) {
            *end_of(blocks, actions[k].op, actions[k].stage, actions[k].mb) = end;
        }
    }
    blocks->free_at[rank] = end;
    blocks->at[rank] += (size_t)n;
    return true;
}

static double block_makespan(const sc_table *table, double f, double i, double w)
{
    size_t n_pairs = (size_t)table->n_stages * (size_t)table->n_mb;
    sc_blocks blocks = {.table = table, .times = {f, i + w, i, w}};
    blocks.f_end = malloc(n_pairs * sizeof(double));
    blocks.b_end = malloc(n_pairs * sizeof(double));
    blocks.at = calloc((size_t)table->n_ranks, sizeof(size_t));
    blocks.free_at = calloc((size_t)table->n_ranks, sizeof(double));
    assert_non_null(blocks.f_end);
    assert_non_null(blocks.b_end);
    assert_non_null(blocks.at);
    assert_non_null(blocks.free_at);
    for (size_t k = 0; k < n_pairs; k++) {
        blocks.f_end[k] = NAN;
        blocks.b_end[k] = NAN;
    }
    for (bool is_moving = true; is_moving;) {
        is_moving = false;
        for (int rank = 0; rank < table->n_ranks; rank++) {
            is_moving = run_block(&blocks, rank) || is_moving;
        }
    }
    double makespan = 0;
    for (int rank = 0; rank < table->n_ranks; rank++) {
        assert_int_equal(blocks.at[rank], table->rows[rank].n_actions);
        makespan = fmax(makespan, blocks.free_at[rank]);
    }
    free(blocks.f_end);
    free(blocks.b_end);
    free(blocks.at);
    free(blocks.free_at);
    return makespan;
}

/* Published: (S / 2 - 1)(F&B + B - 3W) for S stages, where F = I. */
static void test_published_bubbles(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int p;
        int m;
        double f; // of one stage, as are i and w
        double i;
        double w;
        double bubble;
    } cases[] = {
        {"dualpipe", 8, 16, 1, 1, 1, 6},    {"dualpipe", 8, 20, 1, 1, 1, 6},
        {"dualpipe", 8, 20, 2, 2, 2, 12},   {"dualpipe", 8, 20, 2, 2, 1, 15},
        {"dualpipe", 16, 40, 1, 1, 1, 14},  {"dualpipe", 16, 40, 2, 2, 1, 35},
        {"dualpipe-v", 4, 8, 1, 1, 1, 6},   {"dualpipe-v", 4, 10, 1, 1, 1, 6},
        {"dualpipe-v", 4, 10, 2, 2, 2, 12}, {"dualpipe-v", 4, 10, 2, 2, 1, 15},
        {"dualpipe-v", 8, 20, 1, 1, 1, 14}, {"dualpipe-v", 8, 20, 2, 2, 1, 35},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        int p = cases[c].p;
        sc_table *table = sc_gens_make(cases[c].name, p, 0, cases[c].m);
        double work = cases[c].f + cases[c].i + cases[c].w;
        int n_each = table->n_stages / p * cases[c].m; // actions of a kind on a rank
        double makespan = block_makespan(table, cases[c].f, cases[c].i, cases[c].w);
        assert_true(makespan == n_each * work + cases[c].bubble);
        for (int rank = 0; rank < p; rank++) {
            assert_int_equal(sc_validate_peak(table, rank, -1), table->n_stages + 1);
        }
        sc_table_free(&table);
    }
}

/* Published for 8 stages: 66, 132 and 115; and where I takes longer than F, bubbles of 19 and 24
   though the formula says 21 and 27. */
static void test_published_makespans(void **state)
{
    (void)state;
    const char *const names[] = {"dualpipe", "dualpipe-v"};
    for (int k = 0; k < 2; k++) {
        sc_table *table = sc_gens_make(names[k], 8 / (k + 1), 0, 20 / (k + 1));
        assert_true(block_makespan(table, 1, 1, 1) == 66);
        assert_true(block_makespan(table, 2, 2, 2) == 132);
        assert_true(block_makespan(table, 2, 2, 1) == 115);
        assert_true(block_makespan(table, 2, 3, 1) == 20 * 6 + 19);
        assert_true(block_makespan(table, 3, 4, 2) == 20 * 9 + 24);
        sc_table_free(&table);
    }
}

/* A pair's halves one after the other pass their outputs on earlier. */
static void test_closed_bubble(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        for (int m = 2 * p; m <= 4 * p + 1; m++) {
            sc_gens_expect_closed("dualpipe-v", p, m, 2, 2, 2);
            sc_gens_expect_closed("dualpipe-v", p, m, 2, 2, 1);
            if (p % 2 == 0 && m % 2 == 0) {
                sc_gens_expect_closed("dualpipe", p, m, 2, 2, 2);
                sc_gens_expect_closed("dualpipe", p, m, 2, 2, 1);
            }
        }
        sc_gens_expect_open("dualpipe-v", p, 2 * p - 1, 2, 2, 1);
        sc_gens_expect_open("dualpipe-v", p, 2 * p, 2, 3, 1);
        sc_gens_expect_open("dualpipe", p, 2 * p + 1, 2, 2, 1);
        sc_gens_expect_open("dualpipe", p, 2 * p, 2, 2, 3);
    }
}

/* Microbatch 0 begins on rank 0, microbatch 1 on the last one. */
static void test_directions(void **state)
{
    (void)state;
    sc_table *table = sc_gens_make("dualpipe", 4, 0, 8);
    for (int stage = 0; stage < 4; stage++) {
        assert_int_equal(sc_table_rank(table, stage, 0), stage);
        assert_int_equal(sc_table_rank(table, stage, 1), 3 - stage);
    }
    sc_action first = table->rows[0].actions[0];
    assert_true(sc_action_equals(first, (sc_action){SC_OP_F, 0, 0}));
    first = table->rows[3].actions[0];
    assert_true(sc_action_equals(first, (sc_action){SC_OP_F, 0, 1}));
    sc_table_free(&table);
}

static void test_all_sizes(void **state)
{
    (void)state;
    sc_gens_check_grid("dualpipe-v", 2);
    sc_gens_check_even_grid("dualpipe", 0);
}

static void test_refused(void **state)
{
    (void)state;
    assert_true(sc_gen_find("dualpipe")->is_replicated);
    assert_false(sc_gen_find("dualpipe-v")->is_replicated);
    sc_gens_expect_refused("dualpipe-v", 2, 1, 4, "dualpipe-v: two stages a rank, not v = 1");
    sc_gens_expect_refused("dualpipe", 3, 0, 4, "dualpipe: p must be even, not 3");
    sc_gens_expect_refused("dualpipe", 2, 2, 4, "a rank only, not v = 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v_order),
        cmocka_unit_test(test_published_bubbles),
        cmocka_unit_test(test_published_makespans),
        cmocka_unit_test(test_closed_bubble),
        cmocka_unit_test(test_directions),
        cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
