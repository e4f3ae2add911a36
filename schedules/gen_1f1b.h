/*
 * gen_1f1b - 1F1B without interleaving: rank r does p - r - 1 forwards (at most m), then one
 * forward and one backward in turn, then the backwards that are left.
 *
 * Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
 * Megatron-LM", arXiv 2104.04473. Same bubble as GPipe; peak: min(p - r, m) live microbatches.
 */
#ifndef SC_SCHEDULES_GEN_1F1B_H
#define SC_SCHEDULES_GEN_1F1B_H

#include "schedules/gen.h"

/* The entries of gen's list; see sc_gen_info. */
double sc_gen_1f1b_closed_bubble(const sc_gen_params *params, double f, double i, double w);
sc_status sc_gen_1f1b_make(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
