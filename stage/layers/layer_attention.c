#include "stage/layers/layer.h"

/* params */
enum {
    NORM_W,
    NORM_B,
    QKV_W,
    QKV_B,
    OUT_W,
    OUT_B
};

/* saved */
enum {
    NORM,      // (B,T,C)
    NORM_MEAN, // (B,T)
    NORM_RSTD, // (B,T)
    QKV,       // (B,T,3C)
    ATTENTION, // (B,T,C)
    LSE        // (B,n_head,T)
};

/* kept */
enum {
    DQKV, // (B,T,3C)
    DNORM // (B,T,C)
};

static sc_layer_linear qkv_of(const sc_layer *layer, const sc_layer_env *env)
{
    return (sc_layer_linear){
        .w = &layer->params[QKV_W], .bias = &layer->params[QKV_B], .K = env->C, .M = 3 * env->C};
}

static sc_layer_linear out_of(const sc_layer *layer, const sc_layer_env *env)
{
    return (sc_layer_linear){
        .w = &layer->params[OUT_W], .bias = &layer->params[OUT_B], .K = env->C, .M = env->C};
}

static sc_layer_norm norm_of(const sc_layer_saved *saved)
{
    return (sc_layer_norm){
        .y = saved->at[NORM], .mean = saved->at[NORM_MEAN], .rstd = saved->at[NORM_RSTD]};
}

static sc_status forward(const sc_layer *layer, const sc_layer_env *env,
                         const sc_layer_tapes *tapes, sc_layer_saved *saved, sc_slice_mb *mb,
                         void *y, sc_err *err)
{
    (void)mb;
    size_t stream_bytes = (size_t)(env->B * env->T * env->C) * sizeof(float);
    sc_layer_linear qkv = qkv_of(layer, env);
    sc_layer_linear out = out_of(layer, env);
    sc_layer_norm norm;
    SC_TRY(sc_layer_norm_fwd(env, tapes, saved->x, &layer->params[NORM_W], &layer->params[NORM_B],
                             &norm, err));
    saved->at[NORM] = norm.y;
    saved->at[NORM_MEAN] = norm.mean;
    saved->at[NORM_RSTD] = norm.rstd;
    saved->at[QKV] = sc_layer_take(tapes->input, 3 * stream_bytes);
    SC_TRY(sc_layer_linear_fwd(env, &qkv, norm.y, NULL, saved->at[QKV], NULL, err));
    saved->at[ATTENTION] = sc_layer_take(tapes->both, stream_bytes);
    saved->at[LSE] =
        sc_layer_take(tapes->input, (size_t)(env->B * env->n_head * env->T) * sizeof(float));
    const sc_attention_fwd_args args = {
        .dtype = SC_DTYPE_F32,
        .B = env->B,
        .T = env->T,
        .C = env->C,
        .n_head = env->n_head,
        .qkv = saved->at[QKV],
        .y = saved->at[ATTENTION],
        .lse = saved->at[LSE],
        .scratch = env->attention_scratch,
    };
    SC_TRY(env->be->attention_fwd(env->be, env->stream, &args, err));
    return sc_layer_linear_fwd(env, &out, saved->at[ATTENTION], saved->x, y, NULL, err);
}

static sc_status rebuild(const sc_layer *layer, const sc_layer_env *env, sc_layer_tape *tape,
                         sc_layer_saved *saved, sc_err *err)
{
    sc_layer_norm norm = norm_of(saved);
    SC_TRY(sc_layer_norm_rebuild(env, tape, saved->x, &layer->params[NORM_W],
                                 &layer->params[NORM_B], &norm, err));
    saved->at[NORM] = norm.y;
    return SC_OK;
}

static sc_status backward_input(const sc_layer *layer, const sc_layer_env *env, sc_layer_tape *tape,
                                const sc_layer_saved *saved, sc_layer_kept *kept, void *dx,
                                sc_err *err)
{
    size_t stream_bytes = (size_t)(env->B * env->T * env->C) * sizeof(float);
    sc_layer_linear qkv = qkv_of(layer, env);
    sc_layer_linear out = out_of(layer, env);
    sc_layer_norm norm = norm_of(saved);
    SC_TRY(sc_layer_linear_bwd_input(env, &out, kept->dy, NULL, env->dattention, err));
    kept->at[DQKV] = sc_layer_take(tape, 3 * stream_bytes);
    const sc_attention_bwd_args args = {
        .dtype = SC_DTYPE_F32,
        .B = env->B,
        .T = env->T,
        .C = env->C,
        .n_head = env->n_head,
        .qkv = saved->at[QKV],
        .y = saved->at[ATTENTION],
        .lse = saved->at[LSE],
        .dy = env->dattention,
        .dqkv = kept->at[DQKV],
        .scratch = env->attention_scratch,
    };
    SC_TRY(env->be->attention_bwd(env->be, env->stream, &args, err));
    kept->at[DNORM] = sc_layer_take(tape, stream_bytes);
    SC_TRY(sc_layer_linear_bwd_input(env, &qkv, kept->at[DQKV], NULL, kept->at[DNORM], err));
    return sc_layer_norm_bwd_input(env, &norm, saved->x, &layer->params[NORM_W], kept->at[DNORM],
                                   kept->dy, dx, err);
}

static sc_status backward_weight(const sc_layer *layer, const sc_layer_env *env,
                                 const sc_layer_saved *saved, const sc_layer_kept *kept,
                                 sc_err *err)
{
    sc_layer_linear qkv = qkv_of(layer, env);
    sc_layer_linear out = out_of(layer, env);
    sc_layer_norm norm = norm_of(saved);
    SC_TRY(sc_layer_linear_bwd_weight(env, &out, saved->at[ATTENTION], kept->dy, err));
    SC_TRY(sc_layer_linear_bwd_weight(env, &qkv, norm.y, kept->at[DQKV], err));
    return sc_layer_norm_bwd_weight(env, &norm, saved->x, kept->at[DNORM], &layer->params[NORM_W],
                                    &layer->params[NORM_B], err);
}

const sc_layer_ops sc_layer_attention_ops = {
    .name = "attention",
    .n_params = 6,
    .roles = {[NORM_W] = SC_PARAM_LN1_W,
              [NORM_B] = SC_PARAM_LN1_B,
              [QKV_W] = SC_PARAM_QKV_W,
              [QKV_B] = SC_PARAM_QKV_B,
              [OUT_W] = SC_PARAM_ATTN_OUT_W,
              [OUT_B] = SC_PARAM_ATTN_OUT_B},
    .forward = forward,
    .rebuild = rebuild,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
