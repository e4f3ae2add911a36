/* The slice of layers: bytes, order, abort, evaluation, and gradients by finite differences. */
#include "slice_rig.h"

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

static sc_backend *cpu;

/* A backend that counts what is allocated, and raises the abort flag at the n-th norm. */
static sc_backend counting;
static size_t allocated_bytes;
static int n_allocs;
static int n_norms;
static int abort_at_norm;
static atomic_bool is_aborted;

static sc_status count_alloc(sc_backend *be, size_t bytes, void **out, sc_err *err)
{
    (void)be;
    allocated_bytes += bytes;
    n_allocs++;
    return cpu->memory_alloc(cpu, bytes, out, err);
}

static sc_status count_norm(sc_backend *be, sc_stream *s, const sc_norm_fwd_args *a, sc_err *err)
{
    (void)be;
    n_norms++;
    if (n_norms == abort_at_norm) {
        atomic_store(&is_aborted, true);
    }
    return cpu->norm_fwd(cpu, s, a, err);
}

static int setup(void **state)
{
    (void)state;
    counting = *cpu;
    counting.memory_alloc = count_alloc;
    counting.norm_fwd = count_norm;
    allocated_bytes = 0;
    n_allocs = 0;
    n_norms = 0;
    abort_at_norm = 0;
    atomic_store(&is_aborted, false);
    return 0;
}

static sc_rig_config make_config(bool is_tied, int n_mb, sc_rig_order order)
{
    sc_rig_config config = {
        .spec = {.n_layer = 3,
                 .n_head = 2,
                 .n_embd = 20,
                 .n_inner = 36,
                 .vocab_size = 31,
                 .n_positions = 11,
                 .layer_norm_epsilon = 1e-5,
                 .initializer_range = 0.3,
                 .tie_word_embeddings = is_tied},
        .n_stages = 1,
        .blocks = {3},
        .B = 2,
        .T = 9,
        .n_mb = n_mb,
        .order = order,
        .backend = &counting,
        .is_aborted = &is_aborted,
    };
    assert_int_equal(sc_spec_check(&config.spec, NULL), SC_OK);
    return config;
}

static void step(sc_rig *rig, uint64_t number)
{
    sc_err err = {0};
    if (sc_slice_rig_step(rig, number, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
}

static size_t expected_open_bytes(const sc_rig *rig, int stage)
{
    const sc_rig_config *c = &rig->config;
    sc_stage_bytes b;
    const sc_cost_layout layout = sc_slice_rig_layout(c);
    sc_cost_bytes(&c->spec, &rig->ranges[stage], &layout, &b);
    size_t attention =
        c->blocks[stage] == 0
            ? 0
            : cpu->attention_scratch_bytes(cpu, c->B, c->T, c->spec.n_embd, c->spec.n_head);
    assert_int_equal(rig->slices[stage]->message_bytes, b.message);
    return b.params + b.grads + (size_t)rig->n_act[stage] * b.act_per_mb +
           (size_t)rig->n_keep[stage] * b.keep_per_mb + b.keep_fused + b.scratch + b.work +
           attention;
}

/* What an action has in use while it runs: the slot that it fills, and work space. */
static void expect_during_bytes(const sc_rig *rig, int stage, const sc_stage_bytes *b)
{
    const size_t *during = rig->during_bytes[stage];
    assert_int_equal(during[0], b->act_per_mb + b->work_f);
    if (rig->n_keep[stage] == 0) {
        assert_int_equal(during[1], b->keep_fused + b->work_b);
        return;
    }
    assert_int_equal(during[2], b->keep_per_mb + b->work_i);
    assert_int_equal(during[3], b->work_w);
}

/* What open allocates is what cost says; a step allocates nothing; the layers' own count of what
   they wrote is what cost says for the slots in use; the optimizer's state too. */
static void bytes_are_as_counted(void **state)
{
    (void)state;
    static const int splits[][5] = {{1, 3}, {2, 1, 2}, {3, 0, 3, 0}, {3, 1, 1, 1}};
    const int n_layouts = 4 * 2 * SC_RIG_ORDER_COUNT;
    for (int i = 0; i < n_layouts * SC_RIG_RECOMPUTES; i++) {
        const int *split = splits[i % 4];
        sc_rig_config config =
            make_config(i / 4 % 2 == 0, 4, (sc_rig_order)(i / 8 % SC_RIG_ORDER_COUNT));
        config.n_stages = split[0];
        memcpy(config.blocks, split + 1, 4 * sizeof *split);
        config.recompute = sc_slice_rig_recomputes[i / n_layouts];
        (void)setup(NULL);
        sc_rig rig;
        sc_rig_optim optim;
        size_t open_bytes = 0;
        sc_slice_rig_open(&config, &rig);
        for (int s = 0; s < config.n_stages; s++) {
            open_bytes += expected_open_bytes(&rig, s);
        }
        assert_int_equal(allocated_bytes, open_bytes);
        int n_before = n_allocs;
        step(&rig, 0);
        assert_int_equal(n_allocs, n_before);
        size_t optimizer_bytes = 0;
        for (int s = 0; s < config.n_stages; s++) {
            sc_stage_bytes b;
            const sc_cost_layout layout = sc_slice_rig_layout(&config);
            sc_cost_bytes(&config.spec, &rig.ranges[s], &layout, &b);
            size_t keep = (size_t)rig.n_keep[s] * b.keep_per_mb;
            assert_int_equal(rig.peak_bytes[s], (size_t)rig.n_act[s] * b.act_per_mb + keep);
            expect_during_bytes(&rig, s, &b);
            assert_int_equal(rig.slices[s]->ops->activation_bytes(rig.slices[s]), 0);
            optimizer_bytes += b.optimizer;
        }
        allocated_bytes = 0;
        const sc_optim_config adamw = {.kind = SC_OPTIM_ADAMW};
        sc_slice_rig_optim_open(&rig, &adamw, &optim);
        assert_int_equal(allocated_bytes, optimizer_bytes);
        sc_slice_rig_optim_close(&optim);
        sc_slice_rig_close(&rig);
    }
}

/* Evaluation gives the training pass's loss, needs a free slot and leaves no trace. */
static void forward_only_leaves_nothing(void **state)
{
    (void)state;
    sc_rig_config config = make_config(true, 3, SC_RIG_1F1B);
    config.n_stages = 2;
    config.blocks[0] = 1;
    config.blocks[1] = 2;
    sc_rig rig;
    sc_slice_rig_open(&config, &rig);
    double evaluated = sc_slice_rig_evaluate(&rig);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(rig.slices[s]->ops->activation_bytes(rig.slices[s]), 0);
        for (int i = 0; i < rig.slices[s]->n_params; i++) {
            const sc_slice_param *p = &rig.slices[s]->params[i];
            for (size_t k = 0; k < p->n_elems; k++) {
                assert_true(p->grad[k] == 0.0F);
            }
        }
    }
    step(&rig, 0);
    assert_true(evaluated == rig.losses[0] + rig.losses[1] + rig.losses[2]);
    sc_slice_rig_close(&rig);
}

/* One slice's microbatch by hand. */
static sc_slice_mb make_mb(const sc_rig *rig, int mb, int act_slot, int keep_slot)
{
    size_t first = (size_t)mb * (size_t)rig->config.B * (size_t)rig->config.T;
    return (sc_slice_mb){.step = 5,
                         .mb = mb,
                         .act_slot = act_slot,
                         .keep_slot = keep_slot,
                         .tokens = rig->tokens + first,
                         .targets = rig->targets + first,
                         .loss_scale = 1.0F};
}

static void assert_refused(sc_status status, const sc_err *err, const char *text)
{
    assert_int_equal(status, SC_FAILED);
    assert_string_equal(err->text, text);
}

static void wrong_order_is_refused(void **state)
{
    (void)state;
    sc_rig_config config = make_config(true, 2, SC_RIG_GPIPE_SPLIT);
    sc_rig rig;
    sc_err err;
    sc_slice_rig_open(&config, &rig);
    sc_slice *slice = rig.slices[0];
    const sc_slice_ops *ops = slice->ops;
    sc_slice_mb first = make_mb(&rig, 0, 0, 0);
    sc_slice_mb second = make_mb(&rig, 1, 1, 1);
    sc_slice_mb mb = second;
    assert_refused(ops->backward(slice, &first, &err), &err,
                   "stage 0 microbatch 0 step 5: B without F (slot 0)");
    assert_refused(ops->backward_input(slice, &first, &err), &err,
                   "stage 0 microbatch 0 step 5: I without F (slot 0)");
    assert_int_equal(ops->forward(slice, &first, NULL), SC_OK);
    mb = make_mb(&rig, 0, 1, 0);
    assert_refused(ops->forward(slice, &mb, &err), &err,
                   "stage 0 microbatch 0 step 5: F twice (slot 1)");
    mb = make_mb(&rig, 1, 0, 0);
    assert_refused(ops->forward(slice, &mb, &err), &err,
                   "stage 0 microbatch 1 step 5: F into an occupied slot (slot 0)");
    assert_refused(ops->backward(slice, &mb, &err), &err,
                   "stage 0 microbatch 1 step 5: B finds microbatch 0 of step 5 in slot 0");
    mb = make_mb(&rig, 1, 2, 0);
    assert_refused(ops->forward(slice, &mb, &err), &err,
                   "stage 0 microbatch 1 step 5: no such activation slot (slot 2)");
    assert_refused(ops->backward_weight(slice, &first, &err), &err,
                   "stage 0 microbatch 0 step 5: W without I (slot 0)");
    mb = make_mb(&rig, 0, 0, -1);
    assert_refused(ops->backward_input(slice, &mb, &err), &err,
                   "stage 0 microbatch 0 step 5: I without a keep slot (slot 0)");
    assert_int_equal(ops->forward(slice, &second, NULL), SC_OK);
    assert_int_equal(ops->backward_input(slice, &first, NULL), SC_OK);
    mb = make_mb(&rig, 1, 1, 0);
    assert_refused(ops->backward_input(slice, &mb, &err), &err,
                   "stage 0 microbatch 1 step 5: I into an occupied keep slot (slot 1)");
    assert_refused(ops->backward(slice, &first, &err), &err,
                   "stage 0 microbatch 0 step 5: B after I (slot 0)");
    mb = make_mb(&rig, 0, 0, 1);
    assert_refused(ops->backward_weight(slice, &mb, &err), &err,
                   "stage 0 microbatch 0 step 5: W with another keep slot than its I (slot 0)");
    assert_int_equal(ops->backward_weight(slice, &first, NULL), SC_OK);
    sc_slice_rig_close(&rig);
}

/* The flag goes up during the first block's second norm; the layer ends, and no other begins. */
static void abort_is_seen_between_layers(void **state)
{
    (void)state;
    sc_rig_config config = make_config(true, 1, SC_RIG_GPIPE_SPLIT);
    sc_rig rig;
    sc_err err;
    sc_slice_rig_open(&config, &rig);
    sc_slice *slice = rig.slices[0];
    sc_slice_mb mb = make_mb(&rig, 0, 0, 0);
    abort_at_norm = 2;
    assert_int_equal(slice->ops->forward(slice, &mb, &err), SC_ABORTED);
    assert_int_equal(n_norms, 2);
    atomic_store(&is_aborted, false);
    assert_int_equal(slice->ops->forward(slice, &mb, &err), SC_OK);
    atomic_store(&is_aborted, true);
    assert_int_equal(slice->ops->backward(slice, &mb, &err), SC_ABORTED);
    assert_int_equal(slice->ops->backward_input(slice, &mb, &err), SC_ABORTED);
    sc_slice_rig_close(&rig);
}

static void bad_config_is_refused(void **state)
{
    (void)state;
    sc_rig_config config = make_config(true, 1, SC_RIG_GPIPE);
    sc_registry *registry = NULL;
    assert_int_equal(sc_registry_new(&config.spec, &registry, NULL), SC_OK);
    const sc_slice_config good = {.stage = 1,
                                  .n_stages = 2,
                                  .n_mb = 1,
                                  .range = {1, 3, false, true},
                                  .spec = &config.spec,
                                  .registry = registry,
                                  .backend = &counting,
                                  .B = 1,
                                  .T = 11,
                                  .n_act_slots = 1};
    sc_slice_config bad[4] = {good, good, good, good};
    bad[0].range.block_end = 4;
    bad[1].range = (sc_stage_range){2, 2, false, false};
    bad[2].T = 12;
    bad[3].n_act_slots = 0;
    sc_slice *slice = NULL;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sc_slice_layers_open(&bad[i], &slice, NULL), SC_INVALID);
        assert_null(slice);
    }
    assert_int_equal(sc_slice_layers_open(&good, &slice, NULL), SC_OK);
    slice->ops->close(&slice);
    assert_null(slice);
    sc_registry_free(&registry);
}

/* An element's initial value depends on its global index alone, also in tensors of many chunks. */
static void initial_weights_are_global(void **state)
{
    (void)state;
    sc_rig_config config = make_config(true, 1, SC_RIG_GPIPE);
    config.spec.vocab_size = 2001;
    sc_rig rig;
    sc_slice_rig_open(&config, &rig);
    for (int i = 0; i < rig.registry->n_params; i++) {
        const sc_param *param = &rig.registry->params[i];
        const sc_slice_param *p = sc_slice_rig_find(&rig, i, false);
        float *expected = calloc(p->n_elems + 1, sizeof *expected);
        assert_non_null(expected);
        sc_rng_normal(42, sc_rng_stream(param->name), 0, p->n_elems, param->init_std, expected);
        for (size_t k = 0; k < p->n_elems; k++) {
            bool is_gain = param->init == SC_INIT_ONE;
            float value = param->init == SC_INIT_NORMAL ? expected[k] : (is_gain ? 1.0F : 0.0F);
            assert_true(p->w[k] == value);
        }
        free(expected);
    }
    sc_slice_rig_close(&rig);
}

/* Every norm and bias away from 1 and 0, or their gradients would hide each other's mistakes. */
static void randomise(const sc_rig *rig)
{
    for (int i = 0; i < rig->slices[0]->n_params; i++) {
        const sc_slice_param *p = &rig->slices[0]->params[i];
        const sc_param *param = &rig->registry->params[p->param];
        for (size_t k = 0; param->n_dims == 1 && k < p->n_elems; k++) {
            p->w[k] += 0.4F * (sc_rng_uniform(3, (uint64_t)i, k) - 0.5F);
        }
    }
}

/* (L(w + h) - L(w - h)) / 2h along `direction` (n), with the step as it is after rounding. */
static double finite_difference(sc_rig *rig, float *w, const double *direction, size_t n, double h)
{
    float *saved = malloc(n * sizeof *saved);
    double loss[2];
    assert_non_null(saved);
    memcpy(saved, w, n * sizeof *saved);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++) {
            w[i] = (float)((double)saved[i] + (side == 0 ? h : -h) * direction[i]);
        }
        loss[side] = sc_slice_rig_evaluate(rig) * (double)rig->loss_scale;
    }
    memcpy(w, saved, n * sizeof *saved);
    free(saved);
    return (loss[0] - loss[1]) / (2.0 * h);
}

/* A parameter's gradient along itself, along a random direction and at single elements. */
static void check_param(sc_rig *rig, int param)
{
    const char *name = rig->registry->params[param].name;
    const sc_slice_param *p = sc_slice_rig_find(rig, param, false);
    float *grad = sc_slice_rig_grad(rig, param);
    double *direction = calloc(p->n_elems, sizeof *direction);
    double length = 0.0;
    assert_non_null(direction);
    for (size_t i = 0; i < p->n_elems; i++) {
        length += (double)grad[i] * (double)grad[i];
    }
    length = sqrt(length);
    assert_true(length > 1e-4);
    for (int trial = 0; trial < 6; trial++) {
        double expected = 0.0;
        double norm = 0.0;
        size_t one = (size_t)(sc_rng_u64(11, (uint64_t)param, (uint64_t)trial) % p->n_elems);
        for (size_t i = 0; i < p->n_elems; i++) {
            direction[i] = trial == 0  ? (double)grad[i]
                           : trial < 3 ? (double)sc_rng_uniform(9, (uint64_t)trial, i) - 0.5
                                       : (i == one ? 1.0 : 0.0);
            norm += direction[i] * direction[i];
        }
        for (size_t i = 0; i < p->n_elems; i++) {
            direction[i] /= sqrt(norm);
            expected += (double)grad[i] * direction[i];
        }
        double found = finite_difference(rig, p->w, direction, p->n_elems, 4e-3);
        /* The loss is about 4 with fp32 rounding of 1e-7 a token; h^2 of the third derivative. */
        if (fabs(found - expected) > 1e-4 + 2e-3 * fabs(expected)) {
            fail_msg("%s trial %d: gradient %g, finite difference %g", name, trial, expected,
                     found);
        }
    }
    free(direction);
    free(grad);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        sc_rig_config config = make_config(tied == 1, 2, SC_RIG_1F1B);
        sc_rig rig;
        sc_slice_rig_open(&config, &rig);
        randomise(&rig);
        step(&rig, 0);
        for (int i = 0; i < rig.registry->n_params; i++) {
            int block = rig.registry->params[i].block;
            if (block == SC_PARAM_NO_BLOCK || block == 1) {
                check_param(&rig, i);
            }
        }
        sc_slice_rig_close(&rig);
    }
}

int main(void)
{
    sc_err err = {0};
    if (sc_backends_open("cpu", 1, NULL, &cpu, &err) != SC_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bytes_are_as_counted, setup),
        cmocka_unit_test_setup(forward_only_leaves_nothing, setup),
        cmocka_unit_test_setup(wrong_order_is_refused, setup),
        cmocka_unit_test_setup(abort_is_seen_between_layers, setup),
        cmocka_unit_test_setup(bad_config_is_refused, setup),
        cmocka_unit_test_setup(initial_weights_are_global, setup),
        cmocka_unit_test_setup(gradients_are_differences, setup),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    cpu->free(&cpu);
    return n_failed;
}
