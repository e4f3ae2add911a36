/*
 * cpu - what the files of the CPU backend share.
 *
 * Operations are compiled once per instruction set, SC_CPU_ISA being avx512, avx2 or baseline, and
 * carry it in their names: sc_cpu_norm_fwd_avx512. Work is split into row blocks or columns of a
 * fixed size, never "per thread", so results do not depend on which thread does what.
 */
#ifndef SC_KERNELS_CPU_CPU_H
#define SC_KERNELS_CPU_CPU_H

#include "kernels/backend.h"

enum {
    /* Below this many elements a loop stays on the calling thread: waking others costs more. */
    SC_CPU_SERIAL_ELEMS = 8192,
    /* Elements that one thread takes at a time from a flat range. */
    SC_CPU_BLOCK_ELEMS = 16384
};

#define SC_CPU_JOIN_PASTE(name, isa) name##_##isa
#define SC_CPU_JOIN(name, isa) SC_CPU_JOIN_PASTE(name, isa)
/* The name of an operation for the instruction set that this file is being compiled for. */
#define SC_CPU_FN(name) SC_CPU_JOIN(name, SC_CPU_ISA)

/* The operations of one instruction set as a backend without memory functions, context and number
   of threads; cpu_table.c, once each. */
extern const sc_backend sc_cpu_table_avx512;
extern const sc_backend sc_cpu_table_avx2;
extern const sc_backend sc_cpu_table_baseline;

/* SC_UNSUPPORTED unless dtype is fp32. */
sc_status sc_cpu_check_f32(const char *op, sc_dtype dtype, sc_err *err);
/* SC_INVALID unless each dimension is at least 1; names has one letter a dimension. */
sc_status sc_cpu_check_dims(const char *op, const char *names, const int64_t *dims, sc_err *err);
/* SC_INVALID unless each index is in [0, limit) or, when allowed, SC_IGNORE_INDEX. */
sc_status sc_cpu_check_indices(const char *op, const int32_t *indices, int64_t n, int64_t limit,
                               bool may_ignore, sc_err *err);

/* One fp32 matrix product; see sc_gemm_args. */
typedef struct sc_cpu_gemm_f32_args {
    bool trans_a;
    bool trans_b;
    int64_t M;
    int64_t N;
    int64_t K;
    const float *a;
    int64_t lda;
    const float *b;
    int64_t ldb;
    float beta;
    float *c;
    int64_t ldc;
} sc_cpu_gemm_f32_args;

/* Runs on be->n_threads threads, or on the caller alone inside a parallel region. */
sc_status sc_cpu_gemm_f32(const sc_backend *be, const sc_cpu_gemm_f32_args *a, sc_err *err);
/* Gives the calling thread the backend's number of threads, which oneDNN takes from OpenMP's state
   of the thread that calls it. */
void sc_cpu_gemm_enter(const sc_backend *be);
sc_status sc_cpu_gemm(sc_backend *be, sc_stream *s, const sc_gemm_args *a, sc_err *err);

#ifdef SC_CPU_ISA

sc_status SC_CPU_FN(sc_cpu_linear_fwd)(sc_backend *be, sc_stream *s, const sc_linear_fwd_args *a,
                                       sc_err *err);
sc_status SC_CPU_FN(sc_cpu_linear_bwd_input)(sc_backend *be, sc_stream *s,
                                             const sc_linear_bwd_input_args *a, sc_err *err);
sc_status SC_CPU_FN(sc_cpu_linear_bwd_weight)(sc_backend *be, sc_stream *s,
                                              const sc_linear_bwd_weight_args *a, sc_err *err);
sc_status SC_CPU_FN(sc_cpu_linear_gelu)(sc_backend *be, sc_stream *s, float *y, const float *x,
                                        int64_t n, sc_err *err);
sc_status SC_CPU_FN(sc_cpu_norm_fwd)(sc_backend *be, sc_stream *s, const sc_norm_fwd_args *a,
                                     sc_err *err);
sc_status SC_CPU_FN(sc_cpu_norm_bwd_input)(sc_backend *be, sc_stream *s,
                                           const sc_norm_bwd_input_args *a, sc_err *err);
sc_status SC_CPU_FN(sc_cpu_norm_bwd_weight)(sc_backend *be, sc_stream *s,
                                            const sc_norm_bwd_weight_args *a, sc_err *err);
size_t SC_CPU_FN(sc_cpu_attention_scratch_bytes)(const sc_backend *be, int64_t B, int64_t T,
                                                 int64_t C, int64_t n_head);
sc_status SC_CPU_FN(sc_cpu_attention_fwd)(sc_backend *be, sc_stream *s,
                                          const sc_attention_fwd_args *a, sc_err *err);
sc_status SC_CPU_FN(sc_cpu_attention_bwd)(sc_backend *be, sc_stream *s,
                                          const sc_attention_bwd_args *a, sc_err *err);
sc_status SC_CPU_FN(sc_cpu_embed_fwd)(sc_backend *be, sc_stream *s, const sc_embed_fwd_args *a,
                                      sc_err *err);
sc_status SC_CPU_FN(sc_cpu_embed_bwd)(sc_backend *be, sc_stream *s, const sc_embed_bwd_args *a,
                                      sc_err *err);
sc_status SC_CPU_FN(sc_cpu_xent)(sc_backend *be, sc_stream *s, const sc_xent_args *a, sc_err *err);
sc_status SC_CPU_FN(sc_cpu_reduce_add)(sc_backend *be, sc_stream *s, float *dst, const float *src,
                                       int64_t n, sc_err *err);
sc_status SC_CPU_FN(sc_cpu_reduce_sum_squares)(sc_backend *be, sc_stream *s, const float *x,
                                               int64_t n, double *partials, sc_err *err);
/* out[m] += sum over rows of x, (N,M). */
void SC_CPU_FN(sc_cpu_reduce_columns)(const sc_backend *be, const float *x, int64_t N, int64_t M,
                                      float *out);
sc_status SC_CPU_FN(sc_cpu_optim_adamw)(sc_backend *be, sc_stream *s, const sc_adamw_args *a,
                                        sc_err *err);
sc_status SC_CPU_FN(sc_cpu_optim_sgd)(sc_backend *be, sc_stream *s, const sc_sgd_args *a,
                                      sc_err *err);

#endif

#endif
