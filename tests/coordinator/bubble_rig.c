#include "tests/coordinator/bubble_rig.h"

#include "schedules/gen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    START = 1000000, // of every step's first action
    HEAD = 5000,     // before it
    REDUCE = 300,
    OPTIMIZER = 200,
    REST = 100
};

sc_table *bubble_rig_table(const char *name, int p, int m)
{
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    sc_table *table = NULL;
    assert_int_equal(sc_gen_make(name, &params, &table, NULL), SC_OK);
    return table;
}

static sc_timeline *simulate(const sc_table *table, const bubble_rig_costs *costs)
{
    sc_stage_cost *stages = calloc((size_t)table->n_stages, sizeof *stages);
    for (int s = 0; s < table->n_stages; s++) {
        stages[s] = (sc_stage_cost){costs->f, costs->i, costs->w};
    }
    sc_costs all = {.stages = stages, .comm = costs->comm};
    sc_timeline *timeline = NULL;
    assert_int_equal(sc_simulate_run(table, &all, &timeline, NULL), SC_OK);
    free(stages);
    return timeline;
}

double bubble_rig_simulate(const sc_table *table, const bubble_rig_costs *costs)
{
    sc_timeline *timeline = simulate(table, costs);
    double bubble = timeline->bubble;
    sc_simulate_free(&timeline);
    return bubble;
}

/* End of an action of the timeline: when its output was ready. */
static int64_t end_of(const sc_timeline *timeline, int rank, sc_action action)
{
    for (size_t i = 0; i < timeline->n_spans[rank]; i++) {
        if (sc_action_equals(timeline->spans[rank][i].action, action)) {
            return (int64_t)timeline->spans[rank][i].end;
        }
    }
    fail_msg("the timeline lacks an action");
    return 0;
}

/* Receives were posted at once; messages take comm. */
static void fill_input(const sc_table *table, const sc_timeline *timeline,
                       const bubble_rig_costs *costs, const int64_t *clock_ns, int rank,
                       sc_msg_span *span)
{
    bool is_forward = span->op == SC_OP_F;
    int sender = is_forward ? (int)span->stage - 1 : (int)span->stage + 1;
    if (sender < 0 || sender >= table->n_stages) {
        return;
    }
    int from = table->rank_of_stage[sender];
    int64_t ready = START + end_of(timeline, from, (sc_action){(sc_op)span->op, sender, span->mb});
    span->sent_ready_ns = ready - (clock_ns != NULL ? clock_ns[from] : 0);
    span->posted_ns = START - HEAD - (clock_ns != NULL ? clock_ns[rank] : 0);
    span->arrived_ns = ready + (int64_t)costs->comm - (clock_ns != NULL ? clock_ns[rank] : 0);
}

static void add_rank(sc_bubble *bubble, const sc_table *table, const sc_timeline *timeline,
                     uint64_t step, const bubble_rig_costs *costs, int rank,
                     const int64_t *clock_ns)
{
    int64_t clock = clock_ns != NULL ? clock_ns[rank] : 0;
    size_t n = timeline->n_spans[rank];
    sc_msg_span *spans = calloc(n, sizeof *spans);
    for (size_t i = 0; i < n; i++) {
        const sc_span *from = &timeline->spans[rank][i];
        spans[i] = (sc_msg_span){.op = (uint32_t)from->action.op,
                                 .stage = (uint32_t)from->action.stage,
                                 .mb = from->action.mb};
        spans[i].start_ns = START + (int64_t)from->start - clock;
        spans[i].end_ns = START + (int64_t)from->end - clock;
        spans[i].weight_ns = from->action.op == SC_OP_B ? (int64_t)costs->w : 0;
        fill_input(table, timeline, costs, clock_ns, rank, &spans[i]);
    }
    sc_msg_report report = {.step = step, .rank = (uint32_t)rank, .spans = spans, .n_spans = n};
    report.reduce_ns = REDUCE;
    report.optimizer_ns = OPTIMIZER;
    report.window_start_ns = START - HEAD - clock;
    report.window_end_ns = START + (int64_t)timeline->makespan + REDUCE + OPTIMIZER + REST - clock;
    report.activation_peak_bytes = 1000 * (uint64_t)(rank + 1) + step;
    report.executor_cpu_ns = step == 0 ? 1000000 : 70 * n;
    sc_err err = {.text = ""};
    assert_int_equal(sc_bubble_add(bubble, &report, &err), SC_OK);
    free(spans);
}

void bubble_rig_add_step(sc_bubble *bubble, const sc_table *table, uint64_t step,
                         const bubble_rig_costs *costs, bool is_reversed, const int64_t *clock_ns)
{
    sc_timeline *timeline = simulate(table, costs);
    for (int i = 0; i < table->n_ranks; i++) {
        int rank = is_reversed ? table->n_ranks - 1 - i : i;
        add_rank(bubble, table, timeline, step, costs, rank, clock_ns);
    }
    sc_simulate_free(&timeline);
}
