/*
 * gen_gpipe - GPipe: all forwards, then all backwards, both in rising microbatch order.
 *
 * Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
 * arXiv 1811.06965. Peak: m live microbatches on every rank.
 */
#ifndef SC_SCHEDULES_GEN_GPIPE_H
#define SC_SCHEDULES_GEN_GPIPE_H

#include "schedules/gen.h"

/* The entries of gen's list; see sc_gen_info. */
double sc_gen_gpipe_closed_bubble(const sc_gen_params *params, double f, double i, double w);
sc_status sc_gen_gpipe_make(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
