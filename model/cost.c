#include "model/cost.h"

enum {
    SAVED_ALIGN = 64 // every tensor in a slot starts on a cache line
};

/* Sizes of one stage and microbatch, in elements. */
typedef struct sc_cost_dims {
    size_t n_blocks;
    size_t n_of[SC_RECOMPUTE_BLOCKS]; // blocks by what they make again
    size_t n_tokens;                  // B T
    size_t C;
    size_t inner;
    size_t V;
    size_t n_lse; // B n_head T
} sc_cost_dims;

static sc_cost_dims dims_of(const sc_model_spec *spec, const sc_stage_range *range,
                            const sc_cost_layout *layout)
{
    size_t n_tokens = (size_t)layout->B * (size_t)layout->T;
    sc_cost_dims d = {
        .n_blocks = (size_t)(range->block_end - range->block_begin),
        .n_tokens = n_tokens,
        .C = (size_t)spec->n_embd,
        .inner = (size_t)spec->n_inner,
        .V = (size_t)spec->vocab_size,
        .n_lse = n_tokens * (size_t)spec->n_head,
    };
    for (int block = range->block_begin; block < range->block_end; block++) {
        d.n_of[sc_recompute_of(&layout->recompute, block)]++;
    }
    return d;
}

/* Bytes of a tensor of n fp32 or int32 elements, with its padding. */
static size_t padded(size_t n)
{
    return (n * 4 + SAVED_ALIGN - 1) / SAVED_ALIGN * SAVED_ALIGN;
}

void sc_cost_flops(const sc_model_spec *spec, const sc_stage_range *range,
                   const sc_cost_layout *layout, sc_stage_flops *out)
{
    sc_cost_dims d = dims_of(spec, range, layout);
    double N = (double)d.n_tokens;
    double C = (double)d.C;
    double inner = (double)d.inner;
    double linear = (double)d.n_blocks * 2 * N * C * (3 * C + C + 2 * inner);
    if (range->has_head) {
        linear += 2 * N * C * (double)d.V;
    }
    /* One of attention's (T,T) products over all heads, counted whole although it is causal. The
       forward has two (scores, values), the backward five: the scores again, dv, dp, dq, dk. */
    double product = 2 * N * (double)layout->T * C;
    double attention = (double)d.n_blocks * product;
    /* A block's forward again, but for the MLP's last product: nothing reads the block's output. */
    double again =
        (double)d.n_of[SC_RECOMPUTE_FULL] * (2 * N * C * (3 * C + C + inner) + 2 * product);
    *out = (sc_stage_flops){
        .forward = linear + 2 * attention,
        .backward_input = linear + 5 * attention + again,
        .backward_weight = linear,
        .recomputed = again,
    };
}

/* The tensors of a block's forward by who reads them later; stage/layers/README.md has the same
   list by name. */
typedef struct sc_cost_block {
    size_t stream; // input of the block, and that of its MLP
    size_t both;   // I and W read it: statistics of the norms, attention's output, fc
    size_t input;  // only I reads it: qkv, lse
    size_t norm;   // only W reads it, and it is made again without a product: each norm's output
    size_t gelu;   // the same
} sc_cost_block;

static sc_cost_block block_of(const sc_cost_dims *d)
{
    size_t stream = padded(d->n_tokens * d->C);
    size_t fc = padded(d->n_tokens * d->inner);
    return (sc_cost_block){
        .stream = stream,
        .both = 4 * padded(d->n_tokens) + stream + fc,
        .input = padded(d->n_tokens * 3 * d->C) + padded(d->n_lse),
        .norm = stream,
        .gelu = fc,
    };
}

/* What the forward saves. */
static size_t act_bytes(const sc_cost_dims *d, const sc_stage_range *range)
{
    const sc_cost_block b = block_of(d);
    size_t row = padded(d->n_tokens);
    size_t full = b.stream;
    size_t selective = 2 * b.stream + b.both + b.input;
    size_t none = selective + 2 * b.norm + b.gelu;
    size_t head = 2 * b.stream + 2 * row + padded(d->n_tokens * d->V); // input, norm, logits
    return d->n_of[SC_RECOMPUTE_NONE] * none + d->n_of[SC_RECOMPUTE_SELECTIVE] * selective +
           d->n_of[SC_RECOMPUTE_FULL] * full + (range->has_head ? head : 0) +
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
    const sc_cost_block b = block_of(d);
    size_t n_dy = 2 * d->n_blocks + (range->has_embed ? 1 : 0);
    /* I of a fully recomputed block leaves what W reads of its forward, as selective saves it. */
    size_t again = d->n_of[SC_RECOMPUTE_FULL] * (b.stream + b.both);
    return again + n_dy * padded(d->n_tokens * d->C) +
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

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void count_work(const sc_cost_dims *d, sc_stage_bytes *out)
{
    const sc_cost_block b = block_of(d);
    if (d->n_of[SC_RECOMPUTE_SELECTIVE] > 0) {
        out->work_f = b.norm + b.gelu; // of the MLP, the larger layer
        out->work_b = out->work_f;
        out->work_w = out->work_f;
    }
    if (d->n_of[SC_RECOMPUTE_FULL] > 0) {
        size_t whole = b.stream + b.both + b.input + 2 * b.norm + b.gelu;
        out->work_f = whole;
        out->work_b = whole;
        out->work_i = b.input + 2 * b.norm + b.gelu; // the rest lies in the keep slot
        out->work_w = b.norm + b.gelu;
    }
    out->work = larger(larger(out->work_f, out->work_b), larger(out->work_i, out->work_w));
}

static size_t block_param_bytes(const sc_cost_dims *d)
{
    size_t C = d->C;
    return 4 * padded(C) + padded(3 * C * C) + padded(3 * C) + padded(C * C) + padded(C) +
           2 * padded(C * d->inner) + padded(d->inner) + padded(C);
}

void sc_cost_bytes(const sc_model_spec *spec, const sc_stage_range *range,
                   const sc_cost_layout *layout, sc_stage_bytes *out)
{
    sc_cost_dims d = dims_of(spec, range, layout);
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
        .optimizer = layout->is_adamw ? 2 * params : 0,
        .act_per_mb = act_bytes(&d, range),
        .keep_per_mb = keep_bytes(&d, range),
        .keep_fused = keep_fused_bytes(&d, range),
        .scratch = scratch_bytes(&d, range),
        .message = d.n_tokens * d.C * 4,
    };
    count_work(&d, out);
}
