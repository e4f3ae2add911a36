#include "model/cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static sc_model_spec gpt2(void)
{
    sc_model_spec spec;
    sc_spec_defaults(&spec);
    assert_int_equal(sc_spec_check(&spec, NULL), SC_OK);
    return spec;
}

/* 6 FLOPs a weight of the matrices and token, as everybody counts; attention apart. */
static void flops_are_six_per_weight(void **state)
{
    (void)state;
    sc_model_spec spec = gpt2();
    const sc_stage_range whole = {0, 12, true, true};
    sc_stage_flops f;
    sc_cost_flops(&spec, &whole, &(sc_cost_layout){.B = 4, .T = 64}, &f);
    double N = 4 * 64;
    double weights = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
    double scores = 12 * 2 * N * 64 * 768;
    assert_true(f.forward == 2 * N * weights + 2 * scores);
    assert_true(f.backward_input == 2 * N * weights + 5 * scores);
    assert_true(f.backward_weight == 2 * N * weights);
}

/* A model's stages cost what the whole costs, whatever the split. */
static void stages_add_up(void **state)
{
    (void)state;
    sc_model_spec spec = gpt2();
    const sc_stage_range whole = {0, 12, true, true};
    sc_stage_flops all;
    sc_stage_bytes all_bytes;
    const sc_cost_layout adamw = {.B = 2, .T = 32, .is_adamw = true};
    const sc_cost_layout sgd = {.B = 2, .T = 32};
    sc_cost_flops(&spec, &whole, &adamw, &all);
    sc_cost_bytes(&spec, &whole, &adamw, &all_bytes);
    const size_t wte = (size_t)50257 * 768 * 4;
    assert_int_equal(all_bytes.params, (size_t)124439808 * 4);
    assert_int_equal(all_bytes.grads, all_bytes.params + wte);
    assert_int_equal(all_bytes.optimizer, 2 * all_bytes.params);
    assert_int_equal(all_bytes.message, 2 * 32 * 768 * 4);
    for (int cut = 0; cut <= 12; cut++) {
        const sc_stage_range ranges[2] = {{0, cut, true, false}, {cut, 12, false, true}};
        double flops = 0;
        size_t grads = 0;
        size_t params = 0;
        size_t act = 0;
        size_t keep = 0;
        for (int s = 0; s < 2; s++) {
            sc_stage_flops f;
            sc_stage_bytes b;
            sc_cost_flops(&spec, &ranges[s], &sgd, &f);
            sc_cost_bytes(&spec, &ranges[s], &sgd, &b);
            flops += f.forward + f.backward_input + f.backward_weight;
            grads += b.grads;
            params += b.params;
            act += b.act_per_mb;
            keep += b.keep_per_mb;
            assert_int_equal(b.optimizer, 0);
        }
        assert_true(flops == all.forward + all.backward_input + all.backward_weight);
        assert_int_equal(grads, all_bytes.grads);
        assert_int_equal(params, all_bytes.params + wte); // the head has its own copy
        assert_int_equal(act, all_bytes.act_per_mb);
        assert_int_equal(keep, all_bytes.keep_per_mb);
    }
}

/* One block's saved bytes, with sizes that need no padding. */
static size_t block_act_bytes(const sc_model_spec *spec, int B, int T, sc_recompute_kind kind,
                              sc_stage_bytes *bytes)
{
    const sc_stage_range block = {3, 4, false, false};
    const sc_cost_layout layout = {.B = B, .T = T, .recompute = {.kind = kind}};
    sc_cost_bytes(spec, &block, &layout, bytes);
    return bytes->act_per_mb;
}

/* Korthikanti et al., arXiv 2205.05198, count bytes of two-byte activations of a layer: sbh (34 +
   5as/h) with all kept, of which 5as^2b is attention's core, and 2sbh for the input alone. Our
   attention never keeps the core, so `none` is their selective 34sbh; less 2sbh for the masks of
   two dropouts, which we don't have. In elements that is 16sbh, plus four statistics a token and
   one a head. Our selective drops the norms' and gelu's outputs: 6 of the 16. */
static void activations_are_as_published(void **state)
{
    (void)state;
    static const int sizes[][4] = {{768, 12, 4, 64}, {2048, 16, 1, 2048}, {64, 4, 16, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        sc_model_spec spec = gpt2();
        spec.n_embd = sizes[i][0];
        spec.n_inner = 4 * spec.n_embd;
        spec.n_head = sizes[i][1];
        spec.n_positions = 2048;
        int B = sizes[i][2];
        int T = sizes[i][3];
        const size_t sb = (size_t)B * (size_t)T;
        const size_t sbh = sb * (size_t)spec.n_embd;
        const size_t statistics = sb * (4 + (size_t)spec.n_head);
        const size_t published = (34 - 2) * sbh; // bytes, two an element
        sc_stage_bytes b;
        assert_int_equal(block_act_bytes(&spec, B, T, SC_RECOMPUTE_NONE, &b),
                         4 * (published / 2 + statistics));
        assert_int_equal(b.work, 0);
        const size_t keep = b.keep_per_mb;
        assert_int_equal(keep, 44 * sbh);
        assert_int_equal(block_act_bytes(&spec, B, T, SC_RECOMPUTE_SELECTIVE, &b),
                         4 * (10 * sbh + statistics));
        assert_int_equal(b.work, 20 * sbh);
        assert_int_equal(b.keep_per_mb, keep);
        assert_int_equal(block_act_bytes(&spec, B, T, SC_RECOMPUTE_FULL, &b), 4 * sbh); // 2sbh
        assert_int_equal(b.work, 4 * (15 * sbh + statistics));
        assert_int_equal(b.keep_per_mb, keep + 4 * (6 * sbh + 4 * sb));
    }
}

/* Full recomputation adds a forward to the backward, but for the product whose result nobody
   reads; their estimate, a whole forward, is 4/3 of the model's FLOPs. */
static void full_adds_a_forward(void **state)
{
    (void)state;
    sc_model_spec spec = gpt2();
    static const int SOME[] = {1, 2, 7};
    const sc_stage_range whole = {0, 12, true, true};
    const sc_stage_range block = {0, 1, false, false};
    const double N = 4.0 * 64;
    const double C = 768;
    const double again = 2 * N * C * 8 * C + 2 * 2 * N * 64 * C;
    sc_cost_layout layout = {.B = 4, .T = 64};
    sc_stage_flops none;
    sc_stage_flops f;
    sc_cost_flops(&spec, &whole, &layout, &none);
    assert_true(none.recomputed == 0);
    layout.recompute.kind = SC_RECOMPUTE_SELECTIVE;
    sc_cost_flops(&spec, &whole, &layout, &f);
    assert_true(f.recomputed == 0 && f.backward_input == none.backward_input);
    layout.recompute.kind = SC_RECOMPUTE_FULL;
    sc_cost_flops(&spec, &whole, &layout, &f);
    assert_true(f.recomputed == 12 * again);
    assert_true(f.backward_input == none.backward_input + 12 * again);
    assert_true(f.forward == none.forward && f.backward_weight == none.backward_weight);
    layout.recompute = (sc_recompute){.kind = SC_RECOMPUTE_BLOCKS, .blocks = SOME, .n_blocks = 3};
    sc_cost_flops(&spec, &whole, &layout, &f);
    assert_true(f.recomputed == 3 * again);
    layout.recompute = (sc_recompute){.kind = SC_RECOMPUTE_FULL};
    sc_cost_flops(&spec, &block, &layout, &f);
    assert_true(f.recomputed < f.forward);
    assert_true(f.recomputed == f.forward - 2 * N * C * 4 * C);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flops_are_six_per_weight),
        cmocka_unit_test(stages_add_up),
        cmocka_unit_test(activations_are_as_published),
        cmocka_unit_test(full_adds_a_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
