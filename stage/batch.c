#include "stage/batch.h"

#include "base/rng.h"

static uint64_t batch_samples(const sc_batch_plan *plan)
{
    return (uint64_t)plan->B * (uint64_t)plan->n_mb;
}

uint64_t sc_batch_steps_per_epoch(const sc_batch_plan *plan)
{
    uint64_t per_step = batch_samples(plan);
    return plan->n_samples / per_step + (plan->n_samples % per_step != 0);
}

void sc_batch_samples(const sc_batch_plan *plan, uint64_t step, int mb, uint64_t *out)
{
    uint64_t per_epoch = sc_batch_steps_per_epoch(plan);
    uint64_t epoch = step / per_epoch;
    uint64_t first = step % per_epoch * batch_samples(plan) + (uint64_t)mb * (uint64_t)plan->B;
    uint64_t stream = sc_rng_mix(sc_rng_stream("sample order"), epoch);
    for (int i = 0; i < plan->B; i++) {
        uint64_t place = first + (uint64_t)i;
        out[i] = place < plan->n_samples
                     ? sc_rng_permute(plan->seed, stream, plan->n_samples, place)
                     : SC_BATCH_NO_SAMPLE;
    }
}

int64_t sc_batch_valid_tokens(const sc_batch_plan *plan, uint64_t step)
{
    uint64_t first = step % sc_batch_steps_per_epoch(plan) * batch_samples(plan);
    uint64_t left = plan->n_samples - first;
    uint64_t n = left < batch_samples(plan) ? left : batch_samples(plan);
    return (int64_t)n * plan->T;
}

uint64_t sc_batch_digest(uint64_t step, int mb, const uint64_t *samples, int B)
{
    uint64_t digest = sc_rng_mix(step, (uint64_t)mb);
    for (int i = 0; i < B; i++) {
        digest = sc_rng_mix(digest, samples[i]);
    }
    return digest;
}
