/*
 * gradnorm - the global gradient norm, with the same bits for every layout.
 *
 * A tensor's sum of squares is the sum of double partials of fixed chunks in order; the whole is
 * the sum of the tensors' sums in registry order. Which rank holds a tensor does not matter.
 */
#ifndef SC_STAGE_OPTIM_GRADNORM_H
#define SC_STAGE_OPTIM_GRADNORM_H

#include "stage/optim/optim.h"

typedef struct sc_gradnorm {
    const sc_optim *optim; // borrowed
    double *partials;      // of the largest tensor
} sc_gradnorm;

sc_status sc_gradnorm_open(const sc_optim *optim, sc_gradnorm *out, sc_err *err);
void sc_gradnorm_close(sc_gradnorm *gradnorm);

/* sums (registry's n_params): each tensor's sum of squares that this rank answers for, 0 for all
   others. Tied gradients must have been merged and reduced: both ranks then hold the whole, and
   only the one with the embedding answers for it. */
sc_status sc_gradnorm_local(sc_gradnorm *gradnorm, double *sums, sc_err *err);

/* The norm from every rank's sums, (n_ranks,n_params) in rank order. */
double sc_gradnorm_total(const double *sums, int n_ranks, int n_params);
/* What gradients are multiplied with: clip / norm when the norm is above clip, otherwise 1; 1 when
   clip is 0. SC_NUMERIC when the norm is not finite. */
sc_status sc_gradnorm_scale(double norm, float clip, float *out, sc_err *err);

#endif
