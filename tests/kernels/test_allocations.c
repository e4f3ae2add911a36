#include "kernels/backends.h"
#include "tests/kernels/alloc_count.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* No operation allocates after its first call. Libraries do: oneDNN for each matrix product, OpenMP
   for a team of one thread. What they allocate is the same on every call. */

enum {
    B = 2,
    T = 70,
    N = B * T,
    C = 96,
    HEADS = 4,
    V = 300,
    LENGTH = 200000,
    CALLS = 4
};

typedef struct sc_operands {
    sc_backend *be;
    float *x; // (LENGTH) each; large enough for every use
    float *w;
    float *y;
    float *z;
    int32_t *tokens;
    void *scratch;
    double partials[LENGTH / SC_NORM_CHUNK_ELEMS + 1];
} sc_operands;

static sc_status do_linear_fwd(sc_operands *o, sc_err *err)
{
    const sc_linear_fwd_args a = {
        .N = N, .K = C, .M = 4 * C, .x = o->x, .w = o->w, .bias = o->w, .y = o->y, .y_act = o->z};
    return o->be->linear_fwd(o->be, NULL, &a, err);
}

static sc_status do_linear_bwd_input(sc_operands *o, sc_err *err)
{
    const sc_linear_bwd_input_args a = {
        .N = N, .K = C, .M = 4 * C, .dy = o->y, .w = o->w, .pre_act = o->x, .dx = o->z};
    return o->be->linear_bwd_input(o->be, NULL, &a, err);
}

static sc_status do_linear_bwd_weight(sc_operands *o, sc_err *err)
{
    const sc_linear_bwd_weight_args a = {
        .N = N, .K = C, .M = 4 * C, .x = o->x, .dy = o->y, .dw = o->w, .dbias = o->z};
    return o->be->linear_bwd_weight(o->be, NULL, &a, err);
}

static sc_status do_attention_fwd(sc_operands *o, sc_err *err)
{
    const sc_attention_fwd_args a = {.B = B,
                                     .T = T,
                                     .C = C,
                                     .n_head = HEADS,
                                     .qkv = o->x,
                                     .y = o->y,
                                     .lse = o->z,
                                     .scratch = o->scratch};
    return o->be->attention_fwd(o->be, NULL, &a, err);
}

static sc_status do_attention_bwd(sc_operands *o, sc_err *err)
{
    const sc_attention_bwd_args a = {.B = B,
                                     .T = T,
                                     .C = C,
                                     .n_head = HEADS,
                                     .qkv = o->x,
                                     .y = o->y,
                                     .lse = o->z,
                                     .dy = o->y,
                                     .dqkv = o->w,
                                     .scratch = o->scratch};
    return o->be->attention_bwd(o->be, NULL, &a, err);
}

static sc_status do_norm_fwd(sc_operands *o, sc_err *err)
{
    const sc_norm_fwd_args a = {.N = N,
                                .C = C,
                                .epsilon = 1e-5f,
                                .x = o->x,
                                .gain = o->w,
                                .bias = o->w,
                                .y = o->y,
                                .mean = o->z,
                                .rstd = o->z + N};
    return o->be->norm_fwd(o->be, NULL, &a, err);
}

static sc_status do_norm_bwd_input(sc_operands *o, sc_err *err)
{
    const sc_norm_bwd_input_args a = {.N = N,
                                      .C = C,
                                      .x = o->x,
                                      .gain = o->w,
                                      .mean = o->z,
                                      .rstd = o->z + N,
                                      .dy = o->x,
                                      .dx = o->y};
    return o->be->norm_bwd_input(o->be, NULL, &a, err);
}

static sc_status do_norm_bwd_weight(sc_operands *o, sc_err *err)
{
    const sc_norm_bwd_weight_args a = {.N = N,
                                       .C = C,
                                       .x = o->x,
                                       .mean = o->z,
                                       .rstd = o->z + N,
                                       .dy = o->x,
                                       .dgain = o->y,
                                       .dbias = o->y + C};
    return o->be->norm_bwd_weight(o->be, NULL, &a, err);
}

static sc_status do_embed_fwd(sc_operands *o, sc_err *err)
{
    const sc_embed_fwd_args a = {
        .B = B, .T = T, .C = C, .V = V, .tokens = o->tokens, .wte = o->w, .wpe = o->x, .y = o->y};
    return o->be->embed_fwd(o->be, NULL, &a, err);
}

static sc_status do_embed_bwd(sc_operands *o, sc_err *err)
{
    const sc_embed_bwd_args a = {.B = B,
                                 .T = T,
                                 .C = C,
                                 .V = V,
                                 .tokens = o->tokens,
                                 .dy = o->x,
                                 .dwte = o->y,
                                 .dwpe = o->z};
    return o->be->embed_bwd(o->be, NULL, &a, err);
}

static sc_status do_xent(sc_operands *o, sc_err *err)
{
    double loss_sum;
    int64_t n_valid;
    const sc_xent_args a = {.N = N,
                            .V = V,
                            .logits = o->x,
                            .targets = o->tokens,
                            .scale = 1.0f,
                            .losses = o->y,
                            .loss_sum = &loss_sum,
                            .n_valid = &n_valid};
    return o->be->xent(o->be, NULL, &a, err);
}

static sc_status do_gelu(sc_operands *o, sc_err *err)
{
    return o->be->gelu(o->be, NULL, o->y, o->x, LENGTH, err);
}

static sc_status do_add(sc_operands *o, sc_err *err)
{
    return o->be->add(o->be, NULL, o->y, o->x, LENGTH, err);
}

static sc_status do_sum_squares(sc_operands *o, sc_err *err)
{
    return o->be->sum_squares(o->be, NULL, o->x, LENGTH, o->partials, err);
}

static sc_status do_adamw(sc_operands *o, sc_err *err)
{
    const sc_adamw_args a = {.n = LENGTH,
                             .w = o->w,
                             .grad = o->x,
                             .m = o->y,
                             .v = o->z,
                             .grad_scale = 1.0f,
                             .lr = 0.1f,
                             .beta1 = 0.9f,
                             .beta2 = 0.9f,
                             .correction1 = 0.1f,
                             .correction2 = 0.1f,
                             .epsilon = 1e-8f};
    return o->be->adamw(o->be, NULL, &a, err);
}

static sc_status do_sgd(sc_operands *o, sc_err *err)
{
    const sc_sgd_args a = {
        .n = LENGTH, .w = o->w, .grad = o->x, .grad_scale = 1.0f, .lr = 0.1f, .decay = 0.1f};
    return o->be->sgd(o->be, NULL, &a, err);
}

static const struct {
    const char *name;
    sc_status (*run)(sc_operands *o, sc_err *err);
} ops[] = {
    {"linear_fwd", do_linear_fwd},
    {"linear_bwd_input", do_linear_bwd_input},
    {"linear_bwd_weight", do_linear_bwd_weight},
    {"attention_fwd", do_attention_fwd},
    {"attention_bwd", do_attention_bwd},
    {"norm_fwd", do_norm_fwd},
    {"norm_bwd_input", do_norm_bwd_input},
    {"norm_bwd_weight", do_norm_bwd_weight},
    {"embed_fwd", do_embed_fwd},
    {"embed_bwd", do_embed_bwd},
    {"xent", do_xent},
    {"gelu", do_gelu},
    {"add", do_add},
    {"sum_squares", do_sum_squares},
    {"adamw", do_adamw},
    {"sgd", do_sgd},
};

static void *alloc(sc_backend *be, size_t bytes)
{
    void *p = NULL;
    assert_int_equal(be->memory_alloc(be, bytes, &p, NULL), SC_OK);
    return p;
}

static void run_all(int n_threads)
{
    sc_operands o = {0};
    sc_err err;
    assert_int_equal(sc_backends_open("cpu", n_threads, NULL, &o.be, &err), SC_OK);
    float **floats[] = {&o.x, &o.w, &o.y, &o.z};
    for (int i = 0; i < 4; i++) {
        *floats[i] = alloc(o.be, LENGTH * sizeof(float));
    }
    o.tokens = alloc(o.be, N * sizeof(int32_t));
    o.scratch = alloc(o.be, o.be->attention_scratch_bytes(o.be, B, T, C, HEADS));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        long counts[CALLS];
        long own[CALLS];
        for (int call = 0; call < CALLS; call++) {
            const long before = sc_alloc_count_all();
            const long own_before = sc_alloc_count_own();
            if (ops[i].run(&o, &err) != SC_OK) {
                fail_msg("%s: %s", ops[i].name, err.text);
            }
            own[call] = sc_alloc_count_own() - own_before;
            counts[call] = sc_alloc_count_all() - before;
        }
        for (int call = 1; call < CALLS; call++) {
            if (counts[call] != counts[1] || own[call] != 0) {
                fail_msg("%s, %d threads: call %d allocated %ld times, %ld of them our own; call 1 "
                         "%ld times",
                         ops[i].name, n_threads, call, counts[call], own[call], counts[1]);
            }
        }
    }
    for (int i = 0; i < 4; i++) {
        o.be->memory_free(o.be, *floats[i]);
    }
    o.be->memory_free(o.be, o.tokens);
    o.be->memory_free(o.be, o.scratch);
    o.be->free(&o.be);
}

static void test_counts(void **state)
{
    (void)state;
    sc_alloc_count_start();
    // the counters themselves work
    const long all = sc_alloc_count_all();
    const long own = sc_alloc_count_own();
    void *volatile p = malloc(10);
    assert_int_equal(sc_alloc_count_all(), all + 1);
    assert_int_equal(sc_alloc_count_own(), own + 1);
    free(p);
}

static void test_one_thread(void **state)
{
    (void)state;
    run_all(1);
}

static void test_two_threads(void **state)
{
    (void)state;
    run_all(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
