/*
 * whole_model - the reference of a step: the whole model as one slice in this process, the global
 * batch as one microbatch.
 *
 * Nothing of the path under test is used but the layers and the sampler: no executor, no messages,
 * no accumulation over microbatches, no reduction between ranks, no optimizer. Tokens come from the
 * test's own copy.
 */
#ifndef SC_TESTS_MULTIPROC_WHOLE_MODEL_H
#define SC_TESTS_MULTIPROC_WHOLE_MODEL_H

#include "model/registry.h"
#include "tests/multiproc/jobs.h"

typedef struct sc_whole_model {
    sc_registry *registry;
    int64_t n_valid; // tokens that count
    double loss;     // their mean
    double norm;     // over all elements, in double; a tied embedding counts once
    double **grads;  // (n_params): (n_elems)
} sc_whole_model;

/* A step of the job with its initial weights. */
void sc_whole_model_step(const sc_jobs *jobs, uint64_t step, sc_whole_model *out);
void sc_whole_model_free(sc_whole_model *model);

#endif
