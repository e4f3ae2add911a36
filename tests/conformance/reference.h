/*
 * reference - every operation in plain double precision: slow, and short enough to be seen right.
 *
 * Layouts and meanings are those of kernels/backend.h; "=" and "+=" likewise. Backward functions
 * are checked against finite differences of the forward ones in test_reference.c.
 */
#ifndef SC_TESTS_CONFORMANCE_REFERENCE_H
#define SC_TESTS_CONFORMANCE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* A dense matrix product; a and b have no padding between rows. c = op(a) op(b) + beta c. */
typedef struct sc_reference_gemm_args {
    bool trans_a;
    bool trans_b;
    int64_t M;
    int64_t N;
    int64_t K;
    const double *a;
    int64_t lda;
    const double *b;
    int64_t ldb;
    double beta;
    double *c;
    int64_t ldc;
} sc_reference_gemm_args;

void sc_reference_gemm(const sc_reference_gemm_args *a);

double sc_reference_gelu(double x);
double sc_reference_gelu_slope(double x);

/* Sizes of a linear layer. */
typedef struct sc_reference_linear {
    int64_t N;
    int64_t K;
    int64_t M;
    bool is_out_in;
} sc_reference_linear;

/* bias, residual and y_act may be NULL. */
void sc_reference_linear_fwd(const sc_reference_linear *l, const double *x, const double *w,
                             const double *bias, const double *residual, double *y, double *y_act);
/* pre_act may be NULL. */
void sc_reference_linear_bwd_input(const sc_reference_linear *l, const double *dy, const double *w,
                                   const double *pre_act, double *dx);
void sc_reference_linear_bwd_weight(const sc_reference_linear *l, const double *x, const double *dy,
                                    double *dw, double *dbias);

/* Sizes of a layer norm. */
typedef struct sc_reference_norm {
    int64_t N;
    int64_t C;
    double epsilon;
} sc_reference_norm;

void sc_reference_norm_fwd(const sc_reference_norm *n, const double *x, const double *gain,
                           const double *bias, double *y, double *mean, double *rstd);
/* residual may be NULL. */
void sc_reference_norm_bwd_input(const sc_reference_norm *n, const double *x, const double *gain,
                                 const double *dy, const double *residual, double *dx);
void sc_reference_norm_bwd_weight(const sc_reference_norm *n, const double *x, const double *dy,
                                  double *dgain, double *dbias);

/* Sizes of an attention. */
typedef struct sc_reference_attention {
    int64_t B;
    int64_t T;
    int64_t C;
    int64_t n_head;
} sc_reference_attention;

void sc_reference_attention_fwd(const sc_reference_attention *a, const double *qkv, double *y,
                                double *lse);
void sc_reference_attention_bwd(const sc_reference_attention *a, const double *qkv,
                                const double *dy, double *dqkv);

void sc_reference_embed_fwd(int64_t B, int64_t T, int64_t C, const int32_t *tokens,
                            const double *wte, const double *wpe, double *y);
void sc_reference_embed_bwd(int64_t B, int64_t T, int64_t C, const int32_t *tokens,
                            const double *dy, double *dwte, double *dwpe);

/* The sum of the losses; gradient (N,V) =. */
double sc_reference_xent(int64_t N, int64_t V, const double *logits, const int32_t *targets,
                         double scale, double *losses, double *gradient);

/* One AdamW step's constants; as sc_adamw_args. */
typedef struct sc_reference_adamw_args {
    double grad_scale;
    double lr;
    double beta1;
    double beta2;
    double correction1;
    double correction2;
    double epsilon;
    double decay;
} sc_reference_adamw_args;

void sc_reference_adamw(const sc_reference_adamw_args *a, int64_t n, const double *grad, double *w,
                        double *m, double *v);

#endif
