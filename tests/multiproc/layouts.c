#include "tests/multiproc/layouts.h"

#include "tests/multiproc/tensor_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

const sc_jobs_layout sc_layouts_all[SC_LAYOUTS_COUNT] = {
    {"gpipe", 1, {12}},        {"1f1b", 1, {12}},          {"gpipe", 2, {6, 6}},
    {"gpipe", 2, {1, 11}},     {"1f1b", 2, {6, 6}},        {"1f1b", 2, {9, 3}},
    {"gpipe", 3, {4, 4, 4}},   {"gpipe", 3, {2, 9, 1}},    {"1f1b", 3, {4, 4, 4}},
    {"1f1b", 3, {5, 1, 6}},    {"gpipe", 4, {3, 3, 3, 3}}, {"gpipe", 4, {1, 5, 2, 4}},
    {"1f1b", 4, {3, 3, 3, 3}}, {"1f1b", 4, {6, 1, 1, 4}},
};

/* All that one run leaves. */
typedef struct outcome {
    sc_jobs_result result;
    sc_tensor_files gradients;
    sc_tensor_files weights;
} outcome;

static void run(sc_jobs *jobs, const sc_jobs_layout *layout, const sc_registry *registry,
                outcome *out)
{
    sc_jobs_run(jobs, layout, &out->result);
    sc_tensor_files_load(&out->result, "gradients", registry, &out->gradients);
    sc_tensor_files_load(&out->result, "weights", registry, &out->weights);
    sc_tensor_files_expect_whole(&out->gradients, registry, out->result.text);
    sc_tensor_files_expect_whole(&out->weights, registry, out->result.text);
}

static void done(outcome *o)
{
    sc_tensor_files_free(&o->gradients);
    sc_tensor_files_free(&o->weights);
    sc_jobs_result_free(&o->result);
}

/* A run that did not clip or did not learn would prove little. */
static void expect_training(const sc_jobs_result *result)
{
    bool has_clipped = false;
    assert_true(result->n_steps > 1);
    for (int i = 0; i < result->n_steps; i++) {
        has_clipped = has_clipped || result->norms[i] > SC_JOBS_CLIP;
        assert_true(i == 0 || result->losses[i] != result->losses[i - 1]);
    }
    assert_true(has_clipped);
}

void sc_layouts_expect_same(const sc_jobs_config *config, const sc_jobs_layout *layouts, size_t n)
{
    sc_jobs jobs;
    sc_registry *registry = NULL;
    outcome first;
    assert_int_equal(sc_registry_new(&config->spec, &registry, NULL), SC_OK);
    sc_jobs_open(config, &jobs);
    run(&jobs, &layouts[0], registry, &first);
    expect_training(&first.result);
    for (size_t i = 1; i < n; i++) {
        outcome other;
        run(&jobs, &layouts[i], registry, &other);
        sc_jobs_expect_same(&first.result, &other.result);
        sc_tensor_files_expect_same(&first.gradients, &other.gradients, registry,
                                    other.result.text);
        sc_tensor_files_expect_same(&first.weights, &other.weights, registry, other.result.text);
        done(&other);
    }
    done(&first);
    sc_jobs_close(&jobs);
    sc_registry_free(&registry);
}
