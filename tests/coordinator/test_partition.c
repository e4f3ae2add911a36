/*
 * partition: the largest stage is as small as brute force finds it, for all small sizes.
 */
#include "coordinator/partition.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_MAX = 9,
    RANKS_MAX = 4,
    STAGES_MAX = 8,
    ITEMS_MAX = 12
};

static const sc_cost_layout LAYOUT = {.B = 2, .T = 32};

static double largest_run(const double *costs, const int *counts, int n_stages)
{
    double largest = 0;
    int at = 0;
    for (int s = 0; s < n_stages; s++) {
        double sum = 0;
        for (int i = 0; i < counts[s]; i++) {
            sum += costs[at++];
        }
        largest = sum > largest ? sum : largest;
    }
    return largest;
}

/* Tries every first run and recurses over what is left: n is small. */
static double brute_force(const double *costs, int n, int n_stages) // NOLINT(misc-no-recursion)
{
    double sum = 0;
    double best = -1;
    if (n_stages == 1) {
        const int whole[] = {n};
        return largest_run(costs, whole, 1);
    }
    for (int first = 1; first <= n - (n_stages - 1); first++) {
        sum += costs[first - 1];
        double rest = brute_force(costs + first, n - first, n_stages - 1);
        double here = sum > rest ? sum : rest;
        best = best < 0 || here < best ? here : best;
    }
    return best;
}

static void check_split(const double *costs, int n, int n_stages)
{
    int counts[N_MAX] = {0};
    int total = 0;
    assert_int_equal(sc_partition_split(costs, n, n_stages, counts, NULL), SC_OK);
    for (int s = 0; s < n_stages; s++) {
        assert_true(counts[s] >= 1);
        total += counts[s];
    }
    assert_int_equal(total, n);
    assert_true(largest_run(costs, counts, n_stages) == brute_force(costs, n, n_stages));
}

static void test_split_is_as_good_as_brute_force(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 20; round++) {
        double costs[N_MAX] = {0};
        for (int i = 0; i < N_MAX; i++) {
            // Small whole numbers: sums are exact, ties and zeros are common.
            costs[i] = (double)(sc_rng_u64(1, round, (uint64_t)i) % 8);
        }
        for (int size = 0; size < N_MAX * N_MAX; size++) {
            int n = size / N_MAX + 1;
            int n_stages = size % N_MAX + 1;
            if (n_stages <= n) {
                check_split(costs, n, n_stages);
            }
        }
    }
}

static void test_equal_costs_split_evenly(void **state)
{
    (void)state;
    const double costs[N_MAX] = {3, 3, 3, 3, 3, 3, 3, 3, 3};
    int counts[4];
    assert_int_equal(sc_partition_split(costs, 7, 3, counts, NULL), SC_OK);
    assert_int_equal(counts[0], 2);
    assert_int_equal(counts[1], 2);
    assert_int_equal(counts[2], 3);
    assert_int_equal(sc_partition_split(costs, 9, 4, counts, NULL), SC_OK);
    assert_int_equal(counts[0] + counts[1] + counts[2] + counts[3], 9);
    for (int s = 0; s < 4; s++) {
        assert_in_range(counts[s], 2, 3);
    }
}

static sc_model_spec small_spec(int vocab_size)
{
    sc_model_spec spec;
    sc_spec_defaults(&spec);
    spec.n_layer = 6;
    spec.n_head = 4;
    spec.n_embd = 64;
    spec.n_inner = 0;
    spec.vocab_size = vocab_size;
    spec.n_positions = 32;
    assert_int_equal(sc_spec_check(&spec, NULL), SC_OK);
    return spec;
}

static void test_ends_are_where_they_belong(void **state)
{
    (void)state;
    sc_model_spec spec = small_spec(64);
    for (int n_stages = 1; n_stages <= 6; n_stages++) {
        sc_stage_range ranges[6];
        assert_int_equal(sc_partition_make(&spec, n_stages, NULL, NULL, &LAYOUT, ranges, NULL),
                         SC_OK);
        int at = 0;
        for (int s = 0; s < n_stages; s++) {
            assert_int_equal(ranges[s].block_begin, at);
            assert_true(ranges[s].block_end > at);
            assert_int_equal(ranges[s].has_embed, s == 0);
            assert_int_equal(ranges[s].has_head, s == n_stages - 1);
            at = ranges[s].block_end;
        }
        assert_int_equal(at, 6);
    }
}

static void test_a_heavy_head_gets_fewer_blocks(void **state)
{
    (void)state;
    // The head's product 2 N C V equals that of 2 blocks of 2 N C 12 C (and attention).
    sc_model_spec spec = small_spec(2 * 12 * 64);
    sc_stage_range ranges[2];
    assert_int_equal(sc_partition_make(&spec, 2, NULL, NULL, &LAYOUT, ranges, NULL), SC_OK);
    assert_int_equal(ranges[0].block_end, 4);
    assert_int_equal(ranges[1].block_end, 6);
}

static double most_of(const double *costs, int n_stages, const int *rank_of_stage,
                      const int *counts)
{
    double ranks[RANKS_MAX] = {0};
    double most = 0;
    int at = 0;
    for (int s = 0; s < n_stages; s++) {
        assert_true(counts[s] >= 1);
        for (int i = 0; i < counts[s]; i++) {
            ranks[rank_of_stage[s]] += costs[at++];
        }
    }
    for (int r = 0; r < RANKS_MAX; r++) {
        most = ranks[r] > most ? ranks[r] : most;
    }
    return most;
}

/* The least that the most expensive rank can cost, by trying every way to give out `left` items
   from stage s on. */
static double best_rank(const double *costs, int n_stages, const int *rank_of_stage,
                        const int *given, int s, int left)
{
    int counts[STAGES_MAX];
    memcpy(counts, given, sizeof counts);
    if (s == n_stages - 1) {
        counts[s] = left;
        return most_of(costs, n_stages, rank_of_stage, counts);
    }
    double best = INFINITY;
    for (counts[s] = 1; counts[s] <= left - (n_stages - 1 - s); counts[s]++) {
        double most = best_rank(costs, n_stages, rank_of_stage, counts, s + 1, left - counts[s]);
        best = most < best ? most : best;
    }
    return best;
}

/* Every number of items up to ITEMS_MAX; the ends cost more by `first` and `last`. */
static void expect_shared(const int *rank_of_stage, int n_stages, double first, double last)
{
    for (int n = n_stages; n <= ITEMS_MAX; n++) {
        double costs[ITEMS_MAX];
        int counts[STAGES_MAX] = {0};
        const int none[STAGES_MAX] = {0};
        for (int i = 0; i < n; i++) {
            costs[i] = 2 + (i == 0 ? first : 0) + (i == n - 1 ? last : 0);
        }
        assert_int_equal(sc_partition_share(costs, n, n_stages, rank_of_stage, counts, NULL),
                         SC_OK);
        assert_true(most_of(costs, n_stages, rank_of_stage, counts) ==
                    best_rank(costs, n_stages, rank_of_stage, none, 0, n));
    }
}

static void test_ranks_of_several_stages_share_evenly(void **state)
{
    (void)state;
    static const double ENDS[][2] = {{0, 0}, {3, 0}, {0, 2.5}, {1, 7}};
    static const int V2[] = {0, 1, 1, 0};
    static const int LOOP2[] = {0, 1, 0, 1};
    static const int V3[] = {0, 1, 2, 2, 1, 0};
    static const int LOOP3[] = {0, 1, 0, 1, 0, 1};
    static const int UNEVEN[] = {0, 1, 2, 2, 0};
    for (size_t e = 0; e < sizeof ENDS / sizeof ENDS[0]; e++) {
        expect_shared(V2, 4, ENDS[e][0], ENDS[e][1]);
        expect_shared(LOOP2, 4, ENDS[e][0], ENDS[e][1]);
        expect_shared(V3, 6, ENDS[e][0], ENDS[e][1]);
        expect_shared(LOOP3, 6, ENDS[e][0], ENDS[e][1]);
        expect_shared(UNEVEN, 5, ENDS[e][0], ENDS[e][1]);
    }
}

static void test_a_v_of_six_blocks_is_even(void **state)
{
    (void)state;
    sc_model_spec spec = small_spec(64);
    const int ranks[] = {0, 1, 1, 0};
    sc_stage_range ranges[4];
    assert_int_equal(sc_partition_make(&spec, 4, ranks, NULL, &LAYOUT, ranges, NULL), SC_OK);
    int n_first = ranges[0].block_end + ranges[3].block_end - ranges[3].block_begin;
    assert_int_equal(n_first, 3);
}

static void test_layers_by_hand_are_taken_as_they_are(void **state)
{
    (void)state;
    sc_model_spec spec = small_spec(64);
    const int by_hand[] = {1, 4, 1};
    sc_stage_range ranges[3];
    assert_int_equal(sc_partition_make(&spec, 3, NULL, by_hand, &LAYOUT, ranges, NULL), SC_OK);
    assert_int_equal(ranges[1].block_begin, 1);
    assert_int_equal(ranges[1].block_end, 5);
}

static void test_more_stages_than_layers_is_refused(void **state)
{
    (void)state;
    sc_model_spec spec = small_spec(64);
    sc_stage_range ranges[7];
    sc_err err = {0};
    assert_int_equal(sc_partition_make(&spec, 7, NULL, NULL, &LAYOUT, ranges, &err), SC_INVALID);
    assert_string_equal(err.text, "7 stages are more than the model's 6 layers");
}

/* Blocks that run their forward twice weigh more: their stage gets fewer. */
static void test_recomputed_blocks_weigh_more(void **state)
{
    (void)state;
    static const int first[] = {0, 1, 2, 3, 4, 5};
    sc_model_spec spec = {.n_layer = 12, .n_head = 4, .n_embd = 64, .vocab_size = 1};
    spec.n_positions = 32;
    spec.layer_norm_epsilon = 1e-5;
    sc_stage_range ranges[2];
    sc_cost_layout layout = LAYOUT;
    assert_int_equal(sc_spec_check(&spec, NULL), SC_OK);
    assert_int_equal(sc_partition_make(&spec, 2, NULL, NULL, &layout, ranges, NULL), SC_OK);
    assert_int_equal(ranges[0].block_end, 6);
    layout.recompute = (sc_recompute){.kind = SC_RECOMPUTE_BLOCKS, .blocks = first, .n_blocks = 6};
    assert_int_equal(sc_partition_make(&spec, 2, NULL, NULL, &layout, ranges, NULL), SC_OK);
    assert_int_equal(ranges[0].block_end, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recomputed_blocks_weigh_more),
        cmocka_unit_test(test_split_is_as_good_as_brute_force),
        cmocka_unit_test(test_equal_costs_split_evenly),
        cmocka_unit_test(test_ends_are_where_they_belong),
        cmocka_unit_test(test_a_heavy_head_gets_fewer_blocks),
        cmocka_unit_test(test_ranks_of_several_stages_share_evenly),
        cmocka_unit_test(test_a_v_of_six_blocks_is_even),
        cmocka_unit_test(test_layers_by_hand_are_taken_as_they_are),
        cmocka_unit_test(test_more_stages_than_layers_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
