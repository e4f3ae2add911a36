#include "tests/multiproc/whole_model.h"

#include "kernels/backends.h"
#include "stage/batch.h"
#include "stage/slice.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void *allocate(size_t n, size_t bytes)
{
    void *memory = calloc(n, bytes);
    assert_non_null(memory);
    return memory;
}

static void expect_ok(sc_status status, const sc_err *err)
{
    if (status != SC_OK) {
        fail_msg("%s", err->text);
    }
}

static sc_slice *open_slice(const sc_jobs *jobs, const sc_registry *registry, sc_backend *backend,
                            const atomic_bool *is_aborted)
{
    const sc_slice_config config = {
        .n_stages = 1,
        .n_mb = 1,
        .range = {.block_end = jobs->config.spec.n_layer, .has_embed = true, .has_head = true},
        .spec = &jobs->config.spec,
        .registry = registry,
        .backend = backend,
        .B = jobs->config.B * jobs->config.m,
        .T = jobs->config.T,
        .seed = jobs->config.seed,
        .n_act_slots = 1,
        .is_aborted = is_aborted,
    };
    sc_slice *slice = NULL;
    sc_err err = {0};
    expect_ok(sc_slice_layers_open(&config, &slice, &err), &err);
    return slice;
}

/* The samples of a step in the order of its microbatches; returns how many tokens count. */
static int64_t read_batch(const sc_jobs *jobs, uint64_t step, uint64_t *ids, int32_t *tokens,
                          int32_t *targets)
{
    const sc_jobs_config *config = &jobs->config;
    const sc_batch_plan plan = {.seed = config->seed,
                                .n_samples = config->n_samples,
                                .B = config->B,
                                .n_mb = config->m,
                                .T = config->T};
    size_t T = (size_t)config->T;
    int64_t n_valid = 0;
    for (int mb = 0; mb < config->m; mb++) {
        sc_batch_samples(&plan, step, mb, ids + (size_t)mb * (size_t)config->B);
    }
    for (size_t i = 0; i < (size_t)config->B * (size_t)config->m * T; i++) {
        if (ids[i / T] == SC_BATCH_NO_SAMPLE) {
            tokens[i] = 0;
            targets[i] = SC_IGNORE_INDEX;
            continue;
        }
        size_t at = (size_t)ids[i / T] * T + i % T;
        tokens[i] = jobs->tokens[at];
        targets[i] = jobs->tokens[at + 1];
        n_valid++;
    }
    return n_valid;
}

static void run_slice(const sc_jobs *jobs, uint64_t step, sc_slice *slice, sc_whole_model *out)
{
    size_t n_samples = (size_t)jobs->config.B * (size_t)jobs->config.m;
    size_t n_tokens = n_samples * (size_t)jobs->config.T;
    uint64_t *ids = allocate(n_samples, sizeof *ids);
    int32_t *tokens = allocate(n_tokens, sizeof *tokens);
    int32_t *targets = allocate(n_tokens, sizeof *targets);
    sc_err err = {0};
    out->n_valid = read_batch(jobs, step, ids, tokens, targets);
    sc_slice_mb mb = {.step = step,
                      .keep_slot = -1,
                      .sample_ids = ids,
                      .tokens = tokens,
                      .targets = targets,
                      .loss_scale = 1.0F / (float)out->n_valid};
    expect_ok(slice->ops->forward(slice, &mb, &err), &err);
    assert_int_equal(mb.n_valid, out->n_valid);
    out->loss = mb.loss_sum / (double)out->n_valid;
    expect_ok(slice->ops->backward(slice, &mb, &err), &err);
    free(targets);
    free(tokens);
    free(ids);
}

static void read_gradients(const sc_slice *slice, sc_whole_model *out)
{
    double sum = 0;
    out->grads = allocate((size_t)out->registry->n_params, sizeof(double *));
    for (int i = 0; i < out->registry->n_params; i++) {
        out->grads[i] = allocate(out->registry->params[i].n_elems, sizeof(double));
    }
    for (int i = 0; i < slice->n_params; i++) {
        const sc_slice_param *held = &slice->params[i];
        for (size_t k = 0; k < held->n_elems; k++) {
            out->grads[held->param][k] += (double)held->grad[k]; // a tied copy adds to its twin
        }
    }
    for (int i = 0; i < out->registry->n_params; i++) {
        for (size_t k = 0; k < out->registry->params[i].n_elems; k++) {
            sum += out->grads[i][k] * out->grads[i][k];
        }
    }
    out->norm = sqrt(sum);
}

void sc_whole_model_step(const sc_jobs *jobs, uint64_t step, sc_whole_model *out)
{
    const atomic_bool is_aborted = false;
    sc_backend *backend = NULL;
    sc_err err = {0};
    *out = (sc_whole_model){.registry = NULL};
    expect_ok(sc_registry_new(&jobs->config.spec, &out->registry, &err), &err);
    expect_ok(sc_backends_open("cpu", 1, NULL, &backend, &err), &err);
    sc_slice *slice = open_slice(jobs, out->registry, backend, &is_aborted);
    run_slice(jobs, step, slice, out);
    read_gradients(slice, out);
    slice->ops->close(&slice);
    backend->free(&backend);
}

void sc_whole_model_free(sc_whole_model *model)
{
    for (int i = 0; i < model->registry->n_params; i++) {
        free(model->grads[i]);
    }
    free(model->grads);
    sc_registry_free(&model->registry);
}
