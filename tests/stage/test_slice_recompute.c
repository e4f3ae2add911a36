/* Slices that recompute do the products that cost counts, and no more. */
#include "slice_rig.h"

#include "kernels/backends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static sc_backend *cpu;

/* A backend that adds up the products that it is asked for, and counts the norms. */
static sc_backend counting;
static double flops;
static int n_norms;
static int n_gelus;

static sc_status linear_fwd(sc_backend *be, sc_stream *s, const sc_linear_fwd_args *a, sc_err *err)
{
    (void)be;
    flops += 2.0 * (double)a->N * (double)a->K * (double)a->M;
    n_gelus += a->y_act != NULL ? 1 : 0;
    return cpu->linear_fwd(cpu, s, a, err);
}

static sc_status linear_bwd_input(sc_backend *be, sc_stream *s, const sc_linear_bwd_input_args *a,
                                  sc_err *err)
{
    (void)be;
    flops += 2.0 * (double)a->N * (double)a->K * (double)a->M;
    return cpu->linear_bwd_input(cpu, s, a, err);
}

static sc_status linear_bwd_weight(sc_backend *be, sc_stream *s, const sc_linear_bwd_weight_args *a,
                                   sc_err *err)
{
    (void)be;
    flops += 2.0 * (double)a->N * (double)a->K * (double)a->M;
    return cpu->linear_bwd_weight(cpu, s, a, err);
}

static sc_status attention_fwd(sc_backend *be, sc_stream *s, const sc_attention_fwd_args *a,
                               sc_err *err)
{
    (void)be;
    flops += 2 * 2.0 * (double)(a->B * a->T) * (double)a->T * (double)a->C;
    return cpu->attention_fwd(cpu, s, a, err);
}

static sc_status attention_bwd(sc_backend *be, sc_stream *s, const sc_attention_bwd_args *a,
                               sc_err *err)
{
    (void)be;
    flops += 5 * 2.0 * (double)(a->B * a->T) * (double)a->T * (double)a->C;
    return cpu->attention_bwd(cpu, s, a, err);
}

static sc_status norm_fwd(sc_backend *be, sc_stream *s, const sc_norm_fwd_args *a, sc_err *err)
{
    (void)be;
    n_norms++;
    return cpu->norm_fwd(cpu, s, a, err);
}

static sc_status gelu(sc_backend *be, sc_stream *s, float *y, const float *x, int64_t n,
                      sc_err *err)
{
    (void)be;
    n_gelus++;
    return cpu->gelu(cpu, s, y, x, n, err);
}

static void count_calls(void)
{
    counting = *cpu;
    counting.linear_fwd = linear_fwd;
    counting.linear_bwd_input = linear_bwd_input;
    counting.linear_bwd_weight = linear_bwd_weight;
    counting.attention_fwd = attention_fwd;
    counting.attention_bwd = attention_bwd;
    counting.norm_fwd = norm_fwd;
    counting.gelu = gelu;
    flops = 0;
    n_norms = 0;
    n_gelus = 0;
}

static sc_rig_config make_config(sc_rig_order order, const sc_recompute *recompute)
{
    sc_rig_config config = {
        .spec = {.n_layer = 4,
                 .n_head = 2,
                 .n_embd = 20,
                 .n_inner = 36,
                 .vocab_size = 31,
                 .n_positions = 11,
                 .layer_norm_epsilon = 1e-5,
                 .initializer_range = 0.3,
                 .tie_word_embeddings = true},
        .n_stages = 2,
        .blocks = {1, 3},
        .B = 2,
        .T = 9,
        .n_mb = 3,
        .order = order,
        .recompute = *recompute,
        .backend = &counting,
    };
    assert_int_equal(sc_spec_check(&config.spec, NULL), SC_OK);
    return config;
}

static bool is_split(sc_rig_order order)
{
    return order == SC_RIG_GPIPE_SPLIT || order == SC_RIG_1F1B_SPLIT;
}

/* Norms and gelus of a block in one microbatch, F included. W makes norms and gelu again where the
   forward did not leave them: selectively, or when I and W of a full block are apart. */
static int expected_norms(const sc_recompute *recompute, int block, bool has_split)
{
    switch (sc_recompute_of(recompute, block)) {
    case SC_RECOMPUTE_SELECTIVE:
        return 4;
    case SC_RECOMPUTE_FULL:
        return has_split ? 6 : 4;
    default:
        return 2;
    }
}

static void products_are_as_counted(void **state)
{
    (void)state;
    for (int i = 0; i < SC_RIG_RECOMPUTES * SC_RIG_ORDER_COUNT; i++) {
        const sc_recompute *recompute = &sc_slice_rig_recomputes[i / SC_RIG_ORDER_COUNT];
        const sc_rig_order order = (sc_rig_order)(i % SC_RIG_ORDER_COUNT);
        const sc_rig_config config = make_config(order, recompute);
        const sc_cost_layout layout = sc_slice_rig_layout(&config);
        double expected = 0;
        int norms = config.n_mb; // the head's
        sc_rig rig;
        sc_err err = {0};
        count_calls();
        sc_slice_rig_open(&config, &rig);
        if (sc_slice_rig_step(&rig, 0, &err) != SC_OK) {
            fail_msg("%s", err.text);
        }
        for (int s = 0; s < config.n_stages; s++) {
            sc_stage_flops f;
            sc_cost_flops(&config.spec, &rig.ranges[s], &layout, &f);
            expected += config.n_mb * (f.forward + f.backward_input + f.backward_weight);
        }
        for (int block = 0; block < config.spec.n_layer; block++) {
            norms += config.n_mb * expected_norms(recompute, block, is_split(order));
        }
        assert_true(flops == expected);
        assert_int_equal(n_norms, norms);
        assert_int_equal(n_gelus, (norms - config.n_mb) / 2);
        sc_slice_rig_close(&rig);
    }
}

/* The flag is up when a block's forward would run again: nothing is computed. */
static void abort_is_seen_before_recomputing(void **state)
{
    (void)state;
    static atomic_bool is_aborted;
    sc_rig_config config = make_config(SC_RIG_GPIPE, &sc_slice_rig_recomputes[2]);
    config.n_stages = 1;
    config.blocks[0] = 4;
    config.is_aborted = &is_aborted;
    sc_rig rig;
    count_calls();
    sc_slice_rig_open(&config, &rig);
    sc_slice_mb mb = {
        .tokens = rig.tokens, .targets = rig.targets, .keep_slot = -1, .loss_scale = 1};
    const sc_slice_ops *ops = rig.slices[0]->ops;
    assert_int_equal(ops->forward(rig.slices[0], &mb, NULL), SC_OK);
    int n_before = n_norms;
    atomic_store(&is_aborted, true);
    assert_int_equal(ops->backward(rig.slices[0], &mb, NULL), SC_ABORTED);
    assert_int_equal(n_norms, n_before);
    atomic_store(&is_aborted, false);
    assert_int_equal(ops->backward(rig.slices[0], &mb, NULL), SC_OK);
    assert_int_equal(n_norms, n_before + 8);
    sc_slice_rig_close(&rig);
}

int main(void)
{
    sc_err err = {0};
    if (sc_backends_open("cpu", 1, NULL, &cpu, &err) != SC_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_as_counted),
        cmocka_unit_test(abort_is_seen_before_recomputing),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    cpu->free(&cpu);
    return n_failed;
}
