#include "tests/conformance/reference.h"
#include "tests/conformance/suite.h"

#include <string.h>

static const int64_t sizes[] = {1, 3, 17, 65};

enum {
    N_SIZES = sizeof sizes / sizeof *sizes
};

/* A result of one element may be what cancellation left of a sum of terms a hundred times larger,
   and gelu at -7 is an exponential of 27 times its argument's rounding. */
static double nmse_of(int64_t n_elems)
{
    return n_elems >= 50 ? SC_SUITE_NMSE : 1e-7;
}

/* Calls do(suite, N, K, M) for every triple of sizes. */
static void each_size(sc_suite *s, void (*run)(sc_suite *, const sc_reference_linear *))
{
    for (int i = 0; i < N_SIZES * N_SIZES * N_SIZES * 2; i++) {
        const int j = i / 2;
        const sc_reference_linear l = {
            .N = sizes[j % N_SIZES],
            .K = sizes[j / N_SIZES % N_SIZES],
            .M = sizes[j / N_SIZES / N_SIZES],
            .is_out_in = i % 2 == 1,
        };
        run(s, &l);
        sc_suite_release(s);
    }
    // beyond one block of rows, columns and products in oneDNN
    const sc_reference_linear large = {.N = 130, .K = 257, .M = 67};
    run(s, &large);
    sc_suite_release(s);
}

static void run_fwd(sc_suite *s, const sc_reference_linear *l)
{
    for (int variant = 0; variant < 4; variant++) {
        sc_err err;
        sc_suite_tensor x = sc_suite_random(s, l->N * l->K, 0.0, 1.0);
        sc_suite_tensor w = sc_suite_random(s, l->K * l->M, 0.0, 0.5);
        sc_suite_tensor bias = sc_suite_random(s, l->M, 0.0, 1.0);
        sc_suite_tensor residual = sc_suite_random(s, l->N * l->M, 0.0, 1.0);
        sc_suite_tensor y = sc_suite_random(s, l->N * l->M, 0.0, 1.0);
        sc_suite_tensor act = sc_suite_random(s, l->N * l->M, 0.0, 1.0);
        const bool has_bias = variant != 0;
        const bool has_act = variant == 2;
        const bool has_residual = variant == 3;
        sc_linear_fwd_args a = {
            .N = l->N,
            .K = l->K,
            .M = l->M,
            .x = x.dev,
            .w = w.dev,
            .is_out_in = l->is_out_in,
            .bias = has_bias ? bias.dev : NULL,
            .residual = has_residual ? residual.dev : NULL,
            .y = y.dev,
            .y_act = has_act ? act.dev : NULL,
        };
        sc_suite_ok(s->be->linear_fwd(s->be, NULL, &a, &err), &err);
        sc_reference_linear_fwd(l, x.ref, w.ref, has_bias ? bias.ref : NULL,
                                has_residual ? residual.ref : NULL, y.ref,
                                has_act ? act.ref : NULL);
        sc_suite_expect(s, &y, nmse_of(y.n), "y");
        sc_suite_expect(s, &act, nmse_of(act.n), "y_act");
        sc_suite_release(s);
    }
}

static void run_bwd_input(sc_suite *s, const sc_reference_linear *l)
{
    for (int has_pre = 0; has_pre < 2; has_pre++) {
        sc_err err;
        sc_suite_tensor dy = sc_suite_random(s, l->N * l->M, 0.0, 1.0);
        sc_suite_tensor w = sc_suite_random(s, l->K * l->M, 0.0, 0.5);
        sc_suite_tensor pre = sc_suite_random(s, l->N * l->K, 0.0, 2.0);
        sc_suite_tensor dx = sc_suite_random(s, l->N * l->K, 0.0, 1.0);
        sc_linear_bwd_input_args a = {
            .N = l->N,
            .K = l->K,
            .M = l->M,
            .dy = dy.dev,
            .w = w.dev,
            .is_out_in = l->is_out_in,
            .pre_act = has_pre ? pre.dev : NULL,
            .dx = dx.dev,
        };
        sc_suite_ok(s->be->linear_bwd_input(s->be, NULL, &a, &err), &err);
        sc_reference_linear_bwd_input(l, dy.ref, w.ref, has_pre ? pre.ref : NULL, dx.ref);
        sc_suite_expect(s, &dx, nmse_of(dx.n), "dx");
        sc_suite_release(s);
    }
}

static void run_bwd_weight(sc_suite *s, const sc_reference_linear *l)
{
    for (int has_bias = 0; has_bias < 2; has_bias++) {
        sc_err err;
        sc_suite_tensor x = sc_suite_random(s, l->N * l->K, 0.0, 1.0);
        sc_suite_tensor dy = sc_suite_random(s, l->N * l->M, 0.0, 1.0);
        sc_suite_tensor dw = sc_suite_random(s, l->K * l->M, 0.0, 1.0);
        sc_suite_tensor dbias = sc_suite_random(s, l->M, 0.0, 1.0);
        sc_linear_bwd_weight_args a = {
            .N = l->N,
            .K = l->K,
            .M = l->M,
            .x = x.dev,
            .dy = dy.dev,
            .is_out_in = l->is_out_in,
            .dw = dw.dev,
            .dbias = has_bias ? dbias.dev : NULL,
        };
        sc_suite_ok(s->be->linear_bwd_weight(s->be, NULL, &a, &err), &err);
        sc_reference_linear_bwd_weight(l, x.ref, dy.ref, dw.ref, has_bias ? dbias.ref : NULL);
        sc_suite_expect(s, &dw, nmse_of(dw.n), "dw");
        sc_suite_expect(s, &dbias, nmse_of(dbias.n), "dbias");
        sc_suite_release(s);
    }
}

static void test_fwd(void **state)
{
    each_size(*state, run_fwd);
}

static void test_bwd_input(void **state)
{
    each_size(*state, run_bwd_input);
}

static void test_bwd_weight(void **state)
{
    each_size(*state, run_bwd_weight);
}

/* gelu alone, whose bits are those of the linear map that ends in one. */
static void test_gelu_alone(void **state)
{
    static const int64_t lengths[] = {1, 15, 16, 17, 1000, 70001};
    sc_suite *s = *state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        sc_err err;
        const int64_t n = lengths[i];
        const float one = 1.0f;
        sc_suite_tensor x = sc_suite_random(s, n, 0.0, 2.0);
        sc_suite_tensor weight = sc_suite_random(s, 1, 0.0, 1.0);
        sc_suite_tensor pre = sc_suite_random(s, n, 0.0, 1.0);
        sc_suite_tensor fused = sc_suite_random(s, n, 0.0, 1.0);
        sc_suite_tensor y = sc_suite_random(s, n, 0.0, 1.0);
        sc_suite_ok(s->be->copy_to_device(s->be, NULL, weight.dev, &one, sizeof one, &err), &err);
        const sc_linear_fwd_args a = {.dtype = SC_DTYPE_F32,
                                      .N = n,
                                      .K = 1,
                                      .M = 1,
                                      .x = x.dev,
                                      .w = weight.dev,
                                      .y = pre.dev,
                                      .y_act = fused.dev};
        sc_suite_ok(s->be->linear_fwd(s->be, NULL, &a, &err), &err);
        sc_suite_ok(s->be->gelu(s->be, NULL, y.dev, pre.dev, n, &err), &err);
        for (int64_t k = 0; k < n; k++) {
            y.ref[k] = sc_reference_gelu(x.ref[k]);
        }
        sc_suite_expect(s, &y, SC_SUITE_NMSE, "y");
        sc_suite_fetch(s, &fused);
        assert_memory_equal(fused.host, y.host, (size_t)n * sizeof(float));
        sc_suite_release(s);
    }
}

/* Far out on both sides the gate saturates: no overflow, no not-a-number. */
static void test_gelu_extremes(void **state)
{
    sc_suite *s = *state;
    sc_err err;
    static const float values[] = {0.0f, -0.0f, 1e-20f, -5.0f, 5.0f, -12.0f, 40.0f, -60.0f, 3e4f};
    const int64_t n = sizeof values / sizeof *values;
    const float one = 1.0f;
    const sc_reference_linear l = {.N = 1, .K = 1, .M = n};
    sc_suite_tensor x = sc_suite_random(s, 1, 0.0, 1.0);
    sc_suite_tensor w = sc_suite_random(s, n, 0.0, 1.0);
    sc_suite_tensor y = sc_suite_random(s, n, 0.0, 1.0);
    sc_suite_tensor act = sc_suite_random(s, n, 0.0, 1.0);
    sc_suite_ok(s->be->copy_to_device(s->be, NULL, x.dev, &one, sizeof one, &err), &err);
    sc_suite_ok(s->be->copy_to_device(s->be, NULL, w.dev, values, sizeof values, &err), &err);
    sc_linear_fwd_args a = {
        .N = 1, .K = 1, .M = n, .x = x.dev, .w = w.dev, .y = y.dev, .y_act = act.dev};
    sc_suite_ok(s->be->linear_fwd(s->be, NULL, &a, &err), &err);
    x.ref[0] = 1.0;
    for (int64_t i = 0; i < n; i++) {
        w.ref[i] = (double)values[i];
    }
    sc_reference_linear_fwd(&l, x.ref, w.ref, NULL, NULL, y.ref, act.ref);
    sc_suite_fetch(s, &act);
    for (int64_t i = 0; i < n; i++) {
        const double size = act.ref[i] < 0.0 ? -act.ref[i] : act.ref[i];
        // a negative's gelu is e^-2u times x: the rounding of u counts u times, and far out only
        // smallness is left
        assert_float_equal(act.host[i], (float)act.ref[i], (float)(1e-5 * size + 1e-16));
    }
}

static void test_gemm(void **state)
{
    sc_suite *s = *state;
    for (int i = 0; i < N_SIZES * N_SIZES * N_SIZES * 8; i++) {
        const int j = i / 8;
        const int64_t M = sizes[j % N_SIZES];
        const int64_t N = sizes[j / N_SIZES % N_SIZES];
        const int64_t K = sizes[j / N_SIZES / N_SIZES];
        const bool trans_a = (i & 1) != 0;
        const bool trans_b = (i & 2) != 0;
        const float beta = (i & 4) != 0 ? 1.0f : 0.0f;
        const int64_t pad = 5; // rows further apart than they are long
        const int64_t lda = (trans_a ? M : K) + pad;
        const int64_t ldb = (trans_b ? K : N) + pad;
        const int64_t ldc = N + pad;
        sc_err err;
        sc_suite_tensor a = sc_suite_random(s, (trans_a ? K : M) * lda, 0.0, 1.0);
        sc_suite_tensor b = sc_suite_random(s, (trans_b ? N : K) * ldb, 0.0, 1.0);
        sc_suite_tensor c = sc_suite_random(s, M * ldc, 0.0, 1.0);
        sc_gemm_args g = {
            .trans_a = trans_a,
            .trans_b = trans_b,
            .M = M,
            .N = N,
            .K = K,
            .a = a.dev,
            .lda = lda,
            .b = b.dev,
            .ldb = ldb,
            .beta = beta,
            .c = c.dev,
            .ldc = ldc,
        };
        sc_reference_gemm_args r = {trans_a, trans_b,      M,     N,  K, a.ref, lda, b.ref,
                                    ldb,     (double)beta, c.ref, ldc};
        sc_suite_ok(s->be->gemm(s->be, NULL, &g, &err), &err);
        sc_reference_gemm(&r);
        sc_suite_expect(s, &c, nmse_of(c.n), "c");
        sc_suite_release(s);
    }
}

static void test_refuses(void **state)
{
    sc_suite *s = *state;
    sc_err err;
    sc_gemm_args g = {.dtype = SC_DTYPE_BF16, .M = 1, .N = 1, .K = 1};
    assert_int_equal(s->be->gemm(s->be, NULL, &g, &err), SC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "bf16"));
    g = (sc_gemm_args){.M = 1, .N = 0, .K = 1};
    assert_int_equal(s->be->gemm(s->be, NULL, &g, &err), SC_INVALID);
    assert_string_equal(err.text, "gemm: N is 0, must be at least 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fwd),        cmocka_unit_test(test_bwd_input),
        cmocka_unit_test(test_bwd_weight), cmocka_unit_test(test_gelu_extremes),
        cmocka_unit_test(test_gelu_alone), cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_refuses),
    };
    return sc_suite_main("linear", tests, sizeof tests / sizeof *tests);
}
