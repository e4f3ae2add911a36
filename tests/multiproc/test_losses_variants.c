/* The same bits in every layout for jobs that differ from the usual: ragged batches, two threads a
   worker, a head of its own, a split by cost. */
#include "tests/multiproc/layouts.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* One process, and each number of ranks under one schedule or the other. */
static const sc_jobs_layout some[] = {{"gpipe", 1, {12}},
                                      {"1f1b", 2, {4, 8}},
                                      {"gpipe", 2, {6, 6}},
                                      {"gpipe", 3, {1, 10, 1}},
                                      {"1f1b", 4, {2, 3, 6, 1}}};

enum {
    N_SOME = sizeof some / sizeof some[0]
};

static sc_jobs_config ten_steps(int m)
{
    sc_jobs_config config = sc_jobs_small(m);
    config.optimizer = SC_JOBS_ADAMW;
    config.steps = 10;
    return config;
}

/* 23 samples in batches of 6: the fourth and eighth lack one, and the samples come in three orders.
   In batches of 10, the third lacks three whole microbatches. */
static void ragged_last_batch(void **state)
{
    (void)state;
    sc_jobs_config config = ten_steps(3);
    config.n_samples = 23;
    sc_layouts_expect_same(&config, some, N_SOME);
    config.m = 5;
    sc_layouts_expect_same(&config, some, N_SOME);
}

static void two_threads(void **state)
{
    (void)state;
    sc_jobs_config config = ten_steps(3);
    config.threads = 2;
    sc_layouts_expect_same(&config, some, N_SOME);
}

static void untied_head(void **state)
{
    (void)state;
    sc_jobs_config config = ten_steps(4);
    config.spec.tie_word_embeddings = false;
    sc_layouts_expect_same(&config, some, N_SOME);
}

static void split_by_cost(void **state)
{
    static const sc_jobs_layout layouts[] = {
        {"gpipe", 1, {0}}, {"gpipe", 2, {0}}, {"1f1b", 3, {0}}, {"1f1b", 4, {0}}};
    (void)state;
    sc_jobs_config config = ten_steps(2);
    config.B = 1;
    config.T = 16;
    sc_layouts_expect_same(&config, layouts, sizeof layouts / sizeof layouts[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ragged_last_batch),
        cmocka_unit_test(two_threads),
        cmocka_unit_test(untied_head),
        cmocka_unit_test(split_by_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
