#include "stage/layers/layer.h"

/* params */
enum {
    NORM_W,
    NORM_B,
    FC_W,
    FC_B,
    OUT_W,
    OUT_B
};

/* saved */
enum {
    NORM,      // (B,T,C)
    NORM_MEAN, // (B,T)
    NORM_RSTD, // (B,T)
    FC,        // (B,T,inner)
    GELU       // (B,T,inner)
};

/* kept */
enum {
    DFC,  // (B,T,inner)
    DNORM // (B,T,C)
};

static sc_layer_linear fc_of(const sc_layer *layer, const sc_layer_env *env)
{
    return (sc_layer_linear){
        .w = &layer->params[FC_W], .bias = &layer->params[FC_B], .K = env->C, .M = env->inner};
}

static sc_layer_linear out_of(const sc_layer *layer, const sc_layer_env *env)
{
    return (sc_layer_linear){
        .w = &layer->params[OUT_W], .bias = &layer->params[OUT_B], .K = env->inner, .M = env->C};
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
    size_t inner_bytes = (size_t)(env->B * env->T * env->inner) * sizeof(float);
    sc_layer_linear fc = fc_of(layer, env);
    sc_layer_linear out = out_of(layer, env);
    sc_layer_norm norm;
    SC_TRY(sc_layer_norm_fwd(env, tapes, saved->x, &layer->params[NORM_W], &layer->params[NORM_B],
                             &norm, err));
    saved->at[NORM] = norm.y;
    saved->at[NORM_MEAN] = norm.mean;
    saved->at[NORM_RSTD] = norm.rstd;
    saved->at[FC] = sc_layer_take(tapes->both, inner_bytes);
    saved->at[GELU] = sc_layer_take(tapes->cheap, inner_bytes);
    SC_TRY(sc_layer_linear_fwd(env, &fc, norm.y, NULL, saved->at[FC], saved->at[GELU], err));
    return y == NULL ? SC_OK
                     : sc_layer_linear_fwd(env, &out, saved->at[GELU], saved->x, y, NULL, err);
}

static sc_status rebuild(const sc_layer *layer, const sc_layer_env *env, sc_layer_tape *tape,
                         sc_layer_saved *saved, sc_err *err)
{
    int64_t n = env->B * env->T * env->inner;
    sc_layer_norm norm = norm_of(saved);
    SC_TRY(sc_layer_norm_rebuild(env, tape, saved->x, &layer->params[NORM_W],
                                 &layer->params[NORM_B], &norm, err));
    saved->at[NORM] = norm.y;
    saved->at[GELU] = sc_layer_take(tape, (size_t)n * sizeof(float));
    return env->be->gelu(env->be, env->stream, saved->at[GELU], saved->at[FC], n, err);
}

static sc_status backward_input(const sc_layer *layer, const sc_layer_env *env, sc_layer_tape *tape,
                                const sc_layer_saved *saved, sc_layer_kept *kept, void *dx,
                                sc_err *err)
{
    size_t inner_bytes = (size_t)(env->B * env->T * env->inner) * sizeof(float);
    size_t stream_bytes = (size_t)(env->B * env->T * env->C) * sizeof(float);
    sc_layer_linear fc = fc_of(layer, env);
    sc_layer_linear out = out_of(layer, env);
    sc_layer_norm norm = norm_of(saved);
    kept->at[DFC] = sc_layer_take(tape, inner_bytes);
    SC_TRY(sc_layer_linear_bwd_input(env, &out, kept->dy, saved->at[FC], kept->at[DFC], err));
    kept->at[DNORM] = sc_layer_take(tape, stream_bytes);
    SC_TRY(sc_layer_linear_bwd_input(env, &fc, kept->at[DFC], NULL, kept->at[DNORM], err));
    return sc_layer_norm_bwd_input(env, &norm, saved->x, &layer->params[NORM_W], kept->at[DNORM],
                                   kept->dy, dx, err);
}

static sc_status backward_weight(const sc_layer *layer, const sc_layer_env *env,
                                 const sc_layer_saved *saved, const sc_layer_kept *kept,
                                 sc_err *err)
{
    sc_layer_linear fc = fc_of(layer, env);
    sc_layer_linear out = out_of(layer, env);
    sc_layer_norm norm = norm_of(saved);
    SC_TRY(sc_layer_linear_bwd_weight(env, &out, saved->at[GELU], kept->dy, err));
    SC_TRY(sc_layer_linear_bwd_weight(env, &fc, norm.y, kept->at[DFC], err));
    return sc_layer_norm_bwd_weight(env, &norm, saved->x, kept->at[DNORM], &layer->params[NORM_W],
                                    &layer->params[NORM_B], err);
}

const sc_layer_ops sc_layer_mlp_ops = {
    .name = "mlp",
    .n_params = 6,
    .roles = {[NORM_W] = SC_PARAM_LN2_W,
              [NORM_B] = SC_PARAM_LN2_B,
              [FC_W] = SC_PARAM_FC_W,
              [FC_B] = SC_PARAM_FC_B,
              [OUT_W] = SC_PARAM_FC_OUT_W,
              [OUT_B] = SC_PARAM_FC_OUT_B},
    .forward = forward,
    .rebuild = rebuild,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
