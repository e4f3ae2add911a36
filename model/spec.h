/*
 * spec - what a model is, in Hugging Face GPT-2 terms.
 */
#ifndef SC_MODEL_SPEC_H
#define SC_MODEL_SPEC_H

#include "base/status.h"

#include <stdbool.h>

/* Limits: each is checked by sc_spec_check. */
enum {
    SC_SPEC_LAYERS_MAX = 1024,
    SC_SPEC_HEADS_MAX = 1024,
    SC_SPEC_WIDTH_MAX = 65536,
    SC_SPEC_VOCAB_MAX = 1 << 20,
    SC_SPEC_POSITIONS_MAX = 1 << 20
};

typedef struct sc_model_spec {
    int n_layer;     // L, transformer blocks
    int n_head;      // heads; divides n_embd
    int n_embd;      // C
    int n_inner;     // MLP width, 4 C by default
    int vocab_size;  // V
    int n_positions; // longest sequence
    double layer_norm_epsilon;
    double initializer_range; // std of the initial weights
    bool tie_word_embeddings; // the head is the token embedding
} sc_model_spec;

/* GPT-2's defaults (n_layer 12, n_head 12, n_embd 768, V 50257, 1024 positions, tied). */
void sc_spec_defaults(sc_model_spec *spec);
/* Sizes within limits, heads divide the width; n_inner = 0 becomes 4 n_embd. The text names the
   key, what it is and what would do ("n_embd: 100 is not a multiple of n_head 12"). */
sc_status sc_spec_check(sc_model_spec *spec, sc_err *err);

/* The slice of a model that one stage holds: blocks [block_begin, block_end), and the ends. */
typedef struct sc_stage_range {
    int block_begin;
    int block_end;
    bool has_embed; // token and position embedding: the first stage
    bool has_head;  // final norm and head with the loss: the last stage
} sc_stage_range;

#endif
