/*
 * autoplan: measured costs go to the stages they belong to, predictions are the closed forms'
 * numbers, and the choice is the fastest that fits.
 */
#include "coordinator/autoplan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1e6
#define GIB 1073741824.0

enum {
    P = 4,
    M = 8,
    ROUNDS = M / P,
    TEXT_MAX = 64
};

/* As many layers as ranks: only schedules with one stage a rank apply. */
static const char MODEL_JOB[] = "name: auto\n"
                                "schedule: auto\n"
                                "model: {n_layer: 4, n_head: 4, n_embd: 64, vocab_size: 256, "
                                "n_positions: 32}\n"
                                "parallel: {pipeline_parallel: 4}\n"
                                "batch: {micro_batch_size: 2, num_microbatches: 8, "
                                "sequence_length: 32}\n"
                                "train: {steps: 10}\n"
                                "data: {path: data/kjv.bin}\n";

static const char PACED_JOB[] = "name: auto\n"
                                "device: paced\n"
                                "schedule: auto\n"
                                "parallel: {pipeline_parallel: 4}\n"
                                "batch: {num_microbatches: 8}\n"
                                "train: {steps: 3}\n"
                                "paced: {forward_ms: 12, backward_input_ms: 12, "
                                "backward_weight_ms: 12}\n";

typedef struct rig {
    sc_job *job;
    sc_plan *measured;
    sc_stage_cost costs[P * SC_AUTOPLAN_CHUNKS_MAX];
    double comm;
    sc_autoplan *list;
} rig;

static sc_plan *load(const sc_job *job, const char *schedule)
{
    sc_plan *plan = NULL;
    sc_err err = {0};
    if (sc_plan_load(job, schedule, NULL, &plan, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return plan;
}

/* A job with one override (NULL: none), whose 1f1b had the same cost on every stage. */
static rig open_rig(const char *text, const char *override, double f, double i, double w)
{
    rig r = {0};
    sc_err err = {0};
    if (sc_job_parse("job.yaml", text, strlen(text), &override, override == NULL ? 0 : 1, &r.job,
                     &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    r.measured = load(r.job, "auto");
    for (int s = 0; s < r.measured->n_stages; s++) {
        r.costs[s] = (sc_stage_cost){.f = f, .i = i, .w = w};
    }
    return r;
}

static void run(rig *r)
{
    sc_err err = {0};
    const sc_autoplan_measured measured = {.plan = r->measured, .costs = r->costs, .comm = r->comm};
    sc_autoplan_free(&r->list);
    if (sc_autoplan_make(r->job, &measured, &r->list, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
}

static void close_rig(rig *r)
{
    sc_autoplan_free(&r->list);
    sc_planner_free(&r->measured);
    sc_job_free(&r->job);
}

/* limit 0: any. */
static const sc_autoplan_entry *find(const rig *r, const char *schedule, int v, double limit)
{
    for (int i = 0; i < r->list->n_entries; i++) {
        const sc_autoplan_entry *entry = &r->list->entries[i];
        if (strcmp(entry->schedule, schedule) == 0 && entry->n_chunks == v &&
            (limit == 0 || entry->limit_mb == limit)) {
            return entry;
        }
    }
    fail_msg("no %s with v %d and limit %g", schedule, v, limit);
    return NULL;
}

static void expect_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fabs(want))) {
        fail_msg("%.17g is not %.17g", got, want);
    }
}

static void expect_text(const rig *r, const char *part)
{
    char *text = NULL;
    assert_int_equal(sc_autoplan_format(r->list, &text, NULL), SC_OK);
    if (strstr(text, part) == NULL) {
        fail_msg("no '%s' in\n%s", part, text);
    }
    free(text);
}

/* --- costs ------------------------------------------------------------------------------------ */

static void spread(const rig *r, const sc_plan *plan, sc_stage_cost *out)
{
    const sc_autoplan_measured measured = {.plan = r->measured, .costs = r->costs, .comm = r->comm};
    assert_int_equal(sc_autoplan_costs(r->job, &measured, plan, out, NULL), SC_OK);
}

static void test_costs_follow_the_blocks(void **state)
{
    (void)state;
    sc_stage_cost out[P * SC_AUTOPLAN_CHUNKS_MAX];
    rig r = open_rig(MODEL_JOB, "model.n_layer=16", 40, 48, 24);
    r.costs[0] = (sc_stage_cost){.f = 80, .i = 88, .w = 64};
    spread(&r, r.measured, out); // the same layout gets its own costs back
    for (int s = 0; s < P; s++) {
        expect_near(out[s].f, r.costs[s].f);
        expect_near(out[s].i, r.costs[s].i);
        expect_near(out[s].w, r.costs[s].w);
    }
    sc_plan *plan = load(r.job, "interleaved");
    assert_int_equal(plan->n_stages, 2 * P);
    spread(&r, plan, out);
    sc_stage_cost sum = {0};
    for (int s = 0; s < plan->n_stages; s++) {
        sum.f += out[s].f;
        sum.i += out[s].i;
        sum.w += out[s].w;
    }
    expect_near(sum.f, 80 + 3 * 40);
    expect_near(sum.i, 88 + 3 * 48);
    expect_near(sum.w, 64 + 3 * 24);
    // Blocks of the first measured stage carry its time wherever they go.
    int n_first = r.measured->stages[0].range.block_end;
    expect_near(out[0].f, 80.0 / n_first * plan->stages[0].range.block_end);
    sc_planner_free(&plan);
    close_rig(&r);
}

static void test_head_gets_its_counted_share(void **state)
{
    (void)state;
    sc_stage_cost out[P * SC_AUTOPLAN_CHUNKS_MAX];
    rig r = open_rig(MODEL_JOB, "model.n_layer=16", 40, 48, 24);
    const sc_stage_range head = {.has_head = true};
    sc_stage_flops flops;
    const sc_cost_layout layout = sc_job_layout(r.job);
    sc_cost_flops(&r.job->model, &head, &layout, &flops);
    const sc_plan_stage *last = &r.measured->stages[P - 1];
    int n_blocks = last->range.block_end - last->range.block_begin;
    double head_f = 40 * flops.forward / last->flops.forward;
    sc_plan *plan = load(r.job, "interleaved");
    spread(&r, plan, out);
    const sc_stage_range *range = &plan->stages[2 * P - 1].range;
    assert_true(range->block_begin >= last->range.block_begin);
    double block_f = (40 - head_f) / n_blocks;
    expect_near(out[2 * P - 1].f, head_f + block_f * (range->block_end - range->block_begin));
    assert_true(head_f > 0 && head_f < 40);
    sc_planner_free(&plan);
    close_rig(&r);
}

/* --- predictions ------------------------------------------------------------------------------ */

static void test_predictions_are_the_closed_forms(void **state)
{
    (void)state;
    const double f = 10 * MS;
    const double i = 12 * MS;
    const double w = 6 * MS;
    const double comm = 0.1 * MS;
    rig r = open_rig(MODEL_JOB, NULL, f, i, w);
    r.comm = comm;
    run(&r);
    const double work = M * (f + i + w);
    expect_near(find(&r, "zb-h1", 1, 0)->cost_ns, work + (P - 1) * (f + i - w + 4 * comm));
    expect_near(find(&r, "zb-h2", 1, 0)->cost_ns, work + (P - 1) * (f + i - 2 * w + 2 * comm));
    expect_near(find(&r, "1f1b", 1, 0)->cost_ns,
                work + (P - 1) * (f + i + w) + (2 * (P - 1) * (ROUNDS + 1) - 2) * comm);
    expect_near(find(&r, "1f1b", 1, 0)->bubble, 1 - work / find(&r, "1f1b", 1, 0)->cost_ns);
    assert_true(find(&r, "1f1b", 1, 0)->is_measured);
    // gpipe: p - 1 times to fill, p - 1 times to drain, each over an edge.
    expect_near(find(&r, "gpipe", 1, 0)->step_ns,
                work + (P - 1) * (f + i + w) + 2 * (P - 1) * comm);
    close_rig(&r);
}

static void test_several_stages_a_rank(void **state)
{
    (void)state;
    rig r = open_rig(PACED_JOB, NULL, 12 * MS, 12 * MS, 12 * MS);
    run(&r);
    for (int v = 2; v <= SC_AUTOPLAN_CHUNKS_MAX; v++) {
        const sc_autoplan_entry *entry = find(&r, "interleaved", v, 0);
        expect_near(entry->cost_ns, (M + (P - 1) / (double)v) * 36 * MS);
        assert_false(entry->is_same_layout);
    }
    expect_near(find(&r, "zb-v", 2, 0)->cost_ns, M * 36 * MS);
    assert_true(find(&r, "zb-h1", 1, 0)->is_same_layout);
    find(&r, "zb-auto", 1, P);
    find(&r, "zb-auto", 1, 1.5 * P);
    find(&r, "zb-auto", 1, 2 * P);
    size_t n = 0;
    const sc_gen_info *list = sc_gen_list(&n);
    for (size_t k = 0; k < n; k++) {
        for (int e = 0; list[k].is_replicated && e < r.list->n_entries; e++) {
            assert_string_not_equal(r.list->entries[e].schedule, list[k].name);
        }
        if (!list[k].is_replicated) {
            find(&r, list[k].name, list[k].default_chunks, 0);
        }
    }
    close_rig(&r);
}

static void test_list_is_sorted_and_refusals_have_reasons(void **state)
{
    (void)state;
    rig r = open_rig(MODEL_JOB, NULL, 10 * MS, 12 * MS, 6 * MS);
    run(&r);
    for (int i = 1; i < r.list->n_entries; i++) {
        const sc_autoplan_entry *entry = &r.list->entries[i];
        const sc_autoplan_entry *before = entry - 1;
        bool is_out = entry->verdict == SC_AUTOPLAN_REFUSED;
        assert_true(is_out || before->verdict != SC_AUTOPLAN_REFUSED);
        assert_true(is_out || entry->step_ns >= before->step_ns * (1 - 1e-3));
    }
    const sc_autoplan_entry *refused = find(&r, "zb-v", 2, 0);
    assert_int_equal(refused->verdict, SC_AUTOPLAN_REFUSED);
    assert_string_equal(refused->reason,
                        "job.yaml: schedule zb-v with v = 2 stages a rank has 8 stages, more than "
                        "model.n_layer 4; take fewer ranks or a smaller parallel.virtual_stages");
    expect_text(&r, refused->reason);
    close_rig(&r);
}

/* --- choice ----------------------------------------------------------------------------------- */

/* The fastest entry whose memory is within the cap, found by another way than the list's order. */
static const sc_autoplan_entry *fastest_within(const rig *r, double cap_bytes)
{
    const sc_autoplan_entry *best = NULL;
    for (int i = 0; i < r->list->n_entries; i++) {
        const sc_autoplan_entry *entry = &r->list->entries[i];
        if (entry->verdict == SC_AUTOPLAN_REFUSED || (double)entry->peak_bytes > cap_bytes) {
            continue;
        }
        best = best == NULL || entry->step_ns < best->step_ns * (1 - 1e-3) ? entry : best;
    }
    return best;
}

static void set_cap(rig *r, size_t bytes)
{
    r->job->peak_memory_gib = (double)bytes / GIB;
}

static void expect_choice(const rig *r, const char *schedule)
{
    assert_int_not_equal(r->list->chosen, SC_AUTOPLAN_NONE);
    const sc_autoplan_entry *chosen = &r->list->entries[r->list->chosen];
    assert_string_equal(chosen->schedule, schedule);
    assert_int_equal(chosen->verdict, SC_AUTOPLAN_FITS);
    assert_non_null(r->list->plan);
    assert_string_equal(r->list->plan->schedule, schedule);
    assert_int_equal(r->list->plan->n_chunks, chosen->n_chunks);
}

static void test_memory_decides(void **state)
{
    (void)state;
    rig r = open_rig(MODEL_JOB, NULL, 10 * MS, 12 * MS, 6 * MS);
    r.comm = 0.5 * MS;
    run(&r);
    size_t h2 = find(&r, "zb-h2", 1, 0)->peak_bytes;
    size_t h1 = find(&r, "zb-h1", 1, 0)->peak_bytes;
    size_t f1b = find(&r, "1f1b", 1, 0)->peak_bytes;
    assert_true(f1b < h1 && h1 < h2);
    const size_t caps[] = {h2, h2 - 1, h1, h1 - 1, f1b};
    double before = 0;
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        set_cap(&r, caps[i]);
        run(&r);
        const sc_autoplan_entry *chosen = &r.list->entries[r.list->chosen];
        assert_ptr_equal(chosen, fastest_within(&r, (double)caps[i]));
        assert_true(chosen->step_ns >= before); // less memory never makes it faster
        before = chosen->step_ns;
    }
    expect_choice(&r, "1f1b");
    assert_int_equal(r.list->measured, r.list->chosen);
    assert_int_equal(find(&r, "zb-h1", 1, 0)->verdict, SC_AUTOPLAN_OVER_CAP);
    expect_text(&r, "1f1b is fastest that fits: ");
    expect_text(&r, "over the memory cap");
    set_cap(&r, f1b - 1);
    run(&r);
    assert_int_equal(r.list->chosen, SC_AUTOPLAN_NONE);
    assert_null(r.list->plan);
    expect_text(&r, "no schedule fits memory.cap_gib ");
    close_rig(&r);
}

/* Without the made-to-measure schedule the named ones stand in their order. */
static void test_named_schedules_stand_in_their_order(void **state)
{
    (void)state;
    rig r = open_rig(MODEL_JOB, NULL, 10 * MS, 12 * MS, 6 * MS);
    r.comm = 0.5 * MS;
    run(&r);
    double h2 = find(&r, "zb-h2", 1, 0)->step_ns;
    double h1 = find(&r, "zb-h1", 1, 0)->step_ns;
    double f1b = find(&r, "1f1b", 1, 0)->step_ns;
    assert_true(h2 < h1 && h1 < f1b);
    char why[TEXT_MAX];
    (void)snprintf(why, TEXT_MAX, " %.3f ms of 1f1b", f1b / MS);
    expect_text(&r, why);
    assert_true(r.list->entries[r.list->chosen].step_ns <= h2 * (1 + 1e-3));
    close_rig(&r);
}

static void test_a_heavy_last_stage_changes_the_prediction(void **state)
{
    (void)state;
    rig r = open_rig(MODEL_JOB, NULL, 10 * MS, 12 * MS, 6 * MS);
    r.costs[P - 1] = (sc_stage_cost){.f = 20 * MS, .i = 24 * MS, .w = 12 * MS};
    run(&r);
    // The last rank works all the time once it has begun: p - 1 forwards before, nothing between.
    const sc_autoplan_entry *entry = find(&r, "1f1b", 1, 0);
    assert_true(entry->step_ns >= M * 56 * MS + 3 * 10 * MS + 3 * 18 * MS - 1);
    assert_true(entry->bubble < 0.2);
    close_rig(&r);
}

static void test_weights_need_room_to_move(void **state)
{
    (void)state;
    rig r = open_rig(MODEL_JOB, "model.n_layer=8", 10 * MS, 12 * MS, 6 * MS);
    run(&r);
    const sc_autoplan_entry *zbv = find(&r, "zb-v", 2, 0);
    size_t alone = zbv->peak_bytes;
    size_t both = alone + find(&r, "1f1b", 1, 0)->peak_bytes;
    assert_int_equal(zbv->verdict, SC_AUTOPLAN_FITS);
    set_cap(&r, alone + 1);
    run(&r);
    assert_int_equal(find(&r, "zb-v", 2, 0)->verdict, SC_AUTOPLAN_NO_ROOM);
    assert_int_equal(find(&r, "1f1b", 1, 0)->verdict, SC_AUTOPLAN_FITS); // moves nothing
    set_cap(&r, both + 1);
    run(&r);
    assert_int_equal(find(&r, "zb-v", 2, 0)->verdict, SC_AUTOPLAN_FITS);
    close_rig(&r);
}

static void test_limit_by_hand_is_the_only_one_tried(void **state)
{
    (void)state;
    rig r = open_rig(MODEL_JOB, "schedule_options.limit=5.5", 10 * MS, 12 * MS, 6 * MS);
    run(&r);
    int n = 0;
    for (int i = 0; i < r.list->n_entries; i++) {
        n += strcmp(r.list->entries[i].schedule, "zb-auto") == 0;
    }
    assert_int_equal(n, 1);
    find(&r, "zb-auto", 1, 5.5);
    expect_text(&r, "zb-auto limit 5.5 ");
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs_follow_the_blocks),
        cmocka_unit_test(test_head_gets_its_counted_share),
        cmocka_unit_test(test_predictions_are_the_closed_forms),
        cmocka_unit_test(test_several_stages_a_rank),
        cmocka_unit_test(test_list_is_sorted_and_refusals_have_reasons),
        cmocka_unit_test(test_memory_decides),
        cmocka_unit_test(test_named_schedules_stand_in_their_order),
        cmocka_unit_test(test_a_heavy_last_stage_changes_the_prediction),
        cmocka_unit_test(test_weights_need_room_to_move),
        cmocka_unit_test(test_limit_by_hand_is_the_only_one_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
