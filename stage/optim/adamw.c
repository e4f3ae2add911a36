#include "stage/optim/optim.h"

/* The first moments, then the second, each from a cache line on. */
static size_t moment_elems(size_t n)
{
    return (n + 15) / 16 * 16;
}

size_t sc_adamw_state_elems(size_t n)
{
    return 2 * moment_elems(n);
}

/* 1 - beta^step in double by repeated squaring: the bits depend on no C library. */
static float correction(float beta, uint64_t step)
{
    double power = 1.0;
    double square = beta;
    for (uint64_t left = step; left > 0; left >>= 1) {
        if ((left & 1) != 0) {
            power *= square;
        }
        square *= square;
    }
    return (float)(1.0 - power);
}

sc_status sc_adamw_step(const sc_optim_update *update, const sc_optim_entry *entry, sc_err *err)
{
    const sc_optim_config *config = update->config;
    const sc_adamw_args args = {
        .n = (int64_t)entry->held.n_elems,
        .w = entry->held.w,
        .grad = entry->held.grad,
        .m = entry->state,
        .v = entry->state + moment_elems(entry->held.n_elems),
        .grad_scale = update->grad_scale,
        .lr = update->lr,
        .beta1 = config->beta1,
        .beta2 = config->beta2,
        .correction1 = correction(config->beta1, update->step),
        .correction2 = correction(config->beta2, update->step),
        .epsilon = config->epsilon,
        .decay = entry->param->has_decay ? config->weight_decay : 0.0F,
    };
    return config->backend->adamw(config->backend, config->stream, &args, err);
}
