/*
 * partition: the largest stage is as small as brute force finds it, for all small sizes.
 */
#include "coordinator/partition.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum {
    N_MAX = 9
};

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
        assert_int_equal(sc_partition_make(&spec, n_stages, NULL, 2, 32, ranges, NULL), SC_OK);
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
    assert_int_equal(sc_partition_make(&spec, 2, NULL, 2, 32, ranges, NULL), SC_OK);
    assert_int_equal(ranges[0].block_end, 4);
    assert_int_equal(ranges[1].block_end, 6);
}

static void test_layers_by_hand_are_taken_as_they_are(void **state)
{
    (void)state;
    sc_model_spec spec = small_spec(64);
    const int by_hand[] = {1, 4, 1};
    sc_stage_range ranges[3];
    assert_int_equal(sc_partition_make(&spec, 3, by_hand, 2, 32, ranges, NULL), SC_OK);
    assert_int_equal(ranges[1].block_begin, 1);
    assert_int_equal(ranges[1].block_end, 5);
}

static void test_more_stages_than_layers_is_refused(void **state)
{
    (void)state;
    sc_model_spec spec = small_spec(64);
    sc_stage_range ranges[7];
    sc_err err = {0};
    assert_int_equal(sc_partition_make(&spec, 7, NULL, 2, 32, ranges, &err), SC_INVALID);
    assert_string_equal(err.text, "7 stages are more than the model's 6 layers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_is_as_good_as_brute_force),
        cmocka_unit_test(test_equal_costs_split_evenly),
        cmocka_unit_test(test_ends_are_where_they_belong),
        cmocka_unit_test(test_a_heavy_head_gets_fewer_blocks),
        cmocka_unit_test(test_layers_by_hand_are_taken_as_they_are),
        cmocka_unit_test(test_more_stages_than_layers_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
