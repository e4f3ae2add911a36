#include "tests/conformance/reference.h"
#include "tests/conformance/suite.h"

static const int64_t rows[] = {1, 3, 17, 65, 130};
static const int64_t widths[] = {1, 3, 16, 17, 65, 100, 768};

static void run_sizes(sc_suite *s, void (*run)(sc_suite *, const sc_reference_norm *))
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            const sc_reference_norm n = {.N = rows[i], .C = widths[j], .epsilon = 1e-5};
            run(s, &n);
            sc_suite_release(s);
        }
    }
}

/* mean and rstd on the device, as the forward pass leaves them. */
static void run_fwd_into(sc_suite *s, const sc_reference_norm *n, const sc_suite_tensor *x,
                         sc_suite_tensor *mean, sc_suite_tensor *rstd)
{
    sc_err err;
    sc_suite_tensor gain = sc_suite_random(s, n->C, 1.0, 0.2);
    sc_suite_tensor bias = sc_suite_random(s, n->C, 0.0, 0.2);
    sc_suite_tensor y = sc_suite_random(s, n->N * n->C, 0.0, 1.0);
    *mean = sc_suite_random(s, n->N, 0.0, 1.0);
    *rstd = sc_suite_random(s, n->N, 0.0, 1.0);
    sc_norm_fwd_args a = {
        .N = n->N,
        .C = n->C,
        .epsilon = (float)n->epsilon,
        .x = x->dev,
        .gain = gain.dev,
        .bias = bias.dev,
        .y = y.dev,
        .mean = mean->dev,
        .rstd = rstd->dev,
    };
    sc_suite_ok(s->be->norm_fwd(s->be, NULL, &a, &err), &err);
    sc_reference_norm_fwd(n, x->ref, gain.ref, bias.ref, y.ref, mean->ref, rstd->ref);
    sc_suite_expect(s, &y, SC_SUITE_NMSE, "y");
    sc_suite_expect(s, mean, SC_SUITE_NMSE, "mean");
    sc_suite_expect(s, rstd, SC_SUITE_NMSE, "rstd");
}

static void run_fwd(sc_suite *s, const sc_reference_norm *n)
{
    sc_suite_tensor mean;
    sc_suite_tensor rstd;
    sc_suite_tensor x = sc_suite_random(s, n->N * n->C, 0.5, 2.0);
    run_fwd_into(s, n, &x, &mean, &rstd);
}

static void run_bwd_input(sc_suite *s, const sc_reference_norm *n)
{
    // without residual, with one, and with one that the result overwrites
    for (int variant = 0; variant < 3; variant++) {
        sc_err err;
        sc_suite_tensor mean;
        sc_suite_tensor rstd;
        sc_suite_tensor x = sc_suite_random(s, n->N * n->C, 0.5, 2.0);
        sc_suite_tensor gain = sc_suite_random(s, n->C, 1.0, 0.2);
        sc_suite_tensor dy = sc_suite_random(s, n->N * n->C, 0.0, 1.0);
        sc_suite_tensor residual = sc_suite_random(s, n->N * n->C, 0.0, 1.0);
        sc_suite_tensor dx = variant == 2 ? residual : sc_suite_random(s, n->N * n->C, 0.0, 1.0);
        run_fwd_into(s, n, &x, &mean, &rstd);
        sc_norm_bwd_input_args a = {
            .N = n->N,
            .C = n->C,
            .x = x.dev,
            .gain = gain.dev,
            .mean = mean.dev,
            .rstd = rstd.dev,
            .dy = dy.dev,
            .residual = variant > 0 ? residual.dev : NULL,
            .dx = dx.dev,
        };
        sc_suite_ok(s->be->norm_bwd_input(s->be, NULL, &a, &err), &err);
        sc_reference_norm_bwd_input(n, x.ref, gain.ref, dy.ref, variant > 0 ? residual.ref : NULL,
                                    dx.ref);
        // Widths of 1 and 3 cancel all or most of the gradient, so what is left is rounding of
        // terms as large as rstd: up to 300 where a row's values happen to lie close together.
        sc_suite_expect(s, &dx, n->C > 3 ? SC_SUITE_NMSE : n->C > 1 ? 1e-8 : 1.0, "dx");
        sc_suite_release(s);
    }
}

static void run_bwd_weight(sc_suite *s, const sc_reference_norm *n)
{
    sc_err err;
    sc_suite_tensor mean;
    sc_suite_tensor rstd;
    sc_suite_tensor x = sc_suite_random(s, n->N * n->C, 0.5, 2.0);
    sc_suite_tensor dy = sc_suite_random(s, n->N * n->C, 0.0, 1.0);
    sc_suite_tensor dgain = sc_suite_random(s, n->C, 0.0, 1.0);
    sc_suite_tensor dbias = sc_suite_random(s, n->C, 0.0, 1.0);
    run_fwd_into(s, n, &x, &mean, &rstd);
    sc_norm_bwd_weight_args a = {
        .N = n->N,
        .C = n->C,
        .x = x.dev,
        .mean = mean.dev,
        .rstd = rstd.dev,
        .dy = dy.dev,
        .dgain = dgain.dev,
        .dbias = dbias.dev,
    };
    sc_suite_ok(s->be->norm_bwd_weight(s->be, NULL, &a, &err), &err);
    sc_reference_norm_bwd_weight(n, x.ref, dy.ref, dgain.ref, dbias.ref);
    sc_suite_expect(s, &dgain, SC_SUITE_NMSE, "dgain");
    sc_suite_expect(s, &dbias, SC_SUITE_NMSE, "dbias");
}

static void test_fwd(void **state)
{
    run_sizes(*state, run_fwd);
}

static void test_bwd_input(void **state)
{
    run_sizes(*state, run_bwd_input);
}

static void test_bwd_weight(void **state)
{
    run_sizes(*state, run_bwd_weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fwd),
        cmocka_unit_test(test_bwd_input),
        cmocka_unit_test(test_bwd_weight),
    };
    return sc_suite_main("norm", tests, sizeof tests / sizeof *tests);
}
