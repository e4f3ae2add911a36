#include "stage/layers/layer.h"

static sc_status compute(const sc_layer_env *env, const float *x, const sc_layer_param *gain,
                         const sc_layer_param *bias, const sc_layer_norm *out, sc_err *err)
{
    const sc_norm_fwd_args args = {
        .dtype = SC_DTYPE_F32,
        .N = env->B * env->T,
        .C = env->C,
        .epsilon = env->epsilon,
        .x = x,
        .gain = gain->w,
        .bias = bias->w,
        .y = out->y,
        .mean = out->mean,
        .rstd = out->rstd,
    };
    return env->be->norm_fwd(env->be, env->stream, &args, err);
}

static float *take_output(const sc_layer_env *env, sc_layer_tape *tape)
{
    return sc_layer_take(tape, (size_t)(env->B * env->T * env->C) * sizeof(float));
}

sc_status sc_layer_norm_fwd(const sc_layer_env *env, const sc_layer_tapes *tapes, const float *x,
                            const sc_layer_param *gain, const sc_layer_param *bias,
                            sc_layer_norm *out, sc_err *err)
{
    size_t n_rows = (size_t)(env->B * env->T);
    out->y = take_output(env, tapes->cheap);
    out->mean = sc_layer_take(tapes->both, n_rows * sizeof *out->mean);
    out->rstd = sc_layer_take(tapes->both, n_rows * sizeof *out->rstd);
    return compute(env, x, gain, bias, out, err);
}

sc_status sc_layer_norm_rebuild(const sc_layer_env *env, sc_layer_tape *tape, const float *x,
                                const sc_layer_param *gain, const sc_layer_param *bias,
                                sc_layer_norm *norm, sc_err *err)
{
    norm->y = take_output(env, tape);
    return compute(env, x, gain, bias, norm, err);
}

sc_status sc_layer_norm_bwd_input(const sc_layer_env *env, const sc_layer_norm *norm,
                                  const float *x, const sc_layer_param *gain, const float *dy,
                                  const float *residual, void *dx, sc_err *err)
{
    const sc_norm_bwd_input_args args = {
        .dtype = SC_DTYPE_F32,
        .N = env->B * env->T,
        .C = env->C,
        .x = x,
        .gain = gain->w,
        .mean = norm->mean,
        .rstd = norm->rstd,
        .dy = dy,
        .residual = residual,
        .dx = dx,
    };
    return env->be->norm_bwd_input(env->be, env->stream, &args, err);
}

sc_status sc_layer_norm_bwd_weight(const sc_layer_env *env, const sc_layer_norm *norm,
                                   const float *x, const float *dy, const sc_layer_param *gain,
                                   const sc_layer_param *bias, sc_err *err)
{
    const sc_norm_bwd_weight_args args = {
        .dtype = SC_DTYPE_F32,
        .N = env->B * env->T,
        .C = env->C,
        .x = x,
        .mean = norm->mean,
        .rstd = norm->rstd,
        .dy = dy,
        .dgain = gain->grad,
        .dbias = bias->grad,
    };
    return env->be->norm_bwd_weight(env->be, env->stream, &args, err);
}
