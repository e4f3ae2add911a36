/*
 * planner: several stages a rank. Layouts, slots, buffers, tied weights and memory over time.
 */
#include "coordinator/planner.h"

#include "schedules/buffers.h"
#include "schedules/gen.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    VOCAB = 256,
    WIDTH = 64,
    STAGES_MAX = 8,
    MB_MAX = 8
};

static const char MODEL_JOB[] = "name: plan\n"
                                "model: {n_layer: 8, n_head: 4, n_embd: 64, vocab_size: 256, "
                                "n_positions: 32}\n"
                                "parallel: {pipeline_parallel: 4}\n"
                                "batch: {micro_batch_size: 2, num_microbatches: 8, "
                                "sequence_length: 32}\n"
                                "train: {steps: 10}\n"
                                "data: {path: data/kjv.bin}\n";

static sc_job *parse(const char *override)
{
    sc_job *job = NULL;
    sc_err err = {0};
    if (sc_job_parse("job.yaml", MODEL_JOB, strlen(MODEL_JOB), &override, override == NULL ? 0 : 1,
                     &job, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return job;
}

static sc_plan *load(const sc_job *job, const char *schedule)
{
    sc_plan *plan = NULL;
    sc_err err = {0};
    if (sc_plan_load(job, schedule, NULL, &plan, &err) != SC_OK) {
        fail_msg("%s: %s", schedule, err.text);
    }
    return plan;
}

/* --- layout ----------------------------------------------------------------------------------- */

static void test_layouts_are_the_same_or_not(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        bool is_same;
        sc_plan_placement placement;
    } CASES[] = {
        {"gpipe", true, SC_PLAN_LOOP},        {"zb-h1", true, SC_PLAN_LOOP},
        {"zb-h2", true, SC_PLAN_LOOP},        {"zb-auto", true, SC_PLAN_LOOP},
        {"interleaved", false, SC_PLAN_LOOP}, {"zb-v", false, SC_PLAN_V},
    };
    sc_job *job = parse(NULL);
    sc_plan *base = load(job, "1f1b");
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sc_plan *plan = load(job, CASES[i].schedule);
        assert_int_equal(sc_planner_is_same_layout(base, plan), CASES[i].is_same);
        assert_int_equal(plan->placement, CASES[i].placement);
        sc_planner_free(&plan);
    }
    sc_plan *zbv = load(job, "zb-v");
    sc_plan *half = load(job, "v-half");
    sc_plan *loop = load(job, "interleaved");
    assert_true(sc_planner_is_same_layout(zbv, half));
    assert_false(sc_planner_is_same_layout(zbv, loop));
    sc_planner_free(&loop);
    sc_planner_free(&half);
    sc_planner_free(&zbv);
    sc_job *other = parse("parallel.layers_per_stage=[1, 3, 2, 2]");
    sc_plan *by_hand = load(other, "1f1b");
    assert_false(sc_planner_is_same_layout(base, by_hand));
    sc_planner_free(&by_hand);
    sc_planner_free(&base);
    sc_job_free(&other);
    sc_job_free(&job);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* What each (stage, microbatch) of a rank holds, and the most that all hold together. */
static size_t held_peak(const sc_plan *plan, int rank)
{
    static size_t held[STAGES_MAX][MB_MAX];
    size_t peak = 0;
    memset(held, 0, sizeof held);
    for (size_t i = 0; i < plan->compute->rows[rank].n_actions; i++) {
        sc_action a = plan->compute->rows[rank].actions[i];
        const sc_stage_bytes *bytes = &plan->stages[a.stage].bytes;
        if (a.op == SC_OP_F) {
            held[a.stage][a.mb] = bytes->act_per_mb;
        } else if (a.op == SC_OP_I) {
            held[a.stage][a.mb] = bytes->act_per_mb + bytes->keep_per_mb;
        } else if (a.op == SC_OP_B) {
            held[a.stage][a.mb] = bytes->act_per_mb + bytes->keep_fused;
        }
        size_t sum = 0;
        for (int s = 0; s < STAGES_MAX; s++) {
            for (int mb = 0; mb < MB_MAX; mb++) {
                sum += held[s][mb];
            }
        }
        peak = sum > peak ? sum : peak;
        if (a.op == SC_OP_B || a.op == SC_OP_W) {
            held[a.stage][a.mb] = 0;
        }
    }
    return peak;
}

static void test_live_peak_is_what_is_held_at_one_time(void **state)
{
    (void)state;
    static const char *const SCHEDULES[] = {"gpipe", "1f1b",        "zb-h1", "zb-h2",
                                            "zb-v",  "interleaved", "v-min"};
    sc_job *job = parse(NULL);
    bool has_less = false;
    for (size_t i = 0; i < sizeof SCHEDULES / sizeof SCHEDULES[0]; i++) {
        sc_plan *plan = load(job, SCHEDULES[i]);
        for (int r = 0; r < plan->n_ranks; r++) {
            const sc_plan_rank *rank = &plan->ranks[r];
            size_t slots = rank->activation_bytes + rank->keep_bytes;
            assert_int_equal(rank->peak_bytes, held_peak(plan, r));
            assert_true(rank->peak_bytes <= slots);
            has_less = has_less || rank->peak_bytes < slots;
        }
        sc_planner_free(&plan);
    }
    assert_true(has_less); // with several stages a rank their peaks do not meet
    sc_job_free(&job);
}

static void test_tied_embedding_on_one_rank_has_one_state(void **state)
{
    (void)state;
    static const char *const OPTIMIZERS[] = {"optimizer.name=adamw", "optimizer.name=sgd"};
    for (int is_sgd = 0; is_sgd < 2; is_sgd++) {
        sc_job *job = parse(OPTIMIZERS[is_sgd]);
        sc_plan *plan = load(job, "zb-v");
        const int last = plan->n_stages - 1;
        assert_int_equal(plan->stages[0].rank, plan->stages[last].rank);
        const sc_stage_bytes *a = &plan->stages[0].bytes;
        const sc_stage_bytes *b = &plan->stages[last].bytes;
        size_t all = a->params + a->grads + a->optimizer + b->params + b->grads + b->optimizer;
        size_t moments = is_sgd ? 0 : (size_t)2 * VOCAB * WIDTH * sizeof(float);
        assert_int_equal(plan->ranks[0].state_bytes, all - moments);
        size_t held = 0;
        for (int r = 0; r < plan->n_ranks; r++) {
            held += plan->ranks[r].n_params;
        }
        assert_int_equal(held, plan->registry->n_elems);
        sc_planner_free(&plan);
        sc_job_free(&job);
    }
    sc_job *untied = parse("model.tie_word_embeddings=false");
    sc_plan *plan = load(untied, "zb-v");
    const sc_plan_stage *a = &plan->stages[0];
    const sc_plan_stage *b = &plan->stages[plan->n_stages - 1];
    assert_int_equal(plan->ranks[0].n_params, a->n_params + b->n_params);
    sc_planner_free(&plan);
    sc_job_free(&untied);
}

/* looped-bfs: GPipe's order over the stages of a rank, so a stage's messages wait for the next. */
static void test_buffers_follow_the_rows(void **state)
{
    (void)state;
    sc_job *job = parse("parallel.pipeline_parallel=2");
    sc_plan *plan = load(job, "looped-bfs");
    int need = 0;
    assert_int_equal(sc_buffers_need(plan->lowered, 1, &need, NULL), SC_OK);
    // Stage 1 makes all 8 of its messages before stage 2 has read one: 4 wait at each end. With
    // fewer the rows would finish as well, but rank 1 would wait.
    assert_int_equal(plan->n_message_slots, 4);
    assert_true(need < 4);
    // Rank 0 has stages 0 (one neighbour elsewhere) and 2 (two of them): six channel ends.
    size_t message = plan->stages[0].bytes.message + SC_PLAN_TRAILER_BYTES;
    assert_int_equal(plan->ranks[0].buffer_bytes, plan->stages[0].bytes.scratch +
                                                      plan->stages[2].bytes.scratch +
                                                      (size_t)6 * 4 * message);
    sc_planner_free(&plan);
    sc_job_free(&job);
    job = parse("parallel.pipeline_parallel=1");
    plan = load(job, "looped-bfs");
    assert_int_equal(plan->n_stages, 2);
    // One rank: all 8 forwards of stage 0 wait for stage 1, and all gradients the other way.
    assert_int_equal(plan->ranks[0].buffer_bytes, plan->stages[0].bytes.scratch +
                                                      plan->stages[1].bytes.scratch +
                                                      (size_t)16 * message);
    sc_planner_free(&plan);
    sc_job_free(&job);
}

/* --- text ------------------------------------------------------------------------------------- */

static void expect_text(const sc_job *job, const sc_plan *plan, const char *part)
{
    char *text = NULL;
    assert_int_equal(sc_planner_format(job, plan, &text, NULL), SC_OK);
    if (strstr(text, part) == NULL) {
        fail_msg("no '%s' in\n%s", part, text);
    }
    free(text);
}

static void expect_json(const sc_job *job, const sc_plan *plan, const char *placement)
{
    char *text = NULL;
    assert_int_equal(sc_planner_json(job, plan, &text, NULL), SC_OK);
    cJSON *root = cJSON_Parse(text);
    assert_non_null(root);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(root, "placement")->valuestring,
                        placement);
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(root, "virtual_stages")->valueint,
                     plan->n_chunks);
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(root, "message_slots")->valueint,
                     plan->n_message_slots);
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(root, "ranks");
    const cJSON *peak =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(ranks, 1), "peak_bytes");
    assert_true(peak->valuedouble == (double)plan->ranks[1].peak_bytes);
    cJSON_Delete(root);
    free(text);
}

static void test_texts_tell_the_placement(void **state)
{
    (void)state;
    sc_job *job = parse(NULL);
    sc_plan *plan = load(job, "zb-v");
    expect_text(job, plan, "placement 8 stages, 2 a rank, as a V: rank r has stages r and 7 - r; ");
    expect_json(job, plan, "v");
    sc_planner_free(&plan);
    plan = load(job, "interleaved");
    expect_text(job, plan, "placement 8 stages, 2 a rank: stage s on rank s mod 4; ");
    expect_json(job, plan, "loop");
    sc_planner_free(&plan);
    plan = load(job, "1f1b");
    expect_text(job, plan,
                "placement 4 stages, one a rank; 2 message buffers at each end of a channel\n");
    // Any other placement, as a file may have it.
    sc_table *given = NULL;
    assert_int_equal(sc_table_new("swapped", 4, 4, 8, &given, NULL), SC_OK);
    for (int s = 0; s < 4; s++) {
        int r = 3 - s;
        given->rank_of_stage[s] = r;
        for (size_t i = 0; i < plan->compute->rows[s].n_actions; i++) {
            sc_action a = plan->compute->rows[s].actions[i];
            assert_int_equal(sc_table_append(given, r, a, NULL), SC_OK);
        }
    }
    sc_plan *other = NULL;
    const sc_plan_request request = {.schedule = "file:swapped.csv", .given = given};
    assert_int_equal(sc_planner_make(job, &request, &other, NULL), SC_OK);
    sc_table_free(&given); // the plan has its own copy
    expect_text(job, other, "placement 4 stages, ranks of stages 0 to 3: 3 2 1 0; ");
    expect_json(job, other, "other");
    assert_false(sc_planner_is_same_layout(plan, other));
    sc_planner_free(&other);
    sc_planner_free(&plan);
    sc_job_free(&job);
}

/* A file's schedule with two ranks a stage is refused like the generators'. */
static void test_replicated_file_is_refused(void **state)
{
    (void)state;
    sc_job *job = parse("batch.num_microbatches=8");
    sc_table *given = NULL;
    const sc_gen_params params = {.n_ranks = 4, .n_mb = 8};
    assert_int_equal(sc_gen_make("chimera", &params, &given, NULL), SC_OK);
    sc_plan *plan = NULL;
    sc_err err = {0};
    const sc_plan_request request = {.schedule = "file:chimera.csv", .given = given};
    assert_int_equal(sc_planner_make(job, &request, &plan, &err), SC_UNSUPPORTED);
    assert_null(plan);
    assert_non_null(
        strstr(err.text, "file:chimera.csv keeps each stage's parameters on two ranks"));
    sc_table_free(&given);
    sc_job_free(&job);
}

static void test_cap_can_be_left_to_the_caller(void **state)
{
    (void)state;
    sc_plan *plan = NULL;
    sc_err err = {0};
    sc_job *job = parse("memory.cap_gib=0.001");
    const sc_plan_request request = {.schedule = "zb-h1", .is_uncapped = true};
    assert_int_equal(sc_planner_make(job, &request, &plan, &err), SC_OK);
    assert_int_equal(sc_planner_check_cap(job, plan, &err), SC_LIMIT);
    assert_non_null(strstr(err.text, "over the cap of 0.001; take more stages"));
    sc_planner_free(&plan);
    sc_job_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_are_the_same_or_not),
        cmocka_unit_test(test_live_peak_is_what_is_held_at_one_time),
        cmocka_unit_test(test_tied_embedding_on_one_rank_has_one_state),
        cmocka_unit_test(test_buffers_follow_the_rows),
        cmocka_unit_test(test_texts_tell_the_placement),
        cmocka_unit_test(test_replicated_file_is_refused),
        cmocka_unit_test(test_cap_can_be_left_to_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
