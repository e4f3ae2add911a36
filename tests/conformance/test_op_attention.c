#include "tests/conformance/reference.h"
#include "tests/conformance/suite.h"

#include <string.h>

/* B, T, C, heads: around the block of 64 queries, odd widths, one head, a long sequence. */
static const sc_reference_attention shapes[] = {{1, 1, 1, 1},   {1, 1, 8, 2},    {2, 3, 6, 2},
                                                {1, 17, 17, 1}, {2, 63, 15, 3},  {1, 64, 32, 2},
                                                {2, 65, 21, 3}, {1, 128, 64, 1}, {1, 129, 130, 2},
                                                {3, 33, 34, 2}, {1, 200, 48, 3}};

enum {
    N_SHAPES = sizeof shapes / sizeof *shapes
};

/* y and lse of the forward pass on the device, checked. */
static void run_fwd(sc_suite *s, const sc_reference_attention *r, const sc_suite_tensor *qkv,
                    sc_suite_tensor *y, sc_suite_tensor *lse, void *scratch)
{
    sc_err err;
    *y = sc_suite_random(s, r->B * r->T * r->C, 0.0, 1.0);
    *lse = sc_suite_random(s, r->B * r->n_head * r->T, 0.0, 1.0);
    sc_attention_fwd_args a = {
        .B = r->B,
        .T = r->T,
        .C = r->C,
        .n_head = r->n_head,
        .qkv = qkv->dev,
        .y = y->dev,
        .lse = lse->dev,
        .scratch = scratch,
    };
    sc_suite_ok(s->be->attention_fwd(s->be, NULL, &a, &err), &err);
    sc_reference_attention_fwd(r, qkv->ref, y->ref, lse->ref);
    sc_suite_expect(s, y, SC_SUITE_NMSE, "y");
    sc_suite_expect(s, lse, SC_SUITE_NMSE, "lse");
}

/* Scratch full of not-a-numbers: its contents are undefined. */
static void *make_scratch(sc_suite *s, const sc_reference_attention *r)
{
    sc_err err;
    const size_t bytes = s->be->attention_scratch_bytes(s->be, r->B, r->T, r->C, r->n_head);
    void *scratch = sc_suite_device_alloc(s, bytes);
    void *filler = sc_suite_host_alloc(s, bytes);
    memset(filler, 0xff, bytes);
    sc_suite_ok(s->be->copy_to_device(s->be, NULL, scratch, filler, bytes, &err), &err);
    return scratch;
}

static void run_bwd(sc_suite *s, const sc_reference_attention *r, double std)
{
    sc_err err;
    sc_suite_tensor y;
    sc_suite_tensor lse;
    void *scratch = make_scratch(s, r);
    sc_suite_tensor qkv = sc_suite_random(s, r->B * r->T * 3 * r->C, 0.0, std);
    sc_suite_tensor dqkv = sc_suite_random(s, r->B * r->T * 3 * r->C, 0.0, 1.0);
    sc_suite_tensor dy = sc_suite_random(s, r->B * r->T * r->C, 0.0, 1.0);
    run_fwd(s, r, &qkv, &y, &lse, scratch);
    sc_attention_bwd_args a = {
        .B = r->B,
        .T = r->T,
        .C = r->C,
        .n_head = r->n_head,
        .qkv = qkv.dev,
        .y = y.dev,
        .lse = lse.dev,
        .dy = dy.dev,
        .dqkv = dqkv.dev,
        .scratch = scratch,
    };
    sc_suite_ok(s->be->attention_bwd(s->be, NULL, &a, &err), &err);
    sc_reference_attention_bwd(r, qkv.ref, dy.ref, dqkv.ref);
    sc_suite_expect(s, &dqkv, SC_SUITE_NMSE, "dqkv");
    sc_suite_release(s);
}

static void test_attention(void **state)
{
    for (int i = 0; i < N_SHAPES; i++) {
        run_bwd(*state, &shapes[i], 1.0);
    }
}

/* Scores of some hundreds: e^score would overflow without the maximum taken off. */
static void test_large_scores(void **state)
{
    sc_suite *s = *state;
    sc_suite_tensor y;
    sc_suite_tensor lse;
    const sc_reference_attention r = {1, 70, 16, 2};
    void *scratch = make_scratch(s, &r);
    sc_suite_tensor qkv = sc_suite_random(s, r.B * r.T * 3 * r.C, 0.0, 12.0);
    run_fwd(s, &r, &qkv, &y, &lse, scratch);
}

static void test_refuses(void **state)
{
    sc_suite *s = *state;
    sc_err err;
    sc_attention_fwd_args a = {.B = 1, .T = 4, .C = 10, .n_head = 3};
    assert_int_equal(s->be->attention_fwd(s->be, NULL, &a, &err), SC_INVALID);
    assert_string_equal(err.text, "attention_fwd: 3 heads do not divide the width 10");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_refuses),
    };
    return sc_suite_main("attention", tests, sizeof tests / sizeof *tests);
}
