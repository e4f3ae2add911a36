#include "stage/layers/layer.h"

enum {
    WTE,
    WPE
};

enum {
    TOKENS // saved: (B,T) int32
};

static sc_status forward(const sc_layer *layer, const sc_layer_env *env,
                         const sc_layer_tapes *tapes, sc_layer_saved *saved, sc_slice_mb *mb,
                         void *y, sc_err *err)
{
    /* The batch's tokens are borrowed for this call; W needs them much later. */
    size_t bytes = (size_t)(env->B * env->T) * sizeof *mb->tokens;
    int32_t *tokens = sc_layer_take(tapes->both, bytes);
    saved->at[TOKENS] = tokens;
    SC_TRY(env->be->copy_to_device(env->be, env->stream, tokens, mb->tokens, bytes, err));
    const sc_embed_fwd_args args = {
        .dtype = SC_DTYPE_F32,
        .B = env->B,
        .T = env->T,
        .C = env->C,
        .V = env->V,
        .tokens = tokens,
        .wte = layer->params[WTE].w,
        .wpe = layer->params[WPE].w,
        .y = y,
    };
    return env->be->embed_fwd(env->be, env->stream, &args, err);
}

/* Tokens have no gradient; dy is all that W needs, and it is kept already. */
static sc_status backward_input(const sc_layer *layer, const sc_layer_env *env, sc_layer_tape *tape,
                                const sc_layer_saved *saved, sc_layer_kept *kept, void *dx,
                                sc_err *err)
{
    (void)layer;
    (void)env;
    (void)tape;
    (void)saved;
    (void)kept;
    (void)dx;
    (void)err;
    return SC_OK;
}

static sc_status backward_weight(const sc_layer *layer, const sc_layer_env *env,
                                 const sc_layer_saved *saved, const sc_layer_kept *kept,
                                 sc_err *err)
{
    const sc_embed_bwd_args args = {
        .dtype = SC_DTYPE_F32,
        .B = env->B,
        .T = env->T,
        .C = env->C,
        .V = env->V,
        .tokens = saved->at[TOKENS],
        .dy = kept->dy,
        .dwte = layer->params[WTE].grad,
        .dwpe = layer->params[WPE].grad,
    };
    return env->be->embed_bwd(env->be, env->stream, &args, err);
}

const sc_layer_ops sc_layer_embedding_ops = {
    .name = "embedding",
    .n_params = 2,
    .roles = {[WTE] = SC_PARAM_WTE, [WPE] = SC_PARAM_WPE},
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
