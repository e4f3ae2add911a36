#include "tests/multiproc/jobs.h"

#include "base/rng.h"
#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    TOKEN_SEED = 20240520,
    N_BLOCKS = 12 // splits evenly over 1, 2, 3 and 4 stages
};

sc_jobs_config sc_jobs_small(int m)
{
    sc_jobs_config config = {
        .spec = {.n_layer = N_BLOCKS,
                 .n_head = 3,
                 .n_embd = 24,
                 .vocab_size = 61,
                 .n_positions = 16,
                 .layer_norm_epsilon = 1e-5,
                 .initializer_range = 0.1,
                 .tie_word_embeddings = true},
        .B = 2,
        .m = m,
        .T = 8,
        .n_samples = 64,
        .seed = 7,
        .steps = 1,
        .threads = 1,
    };
    assert_int_equal(sc_spec_check(&config.spec, NULL), SC_OK);
    return config;
}

void sc_jobs_open(const sc_jobs_config *config, sc_jobs *out)
{
    size_t n = (size_t)config->n_samples * (size_t)config->T + 1; // the last target
    *out = (sc_jobs){.config = *config, .dir = sc_tmpdir_new()};
    out->tokens = calloc(n, sizeof *out->tokens);
    assert_non_null(out->tokens);
    for (size_t i = 0; i < n; i++) {
        uint64_t value = sc_rng_u64(TOKEN_SEED, 0, i) % (uint64_t)config->spec.vocab_size;
        out->tokens[i] = (uint16_t)value;
    }
    free(sc_tmpdir_write(out->dir, "tokens.bin", out->tokens, n * sizeof *out->tokens));
}

void sc_jobs_close(sc_jobs *jobs)
{
    sc_proc_expect_none_left(SC_JOBS_PATIENCE_MS);
    sc_tmpdir_free(&jobs->dir);
    free(jobs->tokens);
    jobs->tokens = NULL;
}

static void write_model(FILE *file, const sc_model_spec *spec)
{
    fprintf(file, "model:\n");
    fprintf(file, "  n_layer: %d\n", spec->n_layer);
    fprintf(file, "  n_head: %d\n", spec->n_head);
    fprintf(file, "  n_embd: %d\n", spec->n_embd);
    fprintf(file, "  vocab_size: %d\n", spec->vocab_size);
    fprintf(file, "  n_positions: %d\n", spec->n_positions);
    fprintf(file, "  layer_norm_epsilon: %.17g\n", spec->layer_norm_epsilon);
    fprintf(file, "  initializer_range: %.17g\n", spec->initializer_range);
    fprintf(file, "  tie_word_embeddings: %s\n", spec->tie_word_embeddings ? "true" : "false");
}

static void write_parallel(FILE *file, const sc_jobs_layout *layout)
{
    fprintf(file, "parallel:\n  pipeline_parallel: %d\n", layout->p);
    fprintf(file, "  layers_per_stage: [");
    for (int s = 0; s < layout->p && layout->blocks[0] > 0; s++) {
        fprintf(file, "%s%d", s == 0 ? "" : ", ", layout->blocks[s]);
    }
    fprintf(file, "]\n");
}

static void write_rest(FILE *file, const sc_jobs *jobs)
{
    const sc_jobs_config *config = &jobs->config;
    fprintf(file, "batch:\n  micro_batch_size: %d\n  num_microbatches: %d\n", config->B, config->m);
    fprintf(file, "  sequence_length: %d\n", config->T);
    if (config->optimizer == SC_JOBS_ADAMW) {
        fprintf(file, "optimizer:\n  name: adamw\n  lr: 0.01\n  min_lr: 0.001\n");
        fprintf(file, "  warmup_steps: 3\n  decay_steps: 9\n  weight_decay: 0.1\n");
        fprintf(file, "  grad_clip: %g\n", SC_JOBS_CLIP);
    } else {
        fprintf(file, "optimizer:\n  name: sgd\n  weight_decay: 0\n  grad_clip: 0\n");
        fprintf(file, "  lr: %g\n", config->optimizer == SC_JOBS_STILL ? 0.0 : 0.1);
    }
    fprintf(file, "train:\n  steps: %d\n  seed: %llu\n", config->steps,
            (unsigned long long)config->seed);
    fprintf(file, "data:\n  path: %s/tokens.bin\n  format: raw16\n", jobs->dir);
    // A slow machine is no failure here; other tests are about those.
    fprintf(file, "workers:\n  threads: %d\n  wait_seconds: %d\n  stuck_seconds: %d\n",
            config->threads, SC_JOBS_PATIENCE_MS / 1000, SC_JOBS_PATIENCE_MS / 1000);
    fprintf(file, "output:\n  runs_dir: runs\n  save_weights: true\n  save_gradients: true\n");
}

char *sc_jobs_write(sc_jobs *jobs, const sc_jobs_layout *layout)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    assert_non_null(file);
    assert_in_range(layout->p, 1, SC_JOBS_RANKS_MAX);
    jobs->n_runs++;
    fprintf(file, "name: job-%d\ndevice: cpu\nschedule: %s\n", jobs->n_runs, layout->schedule);
    if (jobs->config.recompute != NULL) {
        fprintf(file, "recompute: %s\n", jobs->config.recompute);
    }
    write_model(file, &jobs->config.spec);
    write_parallel(file, layout);
    write_rest(file, jobs);
    assert_int_equal(fclose(file), 0);
    char *path = sc_tmpdir_write_text(jobs->dir, "job.yaml", text);
    free(text);
    return path;
}

void sc_jobs_run(sc_jobs *jobs, const sc_jobs_layout *layout, sc_jobs_result *out)
{
    char *job = sc_jobs_write(jobs, layout);
    const char *const argv[] = {SC_BIN_DIR "/stagecoach", "run", job, NULL};
    // More threads than cores: one that waits for others must not keep their core busy.
    const char *const env[] = {"OMP_WAIT_POLICY=passive", NULL};
    sc_proc *proc = sc_proc_start(&(sc_proc_config){.argv = argv, .env = env, .dir = jobs->dir});
    sc_proc_expect_exit(proc, 0, SC_JOBS_PATIENCE_MS);
    sc_proc_free(&proc);
    free(job);
    sc_jobs_collect(jobs, layout, out);
}

static double read_number(const cJSON *line, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, name);
    if (!cJSON_IsNumber(item)) {
        fail_msg("metrics.jsonl: no number \"%s\"", name);
    }
    return item->valuedouble;
}

static void read_metrics(sc_jobs_result *result)
{
    char *path = sc_tmpdir_path(result->run_dir, "metrics.jsonl");
    char *text = sc_tmpdir_read(path, NULL);
    char *rest = text;
    for (int i = 0; i < result->n_steps; i++) {
        char *line = strsep(&rest, "\n");
        cJSON *json = line == NULL ? NULL : cJSON_Parse(line);
        if (json == NULL || read_number(json, "step") != i) {
            fail_msg("%s: %s: line %d of %d: %s", result->text, path, i + 1, result->n_steps,
                     line == NULL ? "missing" : line);
        }
        result->losses[i] = read_number(json, "loss");
        result->norms[i] = read_number(json, "grad_norm");
        cJSON_Delete(json);
    }
    assert_string_equal(rest, "");
    free(text);
    free(path);
}

void sc_jobs_collect(const sc_jobs *jobs, const sc_jobs_layout *layout, sc_jobs_result *out)
{
    char name[48];
    size_t n_steps = (size_t)jobs->config.steps;
    snprintf(name, sizeof name, "runs/job-%d", jobs->n_runs);
    *out = (sc_jobs_result){.p = layout->p, .n_steps = jobs->config.steps};
    int n = snprintf(out->text, sizeof out->text, "%s, p %d, m %d, blocks", layout->schedule,
                     layout->p, jobs->config.m);
    for (int s = 0; s < layout->p; s++) {
        n += snprintf(out->text + n, sizeof out->text - (size_t)n, " %d", layout->blocks[s]);
    }
    if (jobs->config.recompute != NULL) {
        snprintf(out->text + n, sizeof out->text - (size_t)n, ", recompute %s",
                 jobs->config.recompute);
    }
    out->run_dir = sc_tmpdir_path(jobs->dir, name);
    out->losses = calloc(n_steps, sizeof *out->losses);
    out->norms = calloc(n_steps, sizeof *out->norms);
    assert_non_null(out->losses);
    assert_non_null(out->norms);
    read_metrics(out);
}

void sc_jobs_result_free(sc_jobs_result *result)
{
    free(result->run_dir);
    free(result->losses);
    free(result->norms);
    *result = (sc_jobs_result){.run_dir = NULL};
}

static bool is_same(double a, double b)
{
    uint64_t bits_a;
    uint64_t bits_b;
    memcpy(&bits_a, &a, sizeof bits_a);
    memcpy(&bits_b, &b, sizeof bits_b);
    return bits_a == bits_b;
}

void sc_jobs_expect_same(const sc_jobs_result *expected, const sc_jobs_result *result)
{
    assert_int_equal(result->n_steps, expected->n_steps);
    for (int i = 0; i < expected->n_steps; i++) {
        if (!is_same(result->losses[i], expected->losses[i]) ||
            !is_same(result->norms[i], expected->norms[i])) {
            fail_msg("step %d: loss %.17g and norm %.17g of [%s], but %.17g and %.17g of [%s]", i,
                     result->losses[i], result->norms[i], result->text, expected->losses[i],
                     expected->norms[i], expected->text);
        }
    }
}
