/*
 * gen_zb - ZB-H1 and ZB-H2: 1F1B with the backward split, W filling what would be bubble.
 *
 * Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241. With h = 1 or 2, rank r does
 * h(p - r - 1) forwards (at most m); then in turn the next forward, the next I and, once more than
 * h r I's are done, the oldest W; at the end the W's that are left, oldest first.
 * Live microbatches, where MW of an activation's MB stays from I to W: on rank r
 * (p - r)MB + r MW in H1, (2(p - r) - 1)MB + 2r MW in H2.
 */
#ifndef SC_SCHEDULES_GEN_ZB_H
#define SC_SCHEDULES_GEN_ZB_H

#include "schedules/gen.h"

/* The entries of gen's list; see sc_gen_info. The closed bubble is known for any p and m where
   w <= f and, for H2, 2w <= f + i; else NAN. */
double sc_gen_zb_closed_bubble_h1(const sc_gen_params *params, double f, double i, double w);
double sc_gen_zb_closed_bubble_h2(const sc_gen_params *params, double f, double i, double w);
sc_status sc_gen_zb_make_h1(const sc_gen_params *params, sc_table **out, sc_err *err);
sc_status sc_gen_zb_make_h2(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
