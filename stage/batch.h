/*
 * batch - (seed, step, microbatch) -> samples. Pure.
 *
 * An epoch is a keyed permutation of all samples, a new one each epoch, so the global batch of a
 * step is the same for any layout and no sample comes twice. The last batch of an epoch is ragged:
 * places behind the last sample hold none, their targets are ignored, and the loss is divided by
 * the tokens that are there.
 */
#ifndef SC_STAGE_BATCH_H
#define SC_STAGE_BATCH_H

#include <stdint.h>

#define SC_BATCH_NO_SAMPLE UINT64_MAX

typedef struct sc_batch_plan {
    uint64_t seed;
    uint64_t n_samples; // in the data, >= 1
    int B;              // samples a microbatch
    int n_mb;           // microbatches a step
    int T;              // tokens a sample
} sc_batch_plan;

/* Steps of one epoch: ceil(n_samples / (B n_mb)). */
uint64_t sc_batch_steps_per_epoch(const sc_batch_plan *plan);
/* Writes the microbatch's sample ids, SC_BATCH_NO_SAMPLE where there is none. out: (B). */
void sc_batch_samples(const sc_batch_plan *plan, uint64_t step, int mb, uint64_t *out);
/* Tokens of the step's global batch that count for the loss; >= T. */
int64_t sc_batch_valid_tokens(const sc_batch_plan *plan, uint64_t step);
/* A word that identifies the samples of a microbatch: it travels with every message. */
uint64_t sc_batch_digest(uint64_t step, int mb, const uint64_t *samples, int B);

#endif
