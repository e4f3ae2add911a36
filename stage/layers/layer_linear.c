#include "stage/layers/layer.h"

sc_status sc_layer_linear_fwd(const sc_layer_env *env, const sc_layer_linear *linear,
                              const float *x, const float *residual, void *y, void *y_act,
                              sc_err *err)
{
    const sc_linear_fwd_args args = {
        .dtype = SC_DTYPE_F32,
        .N = env->B * env->T,
        .K = linear->K,
        .M = linear->M,
        .x = x,
        .w = linear->w->w,
        .is_out_in = linear->is_out_in,
        .bias = linear->bias == NULL ? NULL : linear->bias->w,
        .residual = residual,
        .y = y,
        .y_act = y_act,
    };
    return env->be->linear_fwd(env->be, env->stream, &args, err);
}

sc_status sc_layer_linear_bwd_input(const sc_layer_env *env, const sc_layer_linear *linear,
                                    const float *dy, const float *pre_act, void *dx, sc_err *err)
{
    const sc_linear_bwd_input_args args = {
        .dtype = SC_DTYPE_F32,
        .N = env->B * env->T,
        .K = linear->K,
        .M = linear->M,
        .dy = dy,
        .w = linear->w->w,
        .is_out_in = linear->is_out_in,
        .pre_act = pre_act,
        .dx = dx,
    };
    return env->be->linear_bwd_input(env->be, env->stream, &args, err);
}

sc_status sc_layer_linear_bwd_weight(const sc_layer_env *env, const sc_layer_linear *linear,
                                     const float *x, const float *dy, sc_err *err)
{
    const sc_linear_bwd_weight_args args = {
        .dtype = SC_DTYPE_F32,
        .N = env->B * env->T,
        .K = linear->K,
        .M = linear->M,
        .x = x,
        .dy = dy,
        .is_out_in = linear->is_out_in,
        .dw = linear->w->grad,
        .dbias = linear->bias == NULL ? NULL : linear->bias->grad,
    };
    return env->be->linear_bwd_weight(env->be, env->stream, &args, err);
}
