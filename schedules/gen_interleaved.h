/*
 * gen_interleaved - 1F1B over v >= 2 stages a rank, in loop placement: stage s on rank s mod p.
 *
 * Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
 * Megatron-LM", arXiv 2104.04473; groups of any size: Llama Team, arXiv 2407.21783.
 *
 * Microbatches go in groups (params->group, p by default, at most m; the last group is what is
 * left): a group passes all chunks of a rank before the next group begins. Rank r keeps at most
 * 2(p - r - 1) + (v - 1) group + 1 pairs live and does one forward and one backward in turn. Where
 * all ranks would wait for each other (two groups in a row that are together less than 2p - 2),
 * those that can do a forward before its turn do it, and a few more pairs are live.
 */
#ifndef SC_SCHEDULES_GEN_INTERLEAVED_H
#define SC_SCHEDULES_GEN_INTERLEAVED_H

#include "schedules/gen.h"

/* The entries of gen's list; see sc_gen_info. The closed bubble is known for m <= group, and for
   group >= p that divides m; else NAN. */
double sc_gen_interleaved_closed_bubble(const sc_gen_params *params, double f, double i, double w);
sc_status sc_gen_interleaved_make(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
