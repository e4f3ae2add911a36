/*
 * gen_hanayo - waves: the stages run down the ranks and up again, v / 2 times, without replicas.
 *
 * Liu et al., "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model Training
 * Efficiency", arXiv 2308.15762: W = S / (2p) waves of 2p stages. A greedy order for B = 2F, as in
 * the paper, while all microbatches can be in flight. Of more than p, at most p are, in the greedy
 * order for B = F: its bubble does not grow with m at B = F, and at B = 2F it grows less than if p
 * microbatches came after p. Peak: v min(m, p) chunks.
 */
#ifndef SC_SCHEDULES_GEN_HANAYO_H
#define SC_SCHEDULES_GEN_HANAYO_H

#include "schedules/gen.h"

/* The entry of gen's list; see sc_gen_info. The paper's formula for the bubble is no exact one, so
   none is given. */
sc_status sc_gen_hanayo_make(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
