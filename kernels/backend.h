/*
 * backend - one interface for everything a device does: memory, streams, events, a transformer's
 * operations.
 *
 * A backend is a table of functions and a context. Operations are enqueued on a stream and run in
 * order; on the CPU the calling thread is the stream and an operation is done when it returns.
 * Pointers inside argument structs are device memory, row-major, 64-byte aligned, borrowed until
 * the operation is done.
 * "=" overwrites, "+=" accumulates. Dimensions: N rows (= B T tokens), K in, M out, C width, V
 * vocabulary. Results depend on shapes and on the backend's number of threads only, never on
 * timing: reductions use fixed lanes and row blocks. Nothing allocates after the first call with a
 * given shape.
 *
 * Errors: SC_UNSUPPORTED for a dtype or shape that the backend cannot do; device errors as
 * SC_FAILED.
 */
#ifndef SC_KERNELS_BACKEND_H
#define SC_KERNELS_BACKEND_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SC_DTYPE_MAP(X) \
    X(F32, 4, "fp32") \
    X(BF16, 2, "bf16") \
    X(F16, 2, "fp16") \
    X(I32, 4, "int32") \
    X(U8, 1, "uint8")

#define SC_DTYPE_ENUM(name, bytes, text) SC_DTYPE_##name,
typedef enum sc_dtype {
    SC_DTYPE_MAP(SC_DTYPE_ENUM) SC_DTYPE_COUNT
} sc_dtype;
#undef SC_DTYPE_ENUM

enum {
    SC_IGNORE_INDEX = -100, // a target that takes no part in the loss
    SC_NORM_CHUNK_ELEMS =
        1 << 16 // gradient norms: one double partial a chunk, counted from the tensor's start
};

typedef struct sc_stream sc_stream; // NULL on the CPU
typedef struct sc_event sc_event;   // opaque, made by the backend

/* C = op(A) op(B) + beta C; op(A) is (M,K), op(B) is (K,N). */
typedef struct sc_gemm_args {
    sc_dtype dtype;
    bool trans_a;
    bool trans_b;
    int64_t M;
    int64_t N;
    int64_t K;
    const void *a; // (M,K), or (K,M) when trans_a
    int64_t lda;
    const void *b; // (K,N), or (N,K) when trans_b
    int64_t ldb;
    float beta; // 0 or 1
    void *c;    // (M,N)
    int64_t ldc;
} sc_gemm_args;

/* y = x W + bias, then either y_act = gelu_new(y), or y += residual. */
typedef struct sc_linear_fwd_args {
    sc_dtype dtype;
    int64_t N;
    int64_t K;
    int64_t M;
    const void *x; // (N,K)
    const void *w; // (K,M), or (M,K) when is_out_in
    bool is_out_in;
    const void *bias;     // (M) or NULL
    const void *residual; // (N,M) or NULL
    void *y;              // (N,M) =
    void *y_act;          // (N,M) = or NULL
} sc_linear_fwd_args;

/* dx = dy W^T, then, when pre_act is given, dx *= gelu_new'(pre_act). */
typedef struct sc_linear_bwd_input_args {
    sc_dtype dtype;
    int64_t N;
    int64_t K;
    int64_t M;
    const void *dy; // (N,M)
    const void *w;  // (K,M), or (M,K) when is_out_in
    bool is_out_in;
    const void *pre_act; // (N,K) or NULL
    void *dx;            // (N,K) =
} sc_linear_bwd_input_args;

/* dw += x^T dy (dy^T x when is_out_in); dbias += column sums of dy. */
typedef struct sc_linear_bwd_weight_args {
    sc_dtype dtype;
    int64_t N;
    int64_t K;
    int64_t M;
    const void *x;  // (N,K)
    const void *dy; // (N,M)
    bool is_out_in;
    float *dw;    // (K,M), or (M,K) when is_out_in, +=
    float *dbias; // (M) += or NULL
} sc_linear_bwd_weight_args;

/* Layer norm over the last dimension. y = (x - mean) rstd * gain + bias. */
typedef struct sc_norm_fwd_args {
    sc_dtype dtype;
    int64_t N;
    int64_t C;
    float epsilon;
    const void *x;    // (N,C)
    const void *gain; // (C)
    const void *bias; // (C)
    void *y;          // (N,C) =
    float *mean;      // (N) =
    float *rstd;      // (N) =
} sc_norm_fwd_args;

/* dx = gradient through the norm, plus residual when given (may be dx itself). */
typedef struct sc_norm_bwd_input_args {
    sc_dtype dtype;
    int64_t N;
    int64_t C;
    const void *x;        // (N,C)
    const void *gain;     // (C)
    const float *mean;    // (N)
    const float *rstd;    // (N)
    const void *dy;       // (N,C)
    const void *residual; // (N,C) or NULL
    void *dx;             // (N,C) =
} sc_norm_bwd_input_args;

/* dgain += sum over rows of dy (x - mean) rstd; dbias += sum over rows of dy. */
typedef struct sc_norm_bwd_weight_args {
    sc_dtype dtype;
    int64_t N;
    int64_t C;
    const void *x;     // (N,C)
    const float *mean; // (N)
    const float *rstd; // (N)
    const void *dy;    // (N,C)
    float *dgain;      // (C) +=
    float *dbias;      // (C) +=
} sc_norm_bwd_weight_args;

/* Causal self-attention over a packed qkv; scale 1 / sqrt(C / n_head). */
typedef struct sc_attention_fwd_args {
    sc_dtype dtype;
    int64_t B;
    int64_t T;
    int64_t C;
    int64_t n_head;
    const void *qkv; // (B,T,3C): q, k, v, each (n_head, C / n_head)
    void *y;         // (B,T,C) =
    float *lse;      // (B,n_head,T) =, log of the sum of exp of the scaled scores
    void *scratch;   // attention_scratch_bytes; contents undefined
} sc_attention_fwd_args;

typedef struct sc_attention_bwd_args {
    sc_dtype dtype;
    int64_t B;
    int64_t T;
    int64_t C;
    int64_t n_head;
    const void *qkv;  // (B,T,3C)
    const void *y;    // (B,T,C), the forward's
    const float *lse; // (B,n_head,T)
    const void *dy;   // (B,T,C)
    void *dqkv;       // (B,T,3C) =
    void *scratch;    // attention_scratch_bytes; contents undefined
} sc_attention_bwd_args;

/* y[b,t,:] = wte[tokens[b,t],:] + wpe[t,:]. */
typedef struct sc_embed_fwd_args {
    sc_dtype dtype;
    int64_t B;
    int64_t T;
    int64_t C;
    int64_t V;
    const int32_t *tokens; // (B,T), each in [0, V)
    const void *wte;       // (V,C)
    const void *wpe;       // (>= T,C)
    void *y;               // (B,T,C) =
} sc_embed_fwd_args;

/* dwte[tokens[b,t],:] += dy[b,t,:], rows in rising (b,t); dwpe[t,:] += sum over b. */
typedef struct sc_embed_bwd_args {
    sc_dtype dtype;
    int64_t B;
    int64_t T;
    int64_t C;
    int64_t V;
    const int32_t *tokens; // (B,T)
    const void *dy;        // (B,T,C)
    float *dwte;           // (V,C) +=
    float *dwpe;           // (>= T,C) +=
} sc_embed_bwd_args;

/* Fused softmax and cross entropy, in place: logits becomes (softmax - onehot) * scale, zero where
   the target is SC_IGNORE_INDEX. With is_loss_only the logits are left undefined. */
typedef struct sc_xent_args {
    sc_dtype dtype;
    int64_t N;
    int64_t V;
    void *logits;           // (N,V) in, gradient out
    const int32_t *targets; // (N), in [0, V) or SC_IGNORE_INDEX
    float scale;            // 1 / valid tokens of the global batch: the one place it is applied
    bool is_loss_only;
    float *losses;    // (N) =, 0 where ignored
    double *loss_sum; // host, = sum of losses, added in double in row order
    int64_t *n_valid; // host, = number of targets that are not ignored
} sc_xent_args;

/* One AdamW step over a flat range (Loshchilov, Hutter, arXiv 1711.05101, algorithm 2):
   g = grad * grad_scale; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
   w -= lr (m / c1 / (sqrt(v / c2) + eps) + decay w); and grad = 0. */
typedef struct sc_adamw_args {
    int64_t n;
    float *w;    // in, out
    float *grad; // in; zeroed
    float *m;
    float *v;
    float grad_scale; // clipping
    float lr;
    float beta1;
    float beta2;
    float correction1; // 1 - beta1^step
    float correction2; // 1 - beta2^step
    float epsilon;
    float decay; // 0 for parameters without decay
} sc_adamw_args;

/* w -= lr (grad * grad_scale + decay w); and grad = 0. */
typedef struct sc_sgd_args {
    int64_t n;
    float *w;
    float *grad; // in; zeroed
    float grad_scale;
    float lr;
    float decay;
} sc_sgd_args;

typedef struct sc_backend sc_backend;

struct sc_backend {
    const char *name; // "cpu", "cuda"
    void *ctx;
    int n_threads;   // explicit; results may depend on it
    const char *isa; // instruction set in use ("avx512", "avx2", "baseline", "sm_90")

    /* Memory: 64-byte aligned (4096 for large blocks), touched and zeroed, so that no page is first
       touched in a step. Released with memory_free; alloc fails with SC_NO_MEMORY and the size in
       the text. */
    sc_status (*memory_alloc)(sc_backend *be, size_t bytes, void **out, sc_err *err);
    void (*memory_free)(sc_backend *be, void *p);
    sc_status (*memory_zero)(sc_backend *be, sc_stream *s, void *p, size_t bytes, sc_err *err);
    sc_status (*copy_to_device)(sc_backend *be, sc_stream *s, void *dst, const void *src,
                                size_t bytes, sc_err *err);
    sc_status (*copy_to_host)(sc_backend *be, sc_stream *s, void *dst, const void *src,
                              size_t bytes, sc_err *err);

    /* Streams and events. On the CPU streams are NULL and an event is done as soon as it is
     * recorded. */
    sc_status (*stream_new)(sc_backend *be, sc_stream **out, sc_err *err);
    void (*stream_free)(sc_backend *be, sc_stream *s);
    sc_status (*stream_sync)(sc_backend *be, sc_stream *s, sc_err *err);
    sc_status (*event_new)(sc_backend *be, sc_event **out, sc_err *err);
    void (*event_free)(sc_backend *be, sc_event *e);
    sc_status (*event_record)(sc_backend *be, sc_stream *s, sc_event *e, sc_err *err);
    sc_status (*event_wait)(sc_backend *be, sc_stream *s, sc_event *e, sc_err *err);
    /* *is_done; when done, *time_ns is when, on the host's CLOCK_MONOTONIC. */
    sc_status (*event_query)(sc_backend *be, sc_event *e, bool *is_done, int64_t *time_ns,
                             sc_err *err);

    /* Operations. */
    sc_status (*gemm)(sc_backend *be, sc_stream *s, const sc_gemm_args *a, sc_err *err);
    sc_status (*linear_fwd)(sc_backend *be, sc_stream *s, const sc_linear_fwd_args *a, sc_err *err);
    sc_status (*linear_bwd_input)(sc_backend *be, sc_stream *s, const sc_linear_bwd_input_args *a,
                                  sc_err *err);
    sc_status (*linear_bwd_weight)(sc_backend *be, sc_stream *s, const sc_linear_bwd_weight_args *a,
                                   sc_err *err);
    /* y[i] = gelu_new(x[i]): the same bits as linear_fwd's y_act has from its y */
    sc_status (*gelu)(sc_backend *be, sc_stream *s, float *y, const float *x, int64_t n,
                      sc_err *err);
    sc_status (*norm_fwd)(sc_backend *be, sc_stream *s, const sc_norm_fwd_args *a, sc_err *err);
    sc_status (*norm_bwd_input)(sc_backend *be, sc_stream *s, const sc_norm_bwd_input_args *a,
                                sc_err *err);
    sc_status (*norm_bwd_weight)(sc_backend *be, sc_stream *s, const sc_norm_bwd_weight_args *a,
                                 sc_err *err);
    size_t (*attention_scratch_bytes)(const sc_backend *be, int64_t B, int64_t T, int64_t C,
                                      int64_t n_head);
    sc_status (*attention_fwd)(sc_backend *be, sc_stream *s, const sc_attention_fwd_args *a,
                               sc_err *err);
    sc_status (*attention_bwd)(sc_backend *be, sc_stream *s, const sc_attention_bwd_args *a,
                               sc_err *err);
    sc_status (*embed_fwd)(sc_backend *be, sc_stream *s, const sc_embed_fwd_args *a, sc_err *err);
    sc_status (*embed_bwd)(sc_backend *be, sc_stream *s, const sc_embed_bwd_args *a, sc_err *err);
    sc_status (*xent)(sc_backend *be, sc_stream *s, const sc_xent_args *a, sc_err *err);
    /* dst[i] += src[i] */
    sc_status (*add)(sc_backend *be, sc_stream *s, float *dst, const float *src, int64_t n,
                     sc_err *err);
    /* partials[c] = sum of squares of chunk c, in double; ceil(n / SC_NORM_CHUNK_ELEMS) of them, on
     * the host */
    sc_status (*sum_squares)(sc_backend *be, sc_stream *s, const float *x, int64_t n,
                             double *partials, sc_err *err);
    sc_status (*adamw)(sc_backend *be, sc_stream *s, const sc_adamw_args *a, sc_err *err);
    sc_status (*sgd)(sc_backend *be, sc_stream *s, const sc_sgd_args *a, sc_err *err);

    void (*free)(sc_backend **be); // frees the backend itself
};

/* Bytes of one element. */
size_t sc_backend_dtype_bytes(sc_dtype dtype);
const char *sc_backend_dtype_text(sc_dtype dtype);

#endif
