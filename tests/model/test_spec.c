#include "model/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void defaults_are_gpt2(void **state)
{
    (void)state;
    sc_model_spec spec;
    sc_spec_defaults(&spec);
    assert_int_equal(sc_spec_check(&spec, NULL), SC_OK);
    assert_int_equal(spec.n_layer, 12);
    assert_int_equal(spec.n_embd, 768);
    assert_int_equal(spec.n_inner, 3072);
    assert_int_equal(spec.vocab_size, 50257);
    assert_int_equal(spec.n_positions, 1024);
    assert_true(spec.tie_word_embeddings);
}

static void expect_refused(const sc_model_spec *spec, const char *text)
{
    sc_err err = {0};
    sc_model_spec copy = *spec;
    assert_int_equal(sc_spec_check(&copy, &err), SC_INVALID);
    assert_string_equal(err.text, text);
}

static void each_limit_is_named(void **state)
{
    (void)state;
    sc_model_spec good;
    sc_spec_defaults(&good);
    sc_model_spec bad = good;
    bad.n_layer = 0;
    expect_refused(&bad, "n_layer: 0 is not between 1 and 1024");
    bad = good;
    bad.n_head = -3;
    expect_refused(&bad, "n_head: -3 is not between 1 and 1024");
    bad = good;
    bad.n_embd = 65537;
    expect_refused(&bad, "n_embd: 65537 is not between 1 and 65536");
    bad = good;
    bad.vocab_size = 0;
    expect_refused(&bad, "vocab_size: 0 is not between 1 and 1048576");
    bad = good;
    bad.n_positions = 1 << 21;
    expect_refused(&bad, "n_positions: 2097152 is not between 1 and 1048576");
    bad = good;
    bad.n_inner = -1;
    expect_refused(&bad, "n_inner: -1 is not between 1 and 262144");
    bad = good;
    bad.layer_norm_epsilon = 0;
    expect_refused(&bad, "layer_norm_epsilon: 0 is not between 0 and 1, both excluded");
    bad = good;
    bad.initializer_range = -0.5;
    expect_refused(&bad, "initializer_range: -0.5 is not between 0 and 100");
}

static void heads_divide_the_width(void **state)
{
    (void)state;
    sc_model_spec spec;
    sc_spec_defaults(&spec);
    spec.n_embd = 100;
    expect_refused(&spec, "n_embd: 100 is not a multiple of n_head 12; 96 and 108 are");
    spec.n_embd = 8;
    expect_refused(&spec, "n_embd: 8 is not a multiple of n_head 12; the next one is 12");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_gpt2),
        cmocka_unit_test(each_limit_is_named),
        cmocka_unit_test(heads_divide_the_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
