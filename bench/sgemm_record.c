#include "bench/sgemm_record.h"

#include <dnnl.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>

struct sc_sgemm_call {
    char trans_a;
    char trans_b;
    dnnl_dim_t M;
    dnnl_dim_t N;
    dnnl_dim_t K;
    float alpha;
    const float *a;
    dnnl_dim_t lda;
    const float *b;
    dnnl_dim_t ldb;
    float beta;
    float *c;
    dnnl_dim_t ldc;
    uint64_t op; // of the backend, to which the call belongs
    int part;
    int thread;    // in the operation's parallel region
    int n_threads; // of that region; 1: none
};

static sc_sgemm_record *active; // the linker's hook has no argument for it
static atomic_size_t n_seen;

/* The library's function, and what takes its place: the linker knows them by other names. */
dnnl_status_t sc_sgemm_record_real(char transa, char transb, dnnl_dim_t M, dnnl_dim_t N,
                                   dnnl_dim_t K, float alpha, const float *A, dnnl_dim_t lda,
                                   const float *B, dnnl_dim_t ldb, float beta, float *C,
                                   dnnl_dim_t ldc) __asm__("__real_dnnl_sgemm");
dnnl_status_t sc_sgemm_record_hook(char transa, char transb, dnnl_dim_t M, dnnl_dim_t N,
                                   dnnl_dim_t K, float alpha, const float *A, dnnl_dim_t lda,
                                   const float *B, dnnl_dim_t ldb, float beta, float *C,
                                   dnnl_dim_t ldc) __asm__("__wrap_dnnl_sgemm");

static dnnl_status_t call(const sc_sgemm_call *g)
{
    return sc_sgemm_record_real(g->trans_a, g->trans_b, g->M, g->N, g->K, g->alpha, g->a, g->lda,
                                g->b, g->ldb, g->beta, g->c, g->ldc);
}

// NOLINTBEGIN(readability-function-size,readability-non-const-parameter): dnnl_sgemm's own
// arguments
dnnl_status_t sc_sgemm_record_hook(char transa, char transb, dnnl_dim_t M, dnnl_dim_t N,
                                   dnnl_dim_t K, float alpha, const float *A, dnnl_dim_t lda,
                                   const float *B, dnnl_dim_t ldb, float beta, float *C,
                                   dnnl_dim_t ldc)
{
    const sc_sgemm_call g = {
        .trans_a = transa,
        .trans_b = transb,
        .M = M,
        .N = N,
        .K = K,
        .alpha = alpha,
        .a = A,
        .lda = lda,
        .b = B,
        .ldb = ldb,
        .beta = beta,
        .c = C,
        .ldc = ldc,
    };
    if (active != NULL) {
        size_t i = atomic_fetch_add(&n_seen, 1);
        if (i < active->capacity) {
            sc_sgemm_call *kept = &active->calls[i];
            *kept = g;
            kept->op = active->timed->n_ops;
            kept->part = active->timed->part;
            kept->thread = omp_get_thread_num();
            kept->n_threads = omp_get_num_threads();
        }
    }
    return call(&g);
}
// NOLINTEND(readability-function-size,readability-non-const-parameter)

sc_status sc_sgemm_record_init(sc_sgemm_record *record, size_t n_max, const sc_timed_backend *timed,
                               sc_err *err)
{
    *record = (sc_sgemm_record){.capacity = n_max, .timed = timed};
    record->calls = calloc(n_max, sizeof *record->calls);
    return record->calls != NULL
               ? SC_OK
               : sc_status_fail(err, SC_NO_MEMORY, "no memory for %zu calls", n_max);
}

void sc_sgemm_record_done(sc_sgemm_record *record)
{
    free(record->calls);
    *record = (sc_sgemm_record){0};
}

void sc_sgemm_record_start(sc_sgemm_record *record)
{
    atomic_store(&n_seen, 0);
    active = record;
}

sc_status sc_sgemm_record_stop(sc_sgemm_record *record, sc_err *err)
{
    active = NULL;
    size_t n = atomic_load(&n_seen);
    if (n > record->capacity) {
        return sc_status_fail(err, SC_LIMIT, "%zu calls of dnnl_sgemm, room for %zu", n,
                              record->capacity);
    }
    record->n_calls = n;
    return SC_OK;
}

/* Calls [begin, end) are one operation's. Those of a parallel region go to the threads that made
   them. */
static int replay_op(const sc_sgemm_call *begin, const sc_sgemm_call *end)
{
    int n_failed = 0;
    if (begin->n_threads == 1) {
        for (const sc_sgemm_call *g = begin; g < end; g++) {
            n_failed += call(g) != dnnl_success;
        }
        return n_failed;
    }
#pragma omp parallel num_threads(begin->n_threads) reduction(+ : n_failed)
    for (const sc_sgemm_call *g = begin; g < end; g++) {
        if (g->thread == omp_get_thread_num()) {
            n_failed += call(g) != dnnl_success;
        }
    }
    return n_failed;
}

sc_status sc_sgemm_record_replay(const sc_sgemm_record *record, sc_timed_span *parts, sc_err *err)
{
    int n_failed = 0;
    for (size_t i = 0; i < record->n_calls;) {
        const sc_sgemm_call *begin = &record->calls[i];
        for (i++; i < record->n_calls && record->calls[i].op == begin->op;) {
            i++;
        }
        sc_timed_span start = sc_timed_backend_now();
        n_failed += replay_op(begin, &record->calls[i]);
        sc_timed_backend_add(&parts[begin->part], start, sc_timed_backend_now());
    }
    return n_failed == 0
               ? SC_OK
               : sc_status_fail(err, SC_FAILED, "%d products failed in the replay", n_failed);
}

double sc_sgemm_record_flops(const sc_sgemm_record *record)
{
    double sum = 0;
    for (size_t i = 0; i < record->n_calls; i++) {
        const sc_sgemm_call *g = &record->calls[i];
        sum += 2.0 * (double)g->M * (double)g->N * (double)g->K;
    }
    return sum;
}
