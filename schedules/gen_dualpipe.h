/*
 * gen_dualpipe - DualPipe and its V: microbatches run towards each other, and a forward of one
 * direction is paired with a backward of the other, which a device may overlap.
 *
 * DeepSeek-V3 Technical Report, arXiv 2412.19437, and the project's README. `dualpipe` has one
 * stage of each direction a rank and replicates parameters: even microbatches go from rank 0 to p -
 * 1, odd ones back. `dualpipe-v` is one half of that, folded: rank r hosts stages r and 2p - 1 - r,
 * and nothing is replicated. A pair stands as its two halves, F before B.
 *
 * Peak, when there are enough microbatches: 2p + 1 chunks (dualpipe-v), p + 1 microbatches
 * (dualpipe). With fewer than the order needs (2p, and p of each direction) it is that order
 * without those that are missing.
 */
#ifndef SC_SCHEDULES_GEN_DUALPIPE_H
#define SC_SCHEDULES_GEN_DUALPIPE_H

#include "schedules/gen.h"

/* The entries of gen's list; see sc_gen_info. The README's bubble for S stages, (S / 2 - 1)
   (F&B + B - 3W), is that of overlapped pairs. With halves that run one after the other it is
   (S / 2 - 1)(F + B - 2W), exact for i = f, w <= f and enough microbatches; NAN elsewhere. */
double sc_gen_dualpipe_closed_bubble_v(const sc_gen_params *params, double f, double i, double w);
double sc_gen_dualpipe_closed_bubble(const sc_gen_params *params, double f, double i, double w);
sc_status sc_gen_dualpipe_make_v(const sc_gen_params *params, sc_table **out, sc_err *err);
sc_status sc_gen_dualpipe_make(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
