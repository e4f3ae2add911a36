#include "stage/optim/optim.h"

sc_status sc_sgd_step(const sc_optim_update *update, const sc_optim_entry *entry, sc_err *err)
{
    const sc_optim_config *config = update->config;
    const sc_sgd_args args = {
        .n = (int64_t)entry->held.n_elems,
        .w = entry->held.w,
        .grad = entry->held.grad,
        .grad_scale = update->grad_scale,
        .lr = update->lr,
        .decay = entry->param->has_decay ? config->weight_decay : 0.0F,
    };
    return config->backend->sgd(config->backend, config->stream, &args, err);
}
