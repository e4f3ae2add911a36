/*
 * gen_vshape - V-Half and V-Min: rank r hosts stages r and 2p - 1 - r, backwards are split, and a
 * rank holds about one half, or one third, of the activations that 1F1B's first rank holds.
 *
 * Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362. The actions of one
 * microbatch have fixed start slots, repeated every six; here the slots give the order, and every
 * action goes as early as that order, its inputs and the memory allow, at F = I = W.
 *
 * Peak in chunks (two a microbatch), on the fullest rank when m >= 2p: V-Half 2 floor((p + 2) / 2),
 * V-Min 2 floor((p + 4) / 3).
 */
#ifndef SC_SCHEDULES_GEN_VSHAPE_H
#define SC_SCHEDULES_GEN_VSHAPE_H

#include "schedules/gen.h"

/* The entries of gen's list; see sc_gen_info. The bubbles are known at f = i = w and m >= 2p; NAN
   elsewhere. */
double sc_gen_vshape_closed_bubble_half(const sc_gen_params *params, double f, double i, double w);
double sc_gen_vshape_closed_bubble_min(const sc_gen_params *params, double f, double i, double w);
sc_status sc_gen_vshape_make_half(const sc_gen_params *params, sc_table **out, sc_err *err);
sc_status sc_gen_vshape_make_min(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
