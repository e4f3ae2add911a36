/* The same bits over every order of actions, split into stages, and B or I + W. */
#include "slice_rig.h"

#include "kernels/backends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sc_backend *backend;

static const sc_optim_config ADAMW = {
    .kind = SC_OPTIM_ADAMW, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .weight_decay = 0.1F};

static sc_rig_config make_config(bool is_tied, int n_mb)
{
    sc_rig_config config = {
        .spec = {.n_layer = 4,
                 .n_head = 3,
                 .n_embd = 24,
                 .vocab_size = 61,
                 .n_positions = 17,
                 .layer_norm_epsilon = 1e-5,
                 .initializer_range = 0.2,
                 .tie_word_embeddings = is_tied},
        .n_stages = 1,
        .blocks = {4},
        .B = 2,
        .T = 13,
        .n_mb = n_mb,
        .order = SC_RIG_GPIPE,
        .backend = backend,
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

static void assert_same(const char *what, const char *name, const float *a, const float *b,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits_a;
        uint32_t bits_b;
        memcpy(&bits_a, &a[i], sizeof bits_a);
        memcpy(&bits_b, &b[i], sizeof bits_b);
        if (bits_a != bits_b) {
            fail_msg("%s of %s at %zu: %a instead of %a", what, name, i, (double)b[i],
                     (double)a[i]);
        }
    }
}

/* Both accumulators of a tied embedding, each by itself. */
static void assert_same_grads(const sc_rig *expected, const sc_rig *rig)
{
    for (int i = 0; i < 2 * expected->registry->n_params; i++) {
        const char *name = expected->registry->params[i / 2].name;
        const sc_slice_param *a = sc_slice_rig_find(expected, i / 2, i % 2 == 1);
        const sc_slice_param *b = sc_slice_rig_find(rig, i / 2, i % 2 == 1);
        assert_true((a == NULL) == (b == NULL));
        if (a != NULL && b != NULL) {
            assert_same("gradient", name, a->grad, b->grad, a->n_elems);
        }
    }
}

static void assert_same_weights(const sc_rig *expected, const sc_rig *rig)
{
    for (int i = 0; i < expected->registry->n_params; i++) {
        const sc_slice_param *a = sc_slice_rig_find(expected, i, false);
        const sc_slice_param *b = sc_slice_rig_find(rig, i, false);
        const sc_slice_param *copy = sc_slice_rig_find(rig, i, true);
        const char *name = expected->registry->params[i].name;
        assert_same("weight", name, a->w, b->w, a->n_elems);
        if (copy != NULL) {
            assert_same("copied weight", name, a->w, copy->w, a->n_elems);
        }
    }
}

static void assert_same_losses(const sc_rig *expected, const sc_rig *rig)
{
    for (int mb = 0; mb < expected->config.n_mb; mb++) {
        assert_memory_equal(&expected->losses[mb], &rig->losses[mb], sizeof(double));
        assert_int_equal(expected->n_valid[mb], rig->n_valid[mb]);
        assert_true(rig->losses[mb] > 0);
    }
}

/* Three steps of AdamW with clipping beside the reference's. */
static void compare(const sc_rig_config *reference, const sc_rig_config *config)
{
    sc_rig expected;
    sc_rig rig;
    sc_rig_optim expected_optim;
    sc_rig_optim optim;
    sc_slice_rig_open(reference, &expected);
    sc_slice_rig_open(config, &rig);
    sc_slice_rig_optim_open(&expected, &ADAMW, &expected_optim);
    sc_slice_rig_optim_open(&rig, &ADAMW, &optim);
    assert_same_weights(&expected, &rig);
    for (uint64_t number = 0; number < 3; number++) {
        step(&expected, number);
        step(&rig, number);
        assert_same_losses(&expected, &rig);
        assert_same_grads(&expected, &rig);
        double a = sc_slice_rig_optim_step(&expected, &expected_optim, 0.01F, number + 1, 0.5F);
        double b = sc_slice_rig_optim_step(&rig, &optim, 0.01F, number + 1, 0.5F);
        assert_memory_equal(&a, &b, sizeof a);
        assert_true(a > 0.5); // or clipping was not tested
        assert_same_weights(&expected, &rig);
    }
    sc_slice_rig_optim_close(&optim);
    sc_slice_rig_optim_close(&expected_optim);
    sc_slice_rig_close(&rig);
    sc_slice_rig_close(&expected);
}

static void splits_and_orders_agree(void **state)
{
    (void)state;
    static const int splits[][SC_RIG_STAGES_MAX + 1] = {
        {1, 4},       {2, 2, 2},       {2, 1, 3},       {3, 1, 2, 1},         {3, 2, 1, 1},
        {3, 0, 4, 0}, {4, 1, 1, 1, 1}, {4, 2, 1, 1, 0}, {6, 0, 1, 1, 1, 1, 0}};
    static const int n_mbs[] = {1, 3, 5};
    for (size_t m = 0; m < sizeof n_mbs / sizeof n_mbs[0]; m++) {
        const sc_rig_config reference = make_config(true, n_mbs[m]);
        for (size_t s = 0; s < sizeof splits / sizeof splits[0]; s++) {
            sc_rig_config config = reference;
            config.n_stages = splits[s][0];
            memcpy(config.blocks, &splits[s][1], sizeof config.blocks);
            config.order = (sc_rig_order)((s + m) % SC_RIG_ORDER_COUNT);
            compare(&reference, &config);
        }
    }
}

static void every_order_agrees(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SC_RIG_ORDER_COUNT * 2; i++) {
        const sc_rig_config reference = make_config(i % 2 == 1, 4);
        sc_rig_config config = reference;
        int p = i / 2 % 2 == 0 ? 1 : 4;
        config.n_stages = p;
        config.order = (sc_rig_order)(i / 4);
        for (int s = 0; s < p; s++) {
            config.blocks[s] = 4 / p;
        }
        compare(&reference, &config);
    }
}

/* What is made again has the bits that it had, for every order and split. */
static void recomputing_agrees(void **state)
{
    (void)state;
    static const int splits[][SC_RIG_STAGES_MAX + 1] = {{1, 4}, {2, 1, 3}, {4, 1, 1, 1, 1}};
    const sc_rig_config reference = make_config(true, 4);
    for (int i = 0; i < 3 * SC_RIG_ORDER_COUNT * (SC_RIG_RECOMPUTES - 1); i++) {
        sc_rig_config config = reference;
        config.n_stages = splits[i % 3][0];
        memcpy(config.blocks, &splits[i % 3][1], sizeof config.blocks);
        config.order = (sc_rig_order)(i / 3 % SC_RIG_ORDER_COUNT);
        config.recompute = sc_slice_rig_recomputes[1 + i / 3 / SC_RIG_ORDER_COUNT];
        compare(&reference, &config);
    }
}

/* A fused B says how long W took of it. */
static void weight_time_is_measured(void **state)
{
    (void)state;
    sc_rig_config config = make_config(true, 2);
    sc_rig rig;
    sc_slice_rig_open(&config, &rig);
    step(&rig, 0);
    assert_true(rig.weight_ns[0] > 0);
    sc_slice_rig_close(&rig);
}

int main(void)
{
    sc_err err = {0};
    if (sc_backends_open("cpu", 1, NULL, &backend, &err) != SC_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_and_orders_agree),
        cmocka_unit_test(every_order_agrees),
        cmocka_unit_test(recomputing_agrees),
        cmocka_unit_test(weight_time_is_measured),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    backend->free(&backend);
    return n_failed;
}
