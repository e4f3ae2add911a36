/* Loss, norm and every gradient of a step over processes equal one process's. The argument is the
   schedule. */
#include "tests/multiproc/tensor_files.h"
#include "tests/multiproc/whole_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Relative, of every number and tensor. */
#define TOLERANCE 1e-6

static const char *schedule;
static double worst; // largest error of a tensor so far
static char worst_text[256];

/* ||a - b|| / ||b|| over a tensor. Single elements of a gradient are sums that may cancel to nearly
   nothing, so their own relative error says how lucky the terms are, not how right the sum is; the
   tensor's norm is what an update and the gradient norm are made of. */
static double distance(const float *a, const double *b, size_t n)
{
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += b[i] * b[i];
    }
    assert_true(size > 0); // nothing to compare otherwise
    return sqrt(difference / size);
}

static void expect_close(double value, double expected, const char *what, const char *run)
{
    if (!(fabs(value - expected) <= TOLERANCE * fabs(expected))) {
        fail_msg("[%s] %s is %.17g, one process has %.17g", run, what, value, expected);
    }
}

/* On every rank that has it. */
static void expect_gradient(const sc_tensor_files *files, const sc_param *param,
                            const double *expected, const char *run)
{
    for (int r = 0; r < files->n_ranks; r++) {
        const float *grad = sc_tensor_files_find(files, r, param);
        double d = grad == NULL ? 0 : distance(grad, expected, param->n_elems);
        if (!(d <= TOLERANCE)) {
            fail_msg("[%s] gradient of %s on rank %d is off by %.3g", run, param->name, r, d);
        }
        if (d > worst) {
            worst = d;
            snprintf(worst_text, sizeof worst_text, "%s of [%s]", param->name, run);
        }
    }
}

static void expect_gradients(const sc_whole_model *whole, const sc_jobs_result *result)
{
    sc_tensor_files files;
    sc_tensor_files_load(result, "gradients", whole->registry, &files);
    sc_tensor_files_expect_whole(&files, whole->registry, result->text);
    for (int i = 0; i < whole->registry->n_params; i++) {
        expect_gradient(&files, &whole->registry->params[i], whole->grads[i], result->text);
    }
    sc_tensor_files_free(&files);
}

static void compare(sc_jobs *jobs, const sc_whole_model *whole, const sc_jobs_layout *layout)
{
    sc_jobs_result result;
    sc_jobs_run(jobs, layout, &result);
    expect_close(result.losses[0], whole->loss, "loss", result.text);
    expect_close(result.norms[0], whole->norm, "gradient norm", result.text);
    expect_gradients(whole, &result);
    sc_jobs_result_free(&result);
}

static void every_m_and_split(void **state)
{
    static const int splits[][SC_JOBS_RANKS_MAX] = {{12},      {6, 6},       {2, 10},     {4, 4, 4},
                                                    {5, 1, 6}, {3, 3, 3, 3}, {1, 5, 2, 4}};
    static const int first[] = {0, 0, 1, 3, 5, 7}; // of p in splits
    int p = *(const int *)*state;
    for (int m = 1; m <= 2 * p + 1; m++) {
        const sc_jobs_config config = sc_jobs_small(m);
        sc_jobs jobs;
        sc_whole_model whole;
        sc_jobs_open(&config, &jobs);
        sc_whole_model_step(&jobs, 0, &whole);
        for (int i = first[p]; i < first[p + 1]; i++) {
            sc_jobs_layout layout = {.schedule = schedule, .p = p};
            memcpy(layout.blocks, splits[i], sizeof layout.blocks);
            compare(&jobs, &whole, &layout);
        }
        sc_whole_model_free(&whole);
        sc_jobs_close(&jobs);
    }
    print_message("largest error of a gradient so far: %.3g, %s\n", worst, worst_text);
}

/* 23 samples in batches of 6: the fourth and eighth have 5, over two orders of the samples; a batch
   of 10 leaves whole microbatches empty in the third. */
static void ragged_batches(void **state)
{
    static const int ms[] = {3, 5};
    const sc_jobs_layout layouts[] = {{schedule, 1, {12}}, {schedule, 3, {5, 1, 6}}};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        sc_jobs_config config = sc_jobs_small(ms[i / 2]);
        sc_jobs jobs;
        sc_jobs_result result;
        int64_t fewest = INT64_MAX;
        config.n_samples = 23;
        config.optimizer = SC_JOBS_STILL;
        config.steps = 8;
        sc_jobs_open(&config, &jobs);
        sc_jobs_run(&jobs, &layouts[i % 2], &result);
        for (int step = 0; step < config.steps; step++) {
            sc_whole_model whole;
            sc_whole_model_step(&jobs, (uint64_t)step, &whole);
            expect_close(result.losses[step], whole.loss, "loss", result.text);
            expect_close(result.norms[step], whole.norm, "gradient norm", result.text);
            fewest = whole.n_valid < fewest ? whole.n_valid : fewest;
            sc_whole_model_free(&whole);
        }
        assert_int_equal(fewest, (i / 2 == 0 ? 5 : 3) * config.T); // there was a ragged one
        sc_jobs_result_free(&result);
        sc_jobs_close(&jobs);
    }
}

int main(int argc, char **argv)
{
    static int ps[] = {1, 2, 3, 4};
    const struct CMUnitTest tests[] = {
        {"p = 1", every_m_and_split, NULL, NULL, &ps[0]},
        {"p = 2", every_m_and_split, NULL, NULL, &ps[1]},
        {"p = 3", every_m_and_split, NULL, NULL, &ps[2]},
        {"p = 4", every_m_and_split, NULL, NULL, &ps[3]},
        cmocka_unit_test(ragged_batches),
    };
    if (argc != 2) {
        fprintf(stderr, "%s SCHEDULE\n", argv[0]);
        return 2;
    }
    schedule = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
