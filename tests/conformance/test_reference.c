#include "tests/conformance/reference.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The backward functions of the reference against central differences of its forward functions:
   the scalar is the sum of output times fixed random weights, so its gradient is what the backward
   function makes of those weights. */

enum {
    ELEMS_MAX = 2048
};

typedef struct sc_inputs {
    double x[ELEMS_MAX];
    double w[ELEMS_MAX];
    double bias[ELEMS_MAX];
    double weights[ELEMS_MAX]; // dy
    double out[ELEMS_MAX];
    double extra[ELEMS_MAX];
    double extra2[ELEMS_MAX];
    double gradient[ELEMS_MAX];
    double gradient2[ELEMS_MAX];
    int32_t tokens[ELEMS_MAX];
} sc_inputs;

static void fill(double *out, uint64_t stream)
{
    float values[ELEMS_MAX];
    sc_rng_normal(3, stream, 0, ELEMS_MAX, 1.0f, values);
    for (int i = 0; i < ELEMS_MAX; i++) {
        out[i] = (double)values[i];
    }
}

static sc_inputs *make(void)
{
    sc_inputs *in = calloc(1, sizeof *in);
    assert_non_null(in);
    fill(in->x, 1);
    fill(in->w, 2);
    fill(in->bias, 3);
    fill(in->weights, 4);
    for (int i = 0; i < ELEMS_MAX; i++) {
        in->tokens[i] = (int32_t)(sc_rng_u64(3, 5, (uint64_t)i) % 5);
    }
    return in;
}

static double weigh(const sc_inputs *in, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += in->out[i] * in->weights[i];
    }
    return sum;
}

/* Fails unless gradient is that of value(in) by the n numbers at `by`. */
static void expect_gradient(sc_inputs *in, double (*value)(sc_inputs *), double *by,
                            const double *gradient, int64_t n)
{
    const double h = 1e-5;
    for (int64_t i = 0; i < n; i++) {
        const double middle = by[i];
        by[i] = middle + h;
        const double above = value(in);
        by[i] = middle - h;
        const double below = value(in);
        by[i] = middle;
        const double slope = (above - below) / (2.0 * h);
        if (!(fabs(slope - gradient[i]) <= 1e-7 * (1.0 + fabs(slope)))) {
            fail_msg("element %d: gradient %.12g, by differences %.12g", (int)i, gradient[i],
                     slope);
        }
    }
}

static const sc_reference_linear layers[] = {{3, 5, 7, false}, {3, 5, 7, true}};
static const sc_reference_linear *layer;

static double linear_value(sc_inputs *in)
{
    sc_reference_linear_fwd(layer, in->x, in->w, in->bias, NULL, in->out, NULL);
    return weigh(in, layer->N * layer->M);
}

static void test_linear(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        sc_inputs *in = make();
        layer = &layers[i];
        sc_reference_linear_bwd_input(layer, in->weights, in->w, NULL, in->gradient);
        expect_gradient(in, linear_value, in->x, in->gradient, layer->N * layer->K);
        memset(in->gradient, 0, sizeof in->gradient);
        sc_reference_linear_bwd_weight(layer, in->x, in->weights, in->gradient, in->gradient2);
        expect_gradient(in, linear_value, in->w, in->gradient, layer->K * layer->M);
        expect_gradient(in, linear_value, in->bias, in->gradient2, layer->M);
        free(in);
    }
}

/* gelu, then a linear layer: what pre_act stands for. */
static double gelu_value(sc_inputs *in)
{
    for (int64_t i = 0; i < layer->N * layer->K; i++) {
        in->extra[i] = sc_reference_gelu(in->x[i]);
    }
    sc_reference_linear_fwd(layer, in->extra, in->w, NULL, NULL, in->out, NULL);
    return weigh(in, layer->N * layer->M);
}

static void test_gelu(void **state)
{
    (void)state;
    sc_inputs *in = make();
    layer = &layers[0];
    sc_reference_linear_bwd_input(layer, in->weights, in->w, in->x, in->gradient);
    expect_gradient(in, gelu_value, in->x, in->gradient, layer->N * layer->K);
    free(in);
}

static const sc_reference_norm norm = {.N = 3, .C = 11, .epsilon = 1e-3};

/* w is the gain; the input itself is added as a residual would be. */
static double norm_value(sc_inputs *in)
{
    double sum = 0.0;
    sc_reference_norm_fwd(&norm, in->x, in->w, in->bias, in->out, in->extra, in->extra2);
    for (int64_t i = 0; i < norm.N * norm.C; i++) {
        sum += in->x[i] * in->bias[i];
    }
    return weigh(in, norm.N * norm.C) + sum;
}

static double norm_value_alone(sc_inputs *in)
{
    sc_reference_norm_fwd(&norm, in->x, in->w, in->bias, in->out, in->extra, in->extra2);
    return weigh(in, norm.N * norm.C);
}

static void test_norm(void **state)
{
    (void)state;
    sc_inputs *in = make();
    const int64_t n = norm.N * norm.C;
    sc_reference_norm_bwd_input(&norm, in->x, in->w, in->weights, in->bias, in->gradient);
    expect_gradient(in, norm_value, in->x, in->gradient, n);
    sc_reference_norm_bwd_input(&norm, in->x, in->w, in->weights, NULL, in->gradient);
    expect_gradient(in, norm_value_alone, in->x, in->gradient, n);
    memset(in->gradient, 0, sizeof in->gradient);
    sc_reference_norm_bwd_weight(&norm, in->x, in->weights, in->gradient, in->gradient2);
    expect_gradient(in, norm_value_alone, in->w, in->gradient, norm.C);
    expect_gradient(in, norm_value_alone, in->bias, in->gradient2, norm.C);
    free(in);
}

static const sc_reference_attention attention = {.B = 2, .T = 5, .C = 6, .n_head = 2};

static double attention_value(sc_inputs *in)
{
    sc_reference_attention_fwd(&attention, in->x, in->out, in->extra);
    return weigh(in, attention.B * attention.T * attention.C);
}

static void test_attention(void **state)
{
    (void)state;
    sc_inputs *in = make();
    sc_reference_attention_bwd(&attention, in->x, in->weights, in->gradient);
    expect_gradient(in, attention_value, in->x, in->gradient,
                    attention.B * attention.T * 3 * attention.C);
    free(in);
}

enum {
    B = 2,
    T = 3,
    C = 4,
    V = 5
};

/* x is wte, w is wpe. */
static double embed_value(sc_inputs *in)
{
    sc_reference_embed_fwd(B, T, C, in->tokens, in->x, in->w, in->out);
    return weigh(in, B * T * C);
}

static void test_embed(void **state)
{
    (void)state;
    sc_inputs *in = make();
    sc_reference_embed_bwd(B, T, C, in->tokens, in->weights, in->gradient, in->gradient2);
    expect_gradient(in, embed_value, in->x, in->gradient, V * C);
    expect_gradient(in, embed_value, in->w, in->gradient2, T * C);
    free(in);
}

static double xent_value(sc_inputs *in)
{
    return 0.25 * sc_reference_xent(B * T, V, in->x, in->tokens, 0.25, in->extra, in->extra2);
}

static void test_xent(void **state)
{
    (void)state;
    sc_inputs *in = make();
    in->tokens[2] = -100;
    sc_reference_xent(B * T, V, in->x, in->tokens, 0.25, in->extra, in->gradient);
    expect_gradient(in, xent_value, in->x, in->gradient, B * T * V);
    assert_true(in->extra[2] == 0.0);
    free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),    cmocka_unit_test(test_gelu),  cmocka_unit_test(test_norm),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_embed), cmocka_unit_test(test_xent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
