/*
 * layer - one layer of a slice: its forward and the two halves of its backward over saved tensors.
 *
 * A slice is a list of layers; each has a residual stream (B,T,C) in and out, except the embedding
 * (tokens in) and the head (loss out). What F saves for B and what I keeps for W is taken from a
 * tape over one slot's memory, so the bytes in use are counted by the layers that write them, not
 * by the plan.
 *
 * B is I then W: backward_input leaves every tensor that backward_weight needs in `saved` and
 * `kept`, and a fused B makes the very same calls.
 *
 * Threads: the compute thread's; nothing here allocates.
 */
#ifndef SC_STAGE_LAYERS_LAYER_H
#define SC_STAGE_LAYERS_LAYER_H

#include "stage/slice.h"

enum {
    SC_LAYER_ALIGN = 64, // of every tensor on a tape
    SC_LAYER_PARAMS_MAX = 6,
    SC_LAYER_SAVED_MAX = 6,
    SC_LAYER_KEPT_MAX = 2
};

/* A stack of tensors over one slot. */
typedef struct sc_layer_tape {
    char *base; // borrowed
    size_t capacity_bytes;
    size_t used_bytes; // taken so far
} sc_layer_tape;

/* Where a forward takes its tensors from, by who reads them later. The tapes may be the same one;
   layer_recompute.c says which they are. */
typedef struct sc_layer_tapes {
    sc_layer_tape *both;  // I and W read it
    sc_layer_tape *input; // only I reads it
    sc_layer_tape *cheap; // only W reads it, and `rebuild` makes it again without a product
} sc_layer_tapes;

/* The next `bytes` of the tape, aligned. Running over is a bug: the slot's size is what the layers
   take. */
void *sc_layer_take(sc_layer_tape *tape, size_t bytes);

/* A layer's tensors between F and the end of B or W; which is which is each layer's own business.
 */
typedef struct sc_layer_saved {
    const float *x; // (B,T,C) input; NULL for the embedding
    void *at[SC_LAYER_SAVED_MAX];
} sc_layer_saved;

/* A layer's tensors between I and W. */
typedef struct sc_layer_kept {
    const float *dy; // (B,T,C) gradient of the output; NULL for the head
    float *at[SC_LAYER_KEPT_MAX];
} sc_layer_kept;

/* What the layers of a slice share. */
typedef struct sc_layer_env {
    sc_backend *be;    // borrowed
    sc_stream *stream; // borrowed
    int64_t B;
    int64_t T;
    int64_t C;
    int64_t V;
    int64_t inner; // MLP width
    int64_t n_head;
    float epsilon;
    /* Work space; contents last no longer than one call. */
    float *dattention;       // (B,T,C)
    void *attention_scratch; // as the backend asks for
    int32_t *targets;        // (B,T)
    float *losses;           // (B,T)
} sc_layer_env;

/* A parameter as its layer uses it. */
typedef struct sc_layer_param {
    const float *w;
    float *grad; // +=
} sc_layer_param;

typedef struct sc_layer sc_layer;

typedef struct sc_layer_ops {
    const char *name;
    int n_params;
    sc_param_role roles[SC_LAYER_PARAMS_MAX]; // (n_params), the order of sc_layer.params
    /* Reads saved->x, fills the rest of *saved, writes y (the head: mb's loss; y is NULL). Where an
       MLP runs again y is NULL, and is not computed. */
    sc_status (*forward)(const sc_layer *layer, const sc_layer_env *env,
                         const sc_layer_tapes *tapes, sc_layer_saved *saved, sc_slice_mb *mb,
                         void *y, sc_err *err);
    /* Makes the forward's cheap tensors again from its others, before backward_weight: the same
       bits, in memory of `tape`. NULL where nothing is recomputed. */
    sc_status (*rebuild)(const sc_layer *layer, const sc_layer_env *env, sc_layer_tape *tape,
                         sc_layer_saved *saved, sc_err *err);
    /* Reads kept->dy, fills the rest of *kept, writes dx (the embedding: nothing; dx is NULL). */
    sc_status (*backward_input)(const sc_layer *layer, const sc_layer_env *env, sc_layer_tape *tape,
                                const sc_layer_saved *saved, sc_layer_kept *kept, void *dx,
                                sc_err *err);
    /* Adds to the gradients. */
    sc_status (*backward_weight)(const sc_layer *layer, const sc_layer_env *env,
                                 const sc_layer_saved *saved, const sc_layer_kept *kept,
                                 sc_err *err);
} sc_layer_ops;

struct sc_layer {
    const sc_layer_ops *ops;
    int block;                   // SC_PARAM_NO_BLOCK for the ends
    sc_recompute_kind recompute; // NONE for the ends
    sc_layer_param params[SC_LAYER_PARAMS_MAX];
};

/* layer_embedding.c: tokens -> wte + wpe */
extern const sc_layer_ops sc_layer_embedding_ops;
/* layer_attention.c: x + projection of attention over qkv of norm of x */
extern const sc_layer_ops sc_layer_attention_ops;
/* layer_mlp.c: x + projection of gelu of linear of norm of x */
extern const sc_layer_ops sc_layer_mlp_ops;
/* layer_head.c: norm, logits, cross entropy */
extern const sc_layer_ops sc_layer_head_ops;

/* layer_norm.c: a layer norm as part of a layer. Statistics and output are saved tensors. */
typedef struct sc_layer_norm {
    float *y;    // (B,T,C)
    float *mean; // (B,T)
    float *rstd; // (B,T)
} sc_layer_norm;

/* Takes the three tensors from the tapes and computes them from x. */
sc_status sc_layer_norm_fwd(const sc_layer_env *env, const sc_layer_tapes *tapes, const float *x,
                            const sc_layer_param *gain, const sc_layer_param *bias,
                            sc_layer_norm *out, sc_err *err);
/* Takes y from the tape and computes it again; the statistics get the bits that they have. */
sc_status sc_layer_norm_rebuild(const sc_layer_env *env, sc_layer_tape *tape, const float *x,
                                const sc_layer_param *gain, const sc_layer_param *bias,
                                sc_layer_norm *norm, sc_err *err);
/* dx = gradient through the norm + residual (NULL: none). */
sc_status sc_layer_norm_bwd_input(const sc_layer_env *env, const sc_layer_norm *norm,
                                  const float *x, const sc_layer_param *gain, const float *dy,
                                  const float *residual, void *dx, sc_err *err);
sc_status sc_layer_norm_bwd_weight(const sc_layer_env *env, const sc_layer_norm *norm,
                                   const float *x, const float *dy, const sc_layer_param *gain,
                                   const sc_layer_param *bias, sc_err *err);

/* layer_linear.c: a linear map over all tokens as part of a layer. w is (K,M), or (M,K) when
   is_out_in; bias may be NULL. */
typedef struct sc_layer_linear {
    const sc_layer_param *w;
    const sc_layer_param *bias;
    int64_t K;
    int64_t M;
    bool is_out_in;
} sc_layer_linear;

/* y = x w + bias, then y += residual (NULL: none), or y_act = gelu(y) (NULL: none). */
sc_status sc_layer_linear_fwd(const sc_layer_env *env, const sc_layer_linear *linear,
                              const float *x, const float *residual, void *y, void *y_act,
                              sc_err *err);
/* dx = dy w^T, times gelu'(pre_act) when given. */
sc_status sc_layer_linear_bwd_input(const sc_layer_env *env, const sc_layer_linear *linear,
                                    const float *dy, const float *pre_act, void *dx, sc_err *err);
sc_status sc_layer_linear_bwd_weight(const sc_layer_env *env, const sc_layer_linear *linear,
                                     const float *x, const float *dy, sc_err *err);

/* layer_recompute.c: tensors that are made again in the backward pass. */

/* The tapes of a forward pass, when what is saved goes to `slot`. */
sc_layer_tapes sc_layer_recompute_tapes(sc_recompute_kind kind, sc_layer_tape *slot,
                                        sc_layer_tape *work);
/* The forward of a fully recomputed block again, from its input in saved[0]; layers and saved are
   attention's and the MLP's. What W reads comes to `kept`, all else to `work`; a fused B gives the
   same tape twice. */
sc_status sc_layer_recompute_block(const sc_layer *layers, const sc_layer_env *env,
                                   sc_layer_tape *kept, sc_layer_tape *work, sc_layer_saved *saved,
                                   sc_slice_mb *mb, sc_err *err);
/* backward_weight of a layer whose cheap tensors were not saved: `rebuild` into `work`, then W. */
sc_status sc_layer_recompute_weight(const sc_layer *layer, const sc_layer_env *env,
                                    sc_layer_tape *work, const sc_layer_saved *saved,
                                    const sc_layer_kept *kept, sc_err *err);

#endif
