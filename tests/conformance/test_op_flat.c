#include "tests/conformance/reference.h"
#include "tests/conformance/suite.h"

#include <math.h>
#include <string.h>

/* The operations over flat ranges: optimizers, add and sums of squares. */

static const int64_t lengths[] = {1, 3, 15, 16, 17, 65, 1000, 16384, 16385, 70001, 200003};

enum {
    N_LENGTHS = sizeof lengths / sizeof *lengths
};

static void run_adamw(sc_suite *s, int64_t n, float decay)
{
    sc_err err;
    sc_suite_tensor w = sc_suite_random(s, n, 0.0, 1.0);
    sc_suite_tensor grad = sc_suite_random(s, n, 0.0, 0.1);
    sc_suite_tensor m = sc_suite_random(s, n, 0.0, 0.1);
    sc_suite_tensor v = sc_suite_random(s, n, 0.05, 0.01);
    sc_adamw_args a = {.n = n,
                       .w = w.dev,
                       .grad = grad.dev,
                       .m = m.dev,
                       .v = v.dev,
                       .grad_scale = 0.7f,
                       .lr = 1e-2f,
                       .beta1 = 0.9f,
                       .beta2 = 0.95f,
                       .correction1 = 0.271f,
                       .correction2 = 0.142625f,
                       .epsilon = 1e-8f,
                       .decay = decay};
    const sc_reference_adamw_args r = {
        .grad_scale = (double)a.grad_scale,
        .lr = (double)a.lr,
        .beta1 = (double)a.beta1,
        .beta2 = (double)a.beta2,
        .correction1 = (double)a.correction1,
        .correction2 = (double)a.correction2,
        .epsilon = (double)a.epsilon,
        .decay = (double)a.decay,
    };
    sc_suite_ok(s->be->adamw(s->be, NULL, &a, &err), &err);
    sc_reference_adamw(&r, n, grad.ref, w.ref, m.ref, v.ref);
    memset(grad.ref, 0, (size_t)n * sizeof(double));
    sc_suite_expect(s, &w, SC_SUITE_NMSE, "w");
    sc_suite_expect(s, &m, SC_SUITE_NMSE, "m");
    sc_suite_expect(s, &v, SC_SUITE_NMSE, "v");
    sc_suite_expect(s, &grad, 0.0, "grad");
    sc_suite_release(s);
}

static void test_adamw(void **state)
{
    for (int i = 0; i < N_LENGTHS; i++) {
        run_adamw(*state, lengths[i], 0.0f);
        run_adamw(*state, lengths[i], 0.1f);
    }
}

static void test_sgd(void **state)
{
    sc_suite *s = *state;
    for (int i = 0; i < N_LENGTHS; i++) {
        sc_err err;
        const int64_t n = lengths[i];
        sc_suite_tensor w = sc_suite_random(s, n, 0.0, 1.0);
        sc_suite_tensor grad = sc_suite_random(s, n, 0.0, 1.0);
        sc_sgd_args a = {
            .n = n, .w = w.dev, .grad = grad.dev, .grad_scale = 0.7f, .lr = 0.3f, .decay = 0.1f};
        sc_suite_ok(s->be->sgd(s->be, NULL, &a, &err), &err);
        for (int64_t k = 0; k < n; k++) {
            const double step = grad.ref[k] * (double)a.grad_scale + (double)a.decay * w.ref[k];
            w.ref[k] -= (double)a.lr * step;
            grad.ref[k] = 0.0;
        }
        sc_suite_expect(s, &w, SC_SUITE_NMSE, "w");
        sc_suite_expect(s, &grad, 0.0, "grad");
        sc_suite_release(s);
    }
}

static void test_add(void **state)
{
    sc_suite *s = *state;
    for (int i = 0; i < N_LENGTHS; i++) {
        sc_err err;
        sc_suite_tensor dst = sc_suite_random(s, lengths[i], 0.0, 1.0);
        sc_suite_tensor src = sc_suite_random(s, lengths[i], 0.0, 1.0);
        sc_suite_ok(s->be->add(s->be, NULL, dst.dev, src.dev, lengths[i], &err), &err);
        for (int64_t k = 0; k < lengths[i]; k++) {
            dst.ref[k] = (double)(dst.host[k] + src.host[k]); // one rounding: exact
        }
        sc_suite_expect(s, &dst, 0.0, "dst");
        sc_suite_release(s);
    }
}

static void test_sum_squares(void **state)
{
    sc_suite *s = *state;
    for (int i = 0; i < N_LENGTHS; i++) {
        sc_err err;
        const int64_t n = lengths[i];
        const int64_t n_chunks = (n + SC_NORM_CHUNK_ELEMS - 1) / SC_NORM_CHUNK_ELEMS;
        sc_suite_tensor x = sc_suite_random(s, n, 0.0, 1.0);
        double *partials = sc_suite_host_alloc(s, (size_t)n_chunks * sizeof(double));
        sc_suite_ok(s->be->sum_squares(s->be, NULL, x.dev, n, partials, &err), &err);
        for (int64_t c = 0; c < n_chunks; c++) {
            double sum = 0.0;
            for (int64_t k = c * SC_NORM_CHUNK_ELEMS; k < n && k < (c + 1) * SC_NORM_CHUNK_ELEMS;
                 k++) {
                sum += x.ref[k] * x.ref[k];
            }
            assert_true(fabs(partials[c] - sum) <= 1e-12 * sum);
        }
        sc_suite_release(s);
    }
}

/* A range computed whole equals, bit for bit, one computed in two parts: stages may cut anywhere.
 */
static void test_cut_anywhere(void **state)
{
    sc_suite *s = *state;
    const int64_t n = 1000;
    for (int64_t cut = 1; cut < n; cut += 83) {
        sc_err err;
        sc_suite_tensor out[2][3];
        const uint64_t first = s->n_made;
        for (int i = 0; i < 2; i++) {
            s->n_made = first;
            sc_suite_tensor grad = sc_suite_random(s, n, 0.0, 0.1);
            for (int k = 0; k < 3; k++) {
                out[i][k] = sc_suite_random(s, n, 1.0, 0.1);
            }
            for (int64_t from = 0; from < n; from += i == 0 ? n : from == 0 ? cut : n - cut) {
                sc_adamw_args a = {.n = i == 0      ? n
                                        : from == 0 ? cut
                                                    : n - cut,
                                   .w = out[i][0].dev + from,
                                   .grad = grad.dev + from,
                                   .m = out[i][1].dev + from,
                                   .v = out[i][2].dev + from,
                                   .grad_scale = 0.7f,
                                   .lr = 1e-2f,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.95f,
                                   .correction1 = 0.271f,
                                   .correction2 = 0.142625f,
                                   .epsilon = 1e-8f,
                                   .decay = 0.1f};
                sc_suite_ok(s->be->adamw(s->be, NULL, &a, &err), &err);
            }
        }
        for (int k = 0; k < 3; k++) {
            sc_suite_fetch(s, &out[0][k]);
            sc_suite_fetch(s, &out[1][k]);
            assert_memory_equal(out[0][k].host, out[1][k].host, (size_t)n * sizeof(float));
        }
        sc_suite_release(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw),        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_add),          cmocka_unit_test(test_sum_squares),
        cmocka_unit_test(test_cut_anywhere),
    };
    return sc_suite_main("flat", tests, sizeof tests / sizeof *tests);
}
