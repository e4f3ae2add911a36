#include "tests/conformance/suite.h"

#include "base/rng.h"
#include "kernels/backends.h"

#include <string.h>

/* The same bits on every call: with other work in between, at other addresses, and, for everything
   that is not one matrix product, on another number of threads. */

static uint64_t hash_of(sc_suite *s, const sc_suite_tensor *t)
{
    uint64_t hash = 0;
    sc_suite_fetch(s, t);
    for (int64_t i = 0; i < t->n; i++) {
        uint32_t bits;
        memcpy(&bits, &t->host[i], sizeof bits);
        hash = sc_rng_mix(hash, bits);
    }
    return hash;
}

enum {
    N = 67,
    K = 771, // three times 257
    M = 130,
    B = 2,
    T = 75,
    C = 84,
    HEADS = 4,
    V = 1031,
    LENGTH = 200003,
    CHUNKS = (LENGTH + SC_NORM_CHUNK_ELEMS - 1) / SC_NORM_CHUNK_ELEMS
};

/* One of the three products is done in each, and what follows it. */
static uint64_t do_linear(sc_suite *s)
{
    sc_err err;
    sc_suite_tensor x = sc_suite_random(s, N * K, 0.0, 1.0);
    sc_suite_tensor w = sc_suite_random(s, K * M, 0.0, 1.0);
    sc_suite_tensor bias = sc_suite_random(s, M, 0.0, 1.0);
    sc_suite_tensor y = sc_suite_random(s, N * M, 0.0, 1.0);
    sc_suite_tensor act = sc_suite_random(s, N * M, 0.0, 1.0);
    sc_suite_tensor dx = sc_suite_random(s, N * K, 0.0, 1.0);
    sc_linear_fwd_args f = {.N = N,
                            .K = K,
                            .M = M,
                            .x = x.dev,
                            .w = w.dev,
                            .bias = bias.dev,
                            .y = y.dev,
                            .y_act = act.dev};
    sc_suite_ok(s->be->linear_fwd(s->be, NULL, &f, &err), &err);
    sc_linear_bwd_input_args i = {
        .N = N, .K = K, .M = M, .dy = y.dev, .w = w.dev, .pre_act = x.dev, .dx = dx.dev};
    sc_suite_ok(s->be->linear_bwd_input(s->be, NULL, &i, &err), &err);
    sc_linear_bwd_weight_args b = {
        .N = N, .K = K, .M = M, .x = x.dev, .dy = y.dev, .dw = w.dev, .dbias = bias.dev};
    sc_suite_ok(s->be->linear_bwd_weight(s->be, NULL, &b, &err), &err);
    return hash_of(s, &act) ^ hash_of(s, &dx) ^ hash_of(s, &w) ^ hash_of(s, &bias);
}

static uint64_t do_norm(sc_suite *s)
{
    sc_err err;
    sc_suite_tensor x = sc_suite_random(s, N * K, 0.0, 1.0);
    sc_suite_tensor gain = sc_suite_random(s, K, 1.0, 0.1);
    sc_suite_tensor bias = sc_suite_random(s, K, 0.0, 1.0);
    sc_suite_tensor y = sc_suite_random(s, N * K, 0.0, 1.0);
    sc_suite_tensor mean = sc_suite_random(s, N, 0.0, 1.0);
    sc_suite_tensor rstd = sc_suite_random(s, N, 0.0, 1.0);
    sc_suite_tensor dx = sc_suite_random(s, N * K, 0.0, 1.0);
    sc_norm_fwd_args f = {.N = N,
                          .C = K,
                          .epsilon = 1e-5f,
                          .x = x.dev,
                          .gain = gain.dev,
                          .bias = bias.dev,
                          .y = y.dev,
                          .mean = mean.dev,
                          .rstd = rstd.dev};
    sc_suite_ok(s->be->norm_fwd(s->be, NULL, &f, &err), &err);
    sc_norm_bwd_input_args i = {.N = N,
                                .C = K,
                                .x = x.dev,
                                .gain = gain.dev,
                                .mean = mean.dev,
                                .rstd = rstd.dev,
                                .dy = y.dev,
                                .residual = y.dev,
                                .dx = dx.dev};
    sc_suite_ok(s->be->norm_bwd_input(s->be, NULL, &i, &err), &err);
    sc_norm_bwd_weight_args b = {.N = N,
                                 .C = K,
                                 .x = x.dev,
                                 .mean = mean.dev,
                                 .rstd = rstd.dev,
                                 .dy = y.dev,
                                 .dgain = gain.dev,
                                 .dbias = bias.dev};
    sc_suite_ok(s->be->norm_bwd_weight(s->be, NULL, &b, &err), &err);
    return hash_of(s, &dx) ^ hash_of(s, &gain) ^ hash_of(s, &bias);
}

static uint64_t do_attention(sc_suite *s)
{
    sc_err err;
    sc_suite_tensor qkv = sc_suite_random(s, B * T * 3 * C, 0.0, 1.0);
    sc_suite_tensor y = sc_suite_random(s, B * T * C, 0.0, 1.0);
    sc_suite_tensor lse = sc_suite_random(s, B * HEADS * T, 0.0, 1.0);
    sc_suite_tensor dqkv = sc_suite_random(s, B * T * 3 * C, 0.0, 1.0);
    void *scratch = sc_suite_device_alloc(s, s->be->attention_scratch_bytes(s->be, B, T, C, HEADS));
    sc_attention_fwd_args f = {.B = B,
                               .T = T,
                               .C = C,
                               .n_head = HEADS,
                               .qkv = qkv.dev,
                               .y = y.dev,
                               .lse = lse.dev,
                               .scratch = scratch};
    sc_suite_ok(s->be->attention_fwd(s->be, NULL, &f, &err), &err);
    sc_attention_bwd_args b = {.B = B,
                               .T = T,
                               .C = C,
                               .n_head = HEADS,
                               .qkv = qkv.dev,
                               .y = y.dev,
                               .lse = lse.dev,
                               .dy = y.dev,
                               .dqkv = dqkv.dev,
                               .scratch = scratch};
    sc_suite_ok(s->be->attention_bwd(s->be, NULL, &b, &err), &err);
    return hash_of(s, &y) ^ hash_of(s, &lse) ^ hash_of(s, &dqkv);
}

static uint64_t do_tokens(sc_suite *s)
{
    sc_err err;
    double loss_sum = 0.0;
    int64_t n_valid = 0;
    uint64_t bits;
    sc_suite_tokens tokens = sc_suite_indices(s, B * T, 11, false);
    sc_suite_tokens targets = sc_suite_indices(s, N, V, true);
    sc_suite_tensor wte = sc_suite_random(s, 11 * C, 0.0, 1.0);
    sc_suite_tensor wpe = sc_suite_random(s, T * C, 0.0, 1.0);
    sc_suite_tensor y = sc_suite_random(s, B * T * C, 0.0, 1.0);
    sc_suite_tensor logits = sc_suite_random(s, N * V, 0.0, 3.0);
    sc_suite_tensor losses = sc_suite_random(s, N, 0.0, 1.0);
    sc_embed_bwd_args e = {.B = B,
                           .T = T,
                           .C = C,
                           .V = 11,
                           .tokens = tokens.dev,
                           .dy = y.dev,
                           .dwte = wte.dev,
                           .dwpe = wpe.dev};
    sc_suite_ok(s->be->embed_bwd(s->be, NULL, &e, &err), &err);
    sc_xent_args x = {.N = N,
                      .V = V,
                      .logits = logits.dev,
                      .targets = targets.dev,
                      .scale = 0.01f,
                      .losses = losses.dev,
                      .loss_sum = &loss_sum,
                      .n_valid = &n_valid};
    sc_suite_ok(s->be->xent(s->be, NULL, &x, &err), &err);
    memcpy(&bits, &loss_sum, sizeof bits);
    return hash_of(s, &wte) ^ hash_of(s, &wpe) ^ hash_of(s, &logits) ^ bits;
}

static uint64_t do_flat(sc_suite *s)
{
    sc_err err;
    uint64_t hash = 0;
    double partials[CHUNKS];
    sc_suite_tensor w = sc_suite_random(s, LENGTH, 0.0, 1.0);
    sc_suite_tensor grad = sc_suite_random(s, LENGTH, 0.0, 1.0);
    sc_suite_tensor m = sc_suite_random(s, LENGTH, 0.0, 1.0);
    sc_suite_tensor v = sc_suite_random(s, LENGTH, 9.0, 1.0);
    sc_suite_ok(s->be->sum_squares(s->be, NULL, grad.dev, LENGTH, partials, &err), &err);
    for (int i = 0; i < CHUNKS; i++) {
        uint64_t bits;
        memcpy(&bits, &partials[i], sizeof bits);
        hash = sc_rng_mix(hash, bits);
    }
    sc_adamw_args a = {.n = LENGTH,
                       .w = w.dev,
                       .grad = grad.dev,
                       .m = m.dev,
                       .v = v.dev,
                       .grad_scale = 0.3f,
                       .lr = 0.1f,
                       .beta1 = 0.9f,
                       .beta2 = 0.95f,
                       .correction1 = 0.1f,
                       .correction2 = 0.05f,
                       .epsilon = 1e-8f,
                       .decay = 0.1f};
    sc_suite_ok(s->be->adamw(s->be, NULL, &a, &err), &err);
    return hash ^ hash_of(s, &w);
}

static const struct {
    const char *name;
    uint64_t (*run)(sc_suite *);
    bool is_any_threads; // bits do not depend on the number of threads
} groups[] = {
    {"linear", do_linear, false}, {"norm", do_norm, true}, {"attention", do_attention, true},
    {"tokens", do_tokens, true},  {"flat", do_flat, true},
};

enum {
    N_GROUPS = sizeof groups / sizeof *groups
};

static uint64_t run_group(sc_suite *s, int i, size_t shift_bytes)
{
    s->shift_bytes = shift_bytes;
    s->n_made = 100;
    uint64_t hash = groups[i].run(s);
    sc_suite_release(s);
    s->shift_bytes = 0;
    return hash;
}

static void test_same_bits(void **state)
{
    sc_suite *s = *state;
    for (int i = 0; i < N_GROUPS; i++) {
        const uint64_t first = run_group(s, i, 0);
        for (int round = 1; round <= 3; round++) {
            run_group(s, (i + round) % N_GROUPS, 0); // other work
            if (run_group(s, i, 64 * (size_t)(round * round)) != first) {
                fail_msg("%s: other bits in round %d", groups[i].name, round);
            }
        }
    }
}

static void test_any_threads(void **state)
{
    sc_suite *s = *state;
    sc_backend *own = s->be;
    sc_backend *other = NULL;
    sc_err err;
    sc_suite_ok(sc_backends_open(own->name, own->n_threads == 1 ? 2 : 1, own->isa, &other, &err),
                &err);
    for (int i = 0; i < N_GROUPS; i++) {
        const uint64_t first = run_group(s, i, 0);
        s->be = other;
        const uint64_t second = run_group(s, i, 0);
        s->be = own;
        if (groups[i].is_any_threads && first != second) {
            fail_msg("%s: other bits on %d threads than on %d", groups[i].name, other->n_threads,
                     own->n_threads);
        }
    }
    other->free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_any_threads),
    };
    return sc_suite_main("determinism", tests, sizeof tests / sizeof *tests);
}
