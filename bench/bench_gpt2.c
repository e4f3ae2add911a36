/*
 * bench_gpt2 - a whole training step of GPT-2 124M in one process, beside what dnnl_sgemm takes for
 * the very same matrix products.
 *
 * Random weights, one fixed random batch, fp32; a step is forward, backward, gradient norm with
 * clipping, and AdamW, through the slice and the optimizer that workers use. Steps and products
 * take turns, so that both see the same machine; medians are shown. The products are those that the
 * step made: recorded in the warm-up, attention's blocks and what its causal mask saves included.
 */
#include "base/rng.h"
#include "bench/peak.h"
#include "bench/sgemm_record.h"
#include "kernels/backends.h"
#include "stage/optim/gradnorm.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_MAX = 99,
    CALLS_MAX = 1 << 18,
    SEED = 1
};

typedef struct sc_bench_options {
    int n_threads;
    int B;
    int T;
    int n_rounds;
} sc_bench_options;

typedef struct sc_bench_model {
    sc_model_spec spec;
    sc_registry *registry;
    sc_backend *be;
    sc_timed_backend timed;
    sc_slice *slice;
    sc_optim *optim;
    sc_gradnorm gradnorm;
    double *sums;     // (n_params)
    uint64_t *ids;    // (B)
    int32_t *tokens;  // (B,T)
    int32_t *targets; // (B,T)
    uint64_t n_steps;
    double loss; // of the last step
} sc_bench_model;

/* What the rounds gave. Row SC_TIMED_PART_COUNT is the whole. */
typedef struct sc_bench_times {
    sc_timed_span step[SC_TIMED_PART_COUNT + 1][ROUNDS_MAX];
    sc_timed_span products[SC_TIMED_PART_COUNT + 1][ROUNDS_MAX];
} sc_bench_times;

static sc_status make_batch(sc_bench_model *m, const sc_bench_options *o, sc_err *err)
{
    const size_t n = (size_t)o->B * (size_t)o->T;
    m->ids = calloc((size_t)o->B, sizeof *m->ids);
    m->tokens = calloc(n, sizeof *m->tokens);
    m->targets = calloc(n, sizeof *m->targets);
    m->sums = calloc((size_t)m->registry->n_params, sizeof *m->sums);
    if (m->ids == NULL || m->tokens == NULL || m->targets == NULL || m->sums == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the batch");
    }
    const uint64_t V = (uint64_t)m->spec.vocab_size;
    for (size_t i = 0; i < n; i++) {
        m->tokens[i] = (int32_t)(sc_rng_u64(SEED, 0, i) % V);
        m->targets[i] = (int32_t)(sc_rng_u64(SEED, 0, i + 1) % V);
    }
    return SC_OK;
}

static sc_status open_model(sc_bench_model *m, const sc_bench_options *o, sc_err *err)
{
    sc_spec_defaults(&m->spec);
    SC_TRY(sc_spec_check(&m->spec, err));
    SC_TRY(sc_registry_new(&m->spec, &m->registry, err));
    SC_TRY(sc_backends_open("cpu", o->n_threads, NULL, &m->be, err));
    sc_timed_backend_init(&m->timed, m->be);
    const sc_slice_config slice = {
        .n_stages = 1,
        .n_mb = 1,
        .range = {.block_end = m->spec.n_layer, .has_embed = true, .has_head = true},
        .spec = &m->spec,
        .registry = m->registry,
        .backend = &m->timed.base,
        .B = o->B,
        .T = o->T,
        .seed = SEED,
        .n_act_slots = 1,
    };
    SC_TRY(sc_slice_layers_open(&slice, &m->slice, err));
    const sc_slice *const slices[] = {m->slice};
    const sc_optim_config optim = {
        .kind = SC_OPTIM_ADAMW,
        .beta1 = 0.9F,
        .beta2 = 0.95F,
        .epsilon = 1e-8F,
        .weight_decay = 0.1F,
        .registry = m->registry,
        .backend = &m->timed.base,
        .slices = slices,
        .n_slices = 1,
    };
    SC_TRY(sc_optim_open(&optim, &m->optim, err));
    SC_TRY(sc_gradnorm_open(m->optim, &m->gradnorm, err));
    return make_batch(m, o, err);
}

static void close_model(sc_bench_model *m)
{
    sc_gradnorm_close(&m->gradnorm);
    sc_optim_close(&m->optim);
    if (m->slice != NULL) {
        m->slice->ops->close(&m->slice);
    }
    if (m->be != NULL) {
        m->be->free(&m->be);
    }
    sc_registry_free(&m->registry);
    free(m->sums);
    free(m->targets);
    free(m->tokens);
    free(m->ids);
}

static sc_status run_step(sc_bench_model *m, const sc_bench_options *o, sc_err *err)
{
    const float lr = 3e-4F;
    uint32_t lr_bits;
    float scale;
    memcpy(&lr_bits, &lr, sizeof lr_bits);
    sc_slice_mb mb = {
        .step = m->n_steps,
        .keep_slot = -1,
        .sample_ids = m->ids,
        .tokens = m->tokens,
        .targets = m->targets,
        .loss_scale = 1.0F / (float)(o->B * o->T),
    };
    SC_TRY(m->slice->ops->forward(m->slice, &mb, err));
    SC_TRY(m->slice->ops->backward(m->slice, &mb, err));
    SC_TRY(sc_optim_merge_tied(m->optim, err));
    SC_TRY(sc_gradnorm_local(&m->gradnorm, m->sums, err));
    double norm = sc_gradnorm_total(m->sums, 1, m->registry->n_params);
    SC_TRY(sc_gradnorm_scale(norm, 1.0F, &scale, err));
    SC_TRY(sc_optim_step(m->optim, lr_bits, ++m->n_steps, scale, err));
    m->loss = mb.loss_sum / (double)mb.n_valid;
    return SC_OK;
}

/* The replay added products to the gradients once more. */
static sc_status zero_gradients(sc_bench_model *m, sc_err *err)
{
    for (int i = 0; i < m->slice->n_params; i++) {
        const sc_slice_param *p = &m->slice->params[i];
        SC_TRY(m->be->memory_zero(m->be, NULL, p->grad, p->n_elems * sizeof(float), err));
    }
    return SC_OK;
}

static sc_status run_round(sc_bench_model *m, const sc_bench_options *o,
                           const sc_sgemm_record *record, int round, sc_bench_times *times,
                           sc_err *err)
{
    sc_timed_span products[SC_TIMED_PART_COUNT] = {{0, 0}};
    sc_timed_backend_reset(&m->timed);
    sc_timed_span start = sc_timed_backend_now();
    SC_TRY(run_step(m, o, err));
    sc_timed_span middle = sc_timed_backend_now();
    SC_TRY(sc_sgemm_record_replay(record, products, err));
    sc_timed_span end = sc_timed_backend_now();
    sc_timed_backend_add(&times->step[SC_TIMED_PART_COUNT][round], start, middle);
    sc_timed_backend_add(&times->products[SC_TIMED_PART_COUNT][round], middle, end);
    for (int i = 0; i < SC_TIMED_PART_COUNT; i++) {
        times->step[i][round] = m->timed.parts[i];
        times->products[i][round] = products[i];
    }
    return zero_gradients(m, err);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts; lower, middle and upper value. */
typedef struct sc_bench_spread {
    double min;
    double median;
    double max;
} sc_bench_spread;

static sc_bench_spread spread(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    return (sc_bench_spread){values[0], median, values[n - 1]};
}

static sc_bench_spread spread_ms(const sc_timed_span *spans, int n, bool is_cpu)
{
    double values[ROUNDS_MAX];
    for (int i = 0; i < n; i++) {
        values[i] = 1e3 * (is_cpu ? spans[i].cpu_s : spans[i].wall_s);
    }
    return spread(values, n);
}

static void show_whole(const sc_bench_times *t, int n, bool is_cpu, double flops, double peak)
{
    const sc_timed_span *step = t->step[SC_TIMED_PART_COUNT];
    const sc_timed_span *products = t->products[SC_TIMED_PART_COUNT];
    double values[ROUNDS_MAX];
    for (int i = 0; i < n; i++) {
        values[i] =
            is_cpu ? step[i].cpu_s / products[i].cpu_s : step[i].wall_s / products[i].wall_s;
    }
    sc_bench_spread s = spread_ms(step, n, is_cpu);
    sc_bench_spread p = spread_ms(products, n, is_cpu);
    sc_bench_spread r = spread(values, n);
    printf("%s: step %.1f ms (%.1f to %.1f), products alone %.1f ms (%.1f to %.1f), ratio %.3f "
           "(%.3f to %.3f)\n",
           is_cpu ? "CPU " : "wall", s.median, s.min, s.max, p.median, p.min, p.max, r.median,
           r.min, r.max);
    printf("      products %.1f GFLOP/s, %.0f %% of the FMA peak; step %.0f %%\n",
           flops / p.median * 1e-6, 1e-4 * flops / p.median / peak, 1e-4 * flops / s.median / peak);
}

/* What a round took outside of the operations. */
static void add_rest(sc_bench_times *t, int n, sc_timed_span *rest)
{
    for (int i = 0; i < n; i++) {
        rest[i] = t->step[SC_TIMED_PART_COUNT][i];
        for (int p = 0; p < SC_TIMED_PART_COUNT; p++) {
            sc_timed_backend_add(&rest[i], t->step[p][i], (sc_timed_span){0, 0});
        }
    }
}

static void show_parts(sc_bench_times *t, int n, bool is_cpu)
{
    sc_timed_span rest[ROUNDS_MAX];
    const double whole = spread_ms(t->step[SC_TIMED_PART_COUNT], n, is_cpu).median;
    printf("\n%-26s %10s %10s %10s %8s\n", is_cpu ? "part, CPU ms" : "part, wall ms", "step",
           "products", "excess", "of step");
    for (int i = 0; i < SC_TIMED_PART_COUNT; i++) {
        const double step = spread_ms(t->step[i], n, is_cpu).median;
        const double products = spread_ms(t->products[i], n, is_cpu).median;
        printf("%-26s %10.2f %10.2f %10.2f %7.1f%%\n", sc_timed_backend_part_text(i), step,
               products, step - products, 100 * step / whole);
    }
    add_rest(t, n, rest);
    const double outside = spread_ms(rest, n, is_cpu).median;
    printf("%-26s %10.2f %10.2f %10.2f %7.1f%%\n", "outside of operations", outside, 0.0, outside,
           100 * outside / whole);
}

static void show(const sc_bench_options *o, sc_bench_times *times, const sc_sgemm_record *record,
                 double peak_one)
{
    const bool is_cpu = o->n_threads == 1;
    const double flops = sc_sgemm_record_flops(record);
    printf("%zu products of %.1f GFLOP in all\n", record->n_calls, flops * 1e-9);
    show_whole(times, o->n_rounds, false, flops, peak_one * o->n_threads);
    /* CPU time adds the threads up, so the peak it is held against is one core's */
    show_whole(times, o->n_rounds, true, flops, peak_one);
    sc_bench_spread step = spread_ms(times->step[SC_TIMED_PART_COUNT], o->n_rounds, is_cpu);
    printf("%.2f ms a token (%s time)\n", step.median / (o->B * o->T), is_cpu ? "CPU" : "wall");
    show_parts(times, o->n_rounds, is_cpu);
}

static sc_status measure(const sc_bench_options *o, sc_bench_model *m, sc_sgemm_record *record,
                         sc_err *err)
{
    static sc_bench_times times;
    SC_TRY(run_step(m, o, err)); // touches all memory
    double first_loss = m->loss;
    sc_sgemm_record_start(record);
    sc_status status = run_step(m, o, err);
    SC_TRY(sc_sgemm_record_stop(record, err));
    SC_TRY(status);
    double peak_one = sc_peak_gflops();
    printf("FMA peak %.0f GFLOP/s a core\n", peak_one);
    for (int round = 0; round < o->n_rounds; round++) {
        SC_TRY(run_round(m, o, record, round, &times, err));
    }
    printf("loss of the fixed batch %.4f -> %.4f over %d steps\n", first_loss, m->loss,
           (int)m->n_steps);
    if (!(m->loss < first_loss)) {
        return sc_status_fail(err, SC_NUMERIC, "the loss does not fall: this is no training step");
    }
    show(o, &times, record, peak_one);
    return SC_OK;
}

static sc_status run(const sc_bench_options *o, sc_err *err)
{
    sc_bench_model m = {.n_steps = 0};
    sc_sgemm_record record = {0};
    sc_status status = open_model(&m, o, err);
    if (status == SC_OK) {
        printf("GPT-2 124M, fp32, B %d, T %d, %d threads, backend cpu %s, median of %d rounds\n",
               o->B, o->T, o->n_threads, m.be->isa, o->n_rounds);
        status = sc_sgemm_record_init(&record, CALLS_MAX, &m.timed, err);
    }
    if (status == SC_OK) {
        status = measure(o, &m, &record, err);
    }
    sc_sgemm_record_done(&record);
    close_model(&m);
    return status;
}

static bool parse(int argc, char **argv, sc_bench_options *o)
{
    static const struct option known[] = {{"threads", required_argument, NULL, 't'},
                                          {"batch", required_argument, NULL, 'B'},
                                          {"length", required_argument, NULL, 'T'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        const int value = optarg != NULL ? (int)strtol(optarg, NULL, 10) : 0;
        switch (c) {
        case 't':
            o->n_threads = value;
            break;
        case 'B':
            o->B = value;
            break;
        case 'T':
            o->T = value;
            break;
        case 'r':
            o->n_rounds = value;
            break;
        default:
            return false;
        }
    }
    return optind == argc && o->n_threads > 0 && o->B > 0 && o->B <= 64 && o->T > 0 &&
           o->T <= 1024 && o->n_rounds > 0 && o->n_rounds <= ROUNDS_MAX;
}

int main(int argc, char **argv)
{
    sc_bench_options o = {.n_threads = 1, .B = 4, .T = 64, .n_rounds = 5};
    sc_err err = {.status = SC_OK};
    if (!parse(argc, argv, &o)) {
        fprintf(stderr,
                "usage: bench_gpt2 [--threads 1] [--batch 4] [--length 64] [--rounds 5]\n"
                "batch at most 64, length at most 1024, rounds at most %d; takes about 3 GB\n",
                ROUNDS_MAX);
        return 2;
    }
    sc_status status = run(&o, &err);
    if (status != SC_OK) {
        fprintf(stderr, "bench_gpt2: %s\n", err.text);
    }
    return sc_status_exit_code(status);
}
