/* Loop placement with several stages a rank: interleaved and looped-bfs. */
#include "schedules/validate.h"
#include "tests/schedules/made.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void expect_made(const char *name, int m, const char *const rows[static 2])
{
    sc_table *table = sc_made_new(name, &(sc_gen_params){.n_ranks = 2, .n_mb = m});
    assert_int_equal(table->n_ranks, 2);
    assert_int_equal(table->n_stages, 4);
    for (int rank = 0; rank < 2; rank++) {
        sc_rows_expect(table, rank, rows[rank]);
    }
    sc_table_free(&table);
}

/* p = 2 and the default v = 2, by hand from the rules: rank 0 warms up with 2 + 2, rank 1 with 2.
 */
static void test_golden(void **state)
{
    (void)state;
    static const char *const interleaved[] = {
        "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3",
        "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3",
    };
    static const char *const bfs[] = {
        "0F0,0F1,0F2,2F0,2F1,2F2,2B0,2B1,2B2,0B0,0B1,0B2",
        "1F0,1F1,1F2,3F0,3F1,3F2,3B0,3B1,3B2,1B0,1B1,1B2",
    };
    expect_made("interleaved", 4, interleaved);
    expect_made("looped-bfs", 3, bfs);
}

/* The forwards of a rank as text, chunk and microbatch: "00 01 10 11". */
static void expect_forwards(sc_gen_params params, const char *expected)
{
    sc_table *table = sc_made_new("interleaved", &params);
    for (int rank = 0; rank < table->n_ranks; rank++) {
        char text[128] = "";
        char *end = text;
        for (size_t k = 0; k < table->rows[rank].n_actions; k++) {
            sc_action action = table->rows[rank].actions[k];
            if (action.op == SC_OP_F) {
                assert_true(end < text + sizeof text - 4);
                *end++ = (char)('0' + action.stage / table->n_ranks);
                *end++ = (char)('0' + action.mb);
                *end++ = ' ';
            }
        }
        assert_true(end > text);
        end[-1] = '\0';
        assert_string_equal(text, expected);
    }
    sc_table_free(&table);
}

/* A group passes all chunks before the next one; the last group is what is left. */
static void test_groups(void **state)
{
    (void)state;
    expect_forwards((sc_gen_params){.n_ranks = 2, .n_mb = 4, .n_chunks = 2, .group = 2},
                    "00 01 10 11 02 03 12 13");
    expect_forwards((sc_gen_params){.n_ranks = 2, .n_mb = 5, .n_chunks = 2, .group = 3},
                    "00 01 02 10 11 12 03 04 13 14");
    expect_forwards((sc_gen_params){.n_ranks = 4, .n_mb = 3, .n_chunks = 3, .group = 0},
                    "00 01 02 10 11 12 20 21 22");
    // All of them in one group: breadth first.
    expect_forwards((sc_gen_params){.n_ranks = 2, .n_mb = 3, .n_chunks = 2, .group = 99},
                    "00 01 02 10 11 12");
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Where groups are large enough for the order that everybody uses, the peak is its warm-up and one
   more; small groups may take a few more ahead. */
static void check_interleaved(sc_gen_params params)
{
    int p = params.n_ranks;
    int m = params.n_mb;
    int v = params.n_chunks;
    int group = least(m, params.group == 0 ? p : params.group);
    bool is_plain = group == m || (group >= p && m % group == 0);
    sc_table *table = sc_made_new("interleaved", &params);
    for (int rank = 0; rank < p; rank++) {
        int peak = sc_validate_peak(table, rank, -1);
        int expected = least(m * v, 2 * (p - rank - 1) + (v - 1) * group + 1);
        if (is_plain ? peak != expected : peak > expected + 2 * p) {
            fail_msg("%s: peak of rank %d is %d, expected %d", sc_made_text("interleaved", &params),
                     rank, peak, expected);
        }
    }
    sc_table_free(&table);
}

static void check_bfs(sc_gen_params params)
{
    sc_table *table = sc_made_new("looped-bfs", &params);
    for (int rank = 0; rank < params.n_ranks; rank++) {
        assert_int_equal(sc_validate_peak(table, rank, -1), params.n_mb * params.n_chunks);
        assert_int_equal(sc_validate_peak(table, rank, rank), params.n_mb);
    }
    sc_table_free(&table);
}

static void check_size(int p, int v, int m)
{
    sc_gen_params params = {.n_ranks = p, .n_mb = m, .n_chunks = v};
    check_bfs(params);
    if (v == 1) {
        sc_made_refuse("interleaved", &params, "needs v >= 2");
        return;
    }
    const int groups[] = {0, 1, p / 2, p + 1};
    for (size_t k = 0; k < sizeof groups / sizeof groups[0]; k++) {
        params.group = groups[k];
        check_interleaved(params);
    }
}

/* Every size checks clean, deadlock included, or is refused; peaks. */
static void test_all_sizes(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        for (int size = 0; size < 4 * (4 * p + 1); size++) {
            check_size(p, size % 4 + 1, size / 4 + 1);
        }
    }
}

/* The bubble of both without comm is (p - 1)(F + B) / v where p divides m, whatever the times. */
static void check_bubble(sc_gen_params params, sc_stage_cost cost)
{
    static const char *const names[] = {"interleaved", "looped-bfs"};
    double work = cost.f + cost.i + cost.w;
    for (size_t k = 0; k < 2; k++) {
        sc_table *table = sc_made_new(names[k], &params);
        sc_timeline *t = sc_made_simulate(table, cost.f, cost.i, cost.w, 0);
        double bubble = (params.n_ranks - 1) * work / params.n_chunks;
        sc_made_near(t->cost, params.n_mb * work + bubble, "cost", names[k]);
        sc_made_near(t->makespan, t->cost, "makespan", names[k]);
        sc_simulate_free(&t);
        sc_table_free(&table);
        assert_true(sc_made_closed(names[k], &params, cost));
    }
}

static const sc_stage_cost COSTS[] = {{1, 1, 1}, {18.522, 18.086, 9.337}, {2, 3, 0}, {1, 0, 5}};

static void test_bubble(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        for (int size = 0; size < 12; size++) {
            sc_gen_params params = {
                .n_ranks = p, .n_mb = p * (size % 4 + 1), .n_chunks = size / 4 + 2};
            check_bubble(params, COSTS[size % 4]);
        }
    }
}

/* The closed bubble equals simulation wherever it is a number: looped-bfs always, interleaved with
   one group or groups of p and more that divide m. */
static void check_closed(sc_gen_params params, sc_stage_cost cost)
{
    int p = params.n_ranks;
    int group = params.group == 0 ? p : params.group;
    bool is_known = p == 1 || params.n_mb <= group || (group >= p && params.n_mb % group == 0);
    assert_int_equal(sc_made_closed("interleaved", &params, cost), is_known);
    assert_true(sc_made_closed("looped-bfs", &params, cost));
}

static void test_closed_bubble(void **state)
{
    (void)state;
    for (int p = 1; p <= 6; p++) {
        for (int size = 0; size < 3 * (3 * p + 1); size++) {
            sc_gen_params params = {
                .n_ranks = p, .n_mb = size / 3 + 1, .n_chunks = size % 3 + 2, .group = 0};
            check_closed(params, COSTS[size % 4]);
            params.group = p + 1;
            check_closed(params, COSTS[size / 2 % 4]);
        }
    }
    sc_gen_params defaults = {.n_ranks = 4, .n_mb = 8};
    assert_true(sc_made_closed("interleaved", &defaults, COSTS[1]));
    assert_true(sc_made_closed("looped-bfs", &defaults, COSTS[1]));
}

static void test_refused(void **state)
{
    (void)state;
    sc_gen_params params = {.n_ranks = 2, .n_mb = 2, .n_chunks = 2, .group = -1};
    sc_made_refuse("interleaved", &params, "group of -1 microbatches");
    params = (sc_gen_params){.n_ranks = 4096, .n_mb = 2};
    sc_table *table = NULL;
    sc_err err = {0};
    assert_int_equal(sc_gen_make("looped-bfs", &params, &table, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "1 to 4096 stages"));
    assert_int_equal(sc_gen_make("interleaved", &params, &table, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "1 to 4096 stages"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),    cmocka_unit_test(test_groups),
        cmocka_unit_test(test_all_sizes), cmocka_unit_test(test_bubble),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_closed_bubble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
