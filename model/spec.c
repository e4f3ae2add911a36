#include "model/spec.h"

#include <math.h>

void sc_spec_defaults(sc_model_spec *spec)
{
    *spec = (sc_model_spec){
        .n_layer = 12,
        .n_head = 12,
        .n_embd = 768,
        .n_inner = 0,
        .vocab_size = 50257,
        .n_positions = 1024,
        .layer_norm_epsilon = 1e-5,
        .initializer_range = 0.02,
        .tie_word_embeddings = true,
    };
}

static sc_status check_size(const char *key, int value, int max, sc_err *err)
{
    if (value < 1 || value > max) {
        return sc_status_fail(err, SC_INVALID, "%s: %d is not between 1 and %d", key, value, max);
    }
    return SC_OK;
}

/* The nearest smaller and larger widths that n_head divides. */
static sc_status fail_heads(const sc_model_spec *spec, sc_err *err)
{
    int below = spec->n_embd / spec->n_head * spec->n_head;
    int above = below + spec->n_head;
    if (below == 0) {
        return sc_status_fail(err, SC_INVALID,
                              "n_embd: %d is not a multiple of n_head %d; the next one is %d",
                              spec->n_embd, spec->n_head, above);
    }
    return sc_status_fail(err, SC_INVALID,
                          "n_embd: %d is not a multiple of n_head %d; %d and %d are", spec->n_embd,
                          spec->n_head, below, above);
}

sc_status sc_spec_check(sc_model_spec *spec, sc_err *err)
{
    SC_TRY(check_size("n_layer", spec->n_layer, SC_SPEC_LAYERS_MAX, err));
    SC_TRY(check_size("n_head", spec->n_head, SC_SPEC_HEADS_MAX, err));
    SC_TRY(check_size("n_embd", spec->n_embd, SC_SPEC_WIDTH_MAX, err));
    SC_TRY(check_size("vocab_size", spec->vocab_size, SC_SPEC_VOCAB_MAX, err));
    SC_TRY(check_size("n_positions", spec->n_positions, SC_SPEC_POSITIONS_MAX, err));
    if (spec->n_embd % spec->n_head != 0) {
        return fail_heads(spec, err);
    }
    if (spec->n_inner != 0) {
        SC_TRY(check_size("n_inner", spec->n_inner, 4 * SC_SPEC_WIDTH_MAX, err));
    }
    if (!isfinite(spec->layer_norm_epsilon) || spec->layer_norm_epsilon <= 0 ||
        spec->layer_norm_epsilon >= 1) {
        return sc_status_fail(err, SC_INVALID,
                              "layer_norm_epsilon: %g is not between 0 and 1, both excluded",
                              spec->layer_norm_epsilon);
    }
    if (!isfinite(spec->initializer_range) || spec->initializer_range < 0 ||
        spec->initializer_range > 100) {
        return sc_status_fail(err, SC_INVALID, "initializer_range: %g is not between 0 and 100",
                              spec->initializer_range);
    }
    if (spec->n_inner == 0) {
        spec->n_inner = 4 * spec->n_embd;
    }
    return SC_OK;
}
