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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flops_are_six_per_weight),
        cmocka_unit_test(stages_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
