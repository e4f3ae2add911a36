#include "coordinator/partition.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

/* Work arrays of a split, all of n + 1 doubles or ints. */
typedef struct split {
    int n;
    double *sums;  // sums[i]: cost of items [0, i)
    double *best;  // best[i]: smallest largest run over [0, i) with the stages so far
    double *next;  // the same with one more stage
    int *n_needed; // n_needed[i]: fewest runs of at most `largest` that [i, n) packs into
} split;

static double run_cost(const split *s, int begin, int end)
{
    return s->sums[end] - s->sums[begin];
}

/* The last run starts at j: best[j] rises with j and the run's cost falls, so the larger of the two
   is smallest where they cross. */
static double best_last_run(const split *s, int n_before, int end)
{
    int low = n_before; // every stage before has an item
    int high = end - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (s->best[middle] >= run_cost(s, middle, end)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    double at = s->best[low] > run_cost(s, low, end) ? s->best[low] : run_cost(s, low, end);
    if (low == n_before) {
        return at;
    }
    double before = run_cost(s, low - 1, end); // there the run is the larger one
    return before < at ? before : at;
}

/* The smallest possible cost of the largest run, by dynamic programming over stages. */
static double find_largest(split *s, int n_stages)
{
    for (int i = 0; i <= s->n; i++) {
        s->best[i] = s->sums[i];
    }
    for (int stage = 1; stage < n_stages; stage++) {
        for (int end = stage + 1; end <= s->n; end++) {
            s->next[end] = best_last_run(s, stage, end);
        }
        double *swap = s->best;
        s->best = s->next;
        s->next = swap;
    }
    return s->best[s->n];
}

static void count_needed(split *s, double largest)
{
    s->n_needed[s->n] = 0;
    int end = s->n;
    for (int begin = s->n - 1; begin >= 0; begin--) {
        while (run_cost(s, begin, end) > largest && end > begin + 1) {
            end--;
        }
        s->n_needed[begin] = 1 + s->n_needed[end];
    }
}

/* Walks the stages, each as near to the average of what is left as keeps every run at most
   `largest`. */
static void fill_counts(split *s, double largest, int n_stages, int *counts)
{
    int begin = 0;
    for (int stage = 0; stage < n_stages; stage++) {
        int n_left = n_stages - stage - 1;
        int end = begin + 1;
        double target = run_cost(s, begin, s->n) / (n_left + 1);
        for (int i = begin + 1; i <= s->n - n_left; i++) {
            bool fits = run_cost(s, begin, i) <= largest && s->n_needed[i] <= n_left;
            bool is_better =
                s->n_needed[end] > n_left || run_cost(s, begin, i) <= target * 1.000001;
            if (fits && is_better) {
                end = i;
            }
        }
        counts[stage] = end - begin;
        begin = end;
    }
    assert(begin == s->n);
}

sc_status sc_partition_split(const double *costs, int n, int n_stages, int *counts, sc_err *err)
{
    assert(n_stages >= 1 && n >= n_stages);
    size_t size = (size_t)n + 1;
    double *doubles = calloc(3 * size, sizeof *doubles);
    int *ints = calloc(size, sizeof *ints);
    sc_status status = SC_OK;
    if (doubles == NULL || ints == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "no memory to split %d layers", n);
        goto out;
    }
    split s = {.n = n,
               .sums = doubles,
               .best = doubles + size,
               .next = doubles + 2 * size,
               .n_needed = ints};
    for (int i = 0; i < n; i++) {
        s.sums[i + 1] = s.sums[i] + costs[i];
    }
    double largest = find_largest(&s, n_stages);
    count_needed(&s, largest);
    fill_counts(&s, largest, n_stages, counts);
out:
    free(ints);
    free(doubles);
    return status;
}

/* Where the next item goes: to the cheapest rank, there to the cheapest stage; of equals to
   the last, since later stages hold fewer live microbatches. */
static int next_stage(const double *rank_costs, const double *stage_costs, const int *rank_of_stage,
                      int n_stages)
{
    int best = 0;
    for (int s = 1; s < n_stages; s++) {
        double rank = rank_costs[rank_of_stage[s]];
        double best_rank = rank_costs[rank_of_stage[best]];
        if (rank < best_rank || (rank == best_rank && stage_costs[s] <= stage_costs[best])) {
            best = s;
        }
    }
    return best;
}

static int count_ranks(const int *rank_of_stage, int n_stages)
{
    int n = 0;
    for (int s = 0; s < n_stages; s++) {
        n = rank_of_stage[s] + 1 > n ? rank_of_stage[s] + 1 : n;
    }
    return n;
}

/* Equal items on ranks that begin with unequal loads: giving each to the cheapest rank is optimal.
 */
sc_status sc_partition_share(const double *costs, int n, int n_stages, const int *rank_of_stage,
                             int *counts, sc_err *err)
{
    assert(n_stages >= 2 && n >= n_stages);
    int n_ranks = count_ranks(rank_of_stage, n_stages);
    double *rank_costs = calloc((size_t)n_ranks + (size_t)n_stages, sizeof *rank_costs);
    if (rank_costs == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory to split %d layers", n);
    }
    double *stage_costs = rank_costs + n_ranks;
    double item = n > 2 ? costs[1] : 0;
    for (int s = 0; s < n_stages; s++) {
        counts[s] = 1;
        stage_costs[s] = s == 0 ? costs[0] : s == n_stages - 1 ? costs[n - 1] : item;
        rank_costs[rank_of_stage[s]] += stage_costs[s];
    }
    for (int i = n_stages; i < n; i++) {
        int s = next_stage(rank_costs, stage_costs, rank_of_stage, n_stages);
        counts[s]++;
        stage_costs[s] += item;
        rank_costs[rank_of_stage[s]] += item;
    }
    free(rank_costs);
    return SC_OK;
}

static double range_cost(const sc_model_spec *spec, const sc_stage_range *range,
                         const sc_cost_layout *layout)
{
    sc_stage_flops flops;
    sc_cost_flops(spec, range, layout, &flops);
    return flops.forward + flops.backward_input + flops.backward_weight;
}

/* The ends belong to the first and the last block: they cannot be split off. */
static sc_status count_by_cost(const sc_model_spec *spec, int n_stages, const int *rank_of_stage,
                               const sc_cost_layout *layout, int *counts, sc_err *err)
{
    const sc_stage_range embed = {.has_embed = true};
    const sc_stage_range head = {.has_head = true};
    double *costs = calloc((size_t)spec->n_layer, sizeof *costs);
    if (costs == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %d layers", spec->n_layer);
    }
    for (int i = 0; i < spec->n_layer; i++) {
        const sc_stage_range block = {.block_begin = i, .block_end = i + 1};
        costs[i] = range_cost(spec, &block, layout);
    }
    costs[0] += range_cost(spec, &embed, layout);
    costs[spec->n_layer - 1] += range_cost(spec, &head, layout);
    bool is_shared = rank_of_stage != NULL && count_ranks(rank_of_stage, n_stages) < n_stages;
    sc_status status =
        is_shared ? sc_partition_share(costs, spec->n_layer, n_stages, rank_of_stage, counts, err)
                  : sc_partition_split(costs, spec->n_layer, n_stages, counts, err);
    free(costs);
    return status;
}

sc_status sc_partition_make(const sc_model_spec *spec, int n_stages, const int *rank_of_stage,
                            const int *layers_per_stage, const sc_cost_layout *layout,
                            sc_stage_range *out, sc_err *err)
{
    if (n_stages > spec->n_layer) {
        return sc_status_fail(err, SC_INVALID, "%d stages are more than the model's %d layers",
                              n_stages, spec->n_layer);
    }
    int *counts = calloc((size_t)n_stages, sizeof *counts);
    if (counts == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %d stages", n_stages);
    }
    sc_status status = SC_OK;
    if (layers_per_stage == NULL) {
        SC_GOTO(count_by_cost(spec, n_stages, rank_of_stage, layout, counts, err));
    }
    int begin = 0;
    for (int s = 0; s < n_stages; s++) {
        int n_blocks = layers_per_stage == NULL ? counts[s] : layers_per_stage[s];
        out[s] = (sc_stage_range){.block_begin = begin,
                                  .block_end = begin + n_blocks,
                                  .has_embed = s == 0,
                                  .has_head = s == n_stages - 1};
        begin += n_blocks;
    }
    assert(begin == spec->n_layer);
out:
    free(counts);
    return status;
}
