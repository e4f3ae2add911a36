/*
 * layer_weights - the weights and gradient accumulators of one slice.
 *
 * Owns:     one block of weights, one of gradients, and the list of parameters over them.
 * Does not: know in which layer a parameter is used, or update it (optim does).
 *
 * A tied embedding whose two uses fall into one slice has one weight and two accumulators: the sum
 * of the two must not depend on whether they are in one slice.
 */
#ifndef SC_STAGE_LAYERS_LAYER_WEIGHTS_H
#define SC_STAGE_LAYERS_LAYER_WEIGHTS_H

#include "stage/slice.h"

typedef struct sc_layer_weights {
    sc_backend *backend; // borrowed
    const sc_registry *registry;
    sc_slice_param *params; // (n_params) in registry order, a tied copy last
    int n_params;
    void *weights;
    void *grads;
} sc_layer_weights;

/* Allocates what the config's range holds and fills in the initial weights, each element a function
   of the seed, the parameter's name and the element's global index. */
sc_status sc_layer_weights_open(const sc_slice_config *config, sc_layer_weights *out, sc_err *err);
/* Accepts a zeroed or half-opened one. */
void sc_layer_weights_close(sc_layer_weights *weights);

/* The entry for a role in a block. HEAD finds the tied copy when there is no parameter of that
   role, WTE never does. NULL when the slice does not hold it. */
const sc_slice_param *sc_layer_weights_find(const sc_layer_weights *weights, sc_param_role role,
                                            int block);

#endif
