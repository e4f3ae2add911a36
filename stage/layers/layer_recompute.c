#include "stage/layers/layer.h"

sc_layer_tapes sc_layer_recompute_tapes(sc_recompute_kind kind, sc_layer_tape *slot,
                                        sc_layer_tape *work)
{
    switch (kind) {
    case SC_RECOMPUTE_SELECTIVE:
        return (sc_layer_tapes){.both = slot, .input = slot, .cheap = work};
    case SC_RECOMPUTE_FULL:
        return (sc_layer_tapes){.both = work, .input = work, .cheap = work};
    default:
        return (sc_layer_tapes){.both = slot, .input = slot, .cheap = slot};
    }
}

sc_status sc_layer_recompute_block(const sc_layer *layers, const sc_layer_env *env,
                                   sc_layer_tape *kept, sc_layer_tape *work, sc_layer_saved *saved,
                                   sc_slice_mb *mb, sc_err *err)
{
    const sc_layer_tapes tapes = {.both = kept, .input = work, .cheap = work};
    float *x = sc_layer_take(kept, (size_t)(env->B * env->T * env->C) * sizeof *x);
    SC_TRY(layers[0].ops->forward(&layers[0], env, &tapes, &saved[0], mb, x, err));
    saved[1].x = x;
    return layers[1].ops->forward(&layers[1], env, &tapes, &saved[1], mb, NULL, err);
}

sc_status sc_layer_recompute_weight(const sc_layer *layer, const sc_layer_env *env,
                                    sc_layer_tape *work, const sc_layer_saved *saved,
                                    const sc_layer_kept *kept, sc_err *err)
{
    sc_layer_saved whole = *saved;
    work->used_bytes = 0;
    SC_TRY(layer->ops->rebuild(layer, env, work, &whole, err));
    return layer->ops->backward_weight(layer, env, &whole, kept, err);
}
