/*
 * gen_zb_auto - orders F, I and W for given times and a memory limit, by the greedy rules of the
 * Zero Bubble paper's automatic schedule.
 *
 * Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 3.1. Every rank keeps a
 * clock. After a warm-up of as many forwards as fit before the first I, each round does at most one
 * forward and one I a rank, and W's go where a rank would wait or has no memory for a forward.
 * Three choices are open (see sc_zb_choices in the .c); all eight sets are tried and the cheapest
 * table is kept: cost as in sc_timeline.
 *
 * Memory of a rank, in microbatches: F adds 1, I gives back 1 - w_share, W gives back w_share.
 * It never exceeds limit_mb. limit_mb = p is the paper's ZB-1p, 2p its ZB-2p.
 */
#ifndef SC_SCHEDULES_GEN_ZB_AUTO_H
#define SC_SCHEDULES_GEN_ZB_AUTO_H

#include "schedules/gen.h"

/* The entry of gen's list; see sc_gen_info. */
sc_status sc_gen_zb_auto_make(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
