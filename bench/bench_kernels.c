/*
 * bench_kernels - what each operation of a backend costs in a training step of GPT-2 124M, beside
 * what the step's matrix products cost alone.
 *
 * With one thread times are CPU times of the process, which other work on the machine disturbs
 * little; with more, wall times. Rounds are interleaved, the median is shown.
 */
#include "base/rng.h"
#include "bench/step_ops.h"
#include "kernels/backends.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUNDS_MAX = 99,
    OPS_MAX = 64,
    CALLS = 3 // of one operation in one round
};

static const size_t POOL_ELEMS = (size_t)1 << 28;

typedef struct sc_bench_options {
    int n_threads;
    int64_t B;
    int64_t T;
    int n_rounds;
    const char *isa;
} sc_bench_options;

static double now_s(int n_threads)
{
    struct timespec t;
    clock_gettime(n_threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static sc_status prepare(sc_step_ops *b, sc_err *err)
{
    const size_t n_chunks = SC_STEP_OPS_PARAMS / SC_NORM_CHUNK_ELEMS + 1;
    const int64_t n = b->B * b->T;
    void *p[4];
    SC_TRY(b->be->memory_alloc(b->be, POOL_ELEMS * sizeof(float), &p[0], err));
    SC_TRY(b->be->memory_alloc(b->be, (size_t)n * sizeof(int32_t), &p[1], err));
    SC_TRY(b->be->memory_alloc(b->be, n_chunks * sizeof(double), &p[2], err));
    SC_TRY(b->be->memory_alloc(b->be, b->be->attention_scratch_bytes(b->be, b->B, b->T, 768, 12),
                               &p[3], err));
    b->pool = p[0];
    b->pool_n = POOL_ELEMS;
    b->tokens = p[1];
    b->partials = p[2];
    b->scratch = p[3];
    for (size_t i = 0; i < POOL_ELEMS; i++) {
        b->pool[i] = (float)((i * 2654435761u) % 1024u) * 1e-4f;
    }
    for (int64_t i = 0; i < n; i++) {
        b->tokens[i] = (int32_t)(sc_rng_u64(1, 1, (uint64_t)i) % 50257u);
    }
    return SC_OK;
}

/* Seconds of one call. */
static sc_status time_op(sc_step_ops *b, const sc_step_op *op, double *out, sc_err *err)
{
    const int calls = op->calls > 1 ? CALLS : 1;
    const double start = now_s(b->be->n_threads);
    for (int k = 0; k < calls; k++) {
        SC_TRY(op->run(b, op, err));
    }
    *out = (now_s(b->be->n_threads) - start) / calls;
    return SC_OK;
}

/* times[i][round] = seconds of one call of operation i; round -1 warms up. */
static sc_status measure(sc_step_ops *b, const sc_step_op *ops, int n_ops, int n_rounds,
                         double times[][ROUNDS_MAX], sc_err *err)
{
    for (int k = -n_ops; k < n_rounds * n_ops; k++) {
        const int i = (k + n_ops) % n_ops;
        SC_TRY(time_op(b, &ops[i], &times[i][k < 0 ? 0 : k / n_ops], err));
    }
    return SC_OK;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* "of peak" is against the fastest matrix product of the run, or against "memory". */
static void show(const sc_step_ops *b, const sc_step_op *ops, int n_ops, int n_rounds,
                 double times[][ROUNDS_MAX])
{
    double step = 0.0;
    double products = 0.0;
    double peak_gflops = 0.0;
    double peak_gbs = 0.0;
    double gflops[OPS_MAX];
    double gbs[OPS_MAX];
    for (int i = 0; i < n_ops; i++) {
        qsort(times[i], (size_t)n_rounds, sizeof times[i][0], compare);
        const double s = times[i][n_rounds / 2];
        gflops[i] = 1e-9 * sc_step_ops_flops(b, &ops[i]) / s;
        gbs[i] = 1e-9 * sc_step_ops_bytes(b, &ops[i]) / s;
        peak_gflops = larger(peak_gflops, gflops[i]);
        peak_gbs = ops[i].calls == 0 ? gbs[i] : peak_gbs;
    }
    printf("%-24s %6s %10s %10s %9s %9s %8s\n", "operation", "calls", "ms a call", "ms a step",
           "GFLOP/s", "GB/s", "of peak");
    for (int i = 0; i < n_ops; i++) {
        const double s = times[i][n_rounds / 2];
        *(ops[i].is_product ? &products : &step) += s * ops[i].calls;
        printf("%-24s %6d %10.3f %10.2f %9.1f %9.2f %7.0f%%\n", ops[i].name, ops[i].calls, 1e3 * s,
               1e3 * s * ops[i].calls, gflops[i], gbs[i],
               100.0 * larger(gflops[i] / peak_gflops, gbs[i] / peak_gbs));
    }
    printf("step %.1f ms, matrix products alone %.1f ms, ratio %.3f; %.2f ms a token\n", 1e3 * step,
           1e3 * products, step / products, 1e3 * step / (double)(b->B * b->T));
}

static sc_status run(const sc_bench_options *o, sc_err *err)
{
    static double times[OPS_MAX][ROUNDS_MAX];
    sc_step_ops b = {.B = o->B, .T = o->T};
    int n_ops = 0;
    const sc_step_op *ops = sc_step_ops_list(&n_ops);
    SC_TRY(sc_backends_open("cpu", o->n_threads, o->isa, &b.be, err));
    printf("backend cpu %s, %d threads, B %d, T %d, median of %d rounds, %s\n", b.be->isa,
           o->n_threads, (int)o->B, (int)o->T, o->n_rounds,
           o->n_threads == 1 ? "CPU time" : "wall time");
    sc_status status = prepare(&b, err);
    if (status == SC_OK) {
        status = measure(&b, ops, n_ops, o->n_rounds, times, err);
    }
    if (status == SC_OK) {
        show(&b, ops, n_ops, o->n_rounds, times);
    }
    b.be->memory_free(b.be, b.pool);
    b.be->memory_free(b.be, b.tokens);
    b.be->memory_free(b.be, b.partials);
    b.be->memory_free(b.be, b.scratch);
    b.be->free(&b.be);
    return status;
}

static bool parse(int argc, char **argv, sc_bench_options *o)
{
    static const struct option known[] = {
        {"threads", required_argument, NULL, 't'}, {"batch", required_argument, NULL, 'B'},
        {"length", required_argument, NULL, 'T'},  {"rounds", required_argument, NULL, 'r'},
        {"isa", required_argument, NULL, 'i'},     {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        const long value = optarg != NULL ? strtol(optarg, NULL, 10) : 0;
        switch (c) {
        case 't':
            o->n_threads = (int)value;
            break;
        case 'B':
            o->B = value;
            break;
        case 'T':
            o->T = value;
            break;
        case 'r':
            o->n_rounds = (int)value;
            break;
        case 'i':
            o->isa = optarg;
            break;
        default:
            return false;
        }
    }
    return optind == argc && o->n_threads > 0 && o->B > 0 && o->B <= 64 && o->T > 0 &&
           o->T <= 1024 && o->B * o->T <= 2048 && o->n_rounds > 0 && o->n_rounds <= ROUNDS_MAX;
}

int main(int argc, char **argv)
{
    sc_bench_options o = {.n_threads = 1, .B = 4, .T = 64, .n_rounds = 5};
    sc_err err;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr,
                "usage: bench_kernels [--threads 1] [--batch 4] [--length 64] [--rounds 5] "
                "[--isa avx512]\nbatch times length at most 2048, rounds at most %d\n",
                ROUNDS_MAX);
        return 2;
    }
    sc_status status = run(&o, &err);
    if (status != SC_OK) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
    }
    return sc_status_exit_code(status);
}
