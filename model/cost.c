#include "model/cost.h"

enum {
    SAVED_ALIGN = 64 // every tensor in a slot starts on a cache line
};

/* Sizes of one stage and microbatch, in elements. */
typedef struct sc_cost_dims {
    size_t n_blocks;
    size_t n_tokens; // B T
    size_t C;
    size_t inner;
    size_t V;
    size_t n_lse; // B n_head T
} sc_cost_dims;

static sc_cost_dims dims_of(const sc_model_spec *spec, const sc_stage_range *range, int B, int T)
{
    return (sc_cost_dims){
        .n_blocks = (size_t)(range->block_end - range->block_begin),
        .n_tokens = (size_t)B * (size_t)T,
        .C = (size_t)spec->n_embd,
        .inner = (size_t)spec->n_inner,
        .V = (size_t)spec->vocab_size,
        .n_lse = (size_t)B * (size_t)spec->n_head * (size_t)T,
    };
}

/* Bytes of a tensor of n fp32 or int32 elements, with its padding. */
static size_t padded(size_t n)
{
    return (n * 4 + SAVED_ALIGN - 1) / SAVED_ALIGN * SAVED_ALIGN;
}

void sc_cost_flops(const sc_model_spec *spec, const sc_stage_range *range, int B, int T,
                   sc_stage_flops *out)
{
    sc_cost_dims d = dims_of(spec, range, B, T);
    double N = (double)d.n_tokens;
    double C = (double)d.C;
    double linear = (double)d.n_blocks * 2 * N * C * (3 * C + C + 2 * (double)d.inner);
    if (range->has_head) {
        linear += 2 * N * C * (double)d.V;
    }
    /* One of attention's (T,T) products over all heads, counted whole although it is causal. The
       forward has two (scores, values), the backward five: the scores again, dv, dp, dq, dk. */
    double attention = (double)d.n_blocks * 2 * N * (double)T * C;
    *out = (sc_stage_flops){
        .forward = linear + 2 * attention,
        .backward_input = linear + 5 * attention,
        .backward_weight = linear,
    };
}

/* What the forward saves; stage/layers/README.md has the same list by name. */
static size_t act_bytes(const sc_cost_dims *d, const sc_stage_range *range)
{
    size_t stream = padded(d->n_tokens * d->C);
    size_t row = padded(d->n_tokens);
    size_t attention = stream + 2 * row + padded(d->n_tokens * 3 * d->C) + stream +
                       padded(d->n_lse);                                // ln, qkv, y, lse
    size_t mlp = stream + 2 * row + 2 * padded(d->n_tokens * d->inner); // ln, fc, gelu
    size_t head = stream + 2 * row + padded(d->n_tokens * d->V);        // ln, logits
    /* The residual stream: every layer but the last hands its output to the next through the slot,
       and the first one's input is there too unless it is the tokens. */
    size_t n_layers = 2 * d->n_blocks + (range->has_embed ? 1 : 0) + (range->has_head ? 1 : 0);
    size_t n_streams = n_layers + (range->has_embed ? 0 : 1) - 1;
    return n_streams * stream + d->n_blocks * (attention + mlp) + (range->has_head ? head : 0) +
           (range->has_embed ? row : 0);
}

/* What I leaves for W within a layer, its dy apart. */
static size_t keep_attention_bytes(const sc_cost_dims *d)
{
    return padded(d->n_tokens * 3 * d->C) + padded(d->n_tokens * d->C); // dqkv, dln
}

static size_t keep_mlp_bytes(const sc_cost_dims *d)
{
    return padded(d->n_tokens * d->inner) + padded(d->n_tokens * d->C); // dfc, dln
}

static size_t keep_head_bytes(const sc_cost_dims *d)
{
    return padded(d->n_tokens * d->C); // dln; dlogits stay in the activation slot
}

static size_t keep_bytes(const sc_cost_dims *d, const sc_stage_range *range)
{
    size_t n_dy = 2 * d->n_blocks + (range->has_embed ? 1 : 0);
    return n_dy * padded(d->n_tokens * d->C) +
           d->n_blocks * (keep_attention_bytes(d) + keep_mlp_bytes(d)) +
           (range->has_head ? keep_head_bytes(d) : 0);
}

/* The largest layer's share, and two gradients of the residual stream that change places. */
static size_t keep_fused_bytes(const sc_cost_dims *d, const sc_stage_range *range)
{
    size_t layer = range->has_head ? keep_head_bytes(d) : 0;
    if (d->n_blocks > 0) {
        layer = keep_attention_bytes(d) > layer ? keep_attention_bytes(d) : layer;
        layer = keep_mlp_bytes(d) > layer ? keep_mlp_bytes(d) : layer;
    }
    return layer + 2 * padded(d->n_tokens * d->C);
}

static size_t scratch_bytes(const sc_cost_dims *d, const sc_stage_range *range)
{
    size_t bytes = 0;
    if (d->n_blocks > 0) {
        bytes += padded(d->n_tokens * d->C); // gradient of attention's output
    }
    if (range->has_head) {
        bytes += 2 * padded(d->n_tokens); // targets, losses
    }
    return bytes;
}

static size_t block_param_bytes(const sc_cost_dims *d)
{
    size_t C = d->C;
    return 4 * padded(C) + padded(3 * C * C) + padded(3 * C) + padded(C * C) + padded(C) +
           2 * padded(C * d->inner) + padded(d->inner) + padded(C);
}

void sc_cost_bytes(const sc_model_spec *spec, const sc_stage_range *range, int B, int T,
                   bool is_adamw, sc_stage_bytes *out)
{
    sc_cost_dims d = dims_of(spec, range, B, T);
    size_t embedding = padded(d.V * d.C);
    size_t params = d.n_blocks * block_param_bytes(&d);
    size_t grads = 0;
    if (range->has_embed) {
        params += embedding + padded((size_t)spec->n_positions * d.C);
    }
    if (range->has_head) {
        params += embedding + 2 * padded(d.C);
    }
    grads = params;
    if (range->has_embed && range->has_head && spec->tie_word_embeddings) {
        params -= embedding; // one value, two accumulators
    }
    *out = (sc_stage_bytes){
        .params = params,
        .grads = grads,
        .optimizer = is_adamw ? 2 * params : 0,
        .act_per_mb = act_bytes(&d, range),
        .keep_per_mb = keep_bytes(&d, range),
        .keep_fused = keep_fused_bytes(&d, range),
        .scratch = scratch_bytes(&d, range),
        .message = d.n_tokens * d.C * 4,
    };
}
