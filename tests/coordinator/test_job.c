/*
 * job: every class of bad input gets its exact text; good input gets its values.
 */
#include "coordinator/job.h"
#include "coordinator/job_yaml.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A whole job, one line each, so that tests can replace a line by number. */
static const char *const GOOD[] = {
    "name: test",                 // 1
    "device: cpu",                // 2
    "schedule: gpipe",            // 3
    "model:",                     // 4
    "  n_layer: 6",               // 5
    "  n_head: 4",                // 6
    "  n_embd: 64",               // 7
    "  vocab_size: 256",          // 8
    "  n_positions: 32",          // 9
    "parallel:",                  // 10
    "  pipeline_parallel: 2",     // 11
    "  layers_per_stage: [4, 2]", // 12
    "batch:",                     // 13
    "  micro_batch_size: 2",      // 14
    "  num_microbatches: 4",      // 15
    "  sequence_length: 32",      // 16
    "train:",                     // 17
    "  steps: 10",                // 18
    "data: {path: data/kjv.bin}", // 19
};

enum {
    N_GOOD = sizeof GOOD / sizeof GOOD[0]
};

/* The good job with line `line` (1-based; 0: none) replaced by `text` (NULL: left out). */
static void make_text(int line, const char *text, char *out, size_t n)
{
    out[0] = '\0';
    for (int i = 1; i <= N_GOOD; i++) {
        size_t used = strlen(out);
        if (i != line) {
            (void)snprintf(out + used, n - used, "%s\n", GOOD[i - 1]);
        } else if (text != NULL) {
            (void)snprintf(out + used, n - used, "%s\n", text);
        }
    }
}

static sc_job *load_good(const char *const *overrides, size_t n_overrides)
{
    char text[2048];
    sc_job *job = NULL;
    sc_err err = {0};
    make_text(0, NULL, text, sizeof text);
    sc_status status =
        sc_job_parse("job.yaml", text, strlen(text), overrides, n_overrides, &job, &err);
    if (status != SC_OK) {
        fail_msg("%s", err.text);
    }
    return job;
}

static void expect_text_error(const char *text, size_t n, const char *want)
{
    sc_job *job = NULL;
    sc_err err = {0};
    assert_int_not_equal(sc_job_parse("job.yaml", text, n, NULL, 0, &job, &err), SC_OK);
    assert_string_equal(err.text, want);
    assert_null(job);
}

/* The good job with one line replaced must fail with exactly this text. */
static void expect_error(int line, const char *replaced, const char *want)
{
    char text[2048];
    make_text(line, replaced, text, sizeof text);
    expect_text_error(text, strlen(text), want);
}

static void expect_set_error(const char *override, const char *want)
{
    char text[2048];
    sc_job *job = NULL;
    sc_err err = {0};
    make_text(0, NULL, text, sizeof text);
    assert_int_not_equal(sc_job_parse("job.yaml", text, strlen(text), &override, 1, &job, &err),
                         SC_OK);
    assert_string_equal(err.text, want);
}

static void test_good_job_gets_its_values(void **state)
{
    (void)state;
    sc_job *job = load_good(NULL, 0);
    assert_string_equal(job->name, "test");
    assert_int_equal(job->device, SC_JOB_CPU);
    assert_string_equal(job->schedule, "gpipe");
    assert_int_equal(job->model.n_layer, 6);
    assert_int_equal(job->model.n_inner, 256); // 4 n_embd
    assert_true(job->model.tie_word_embeddings);
    assert_int_equal(job->n_layers_per_stage, 2);
    assert_int_equal(job->layers_per_stage[0], 4);
    assert_int_equal(job->layers_per_stage[1], 2);
    assert_string_equal(job->data_path, "data/kjv.bin");
    assert_true(job->beta2 == 0.95);
    assert_true(job->model.layer_norm_epsilon == 1e-5);
    assert_int_equal(job->seed, 1);
    assert_string_equal(job->runs_dir, "runs");
    sc_job_free(&job);
    assert_null(job);
}

static void test_recompute_is_a_name_or_a_list(void **state)
{
    (void)state;
    sc_job *job = load_good(NULL, 0);
    assert_int_equal(job->recompute.kind, SC_RECOMPUTE_NONE);
    sc_job_free(&job);
    const char *const overrides[] = {"recompute=[0, 2, 5]", "recompute=full", "recompute=selective",
                                     "recompute=[0, 5]", "recompute=[]"};
    job = load_good(overrides, 3);
    assert_int_equal(job->recompute.kind, SC_RECOMPUTE_SELECTIVE);
    sc_job_free(&job);
    job = load_good(overrides, 4);
    assert_int_equal(job->recompute.kind, SC_RECOMPUTE_BLOCKS);
    assert_int_equal(job->recompute.n_blocks, 2);
    assert_int_equal(job->recompute.blocks[1], 5);
    sc_job_free(&job);
    job = load_good(overrides, 5);
    assert_int_equal(job->recompute.n_blocks, 0);
    sc_job_free(&job);
    expect_set_error("recompute=half",
                     "--set recompute=half: recompute: half is not known; it takes: none, "
                     "selective or full, or a list of whole numbers, 0 to 1023");
    expect_set_error("recompute=[0, 6]", "--set recompute=[0, 6]: recompute: block 6 of a model "
                                         "with blocks 0 to 5");
    expect_set_error("recompute=[2, 2]", "--set recompute=[2, 2]: recompute: block 2 after block "
                                         "2; list each once, in rising order");
    expect_error(2, "recompute: {a: 1}",
                 "job.yaml:2:12: recompute: a mapping is there; it takes: none, selective or full, "
                 "or a list of whole numbers, 0 to 1023");
}

static void test_unknown_key_suggests_the_nearest(void **state)
{
    (void)state;
    expect_error(6, "  n_heads: 4",
                 "job.yaml:6:3: model.n_heads: unknown key; did you mean model.n_head?");
    expect_error(4, "modle:", "job.yaml:4:1: modle: unknown key; did you mean model?");
    expect_error(2, "steps: 10", "job.yaml:2:1: steps: unknown key; did you mean train.steps?");
    expect_error(2, "colour: red",
                 "job.yaml:2:1: colour: unknown key; examples/reference.yaml has them all");
    expect_set_error("model.layers=3", "--set model.layers=3: model.layers: unknown key; did you "
                                       "mean model.n_layer?");
}

static void test_wrong_type_is_refused(void **state)
{
    (void)state;
    expect_error(5, "  n_layer: 2.5",
                 "job.yaml:5:12: model.n_layer: 2.5 is not a whole number; it takes: whole number, "
                 "1 to 1024");
    expect_error(
        5, "  n_layer: 010",
        "job.yaml:5:12: model.n_layer: 010 has a leading zero; write it without; it takes: "
        "whole number, 1 to 1024");
    expect_error(
        5, "  n_layer: 0x10",
        "job.yaml:5:12: model.n_layer: 0x10 is not a whole number; it takes: whole number, "
        "1 to 1024");
    expect_error(5, "  n_layer: \"6\"",
                 "job.yaml:5:12: model.n_layer: \"6\" is text in quotes; it takes: whole number, 1 "
                 "to 1024");
    expect_error(
        5, "  n_layer: [6]",
        "job.yaml:5:12: model.n_layer: a list is there; it takes: whole number, 1 to 1024");
    expect_error(5, "  n_layer: {a: 6}",
                 "job.yaml:5:12: model.n_layer: a mapping is there; it takes: whole number, 1 to "
                 "1024");
    expect_error(5, "  n_layer:",
                 "job.yaml:5:3: model.n_layer: no value; it takes: whole number, 1 to 1024");
    expect_error(5, "  n_layer: ~",
                 "job.yaml:5:12: model.n_layer: no value; it takes: whole number, 1 to 1024");
    expect_error(2, "workers: {pin: yes}",
                 "job.yaml:2:16: workers.pin: yes is neither true nor false; it takes: true or "
                 "false");
    expect_error(2, "optimizer: {lr: fast}",
                 "job.yaml:2:17: optimizer.lr: fast is not a number; it takes: number, 0 to 1000");
    expect_error(2, "device: gpu",
                 "job.yaml:2:9: device: gpu is not known; it takes: cpu or paced");
    expect_error(2, "optimizer: 3",
                 "job.yaml:2:12: optimizer: a value is there; it is a section: write its keys "
                 "indented below it");
    expect_error(12, "  layers_per_stage: 3",
                 "job.yaml:12:21: parallel.layers_per_stage: 3 is no list; it takes: list of whole "
                 "numbers, 1 to 1024");
    expect_error(12, "  layers_per_stage: [4, two]",
                 "job.yaml:12:25: parallel.layers_per_stage: two is not a whole number; it takes: "
                 "list of whole numbers, 1 to 1024");
    expect_error(12, "  layers_per_stage: [4, [2]]",
                 "job.yaml:12:25: parallel.layers_per_stage: an item that is no number; it takes: "
                 "list of whole numbers, 1 to 1024");
}

static void test_out_of_range_is_refused(void **state)
{
    (void)state;
    expect_error(5, "  n_layer: 0",
                 "job.yaml:5:12: model.n_layer: 0 is out of range; it takes: whole number, 1 to "
                 "1024");
    expect_error(5, "  n_layer: -3",
                 "job.yaml:5:12: model.n_layer: -3 is out of range; it takes: whole number, 1 to "
                 "1024");
    expect_error(5, "  n_layer: 99999999999999999999",
                 "job.yaml:5:12: model.n_layer: 99999999999999999999 is out of range; it takes: "
                 "whole number, 1 to 1024");
    expect_error(2, "optimizer: {beta1: 1}",
                 "job.yaml:2:20: optimizer.beta1: 1 is out of range; it takes: number, 0 to below "
                 "1");
    expect_error(
        2, "optimizer: {epsilon: 0}",
        "job.yaml:2:22: optimizer.epsilon: 0 is out of range; it takes: number, above 0 to "
        "1");
    expect_error(2, "optimizer: {lr: .inf}",
                 "job.yaml:2:17: optimizer.lr: .inf is not a finite number; it takes: number, 0 to "
                 "1000");
    expect_error(
        2, "optimizer: {lr: 1e999}",
        "job.yaml:2:17: optimizer.lr: 1e999 is not a finite number; it takes: number, 0 to "
        "1000");
}

static void test_rules_between_keys(void **state)
{
    (void)state;
    expect_error(
        7, "  n_embd: 66",
        "job.yaml:7:11: model.n_embd: 66 is not a multiple of model.n_head 4; choose 64 or "
        "68");
    expect_error(16, "  sequence_length: 33",
                 "job.yaml:16:20: batch.sequence_length: 33 is longer than model.n_positions 32; "
                 "choose at most 32");
    expect_error(11, "  pipeline_parallel: 7",
                 "job.yaml:11:22: parallel.pipeline_parallel: 7 stages are more than model.n_layer "
                 "6; choose at most 6");
    expect_error(12, "  layers_per_stage: [2, 2, 2]",
                 "job.yaml:12:21: parallel.layers_per_stage: 3 entries for "
                 "parallel.pipeline_parallel 2; give one a stage");
    expect_error(12, "  layers_per_stage: [4, 1]",
                 "job.yaml:12:21: parallel.layers_per_stage: the entries add up to 5, not to "
                 "model.n_layer 6; add 1");
    expect_error(12, "  layers_per_stage: [6, 2]",
                 "job.yaml:12:21: parallel.layers_per_stage: the entries add up to 8, not to "
                 "model.n_layer 6; take off 2");
    expect_error(
        1, "name: a/b",
        "job.yaml:1:7: name: 'a/b' cannot name a folder; use 1 to 64 of A-Z a-z 0-9 . _ -");
    expect_error(1, "name: ..",
                 "job.yaml:1:7: name: '..' cannot name a folder; use 1 to 64 of A-Z a-z 0-9 . _ -");
    expect_error(2, "workers: {pin: true, threads: 2}",
                 "job.yaml:2:16: workers.pin: a worker of 2 threads cannot be pinned to one core; "
                 "set workers.threads 1 or workers.pin false");
    expect_error(2, "optimizer: {min_lr: 0.01}",
                 "job.yaml:2:21: optimizer.min_lr: 0.01 is above optimizer.lr 0.0003; choose at "
                 "most 0.0003");
    expect_error(19, "data: {path: \"\"}",
                 "job.yaml:19:14: data.path: is empty; name a token file");
}

static void test_missing_keys_are_named(void **state)
{
    (void)state;
    expect_error(18, NULL, "job.yaml: missing key: train.steps; add it");
    expect_text_error("device: paced\n", 14,
                      "job.yaml: missing keys: name, parallel.pipeline_parallel, "
                      "batch.num_microbatches, train.steps, paced.forward_ms, "
                      "paced.backward_input_ms, paced.backward_weight_ms; add them");
    expect_text_error("", 0,
                      "job.yaml: missing keys: name, model.n_layer, model.n_head, model.n_embd, "
                      "model.vocab_size, model.n_positions, parallel.pipeline_parallel, "
                      "batch.micro_batch_size, batch.num_microbatches, batch.sequence_length, "
                      "train.steps, data.path; add them");
}

static void test_duplicate_keys_are_refused(void **state)
{
    (void)state;
    expect_error(6, "  n_layer: 4",
                 "job.yaml:6:3: model.n_layer: this key is there twice, first at line 5; keep one");
    expect_error(
        17, "model:", "job.yaml:17:1: model: this key is there twice, first at line 4; keep one");
}

static void test_malformed_yaml_has_a_position(void **state)
{
    (void)state;
    expect_error(12, "  layers_per_stage: [4, 2",
                 "job.yaml:14:3: malformed YAML: wrongly indented flow sequence");
    expect_error(19, "data: {path: x",
                 "job.yaml:20:1: malformed YAML: missing comma in flow mapping");
    expect_error(1, "name: \"x",
                 "job.yaml:1:7: malformed YAML: wrongly indented double-quoted scalar");
    expect_error(1, "name: a: b",
                 "job.yaml:1:8: malformed YAML: invalid nested block mapping on the same line");
    expect_error(1, "name: *b",
                 "job.yaml:1:7: anchors (&), aliases (*) and tags (!) are not used here; write the "
                 "value itself");
    expect_error(
        1, "name: !!str b",
        "job.yaml:1:13: anchors (&), aliases (*) and tags (!) are not used here; write the "
        "value itself");
    expect_error(19, "---\nname: b",
                 "job.yaml:19:1: a second document starts; a job is one document");
    expect_error(1, "? [a]\n: b", "job.yaml:1:3: a key must be a name");
    expect_text_error("name: a\nx: \0b", 13, "job.yaml:2:4: byte 0x00 is no text; write UTF-8");
    expect_text_error("name: \xc3(", 8, "job.yaml:1:7: byte 0xc3 is no text; write UTF-8");
    expect_text_error("- a\n", 4, "job.yaml:1:1: no mapping of keys; write `name: ...` etc.");
    expect_text_error("a: [[[[[[[[[1]]]]]]]]]", 22, "job.yaml:1:11: nested deeper than 8 levels");
}

static void test_sizes_have_limits(void **state)
{
    (void)state;
    size_t n = SC_JOB_YAML_BYTES_MAX + 1;
    char *text = malloc(n + 1);
    assert_non_null(text);
    memset(text, '#', n);
    text[n] = '\0';
    expect_text_error(text, n, "job.yaml: 262145 bytes, a job file has at most 262144");
    free(text);
    const char *const overrides[] = {"batch.micro_batch_size=65536", "model.n_positions=1024",
                                     "batch.sequence_length=1024"};
    sc_job *job = NULL;
    sc_err err = {0};
    char good[2048];
    make_text(0, NULL, good, sizeof good);
    assert_int_equal(sc_job_parse("job.yaml", good, strlen(good), overrides, 3, &job, &err),
                     SC_INVALID);
    assert_string_equal(
        err.text, "--set batch.micro_batch_size=65536: batch.micro_batch_size: 65536 samples "
                  "of 1024 tokens are more than the 16777216 a microbatch may have; choose at "
                  "most 16384");
}

static void test_overrides_win(void **state)
{
    (void)state;
    const char *const overrides[] = {"model.n_embd=128",  "parallel.layers_per_stage=[1, 5]",
                                     "optimizer.lr=1e-2", "name=other",
                                     "train.steps=5",     "train.steps=6"};
    sc_job *job = load_good(overrides, sizeof overrides / sizeof overrides[0]);
    assert_int_equal(job->model.n_embd, 128);
    assert_int_equal(job->layers_per_stage[1], 5);
    assert_true(job->lr == 0.01);
    assert_string_equal(job->name, "other");
    assert_int_equal(job->steps, 6);
    sc_job_free(&job);
}

static void test_override_errors_name_the_flag(void **state)
{
    (void)state;
    expect_set_error("model.n_embd=66", "--set model.n_embd=66: model.n_embd: 66 is not a multiple "
                                        "of model.n_head 4; choose 64 or 68");
    expect_set_error("train.steps=x", "--set train.steps=x: train.steps: x is not a whole number; "
                                      "it takes: whole number, 1 to 1000000000");
    expect_set_error("train.steps=", "--set train.steps=: train.steps: no value; it takes: whole "
                                     "number, 1 to 1000000000");
    expect_set_error("train.steps", "--set train.steps: write --set key.path=value");
    expect_set_error("model=3", "--set model=3: model: is a section; name one of its keys");
}

static void test_format_loads_to_the_same_job(void **state)
{
    (void)state;
    const char *const overrides[] = {"optimizer.lr=0.1234567890123",
                                     "data.path=\"a \\\"b\\\" é\"",
                                     "train.seed=9007199254740991",
                                     "workers.threads=2",
                                     "output.save_weights=true",
                                     "schedule_options.limit=5.5",
                                     "recompute=[1, 3]"};
    sc_job *job = load_good(overrides, sizeof overrides / sizeof overrides[0]);
    char *first = NULL;
    char *second = NULL;
    sc_err err = {0};
    assert_int_equal(sc_job_format(job, &first, &err), SC_OK);
    sc_job_free(&job);
    if (sc_job_parse("copy", first, strlen(first), NULL, 0, &job, &err) != SC_OK) {
        fail_msg("%s in\n%s", err.text, first);
    }
    assert_true(job->lr == 0.1234567890123);
    assert_string_equal(job->data_path, "a \"b\" é");
    assert_true(job->seed == UINT64_C(9007199254740991));
    assert_true(job->schedule_limit == 5.5);
    assert_int_equal(job->recompute.blocks[1], 3);
    assert_int_equal(sc_job_format(job, &second, &err), SC_OK);
    assert_string_equal(first, second);
    free(first);
    free(second);
    sc_job_free(&job);
}

static void test_file_errors(void **state)
{
    (void)state;
    sc_job *job = NULL;
    sc_err err = {0};
    assert_int_equal(sc_job_load("/nonexistent/job.yaml", NULL, 0, &job, &err), SC_IO);
    assert_string_equal(err.text,
                        "/nonexistent/job.yaml: cannot open the job file: No such file or "
                        "directory");
    assert_int_equal(sc_job_load("/", NULL, 0, &job, &err), SC_IO);
}

static void test_learning_rate(void **state)
{
    (void)state;
    const char *const overrides[] = {"optimizer.lr=0.1", "optimizer.min_lr=0.02",
                                     "optimizer.warmup_steps=4", "train.steps=12"};
    sc_job *job = load_good(overrides, 4);
    assert_true(sc_job_lr(job, 0) == (float)(0.1 / 4));
    assert_true(sc_job_lr(job, 3) == (float)0.1);
    assert_true(sc_job_lr(job, 4) == (float)0.1);
    assert_true(fabs(sc_job_lr(job, 8) - 0.06) < 1e-7); // half way: the mean
    assert_true(sc_job_lr(job, 12) == (float)0.02);
    assert_true(sc_job_lr(job, 1000) == (float)0.02);
    job->decay_steps = 6;
    assert_true(sc_job_lr(job, 6) == (float)0.02);
    sc_job_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_job_gets_its_values),
        cmocka_unit_test(test_recompute_is_a_name_or_a_list),
        cmocka_unit_test(test_unknown_key_suggests_the_nearest),
        cmocka_unit_test(test_wrong_type_is_refused),
        cmocka_unit_test(test_out_of_range_is_refused),
        cmocka_unit_test(test_rules_between_keys),
        cmocka_unit_test(test_missing_keys_are_named),
        cmocka_unit_test(test_duplicate_keys_are_refused),
        cmocka_unit_test(test_malformed_yaml_has_a_position),
        cmocka_unit_test(test_sizes_have_limits),
        cmocka_unit_test(test_overrides_win),
        cmocka_unit_test(test_override_errors_name_the_flag),
        cmocka_unit_test(test_format_loads_to_the_same_job),
        cmocka_unit_test(test_file_errors),
        cmocka_unit_test(test_learning_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
