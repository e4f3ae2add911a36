/*
 * optim - the optimizer over all parameters that one rank's slices hold.
 *
 * Owns:     the optimizer's state (AdamW's moments), allocated at open through the backend.
 * Does not: reduce over ranks, decide on clipping, or know the learning rate's schedule.
 *
 * The tail of a step, in order: sc_optim_merge_tied; reduction over ranks of tied gradients;
 * sc_gradnorm_local; exchange of the sums; sc_gradnorm_total and _scale; sc_optim_step.
 *
 * A parameter that a rank holds more than once (a tied embedding with both ends here) has one
 * primary entry: the first in the list. Only primaries have state and are stepped; the other
 * entries' weights are the same pointer or get a copy.
 */
#ifndef SC_STAGE_OPTIM_OPTIM_H
#define SC_STAGE_OPTIM_OPTIM_H

#include "stage/slice.h"

typedef enum sc_optim_kind {
    SC_OPTIM_ADAMW,
    SC_OPTIM_SGD
} sc_optim_kind;

typedef struct sc_optim_config {
    sc_optim_kind kind;
    float beta1;                   // AdamW
    float beta2;                   // AdamW
    float epsilon;                 // AdamW
    float weight_decay;            // of parameters with has_decay
    const sc_registry *registry;   // borrowed; may be NULL when no slice has parameters
    sc_backend *backend;           // borrowed
    sc_stream *stream;             // borrowed
    const sc_slice *const *slices; // (n_slices), rising stages; borrowed during open
    int n_slices;
} sc_optim_config;

/* One held parameter. */
typedef struct sc_optim_entry {
    sc_slice_param held; // pointers borrowed from the slice
    const sc_param *param;
    int primary;  // index of the entry that is stepped for this parameter; its own for a primary
    float *state; // primaries: what the kind keeps, NULL for SGD
} sc_optim_entry;

typedef struct sc_optim {
    sc_optim_config config;
    sc_optim_entry *entries; // (n_entries), slice by slice
    int n_entries;
    void *memory; // behind the entries' state
} sc_optim;

/* The slices must stay open while the optimizer lives. Caller closes. */
sc_status sc_optim_open(const sc_optim_config *config, sc_optim **out, sc_err *err);
void sc_optim_close(sc_optim **optim);

/* Adds the gradients of entries that share a parameter into the primary's (embedding + head), and
   zeroes the others'. */
sc_status sc_optim_merge_tied(sc_optim *optim, sc_err *err);

/* The tied embedding's primary gradient on this rank, for the reduction between the ranks that hold
   it; NULL when the model is not tied or the rank holds none. *n_elems_out is its size. */
float *sc_optim_tied_grad(const sc_optim *optim, size_t *n_elems_out);

/* Updates every parameter from its gradient times grad_scale and zeroes the gradients. lr_bits are
   the learning rate float's bits, `step` counts from 1. */
sc_status sc_optim_step(sc_optim *optim, uint32_t lr_bits, uint64_t step, float grad_scale,
                        sc_err *err);

/* What a kind of optimizer is: adamw.c, sgd.c. */
typedef struct sc_optim_update {
    const sc_optim_config *config;
    float lr;
    uint64_t step; // from 1
    float grad_scale;
} sc_optim_update;

/* Elements of state for a parameter of n. */
size_t sc_adamw_state_elems(size_t n);
sc_status sc_adamw_step(const sc_optim_update *update, const sc_optim_entry *entry, sc_err *err);
sc_status sc_sgd_step(const sc_optim_update *update, const sc_optim_entry *entry, sc_err *err);

#endif
