#include "coordinator/bubble.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *sc_bubble_cause_text(sc_cause cause)
{
#define CAUSE_CASE(name, text) \
    case SC_CAUSE_##name: \
        return text;
    switch (cause) {
        SC_CAUSE_MAP(CAUSE_CASE)
    case SC_CAUSE_COUNT:
        break;
    }
#undef CAUSE_CASE
    return "unknown";
}

typedef struct rank_step {
    bool is_reported;
    bool has_transfer;
    int64_t first_start_ns; // first to last compute action, on the rank's own clock
    int64_t last_end_ns;
    int64_t busy_ns;
    double transfer_ns; // median over the step's messages
    sc_bubble_split split;
} rank_step;

typedef struct step_slot {
    bool is_used;
    uint64_t step;
    int n_reported;
    int64_t window_ns;    // the longest rank's; filled for a result
    rank_step *ranks;     // (n_ranks)
    sc_stage_cost *costs; // (n_stages), medians over the step's microbatches
} step_slot;

struct sc_bubble {
    sc_arena arena; // everything below
    const sc_table *table;
    bool has_first;
    uint64_t first_step; // the warm-up
    int keep_steps;
    step_slot *slots;        // (keep_steps), step s in slot s mod keep_steps
    int64_t *to_coordinator; // (n_ranks)
    int64_t *offsets;        // (n_ranks), to the clock of the rank at hand
    bool has_clocks;
    double *scratch;         // to sort in
    const step_slot **used;  // (keep_steps), of the result at hand
    sc_bubble_split *splits; // (n_ranks), of the result
    sc_stage_cost *costs;    // (n_stages), of the result
    uint64_t activation_peak_bytes;
    double action_ns;     // after the warm-up
    uint64_t executor_ns; // after the warm-up
    uint64_t n_actions;   // after the warm-up
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts; the mean of the two in the middle when n is even. Times are whole ns below 2^53: exact. */
static double median(double *values, size_t n)
{
    assert(n > 0);
    qsort(values, n, sizeof *values, compare_doubles);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static bool allocate(sc_bubble *bubble)
{
    sc_arena *arena = &bubble->arena;
    size_t keep = (size_t)bubble->keep_steps;
    size_t n_ranks = (size_t)bubble->table->n_ranks;
    size_t n_stages = (size_t)bubble->table->n_stages;
    size_t n_scratch = keep * n_ranks;
    for (size_t r = 0; r < n_ranks; r++) {
        size_t n_actions = bubble->table->rows[r].n_actions;
        n_scratch = n_actions > n_scratch ? n_actions : n_scratch;
    }
    bubble->slots = sc_arena_alloc(arena, keep, sizeof *bubble->slots);
    bubble->to_coordinator = sc_arena_alloc(arena, n_ranks, sizeof *bubble->to_coordinator);
    bubble->offsets = sc_arena_alloc(arena, n_ranks, sizeof *bubble->offsets);
    bubble->scratch = sc_arena_alloc(arena, n_scratch, sizeof *bubble->scratch);
    bubble->used = sc_arena_alloc(arena, keep, sizeof(step_slot *));
    bubble->costs = sc_arena_alloc(arena, n_stages, sizeof *bubble->costs);
    bubble->splits = sc_arena_alloc(arena, n_ranks, sizeof *bubble->splits);
    rank_step *ranks = sc_arena_alloc(arena, keep * n_ranks, sizeof *ranks);
    sc_stage_cost *costs = sc_arena_alloc(arena, keep * n_stages, sizeof *costs);
    if (bubble->slots == NULL || bubble->to_coordinator == NULL || bubble->offsets == NULL ||
        bubble->scratch == NULL || bubble->used == NULL || bubble->costs == NULL ||
        bubble->splits == NULL || ranks == NULL || costs == NULL) {
        return false;
    }
    for (size_t k = 0; k < keep; k++) {
        bubble->slots[k].ranks = ranks + k * n_ranks;
        bubble->slots[k].costs = costs + k * n_stages;
    }
    return true;
}

sc_status sc_bubble_new(const sc_table *table, int keep_steps, sc_bubble **out, sc_err *err)
{
    assert(!table->is_lowered && keep_steps >= 3);
    sc_bubble *bubble = calloc(1, sizeof *bubble);
    if (bubble != NULL) {
        sc_arena_init(&bubble->arena, 0);
        bubble->table = table;
        bubble->keep_steps = keep_steps;
    }
    if (bubble == NULL || !allocate(bubble)) {
        sc_bubble_free(&bubble);
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the times of %d steps of %d ranks",
                              keep_steps, table->n_ranks);
    }
    *out = bubble;
    return SC_OK;
}

void sc_bubble_free(sc_bubble **bubble)
{
    if (*bubble != NULL) {
        sc_arena_done(&(*bubble)->arena);
        free(*bubble);
        *bubble = NULL;
    }
}

void sc_bubble_set_clocks(sc_bubble *bubble, const int64_t *to_coordinator_ns)
{
    size_t n = (size_t)bubble->table->n_ranks;
    memcpy(bubble->to_coordinator, to_coordinator_ns, n * sizeof *to_coordinator_ns);
    bubble->has_clocks = true;
}

static const int64_t *offsets_to(sc_bubble *bubble, uint32_t rank)
{
    if (!bubble->has_clocks) {
        return NULL;
    }
    for (int r = 0; r < bubble->table->n_ranks; r++) {
        bubble->offsets[r] = bubble->to_coordinator[r] - bubble->to_coordinator[rank];
    }
    return bubble->offsets;
}

/* The part of a span that counts as `cause`; -1 when it has none. */
static int64_t part_of(const sc_msg_span *span, sc_cause cause)
{
    int64_t ns = span->end_ns - span->start_ns;
    switch (span->op) {
    case SC_OP_F:
        return cause == SC_CAUSE_FORWARD ? ns : -1;
    case SC_OP_B:
        return cause == SC_CAUSE_BACKWARD_INPUT    ? ns - span->weight_ns
               : cause == SC_CAUSE_BACKWARD_WEIGHT ? span->weight_ns
                                                   : -1;
    case SC_OP_I:
        return cause == SC_CAUSE_BACKWARD_INPUT ? ns : -1;
    default:
        return cause == SC_CAUSE_BACKWARD_WEIGHT ? ns : -1;
    }
}

static double median_part(sc_bubble *bubble, const sc_msg_report *report, int stage, sc_cause cause)
{
    size_t n = 0;
    for (size_t i = 0; i < report->n_spans; i++) {
        int64_t ns = part_of(&report->spans[i], cause);
        if ((int)report->spans[i].stage == stage && ns >= 0) {
            bubble->scratch[n++] = (double)ns;
        }
    }
    return n == 0 ? 0 : median(bubble->scratch, n);
}

static void add_costs(sc_bubble *bubble, const sc_msg_report *report, step_slot *slot)
{
    for (int s = 0; s < bubble->table->n_stages; s++) {
        if (bubble->table->rank_of_stage[s] == (int)report->rank) {
            slot->costs[s].f = median_part(bubble, report, s, SC_CAUSE_FORWARD);
            slot->costs[s].i = median_part(bubble, report, s, SC_CAUSE_BACKWARD_INPUT);
            slot->costs[s].w = median_part(bubble, report, s, SC_CAUSE_BACKWARD_WEIGHT);
            double longest = fmax(slot->costs[s].f, slot->costs[s].i + slot->costs[s].w);
            if (report->step != bubble->first_step) {
                bubble->action_ns = fmax(bubble->action_ns, longest);
            }
        }
    }
}

static void add_transfer(sc_bubble *bubble, const sc_msg_report *report, const int64_t *offset_ns,
                         rank_step *rs)
{
    size_t n = 0;
    for (size_t i = 0; i < report->n_spans; i++) {
        const sc_msg_span *span = &report->spans[i];
        if (sc_bubble_split_has_input(span)) {
            int64_t ready = sc_bubble_split_ready_ns(span, offset_ns, bubble->table->rank_of_stage);
            int64_t from = larger(ready, span->posted_ns);
            bubble->scratch[n++] = (double)larger(span->arrived_ns - from, 0);
        }
    }
    rs->has_transfer = n > 0;
    rs->transfer_ns = n > 0 ? median(bubble->scratch, n) : 0;
}

/* The step's slot, taken over from a step that is keep_steps older. */
static step_slot *find_slot(sc_bubble *bubble, uint64_t step)
{
    step_slot *slot = &bubble->slots[step % (uint64_t)bubble->keep_steps];
    if (!slot->is_used || slot->step < step) {
        slot->is_used = true;
        slot->step = step;
        slot->n_reported = 0;
        memset(slot->ranks, 0, (size_t)bubble->table->n_ranks * sizeof *slot->ranks);
    }
    return slot;
}

sc_status sc_bubble_add(sc_bubble *bubble, const sc_msg_report *report, sc_err *err)
{
    SC_TRY(sc_bubble_split_check(bubble->table, report, err));
    step_slot *slot = find_slot(bubble, report->step);
    rank_step *rs = &slot->ranks[report->rank];
    if (slot->step != report->step || rs->is_reported) {
        return sc_status_fail(err, SC_PROTOCOL, "rank %" PRIu32 " reports step %" PRIu64 " %s",
                              report->rank, report->step,
                              slot->step != report->step ? "much too late" : "twice");
    }
    if (!bubble->has_first) {
        bubble->has_first = true;
        bubble->first_step = report->step;
    }
    const int64_t *offset_ns = offsets_to(bubble, report->rank);
    sc_bubble_split_report(report, offset_ns, bubble->table->rank_of_stage, &rs->split);
    add_costs(bubble, report, slot);
    add_transfer(bubble, report, offset_ns, rs);
    for (size_t i = 0; i < report->n_spans; i++) {
        rs->busy_ns += report->spans[i].end_ns - report->spans[i].start_ns;
    }
    if (report->n_spans > 0) {
        rs->first_start_ns = report->spans[0].start_ns;
        rs->last_end_ns = report->spans[report->n_spans - 1].end_ns;
    }
    rs->is_reported = true;
    slot->n_reported++;
    if (report->activation_peak_bytes > bubble->activation_peak_bytes) {
        bubble->activation_peak_bytes = report->activation_peak_bytes;
    }
    if (report->step != bubble->first_step) {
        bubble->executor_ns += report->executor_cpu_ns;
        bubble->n_actions += report->n_spans;
    }
    return SC_OK;
}

int64_t sc_bubble_action_ns(const sc_bubble *bubble)
{
    return (int64_t)bubble->action_ns;
}

/* --- the result --- */

static bool is_odd(const step_slot *slot)
{
    return slot->step % 2 == 1;
}

static int64_t window_of(const sc_bubble *bubble, const step_slot *slot)
{
    int64_t longest = 0;
    for (int r = 0; r < bubble->table->n_ranks; r++) {
        longest = larger(longest, slot->ranks[r].split.window_ns);
    }
    return longest;
}

static int64_t cost_of(const sc_bubble *bubble, const step_slot *slot)
{
    int64_t cost = 0;
    for (int r = 0; r < bubble->table->n_ranks; r++) {
        cost = larger(cost, slot->ranks[r].last_end_ns - slot->ranks[r].first_start_ns);
    }
    return cost;
}

static int64_t ideal_of(const sc_bubble *bubble, const step_slot *slot)
{
    int64_t ideal = 0;
    for (int r = 0; r < bubble->table->n_ranks; r++) {
        ideal = larger(ideal, slot->ranks[r].busy_ns);
    }
    return ideal;
}

/* First start to last end over all ranks, on one clock. */
static int64_t makespan_of(const sc_bubble *bubble, const step_slot *slot)
{
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    for (int r = 0; r < bubble->table->n_ranks; r++) {
        const rank_step *rs = &slot->ranks[r];
        int64_t offset = bubble->has_clocks ? bubble->to_coordinator[r] : 0;
        first = rs->first_start_ns + offset < first ? rs->first_start_ns + offset : first;
        last = larger(last, rs->last_end_ns + offset);
    }
    return last - first;
}

static double share_of(int64_t idle, int64_t whole)
{
    return whole == 0 ? 0 : (double)idle / (double)whole;
}

typedef double (*step_measure)(const sc_bubble *bubble, const step_slot *slot);

static double over_cost(const sc_bubble *bubble, const step_slot *slot)
{
    int64_t cost = cost_of(bubble, slot);
    return share_of(cost - ideal_of(bubble, slot), cost);
}

static double over_ideal(const sc_bubble *bubble, const step_slot *slot)
{
    int64_t ideal = ideal_of(bubble, slot);
    return share_of(cost_of(bubble, slot) - ideal, ideal);
}

static double over_makespan(const sc_bubble *bubble, const step_slot *slot)
{
    int64_t makespan = makespan_of(bubble, slot);
    return share_of(makespan - ideal_of(bubble, slot), makespan);
}

static double cost_in_ns(const sc_bubble *bubble, const step_slot *slot)
{
    return (double)cost_of(bubble, slot);
}

/* Complete steps but the warm-up; also how many of them are odd. */
static int find_used(sc_bubble *bubble, int *n_odd)
{
    int n = 0;
    *n_odd = 0;
    for (int k = 0; k < bubble->keep_steps; k++) {
        step_slot *slot = &bubble->slots[k];
        if (slot->is_used && slot->n_reported == bubble->table->n_ranks &&
            slot->step != bubble->first_step) {
            slot->window_ns = window_of(bubble, slot);
            *n_odd += is_odd(slot);
            bubble->used[n++] = slot;
        }
    }
    return n;
}

/* Median over the even steps, which are left sorted in scratch; *n_out of them. */
static double median_even(sc_bubble *bubble, int n_used, step_measure measure, size_t *n_out)
{
    size_t n = 0;
    for (int k = 0; k < n_used; k++) {
        if (!is_odd(bubble->used[k])) {
            bubble->scratch[n++] = measure(bubble, bubble->used[k]);
        }
    }
    *n_out = n;
    return median(bubble->scratch, n);
}

static void measure_even(sc_bubble *bubble, int n_used, sc_bubble_result *out)
{
    size_t n;
    out->measured_over_ideal = median_even(bubble, n_used, over_ideal, &n);
    out->measured_over_makespan = median_even(bubble, n_used, over_makespan, &n);
    out->measured_cost_ns = median_even(bubble, n_used, cost_in_ns, &n);
    out->measured = median_even(bubble, n_used, over_cost, &n);
    out->measured_min = bubble->scratch[0];
    out->measured_max = bubble->scratch[n - 1];
}

static double median_cost(sc_bubble *bubble, int n_used, size_t offset)
{
    size_t n = 0;
    for (int k = 0; k < n_used; k++) {
        if (is_odd(bubble->used[k])) {
            const char *costs = (const char *)bubble->used[k]->costs;
            bubble->scratch[n++] = *(const double *)(const void *)(costs + offset);
        }
    }
    return median(bubble->scratch, n);
}

static double median_comm(sc_bubble *bubble, int n_used)
{
    size_t n = 0;
    for (int k = 0; k < n_used; k++) {
        for (int r = 0; is_odd(bubble->used[k]) && r < bubble->table->n_ranks; r++) {
            const rank_step *rs = &bubble->used[k]->ranks[r];
            if (rs->has_transfer) {
                bubble->scratch[n++] = rs->transfer_ns;
            }
        }
    }
    return n == 0 ? 0 : median(bubble->scratch, n);
}

static sc_status simulate_odd(sc_bubble *bubble, int n_used, sc_bubble_result *out, sc_err *err)
{
    for (int s = 0; s < bubble->table->n_stages; s++) {
        size_t at = (size_t)s * sizeof(sc_stage_cost);
        bubble->costs[s].f = median_cost(bubble, n_used, at + offsetof(sc_stage_cost, f));
        bubble->costs[s].i = median_cost(bubble, n_used, at + offsetof(sc_stage_cost, i));
        bubble->costs[s].w = median_cost(bubble, n_used, at + offsetof(sc_stage_cost, w));
    }
    out->costs = bubble->costs;
    out->comm_ns = median_comm(bubble, n_used);
    sc_costs costs = {.stages = bubble->costs, .comm = out->comm_ns};
    sc_timeline *timeline = NULL;
    SC_TRY(sc_simulate_run(bubble->table, &costs, &timeline, err));
    out->simulated = timeline->bubble;
    out->simulated_cost_ns = timeline->cost;
    out->simulated_over_ideal =
        timeline->ideal > 0 ? (timeline->cost - timeline->ideal) / timeline->ideal : 0;
    out->simulated_over_makespan =
        timeline->makespan > 0 ? (timeline->makespan - timeline->ideal) / timeline->makespan : 0;
    sc_simulate_free(&timeline);
    return SC_OK;
}

static int compare_windows(const void *a, const void *b)
{
    const step_slot *x = *(const step_slot *const *)a;
    const step_slot *y = *(const step_slot *const *)b;
    if (x->window_ns != y->window_ns) {
        return x->window_ns < y->window_ns ? -1 : 1;
    }
    return (x->step > y->step) - (x->step < y->step);
}

/* The step with the median window and its causes; total is made to add up after rounding. */
static void tell_median_step(sc_bubble *bubble, size_t n_used, sc_bubble_result *out)
{
    int n_ranks = bubble->table->n_ranks;
    qsort(bubble->used, n_used, sizeof(step_slot *), compare_windows);
    const step_slot *slot = bubble->used[(n_used - 1) / 2];
    out->step_ns = (double)slot->window_ns;
    out->median_step = slot->step;
    out->total = (sc_bubble_split){.window_ns = 0};
    for (int r = 0; r < n_ranks; r++) {
        bubble->splits[r] = slot->ranks[r].split;
    }
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        for (int r = 0; r < n_ranks; r++) {
            out->total.ns[c] += bubble->splits[r].ns[c];
        }
        out->total.ns[c] /= n_ranks;
        out->total.window_ns += out->total.ns[c];
    }
    out->ranks = bubble->splits;
}

sc_status sc_bubble_result_get(sc_bubble *bubble, sc_bubble_result *out, sc_err *err)
{
    int n_odd = 0;
    int n_used = find_used(bubble, &n_odd);
    if (n_odd == 0 || n_odd == n_used) {
        return sc_status_fail(
            err, SC_NOT_FOUND,
            "no bubble yet: it takes three complete steps, a warm-up, one for the "
            "costs and one to measure");
    }
    sc_bubble_result result = {.n_steps = n_used};
    measure_even(bubble, n_used, &result);
    SC_TRY(simulate_odd(bubble, n_used, &result, err));
    tell_median_step(bubble, (size_t)n_used, &result);
    result.activation_peak_bytes = bubble->activation_peak_bytes;
    result.executor_ns_per_action =
        bubble->n_actions == 0 ? 0 : bubble->executor_ns / bubble->n_actions;
    *out = result;
    return SC_OK;
}
