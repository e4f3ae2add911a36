/*
 * bench_stages - what a job's stages cost when one process hosts them all, and the step that
 * simulation makes of it.
 *
 * Plans the job as the coordinator does, opens every stage's slice, and runs microbatches through
 * them one after another (p = 1: nothing overlaps, nothing is sent), with each stage's own
 * optimizer. Costs are medians over microbatches and rounds. Prints one JSON object.
 */
#include "base/rng.h"
#include "coordinator/planner.h"
#include "kernels/backends.h"
#include "schedules/simulate.h"
#include "stage/optim/gradnorm.h"

#include <argp.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    KEY_SET = 256,
    KEY_ROUNDS,
    OVERRIDES_MAX = 64,
    STAGES_MAX = 16,
    SAMPLES_MAX = 4096,  // microbatches of all rounds
    LR_BITS = 0x38d1b717 // 1e-4
};

typedef struct sc_bench_options {
    const char *job_path;
    const char *overrides[OVERRIDES_MAX];
    size_t n_overrides;
    int n_rounds;
} sc_bench_options;

/* One stage: what it is, and its times in seconds. */
typedef struct sc_bench_stage {
    sc_slice *slice;
    sc_optim *optim;
    sc_gradnorm gradnorm;
    void *y;  // message to the next stage
    void *dx; // gradient to the stage before
    double f[SAMPLES_MAX];
    double i[SAMPLES_MAX];
    double w[SAMPLES_MAX];
    double tail[SAMPLES_MAX]; // merge, norm, optimizer
} sc_bench_stage;

typedef struct sc_bench {
    sc_bench_options options;
    sc_job *job;
    sc_plan *plan;
    sc_backend *be;
    sc_bench_stage *stages; // (n_stages)
    double *sums;           // (n_params)
    uint64_t *ids;          // (B)
    int32_t *tokens;        // (B,T)
    int32_t *targets;       // (B,T)
    int n_samples;          // of f, i, w
    int n_tails;
} sc_bench;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sc_status open_stage(sc_bench *b, int s, sc_err *err)
{
    const sc_job *job = b->job;
    sc_bench_stage *stage = &b->stages[s];
    const sc_slice_config slice = {
        .stage = s,
        .n_stages = b->plan->n_stages,
        .n_mb = b->plan->n_mb,
        .range = b->plan->stages[s].range,
        .spec = &job->model,
        .registry = b->plan->registry,
        .backend = b->be,
        .B = job->micro_batch_size,
        .T = job->sequence_length,
        .seed = job->seed,
        .n_act_slots = 1,
    };
    SC_TRY(sc_slice_layers_open(&slice, &stage->slice, err));
    const sc_slice *const slices[] = {stage->slice};
    const sc_optim_config optim = {
        .kind = job->optimizer == SC_JOB_ADAMW ? SC_OPTIM_ADAMW : SC_OPTIM_SGD,
        .beta1 = (float)job->beta1,
        .beta2 = (float)job->beta2,
        .epsilon = (float)job->epsilon,
        .weight_decay = (float)job->weight_decay,
        .registry = b->plan->registry,
        .backend = b->be,
        .slices = slices,
        .n_slices = 1,
    };
    SC_TRY(sc_optim_open(&optim, &stage->optim, err));
    SC_TRY(sc_gradnorm_open(stage->optim, &stage->gradnorm, err));
    SC_TRY(b->be->memory_alloc(b->be, stage->slice->message_bytes, &stage->y, err));
    return b->be->memory_alloc(b->be, stage->slice->message_bytes, &stage->dx, err);
}

static sc_status open_all(sc_bench *b, sc_err *err)
{
    const sc_bench_options *o = &b->options;
    SC_TRY(sc_job_load(o->job_path, o->overrides, o->n_overrides, &b->job, err));
    SC_TRY(sc_plan_load(b->job, b->job->schedule, NULL, &b->plan, err));
    if (b->plan->registry == NULL || b->plan->n_stages > STAGES_MAX ||
        o->n_rounds * b->plan->n_mb > SAMPLES_MAX) {
        return sc_status_fail(err, SC_LIMIT,
                              "needs a job with device cpu, at most %d stages, and at most %d "
                              "microbatches in all rounds",
                              STAGES_MAX, SAMPLES_MAX);
    }
    SC_TRY(sc_backends_open("cpu", b->job->threads, NULL, &b->be, err));
    const size_t n = (size_t)b->job->micro_batch_size * (size_t)b->job->sequence_length;
    b->stages = calloc((size_t)b->plan->n_stages, sizeof *b->stages);
    b->sums = calloc((size_t)b->plan->registry->n_params, sizeof *b->sums);
    b->ids = calloc((size_t)b->job->micro_batch_size, sizeof *b->ids);
    b->tokens = calloc(n, sizeof *b->tokens);
    b->targets = calloc(n, sizeof *b->targets);
    if (b->stages == NULL || b->sums == NULL || b->ids == NULL || b->tokens == NULL ||
        b->targets == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory");
    }
    for (size_t i = 0; i < n; i++) {
        b->tokens[i] = (int32_t)(sc_rng_u64(1, 0, i) % (uint64_t)b->job->model.vocab_size);
        b->targets[i] = (int32_t)(sc_rng_u64(1, 0, i + 1) % (uint64_t)b->job->model.vocab_size);
    }
    for (int s = 0; s < b->plan->n_stages; s++) {
        SC_TRY(open_stage(b, s, err));
    }
    return SC_OK;
}

static void close_all(sc_bench *b)
{
    for (int s = 0; b->stages != NULL && s < b->plan->n_stages; s++) {
        sc_bench_stage *stage = &b->stages[s];
        b->be->memory_free(b->be, stage->dx);
        b->be->memory_free(b->be, stage->y);
        sc_gradnorm_close(&stage->gradnorm);
        sc_optim_close(&stage->optim);
        if (stage->slice != NULL) {
            stage->slice->ops->close(&stage->slice);
        }
    }
    if (b->be != NULL) {
        b->be->free(&b->be);
    }
    free(b->targets);
    free(b->tokens);
    free(b->ids);
    free(b->sums);
    free(b->stages);
    sc_planner_free(&b->plan);
    sc_job_free(&b->job);
}

static sc_slice_mb make_mb(const sc_bench *b, int s, int mb)
{
    const int last = b->plan->n_stages - 1;
    const float tokens = (float)(b->job->micro_batch_size * b->job->sequence_length);
    return (sc_slice_mb){
        .mb = mb,
        .keep_slot = -1,
        .sample_ids = b->ids,
        .tokens = s == 0 ? b->tokens : NULL,
        .targets = s == last ? b->targets : NULL,
        .loss_scale = 1.0F / (tokens * (float)b->plan->n_mb),
        .x = s == 0 ? NULL : b->stages[s - 1].y,
        .y = s == last ? NULL : b->stages[s].y,
        .dy = s == last ? NULL : b->stages[s + 1].dx,
        .dx = s == 0 ? NULL : b->stages[s].dx,
    };
}

static sc_status run_mb(sc_bench *b, int index, sc_err *err)
{
    const int n = b->plan->n_stages;
    const int at = b->n_samples++;
    for (int s = 0; s < n; s++) {
        sc_bench_stage *stage = &b->stages[s];
        assert(stage->slice != NULL);
        sc_slice_mb mb = make_mb(b, s, index);
        double start = now_s();
        SC_TRY(stage->slice->ops->forward(stage->slice, &mb, err));
        stage->f[at] = now_s() - start;
    }
    for (int s = n - 1; s >= 0; s--) {
        sc_bench_stage *stage = &b->stages[s];
        assert(stage->slice != NULL);
        sc_slice_mb mb = make_mb(b, s, index);
        double start = now_s();
        SC_TRY(stage->slice->ops->backward(stage->slice, &mb, err));
        stage->w[at] = 1e-9 * (double)mb.weight_ns;
        stage->i[at] = now_s() - start - stage->w[at];
    }
    return SC_OK;
}

static sc_status run_tails(sc_bench *b, uint64_t step, sc_err *err)
{
    for (int s = 0; s < b->plan->n_stages; s++) {
        sc_bench_stage *stage = &b->stages[s];
        double start = now_s();
        SC_TRY(sc_optim_merge_tied(stage->optim, err));
        SC_TRY(sc_gradnorm_local(&stage->gradnorm, b->sums, err));
        SC_TRY(sc_optim_step(stage->optim, LR_BITS, step, 1.0F, err));
        stage->tail[b->n_tails] = now_s() - start;
    }
    b->n_tails++;
    return SC_OK;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    assert(values != NULL && n > 0);
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static sc_status show(sc_bench *b, sc_err *err)
{
    sc_stage_cost stages[STAGES_MAX];
    sc_timeline *timeline = NULL;
    double tail = 0;
    printf("{\"stages\": [");
    for (int s = 0; s < b->plan->n_stages; s++) {
        sc_bench_stage *stage = &b->stages[s];
        stages[s] = (sc_stage_cost){.f = median(stage->f, b->n_samples),
                                    .i = median(stage->i, b->n_samples),
                                    .w = median(stage->w, b->n_samples)};
        double own = median(stage->tail, b->n_tails);
        tail = own > tail ? own : tail;
        printf("%s{\"f_ms\": %.4f, \"i_ms\": %.4f, \"w_ms\": %.4f, \"tail_ms\": %.4f}",
               s > 0 ? ", " : "", 1e3 * stages[s].f, 1e3 * stages[s].i, 1e3 * stages[s].w,
               1e3 * own);
    }
    const sc_costs costs = {.stages = stages};
    SC_TRY(sc_simulate_run(b->plan->compute, &costs, &timeline, err));
    double step = timeline->makespan + tail;
    double tokens =
        (double)b->plan->n_mb * b->job->micro_batch_size * (double)b->job->sequence_length;
    printf("], \"makespan_ms\": %.4f, \"tail_ms\": %.4f, \"step_ms\": %.4f, \"bubble\": %.5f, "
           "\"tokens_per_second\": %.2f}\n",
           1e3 * timeline->makespan, 1e3 * tail, 1e3 * step, timeline->bubble, tokens / step);
    sc_simulate_free(&timeline);
    return SC_OK;
}

static sc_status run_step(sc_bench *b, uint64_t step, sc_err *err)
{
    for (int mb = 0; mb < b->plan->n_mb; mb++) {
        SC_TRY(run_mb(b, mb, err));
    }
    return run_tails(b, step, err);
}

static sc_status run(sc_bench *b, sc_err *err)
{
    SC_TRY(open_all(b, err));
    SC_TRY(run_step(b, 1, err)); // a warm-up
    b->n_samples = 0;
    b->n_tails = 0;
    for (int round = 0; round < b->options.n_rounds; round++) {
        SC_TRY(run_step(b, (uint64_t)round + 2, err));
    }
    return show(b, err);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    sc_bench_options *o = state->input;
    switch (key) {
    case KEY_SET:
        if (o->n_overrides == OVERRIDES_MAX) {
            argp_error(state, "--set is given more than %d times", OVERRIDES_MAX);
        }
        o->overrides[o->n_overrides++] = arg;
        return 0;
    case KEY_ROUNDS:
        o->n_rounds = (int)strtol(arg, NULL, 10);
        if (o->n_rounds < 1) {
            argp_error(state, "--rounds %s: a number from 1 is needed", arg);
        }
        return 0;
    case ARGP_KEY_ARG:
        if (o->job_path != NULL) {
            argp_error(state, "%s: one job file is expected", arg);
        }
        o->job_path = arg;
        return 0;
    case ARGP_KEY_END:
        if (o->job_path == NULL) {
            argp_error(state, "JOB.yaml is missing");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option list[] = {
        {"set", KEY_SET, "KEY=VALUE", 0, "override a key of the job file; repeatable", 0},
        {"rounds", KEY_ROUNDS, "N", 0, "steps measured, after a warm-up (default 3)", 0},
        {0}};
    static const struct argp parser = {
        list,       parse_option,
        "JOB.yaml", "Measures a job's stages in one process and simulates its schedule with them.",
        NULL,       NULL,
        NULL};
    sc_bench b = {.options = {.n_rounds = 3}};
    sc_err err = {.status = SC_OK};
    argp_parse(&parser, argc, argv, 0, NULL, &b.options);
    sc_status status = run(&b, &err);
    if (status != SC_OK) {
        fprintf(stderr, "bench_stages: %s\n", err.text);
    }
    close_all(&b);
    return sc_status_exit_code(status);
}
