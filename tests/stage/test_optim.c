/* The optimizers against double precision, tied parameters, and the norm's fixed order. */
#include "stage/optim/gradnorm.h"
#include "stage/optim/optim.h"

#include "base/rng.h"
#include "kernels/backends.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sc_backend *backend;

static sc_registry *open_registry(sc_model_spec *spec)
{
    *spec = (sc_model_spec){.n_layer = 1,
                            .n_head = 1,
                            .n_embd = 40,
                            .vocab_size = 1700, // more than one norm chunk
                            .n_positions = 8,
                            .layer_norm_epsilon = 1e-5,
                            .initializer_range = 0.1,
                            .tie_word_embeddings = true};
    sc_registry *registry = NULL;
    assert_int_equal(sc_spec_check(spec, NULL), SC_OK);
    assert_int_equal(sc_registry_new(spec, &registry, NULL), SC_OK);
    return registry;
}

static sc_slice *open_slice(const sc_model_spec *spec, const sc_registry *registry, int stage,
                            sc_stage_range range)
{
    const sc_slice_config config = {.stage = stage,
                                    .n_stages = 2,
                                    .n_mb = 1,
                                    .range = range,
                                    .spec = spec,
                                    .registry = registry,
                                    .backend = backend,
                                    .B = 1,
                                    .T = 8,
                                    .seed = 1,
                                    .n_act_slots = 1};
    sc_slice *slice = NULL;
    assert_int_equal(sc_slice_layers_open(&config, &slice, NULL), SC_OK);
    for (int p = 0; p < slice->n_params; p++) {
        const sc_slice_param *param = &slice->params[p];
        uint64_t stream = 2 * (uint64_t)param->param + (param->is_tied_copy ? 1 : 0);
        sc_rng_normal(5, stream, 0, param->n_elems, 0.3F, param->grad);
    }
    return slice;
}

static sc_optim *open_optim(sc_optim_kind kind, const sc_registry *registry,
                            const sc_slice *const *slices, int n_slices)
{
    const sc_optim_config config = {.kind = kind,
                                    .beta1 = 0.9F,
                                    .beta2 = 0.999F,
                                    .epsilon = 1e-8F,
                                    .weight_decay = 0.1F,
                                    .registry = registry,
                                    .backend = backend,
                                    .slices = slices,
                                    .n_slices = n_slices};
    sc_optim *optim = NULL;
    assert_int_equal(sc_optim_open(&config, &optim, NULL), SC_OK);
    return optim;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Textbook AdamW in double over `n_steps` steps of the same gradient. */
static double adamw_reference(double w, double g, bool has_decay, int n_steps)
{
    double m = 0.0;
    double v = 0.0;
    for (int t = 1; t <= n_steps; t++) {
        m = (double)0.9F * m + (1 - (double)0.9F) * g;
        v = (double)0.999F * v + (1 - (double)0.999F) * g * g;
        double c1 = 1 - pow((double)0.9F, t);
        double c2 = 1 - pow((double)0.999F, t);
        w -= 0.01 * (m / c1 / (sqrt(v / c2) + 1e-8) + (has_decay ? (double)0.1F * w : 0.0));
    }
    return w;
}

static double sgd_reference(double w, double g, bool has_decay, int n_steps)
{
    for (int t = 0; t < n_steps; t++) {
        w -= 0.01 * (g + (has_decay ? (double)0.1F * w : 0.0));
    }
    return w;
}

/* Three steps with the same gradient, halved by grad_scale, for one parameter. */
static void check_param(sc_optim *optim, const sc_slice_param *param, bool has_decay)
{
    bool is_adamw = optim->config.kind == SC_OPTIM_ADAMW;
    float *g = malloc(param->n_elems * sizeof *g);
    float *w = malloc(param->n_elems * sizeof *w);
    assert_non_null(g);
    assert_non_null(w);
    memcpy(g, param->grad, param->n_elems * sizeof *g);
    memcpy(w, param->w, param->n_elems * sizeof *w);
    for (uint64_t t = 1; t <= 3; t++) {
        memcpy(param->grad, g, param->n_elems * sizeof *g);
        assert_int_equal(sc_optim_step(optim, bits_of(0.01F), t, 0.5F, NULL), SC_OK);
    }
    for (size_t i = 0; i < param->n_elems; i++) {
        double gradient = 0.5 * (double)g[i];
        double expected = is_adamw ? adamw_reference((double)w[i], gradient, has_decay, 3)
                                   : sgd_reference((double)w[i], gradient, has_decay, 3);
        assert_true(fabs((double)param->w[i] - expected) < 2e-6);
        assert_true(param->grad[i] == 0.0F);
    }
    free(g);
    free(w);
}

static void optimizers_equal_their_formula(void **state)
{
    (void)state;
    sc_model_spec spec;
    sc_registry *registry = open_registry(&spec);
    for (int kind = SC_OPTIM_ADAMW; kind <= SC_OPTIM_SGD; kind++) {
        sc_slice *slice = open_slice(&spec, registry, 0, (sc_stage_range){0, 1, true, false});
        const sc_slice *slices[] = {slice};
        for (int p = 0; p < slice->n_params; p++) {
            /* fresh for each parameter, whose own steps have not begun */
            sc_optim *optim = open_optim((sc_optim_kind)kind, registry, slices, 1);
            check_param(optim, &slice->params[p],
                        registry->params[slice->params[p].param].has_decay);
            sc_optim_close(&optim);
        }
        slice->ops->close(&slice);
    }
    sc_registry_free(&registry);
}

/* The two ends of a tied embedding on one rank, in one slice or two, are one parameter. */
static void tied_copies_are_one(void **state)
{
    (void)state;
    sc_model_spec spec;
    sc_registry *registry = open_registry(&spec);
    sc_slice *whole = open_slice(&spec, registry, 0, (sc_stage_range){0, 1, true, true});
    sc_slice *first = open_slice(&spec, registry, 0, (sc_stage_range){0, 1, true, false});
    sc_slice *last = open_slice(&spec, registry, 1, (sc_stage_range){1, 1, false, true});
    const sc_slice *one[] = {whole};
    const sc_slice *two[] = {first, last};
    sc_optim *optims[2] = {open_optim(SC_OPTIM_ADAMW, registry, one, 1),
                           open_optim(SC_OPTIM_ADAMW, registry, two, 2)};
    const sc_slice_param *embed = &first->params[0];
    const sc_slice_param *head = &last->params[last->n_params - 1];
    assert_true(head->is_tied_copy && head->param == embed->param && head->w != embed->w);
    assert_ptr_equal(whole->params[0].w, whole->params[whole->n_params - 1].w);
    float expected = embed->grad[3] + head->grad[3];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sc_optim_merge_tied(optims[i], NULL), SC_OK);
        size_t n = 0;
        float *grad = sc_optim_tied_grad(optims[i], &n);
        assert_int_equal(n, embed->n_elems);
        assert_true(grad[3] == expected);
        assert_int_equal(sc_optim_step(optims[i], bits_of(0.02F), 1, 1.0F, NULL), SC_OK);
    }
    assert_true(head->grad[3] == 0.0F);
    assert_memory_equal(embed->w, whole->params[0].w, embed->n_elems * sizeof(float));
    assert_memory_equal(embed->w, head->w, embed->n_elems * sizeof(float));
    sc_optim_close(&optims[0]);
    sc_optim_close(&optims[1]);
    whole->ops->close(&whole);
    first->ops->close(&first);
    last->ops->close(&last);
    sc_registry_free(&registry);
}

/* Merged and reduced, the tied gradient counts once, and the norm is the same bits on one rank and
   on two. */
static void norm_counts_once(void **state)
{
    (void)state;
    sc_model_spec spec;
    sc_registry *registry = open_registry(&spec);
    size_t n_params = (size_t)registry->n_params;
    sc_slice *whole = open_slice(&spec, registry, 0, (sc_stage_range){0, 1, true, true});
    sc_slice *first = open_slice(&spec, registry, 0, (sc_stage_range){0, 1, true, false});
    sc_slice *last = open_slice(&spec, registry, 1, (sc_stage_range){1, 1, false, true});
    const sc_slice *lists[3][1] = {{whole}, {first}, {last}};
    double *sums = calloc(3 * n_params, sizeof *sums);
    double expected = 0.0;
    for (int i = 0; i < 3; i++) {
        sc_optim *optim = open_optim(SC_OPTIM_SGD, registry, lists[i], 1);
        sc_gradnorm norm;
        assert_int_equal(sc_optim_merge_tied(optim, NULL), SC_OK);
        if (i > 0) { // the reduction between the two ends
            size_t n = 0;
            float *grad = sc_optim_tied_grad(optim, &n);
            memcpy(grad, whole->params[0].grad, n * sizeof *grad);
        }
        assert_int_equal(sc_gradnorm_open(optim, &norm, NULL), SC_OK);
        assert_int_equal(sc_gradnorm_local(&norm, sums + (size_t)i * n_params, NULL), SC_OK);
        sc_gradnorm_close(&norm);
        sc_optim_close(&optim);
    }
    for (int p = 0; p < whole->n_params - 1; p++) {
        for (size_t i = 0; i < whole->params[p].n_elems; i++) {
            expected += (double)whole->params[p].grad[i] * (double)whole->params[p].grad[i];
        }
    }
    double on_one = sc_gradnorm_total(sums, 1, (int)n_params);
    double on_two = sc_gradnorm_total(sums + n_params, 2, (int)n_params);
    assert_memory_equal(&on_one, &on_two, sizeof on_one);
    assert_true(fabs(on_one - sqrt(expected)) < 1e-9 * on_one);
    free(sums);
    whole->ops->close(&whole);
    first->ops->close(&first);
    last->ops->close(&last);
    sc_registry_free(&registry);
}

static void clipping_only_shrinks(void **state)
{
    (void)state;
    float scale = 0.0F;
    sc_err err;
    assert_int_equal(sc_gradnorm_scale(4.0, 1.0F, &scale, NULL), SC_OK);
    assert_true(scale == 0.25F);
    assert_int_equal(sc_gradnorm_scale(0.5, 1.0F, &scale, NULL), SC_OK);
    assert_true(scale == 1.0F);
    assert_int_equal(sc_gradnorm_scale(1e6, 0.0F, &scale, NULL), SC_OK);
    assert_true(scale == 1.0F);
    assert_int_equal(sc_gradnorm_scale((double)NAN, 1.0F, &scale, &err), SC_NUMERIC);
    assert_int_equal(sc_gradnorm_scale((double)INFINITY, 0.0F, &scale, &err), SC_NUMERIC);
    assert_string_equal(err.text, "the gradient norm is inf");
}

/* A rank without parameters (a paced one) has an optimizer that does nothing. */
static void nothing_is_fine(void **state)
{
    (void)state;
    const sc_slice_config config = {.n_stages = 1, .n_mb = 1, .B = 1, .T = 1, .n_act_slots = 1};
    sc_slice *slice = NULL;
    sc_gradnorm norm;
    size_t n = 1;
    assert_int_equal(sc_slice_paced_open(&config, &slice, NULL), SC_OK);
    const sc_slice *slices[] = {slice};
    sc_optim *optim = open_optim(SC_OPTIM_ADAMW, NULL, slices, 1);
    assert_int_equal(sc_optim_merge_tied(optim, NULL), SC_OK);
    assert_null(sc_optim_tied_grad(optim, &n));
    assert_int_equal(n, 0);
    assert_int_equal(sc_gradnorm_open(optim, &norm, NULL), SC_OK);
    assert_int_equal(sc_gradnorm_local(&norm, NULL, NULL), SC_OK);
    assert_true(sc_gradnorm_total(NULL, 1, 0) == 0.0);
    assert_int_equal(sc_optim_step(optim, bits_of(0.1F), 1, 1.0F, NULL), SC_OK);
    sc_gradnorm_close(&norm);
    sc_optim_close(&optim);
    slice->ops->close(&slice);
}

int main(void)
{
    sc_err err = {0};
    if (sc_backends_open("cpu", 1, NULL, &backend, &err) != SC_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_equal_their_formula),
        cmocka_unit_test(tied_copies_are_one),
        cmocka_unit_test(norm_counts_once),
        cmocka_unit_test(clipping_only_shrinks),
        cmocka_unit_test(nothing_is_fine),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    backend->free(&backend);
    return n_failed;
}
