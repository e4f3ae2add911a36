#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stage/batch.h"

#include <stdlib.h>
#include <string.h>

/* Every sample once an epoch, whatever the batch; places behind the last one are empty. */
static void check_epochs(uint64_t n_samples, int B, int n_mb)
{
    sc_batch_plan plan = {.seed = 7, .n_samples = n_samples, .B = B, .n_mb = n_mb, .T = 5};
    uint64_t steps = sc_batch_steps_per_epoch(&plan);
    uint64_t *ids = calloc((size_t)B, sizeof *ids);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        unsigned char *seen = calloc(n_samples, 1);
        uint64_t n_seen = 0;
        for (uint64_t s = 0; s < steps; s++) {
            int64_t n_valid = 0;
            for (int mb = 0; mb < n_mb; mb++) {
                sc_batch_samples(&plan, epoch * steps + s, mb, ids);
                for (int i = 0; i < B; i++) {
                    if (ids[i] == SC_BATCH_NO_SAMPLE) {
                        continue;
                    }
                    assert_true(ids[i] < n_samples);
                    assert_int_equal(seen[ids[i]], 0);
                    seen[ids[i]] = 1;
                    n_seen++;
                    n_valid += plan.T;
                }
            }
            assert_int_equal(sc_batch_valid_tokens(&plan, epoch * steps + s), n_valid);
        }
        assert_int_equal(n_seen, n_samples);
        free(seen);
    }
    free(ids);
}

static void test_every_sample_once(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 40; n += 3) {
        for (int B = 1; B <= 4; B++) {
            for (int n_mb = 1; n_mb <= 5; n_mb++) {
                check_epochs(n, B, n_mb);
            }
        }
    }
}

/* The same global batch for any way to cut it into microbatches. */
static void test_cut_does_not_matter(void **state)
{
    (void)state;
    sc_batch_plan a = {.seed = 3, .n_samples = 101, .B = 2, .n_mb = 6, .T = 8};
    sc_batch_plan b = {.seed = 3, .n_samples = 101, .B = 4, .n_mb = 3, .T = 8};
    for (uint64_t step = 0; step < 25; step++) {
        uint64_t ids_a[12];
        uint64_t ids_b[12];
        for (int mb = 0; mb < 6; mb++) {
            sc_batch_samples(&a, step, mb, &ids_a[2 * mb]);
        }
        for (int mb = 0; mb < 3; mb++) {
            sc_batch_samples(&b, step, mb, &ids_b[4 * mb]);
        }
        assert_memory_equal(ids_a, ids_b, sizeof ids_a);
    }
}

static void test_epochs_differ(void **state)
{
    (void)state;
    sc_batch_plan plan = {.seed = 3, .n_samples = 64, .B = 8, .n_mb = 8, .T = 8};
    uint64_t first[8];
    uint64_t second[8];
    sc_batch_samples(&plan, 0, 0, first);
    sc_batch_samples(&plan, 1, 0, second);
    assert_memory_not_equal(first, second, sizeof first);
}

static void test_digest(void **state)
{
    (void)state;
    uint64_t ids[2] = {5, 9};
    uint64_t swapped[2] = {9, 5};
    uint64_t digest = sc_batch_digest(3, 1, ids, 2);
    assert_true(digest != sc_batch_digest(3, 1, swapped, 2));
    assert_true(digest != sc_batch_digest(4, 1, ids, 2));
    assert_true(digest != sc_batch_digest(3, 2, ids, 2));
    assert_true(digest == sc_batch_digest(3, 1, ids, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sample_once),
        cmocka_unit_test(test_cut_does_not_matter),
        cmocka_unit_test(test_epochs_differ),
        cmocka_unit_test(test_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
