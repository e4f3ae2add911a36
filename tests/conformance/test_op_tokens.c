#include "tests/conformance/reference.h"
#include "tests/conformance/suite.h"

#include <math.h>
#include <string.h>

/* The operations that read tokens: embedding and cross entropy. */

static const int64_t embed_shapes[][4] = { // B, T, C, V
    {1, 1, 1, 1},
    {2, 3, 17, 5},
    {3, 17, 65, 4},
    {1, 65, 130, 300},
    {4, 33, 768, 50}};

static void test_embed(void **state)
{
    sc_suite *s = *state;
    for (size_t i = 0; i < sizeof embed_shapes / sizeof *embed_shapes; i++) {
        const int64_t B = embed_shapes[i][0];
        const int64_t T = embed_shapes[i][1];
        const int64_t C = embed_shapes[i][2];
        const int64_t V = embed_shapes[i][3];
        sc_err err;
        sc_suite_tokens tokens = sc_suite_indices(s, B * T, V, false);
        sc_suite_tensor wte = sc_suite_random(s, V * C, 0.0, 1.0);
        sc_suite_tensor wpe = sc_suite_random(s, T * C, 0.0, 1.0);
        sc_suite_tensor y = sc_suite_random(s, B * T * C, 0.0, 1.0);
        sc_embed_fwd_args f = {.B = B,
                               .T = T,
                               .C = C,
                               .V = V,
                               .tokens = tokens.dev,
                               .wte = wte.dev,
                               .wpe = wpe.dev,
                               .y = y.dev};
        sc_suite_ok(s->be->embed_fwd(s->be, NULL, &f, &err), &err);
        sc_reference_embed_fwd(B, T, C, tokens.host, wte.ref, wpe.ref, y.ref);
        sc_suite_expect(s, &y, SC_SUITE_NMSE, "y");
        sc_embed_bwd_args b = {.B = B,
                               .T = T,
                               .C = C,
                               .V = V,
                               .tokens = tokens.dev,
                               .dy = y.dev,
                               .dwte = wte.dev,
                               .dwpe = wpe.dev};
        sc_suite_ok(s->be->embed_bwd(s->be, NULL, &b, &err), &err);
        sc_reference_embed_bwd(B, T, C, tokens.host, y.ref, wte.ref, wpe.ref);
        sc_suite_expect(s, &wte, SC_SUITE_NMSE, "dwte");
        sc_suite_expect(s, &wpe, SC_SUITE_NMSE, "dwpe");
        sc_suite_release(s);
    }
}

static const int64_t xent_shapes[][2] = { // N, V
    {1, 1}, {1, 3}, {3, 16}, {17, 17}, {65, 65}, {5, 257}, {3, 50257}};

static void run_xent(sc_suite *s, int64_t N, int64_t V, bool is_loss_only, bool has_ignored)
{
    sc_err err;
    double loss_sum = -1.0;
    int64_t n_valid = -1;
    int64_t n_expected = 0;
    sc_suite_tokens targets = sc_suite_indices(s, N, V, has_ignored);
    sc_suite_tensor logits = sc_suite_random(s, N * V, 3.0, 4.0);
    sc_suite_tensor losses = sc_suite_random(s, N, 0.0, 1.0);
    double *gradient = sc_suite_host_alloc(s, (size_t)(N * V) * sizeof(double));
    sc_xent_args a = {.N = N,
                      .V = V,
                      .logits = logits.dev,
                      .targets = targets.dev,
                      .scale = 0.125f,
                      .is_loss_only = is_loss_only,
                      .losses = losses.dev,
                      .loss_sum = &loss_sum,
                      .n_valid = &n_valid};
    sc_suite_ok(s->be->xent(s->be, NULL, &a, &err), &err);
    double expected =
        sc_reference_xent(N, V, logits.ref, targets.host, 0.125, losses.ref, gradient);
    for (int64_t i = 0; i < N; i++) {
        n_expected += targets.host[i] != SC_IGNORE_INDEX;
    }
    // a loss near zero is the difference of numbers as large as the logits
    sc_suite_expect(s, &losses, N >= 17 ? SC_SUITE_NMSE : 1e-9, "losses");
    assert_true(fabs(loss_sum - expected) <= 1e-6 * (1.0 + fabs(expected)));
    assert_int_equal(n_valid, n_expected);
    double in_row_order = 0.0;
    for (int64_t i = 0; i < N; i++) {
        in_row_order += (double)losses.host[i];
    }
    assert_true(loss_sum == in_row_order);
    if (!is_loss_only) {
        memcpy(logits.ref, gradient, (size_t)(N * V) * sizeof(double));
        sc_suite_expect(s, &logits, SC_SUITE_NMSE, "gradient");
    }
    sc_suite_release(s);
}

static void test_xent(void **state)
{
    for (size_t i = 0; i < sizeof xent_shapes / sizeof *xent_shapes; i++) {
        for (int variant = 0; variant < 4; variant++) {
            run_xent(*state, xent_shapes[i][0], xent_shapes[i][1], (variant & 1) != 0,
                     (variant & 2) != 0);
        }
    }
}

/* A logit that is not a number must reach the loss, where it is looked for. */
static void test_xent_keeps_nan(void **state)
{
    sc_suite *s = *state;
    for (int64_t at = 0; at < 100; at += 7) {
        sc_err err;
        double loss_sum = 0.0;
        int64_t n_valid = 0;
        const float nan = NAN;
        sc_suite_tokens targets = sc_suite_indices(s, 2, 50, false);
        sc_suite_tensor logits = sc_suite_random(s, 100, 0.0, 1.0);
        sc_suite_tensor losses = sc_suite_random(s, 2, 0.0, 1.0);
        sc_suite_ok(s->be->copy_to_device(s->be, NULL, logits.dev + at, &nan, sizeof nan, &err),
                    &err);
        sc_xent_args a = {.N = 2,
                          .V = 50,
                          .logits = logits.dev,
                          .targets = targets.dev,
                          .scale = 1.0f,
                          .losses = losses.dev,
                          .loss_sum = &loss_sum,
                          .n_valid = &n_valid};
        sc_suite_ok(s->be->xent(s->be, NULL, &a, &err), &err);
        sc_suite_fetch(s, &losses);
        assert_true(isnan(loss_sum));
        assert_true(isnan(losses.host[at / 50]));
        assert_false(isnan(losses.host[1 - at / 50]));
        sc_suite_release(s);
    }
}

static void test_refuses(void **state)
{
    sc_suite *s = *state;
    sc_err err;
    double loss_sum = 0.0;
    int64_t n_valid = 0;
    sc_suite_tokens tokens = sc_suite_indices(s, 3, 7, false);
    sc_suite_tensor x = sc_suite_random(s, 21, 0.0, 1.0);
    const int32_t bad = 7;
    sc_suite_ok(s->be->copy_to_device(s->be, NULL, tokens.dev + 1, &bad, sizeof bad, &err), &err);
    sc_xent_args a = {.N = 3,
                      .V = 7,
                      .logits = x.dev,
                      .targets = tokens.dev,
                      .losses = x.dev,
                      .loss_sum = &loss_sum,
                      .n_valid = &n_valid};
    assert_int_equal(s->be->xent(s->be, NULL, &a, &err), SC_INVALID);
    assert_string_equal(err.text, "xent: index 7 at row 1 is outside the vocabulary of 7");
    sc_embed_fwd_args e = {.B = 1,
                           .T = 3,
                           .C = 1,
                           .V = 7,
                           .tokens = tokens.dev,
                           .wte = x.dev,
                           .wpe = x.dev,
                           .y = x.dev};
    assert_int_equal(s->be->embed_fwd(s->be, NULL, &e, &err), SC_INVALID);
    assert_string_equal(err.text, "embed_fwd: index 7 at row 1 is outside the vocabulary of 7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_xent),
        cmocka_unit_test(test_xent_keeps_nan),
        cmocka_unit_test(test_refuses),
    };
    return sc_suite_main("tokens", tests, sizeof tests / sizeof *tests);
}
