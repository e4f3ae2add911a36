#include "base/rng.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum {
    N_SAMPLES = 200000
};

typedef struct known_block {
    uint32_t counter[4];
    uint32_t key[2];
    uint32_t expected[4];
} known_block;

/* philox4x32 with 10 rounds, from Random123's file of known answers (kat_vectors). */
static const known_block known_blocks[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static uint64_t join(const uint32_t words[2])
{
    return (uint64_t)words[0] | (uint64_t)words[1] << 32;
}

static void known_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known_blocks / sizeof known_blocks[0]; i++) {
        const known_block *k = &known_blocks[i];
        uint32_t out[4];
        sc_rng_block(join(k->key), join(k->counter + 2), join(k->counter), out);
        for (int w = 0; w < 4; w++) {
            assert_int_equal(out[w], k->expected[w]);
        }
    }
}

static void words_come_from_blocks(void **state)
{
    (void)state;
    for (uint64_t index = 0; index < 100; index++) {
        uint32_t block[4];
        sc_rng_block(5, 6, index / 2, block);
        assert_true(sc_rng_u64(5, 6, index) == join(block + 2 * (index % 2)));
    }
}

static void uniform_range_and_mean(void **state)
{
    (void)state;
    double sum = 0;
    double sum2 = 0;
    for (uint64_t i = 0; i < N_SAMPLES; i++) {
        double u = sc_rng_uniform(1, 2, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        sum2 += u * u;
    }
    /* five standard deviations */
    assert_true(fabs(sum / N_SAMPLES - 0.5) < 5 * sqrt(1.0 / 12 / N_SAMPLES));
    assert_true(fabs(sum2 / N_SAMPLES - 1.0 / 3) < 5 * sqrt(4.0 / 45 / N_SAMPLES));
}

static void normal_moments(void **state)
{
    (void)state;
    float *x = malloc(N_SAMPLES * sizeof *x);
    assert_non_null(x);
    sc_rng_normal(7, 11, 0, N_SAMPLES, 1.0F, x);
    double moments[5] = {0};
    double n_inside = 0;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        double power = 1;
        for (int k = 1; k < 5; k++) {
            power *= x[i];
            moments[k] += power / N_SAMPLES;
        }
        n_inside += fabsf(x[i]) < 1 ? 1 : 0;
    }
    free(x);
    /* five standard deviations of each moment's estimate: variances 1, 2, 15, 96 over n */
    assert_true(fabs(moments[1] - 0) < 5 * sqrt(1.0 / N_SAMPLES));
    assert_true(fabs(moments[2] - 1) < 5 * sqrt(2.0 / N_SAMPLES));
    assert_true(fabs(moments[3] - 0) < 5 * sqrt(15.0 / N_SAMPLES));
    assert_true(fabs(moments[4] - 3) < 5 * sqrt(96.0 / N_SAMPLES));
    assert_true(fabs(n_inside / N_SAMPLES - 0.682689492) < 5 * sqrt(0.2166 / N_SAMPLES));
}

/* Box-Muller with the C library's functions: ours must agree to the last bits of a float. */
static void normal_against_libm(void **state)
{
    (void)state;
    float x[2000];
    sc_rng_normal(3, 4, 0, 2000, 1.0F, x);
    for (uint64_t pair = 0; pair < 1000; pair++) {
        double u1 = ((double)(sc_rng_u64(3, 4, 2 * pair) >> 11) + 1) * 0x1p-53;
        double u2 = (double)(sc_rng_u64(3, 4, 2 * pair + 1) >> 11) * 0x1p-53;
        double r = sqrt(-2 * log(u1));
        double angle = 2 * acos(-1.0) * u2;
        assert_true(fabs(x[2 * pair] - r * cos(angle)) < 1e-6);
        assert_true(fabs(x[2 * pair + 1] - r * sin(angle)) < 1e-6);
    }
}

static void normal_does_not_depend_on_the_split(void **state)
{
    (void)state;
    enum {
        N = 61
    };
    float whole[N];
    sc_rng_normal(1, sc_rng_stream("h.0.attn.c_attn.weight"), 1000, N, 0.02F, whole);
    for (size_t cut = 0; cut <= N; cut++) {
        for (size_t second = cut; second <= N; second++) {
            float parts[N];
            uint64_t stream = sc_rng_stream("h.0.attn.c_attn.weight");
            sc_rng_normal(1, stream, 1000, cut, 0.02F, parts);
            sc_rng_normal(1, stream, 1000 + cut, second - cut, 0.02F, parts + cut);
            sc_rng_normal(1, stream, 1000 + second, N - second, 0.02F, parts + second);
            assert_memory_equal(parts, whole, sizeof whole);
        }
    }
}

static void seeds_and_streams_differ(void **state)
{
    (void)state;
    assert_true(sc_rng_u64(1, 1, 0) != sc_rng_u64(2, 1, 0));
    assert_true(sc_rng_u64(1, 1, 0) != sc_rng_u64(1, 2, 0));
    assert_true(sc_rng_u64(1, 1, 0) != sc_rng_u64(1, 1, 2));
    assert_true(sc_rng_stream("wte.weight") != sc_rng_stream("wpe.weight"));
    assert_true(sc_rng_stream("") != sc_rng_stream("a"));
    assert_true(sc_rng_mix(1, 2) != sc_rng_mix(2, 1));
}

static void permute_is_a_bijection(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 300; n++) {
        bool is_hit[300] = {false};
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = sc_rng_permute(9, 1, n, i);
            assert_true(at < n);
            assert_false(is_hit[at]);
            is_hit[at] = true;
        }
    }
}

static void permute_mixes(void **state)
{
    (void)state;
    /* a random permutation has one fixed point and keeps one neighbour, on average */
    uint64_t n_fixed = 0;
    uint64_t n_next = 0;
    uint64_t n_same = 0;
    const uint64_t n = 1000;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = sc_rng_permute(9, 1, n, i);
        n_fixed += at == i;
        n_next += sc_rng_permute(9, 1, n, (i + 1) % n) == at + 1;
        n_same += sc_rng_permute(9, 2, n, i) == at;
    }
    assert_true(n_fixed < 10);
    assert_true(n_next < 10);
    assert_true(n_same < 10);
}

static void permute_of_large_ranges(void **state)
{
    (void)state;
    const uint64_t sizes[] = {UINT64_C(1) << 32, (UINT64_C(1) << 40) + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t first = sc_rng_permute(1, 1, sizes[i], 0);
        uint64_t last = sc_rng_permute(1, 1, sizes[i], sizes[i] - 1);
        assert_true(first < sizes[i]);
        assert_true(last < sizes[i]);
        assert_true(first != last);
    }
}

/* Checkpoints, data order and published losses depend on these bits: a change here is a break. */
static void golden_bits(void **state)
{
    (void)state;
    assert_true(sc_rng_u64(42, 1, 12345) == UINT64_C(0x68b8485be3905b76));
    assert_true(sc_rng_stream("wte.weight") == UINT64_C(0x31c98b3a776f7b93));
    assert_true(sc_rng_mix(1, 2) == UINT64_C(0xf893a2eefb32555e));
    float x[6];
    const float expected[6] = {0x1.ae1692p-6F, 0x1.2b4ae4p-6F,  -0x1.354002p-6F,
                               0x1.43162ep-5F, -0x1.385ceep-7F, -0x1.a87084p-8F};
    sc_rng_normal(42, sc_rng_stream("wte.weight"), 1001, 6, 0.02F, x);
    assert_memory_equal(x, expected, sizeof x);
    const uint64_t order[10] = {4, 3, 0, 2, 5, 7, 6, 9, 8, 1};
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(sc_rng_permute(42, 3, 10, i), order[i]);
    }
    assert_true(sc_rng_permute(42, 3, 1000000, 999999) == 221058);
    assert_true(sc_rng_uniform(42, 1, 7) == 0x1.016cp-5F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(words_come_from_blocks),
        cmocka_unit_test(uniform_range_and_mean),
        cmocka_unit_test(normal_moments),
        cmocka_unit_test(normal_against_libm),
        cmocka_unit_test(normal_does_not_depend_on_the_split),
        cmocka_unit_test(seeds_and_streams_differ),
        cmocka_unit_test(permute_is_a_bijection),
        cmocka_unit_test(permute_mixes),
        cmocka_unit_test(permute_of_large_ranges),
        cmocka_unit_test(golden_bits),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
