/*
 * gen_looped_bfs - breadth first over v stages a rank, in loop placement: all forwards of a rank's
 * first stage, then of its second, ...; then the backwards from its last stage to its first.
 *
 * Lamy-Poirier, "Breadth-First Pipeline Parallelism", arXiv 2211.05953. The bubble of interleaved;
 * peak: m v live pairs on every rank. Each stage's parameters are used in two runs without a break.
 */
#ifndef SC_SCHEDULES_GEN_LOOPED_BFS_H
#define SC_SCHEDULES_GEN_LOOPED_BFS_H

#include "schedules/gen.h"

/* The entries of gen's list; see sc_gen_info. */
double sc_gen_looped_bfs_closed_bubble(const sc_gen_params *params, double f, double i, double w);
sc_status sc_gen_looped_bfs_make(const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
