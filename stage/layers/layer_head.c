#include "stage/layers/layer.h"

/* params */
enum {
    NORM_W,
    NORM_B,
    HEAD_W
};

/* saved */
enum {
    NORM,      // (B,T,C)
    NORM_MEAN, // (B,T)
    NORM_RSTD, // (B,T)
    LOGITS     // (B,T,V); their gradient after the cross entropy
};

/* kept */
enum {
    DNORM // (B,T,C)
};

static sc_layer_linear head_of(const sc_layer *layer, const sc_layer_env *env)
{
    return (sc_layer_linear){
        .w = &layer->params[HEAD_W], .K = env->C, .M = env->V, .is_out_in = true};
}

static sc_layer_norm norm_of(const sc_layer_saved *saved)
{
    return (sc_layer_norm){
        .y = saved->at[NORM], .mean = saved->at[NORM_MEAN], .rstd = saved->at[NORM_RSTD]};
}

/* The loss's gradient is made in place at once: there is no better moment, and I and W then find
   dlogits where the logits were. */
static sc_status forward(const sc_layer *layer, const sc_layer_env *env,
                         const sc_layer_tapes *tapes, sc_layer_saved *saved, sc_slice_mb *mb,
                         void *y, sc_err *err)
{
    (void)y;
    size_t n_rows = (size_t)(env->B * env->T);
    sc_layer_linear head = head_of(layer, env);
    sc_layer_norm norm;
    SC_TRY(sc_layer_norm_fwd(env, tapes, saved->x, &layer->params[NORM_W], &layer->params[NORM_B],
                             &norm, err));
    saved->at[NORM] = norm.y;
    saved->at[NORM_MEAN] = norm.mean;
    saved->at[NORM_RSTD] = norm.rstd;
    saved->at[LOGITS] = sc_layer_take(tapes->both, n_rows * (size_t)env->V * sizeof(float));
    SC_TRY(sc_layer_linear_fwd(env, &head, norm.y, NULL, saved->at[LOGITS], NULL, err));
    SC_TRY(env->be->copy_to_device(env->be, env->stream, env->targets, mb->targets,
                                   n_rows * sizeof *mb->targets, err));
    const sc_xent_args args = {
        .dtype = SC_DTYPE_F32,
        .N = env->B * env->T,
        .V = env->V,
        .logits = saved->at[LOGITS],
        .targets = env->targets,
        .scale = mb->loss_scale,
        .is_loss_only = mb->is_forward_only,
        .losses = env->losses,
        .loss_sum = &mb->loss_sum,
        .n_valid = &mb->n_valid,
    };
    return env->be->xent(env->be, env->stream, &args, err);
}

static sc_status backward_input(const sc_layer *layer, const sc_layer_env *env, sc_layer_tape *tape,
                                const sc_layer_saved *saved, sc_layer_kept *kept, void *dx,
                                sc_err *err)
{
    sc_layer_linear head = head_of(layer, env);
    sc_layer_norm norm = norm_of(saved);
    kept->at[DNORM] = sc_layer_take(tape, (size_t)(env->B * env->T * env->C) * sizeof(float));
    SC_TRY(sc_layer_linear_bwd_input(env, &head, saved->at[LOGITS], NULL, kept->at[DNORM], err));
    return sc_layer_norm_bwd_input(env, &norm, saved->x, &layer->params[NORM_W], kept->at[DNORM],
                                   NULL, dx, err);
}

static sc_status backward_weight(const sc_layer *layer, const sc_layer_env *env,
                                 const sc_layer_saved *saved, const sc_layer_kept *kept,
                                 sc_err *err)
{
    sc_layer_linear head = head_of(layer, env);
    sc_layer_norm norm = norm_of(saved);
    SC_TRY(sc_layer_linear_bwd_weight(env, &head, norm.y, saved->at[LOGITS], err));
    return sc_layer_norm_bwd_weight(env, &norm, saved->x, kept->at[DNORM], &layer->params[NORM_W],
                                    &layer->params[NORM_B], err);
}

const sc_layer_ops sc_layer_head_ops = {
    .name = "head",
    .n_params = 3,
    .roles = {[NORM_W] = SC_PARAM_LNF_W, [NORM_B] = SC_PARAM_LNF_B, [HEAD_W] = SC_PARAM_HEAD},
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
