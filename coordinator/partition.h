/*
 * partition - blocks + costs -> stages: contiguous, at least one block a stage, the largest stage
 * as small as it can be. Pure.
 */
#ifndef SC_COORDINATOR_PARTITION_H
#define SC_COORDINATOR_PARTITION_H

#include "model/cost.h"

/* Splits n >= n_stages >= 1 items of cost >= 0 into n_stages runs of at least one, so that the most
   expensive run costs as little as possible (exact); among those splits an even one. counts:
   (n_stages). */
sc_status sc_partition_split(const double *costs, int n, int n_stages, int *counts, sc_err *err);

/* The same where ranks have several stages, for items that cost the same but for the first and the
   last, which carry the model's ends: the most expensive rank costs as little as possible (exact);
   within a rank stages are even. rank_of_stage: (n_stages). */
sc_status sc_partition_share(const double *costs, int n, int n_stages, const int *rank_of_stage,
                             int *counts, sc_err *err);

/* Stages of a model by counted FLOPs of a microbatch, forward and backward; layers_per_stage
   (n_stages), when not NULL, is taken as it is. rank_of_stage (n_stages): what is to be even is a
   rank's cost; NULL: every stage has its own. out: (n_stages).
   */
sc_status sc_partition_make(const sc_model_spec *spec, int n_stages, const int *rank_of_stage,
                            const int *layers_per_stage, const sc_cost_layout *layout,
                            sc_stage_range *out, sc_err *err);

#endif
