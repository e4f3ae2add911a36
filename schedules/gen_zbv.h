/*
 * gen_zbv - ZB-V, the hand-made order: rank r hosts stages r and 2p - 1 - r, backwards are split,
 * and at F = I = W no rank has a hole between its first and its last action.
 *
 * Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 6 and Figure 8. Peak: 2p
 * chunks, which is p microbatches, on every rank. With less than 2p - 1 microbatches it is the
 * order of 2p - 1 without those that are missing.
 */
#ifndef SC_SCHEDULES_GEN_ZBV_H
#define SC_SCHEDULES_GEN_ZBV_H

#include "schedules/gen.h"

/* The entries of gen's list; see sc_gen_info. 0 at f = i = w and m >= 2p - 1, NAN elsewhere. */
double sc_gen_zbv_closed_bubble(const sc_gen_params *params, double f, double i, double w);
sc_status sc_gen_zbv_make(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
