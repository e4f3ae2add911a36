/*
 * gen_chimera - two pipelines over the same ranks, one downwards for even microbatches and one
 * upwards for odd ones, so every stage's parameters are on two ranks.
 *
 * Li and Hoefler, "Chimera: Efficiently Training Large-Scale Neural Networks with Bidirectional
 * Pipelines", arXiv 2107.06925. More microbatches than ranks: the forwards of the next unit of p
 * microbatches go into the bubbles at the end of the one before (the paper's direct concatenation).
 * Peak: p / 2 + 1 to p microbatches, of which each direction has at most p / 2.
 */
#ifndef SC_SCHEDULES_GEN_CHIMERA_H
#define SC_SCHEDULES_GEN_CHIMERA_H

#include "schedules/gen.h"

/* The entries of gen's list; see sc_gen_info. The bubble is known for multiples of p microbatches
   and i + w >= f; NAN elsewhere. */
double sc_gen_chimera_closed_bubble(const sc_gen_params *params, double f, double i, double w);
sc_status sc_gen_chimera_make(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
