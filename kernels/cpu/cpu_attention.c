#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_math.h"

#include <omp.h>

/*
 * Per (sample, head) the queries are taken in blocks of QUERIES; a block of scores against the keys
 * up to its last query is one matrix product, and all of the scores that are ever held. Keys above
 * the diagonal are skipped block by block and masked inside the last block.
 */
enum {
    QUERIES = 64
};

/* One (sample, head): pointers to its first element, rows C or 3C apart. */
typedef struct sc_cpu_head {
    const float *q;
    const float *k;
    const float *v;
    int64_t T;
    int64_t size;   // of a head
    int64_t C;      // row stride of y and dy
    int64_t packed; // row stride of qkv and dqkv: 3C
    float scale;
} sc_cpu_head;

/* Floats from one row of scores to the next: not a multiple of a page, whose rows would share
   cache sets. */
static int64_t score_stride(int64_t T)
{
    return (T + V16_LANES - 1) / V16_LANES * V16_LANES + V16_LANES;
}

static int64_t block_rows(int64_t T)
{
    return T < QUERIES ? T : QUERIES;
}

size_t SC_CPU_FN(sc_cpu_attention_scratch_bytes)(const sc_backend *be, int64_t B, int64_t T,
                                                 int64_t C, int64_t n_head)
{
    (void)B;
    (void)C;
    (void)n_head;
    const size_t tile = (size_t)(block_rows(T) * score_stride(T)) * sizeof(float);
    return (size_t)be->n_threads * 2 * tile;
}

static sc_status check(const char *op, sc_dtype dtype, const int64_t *dims, sc_err *err)
{
    SC_TRY(sc_cpu_check_f32(op, dtype, err));
    SC_TRY(sc_cpu_check_dims(op, "BTCH", dims, err));
    if (dims[2] % dims[3] != 0) {
        return sc_status_fail(err, SC_INVALID, "%s: %lld heads do not divide the width %lld", op,
                              (long long)dims[3], (long long)dims[2]);
    }
    return SC_OK;
}

static sc_cpu_head head_of(const float *qkv, int64_t T, int64_t C, int64_t n_head, int64_t index)
{
    const int64_t b = index / n_head;
    const int64_t h = index % n_head;
    const int64_t size = C / n_head;
    const float *q = qkv + (size_t)(b * T) * (size_t)(3 * C) + (size_t)(h * size);
    return (sc_cpu_head){
        .q = q,
        .k = q + C,
        .v = q + 2 * C,
        .T = T,
        .size = size,
        .C = C,
        .packed = 3 * C,
        .scale = (float)(1.0 / __builtin_sqrt((double)size)),
    };
}

/* s = a b^T over the head's width: (n_rows, n_keys). */
// NOLINTBEGIN(readability-non-const-parameter): s is written through the arguments' pointer
static sc_status score(const sc_backend *be, const sc_cpu_head *h, const float *a, int64_t lda,
                       const float *b, int64_t n_rows, int64_t n_keys, float *s, sc_err *err)
// NOLINTEND(readability-non-const-parameter)
{
    sc_cpu_gemm_f32_args g = {
        .trans_b = true,
        .M = n_rows,
        .N = n_keys,
        .K = h->size,
        .a = a,
        .lda = lda,
        .b = b,
        .ldb = h->packed,
        .c = s,
        .ldc = score_stride(h->T),
    };
    return sc_cpu_gemm_f32(be, &g, err);
}

/* A row of n_valid scores becomes e^(scale (s - max)), the keys from n_valid to n_keys zero;
 *lse is the logarithm of the sum of e^(scale s). Returns 1 / the sum of what was written. */
static float softmax_row(float *s, int64_t n_valid, int64_t n_keys, float scale, float *lse)
{
    sc_v16 top = v16_set(s[0]);
    int64_t i = 0;
    for (; i + V16_LANES <= n_valid; i += V16_LANES) {
        top = v16_max(top, v16_load(s + i));
    }
    float max = v16_top(top);
    for (; i < n_valid; i++) {
        max = s[i] > max ? s[i] : max;
    }
    const sc_v16 factor = v16_set(scale);
    const sc_v16 m = v16_set(max);
    sc_v16 acc = v16_set(0.0f);
    for (i = 0; i < n_keys; i += V16_LANES) {
        // the row has room for whole vectors, so the last store may run past n_keys
        sc_v16 e = v16_exp(v16_mul(factor, v16_sub(v16_load_n(s + i, n_keys - i), m)));
        e = v16_keep_n(e, n_valid > i ? n_valid - i : 0);
        v16_store(s + i, e);
        acc = v16_add(acc, e);
    }
    const float sum = v16_sum(acc);
    *lse = (float)((double)max * (double)scale + scalar_log((double)sum));
    return 1.0f / sum;
}

static sc_status forward_block(const sc_backend *be, const sc_cpu_head *h, int64_t t0, float *y,
                               float *lse, float *s, sc_err *err)
{
    const int64_t stride = score_stride(h->T);
    const int64_t n_rows = h->T - t0 < QUERIES ? h->T - t0 : QUERIES;
    const int64_t n_keys = t0 + n_rows;
    float inverse[QUERIES];
    SC_TRY(score(be, h, h->q + (size_t)(t0 * h->packed), h->packed, h->k, n_rows, n_keys, s, err));
    for (int64_t r = 0; r < n_rows; r++) {
        inverse[r] = softmax_row(s + r * stride, t0 + r + 1, n_keys, h->scale, lse + t0 + r);
    }
    float *out = y + (size_t)(t0 * h->C);
    sc_cpu_gemm_f32_args g = {
        .M = n_rows,
        .N = h->size,
        .K = n_keys,
        .a = s,
        .lda = stride,
        .b = h->v,
        .ldb = h->packed,
        .c = out,
        .ldc = h->C,
    };
    SC_TRY(sc_cpu_gemm_f32(be, &g, err));
    for (int64_t r = 0; r < n_rows; r++) {
        const sc_v16 f = v16_set(inverse[r]);
        for (int64_t i = 0; i < h->size; i += V16_LANES) {
            float *p = out + r * h->C + i;
            v16_store_n(p, v16_mul(v16_load_n(p, h->size - i), f), h->size - i);
        }
    }
    return SC_OK;
}

/* Where element 0 of (sample, head) i lies in a (B,T,C) tensor. */
static size_t head_offset(int64_t T, int64_t C, int64_t n_head, int64_t i)
{
    return (size_t)(i / n_head * T * C) + (size_t)(i % n_head * (C / n_head));
}

static sc_status outcome(const char *op, int n_failed, sc_err *err)
{
    if (n_failed == 0) {
        return SC_OK;
    }
    return sc_status_fail(err, SC_FAILED, "%s: oneDNN gave up on the products of %d blocks", op,
                          n_failed);
}

sc_status SC_CPU_FN(sc_cpu_attention_fwd)(sc_backend *be, sc_stream *s,
                                          const sc_attention_fwd_args *a, sc_err *err)
{
    (void)s;
    SC_TRY(check("attention_fwd", a->dtype, (int64_t[]){a->B, a->T, a->C, a->n_head}, err));
    sc_cpu_gemm_enter(be);
    const int64_t tile = 2 * block_rows(a->T) * score_stride(a->T);
    int n_failed = 0;
#pragma omp parallel num_threads(be->n_threads) reduction(+ : n_failed)
    {
        float *scores = (float *)a->scratch + omp_get_thread_num() * tile;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < a->B * a->n_head; i++) {
            const sc_cpu_head h = head_of(a->qkv, a->T, a->C, a->n_head, i);
            float *y = (float *)a->y + head_offset(a->T, a->C, a->n_head, i);
            for (int64_t t0 = 0; t0 < a->T; t0 += QUERIES) {
                n_failed += forward_block(be, &h, t0, y, a->lse + i * a->T, scores, NULL) != SC_OK;
            }
        }
    }
    return outcome("attention_fwd", n_failed, err);
}

/* What the backward pass of one (sample, head) needs beside its q, k and v. */
typedef struct sc_cpu_head_grad {
    const float *y;
    const float *dy;
    const float *lse;
    float *dq;
    float *dk;
    float *dv;
} sc_cpu_head_grad;

/* A row of scores p and of dp = dy v^T become the probabilities p and ds = scale p (dp - delta),
   delta = dy . y; keys from n_valid to n_keys become zero in both. */
static void softmax_row_back(float *p, float *ds, const float *y, const float *dy, float lse,
                             int64_t n_valid, int64_t n_keys, const sc_cpu_head *h)
{
    sc_v16 acc = v16_set(0.0f);
    for (int64_t i = 0; i < h->size; i += V16_LANES) {
        acc = v16_fma(v16_load_n(y + i, h->size - i), v16_load_n(dy + i, h->size - i), acc);
    }
    const sc_v16 delta = v16_set(v16_sum(acc));
    const sc_v16 scale = v16_set(h->scale);
    const sc_v16 minus_lse = v16_set(-lse);
    for (int64_t i = 0; i < n_keys; i += V16_LANES) {
        const int64_t n = n_valid > i ? n_valid - i : 0;
        sc_v16 e = v16_exp(v16_fma(scale, v16_load_n(p + i, n), minus_lse));
        e = v16_keep_n(e, n);
        sc_v16 d = v16_sub(v16_load_n(ds + i, n), delta);
        v16_store(p + i, e);
        v16_store(ds + i, v16_keep_n(v16_mul(v16_mul(e, scale), d), n));
    }
}

/* dk and dv of keys below n_keys: = for the last block of queries, which comes first, then +=. */
static sc_status add_key_grads(const sc_backend *be, const sc_cpu_head *h,
                               const sc_cpu_head_grad *g, int64_t t0, const float *p,
                               const float *ds, sc_err *err)
{
    const int64_t n_rows = h->T - t0 < QUERIES ? h->T - t0 : QUERIES;
    sc_cpu_gemm_f32_args product = {
        .trans_a = true,
        .M = t0 + n_rows,
        .N = h->size,
        .K = n_rows,
        .a = p,
        .lda = score_stride(h->T),
        .b = g->dy + (size_t)(t0 * h->C),
        .ldb = h->C,
        .beta = t0 + n_rows == h->T ? 0.0f : 1.0f,
        .c = g->dv,
        .ldc = h->packed,
    };
    SC_TRY(sc_cpu_gemm_f32(be, &product, err));
    product.a = ds;
    product.b = h->q + (size_t)(t0 * h->packed);
    product.ldb = h->packed;
    product.c = g->dk;
    return sc_cpu_gemm_f32(be, &product, err);
}

static sc_status backward_block(const sc_backend *be, const sc_cpu_head *h,
                                const sc_cpu_head_grad *g, int64_t t0, float *scratch, sc_err *err)
{
    const int64_t stride = score_stride(h->T);
    const int64_t n_rows = h->T - t0 < QUERIES ? h->T - t0 : QUERIES;
    const int64_t n_keys = t0 + n_rows;
    const float *dy = g->dy + (size_t)(t0 * h->C);
    const float *y = g->y + (size_t)(t0 * h->C);
    float *p = scratch;
    float *ds = scratch + block_rows(h->T) * stride;
    SC_TRY(score(be, h, h->q + (size_t)(t0 * h->packed), h->packed, h->k, n_rows, n_keys, p, err));
    SC_TRY(score(be, h, dy, h->C, h->v, n_rows, n_keys, ds, err));
    for (int64_t r = 0; r < n_rows; r++) {
        softmax_row_back(p + r * stride, ds + r * stride, y + r * h->C, dy + r * h->C,
                         g->lse[t0 + r], t0 + r + 1, n_keys, h);
    }
    SC_TRY(add_key_grads(be, h, g, t0, p, ds, err));
    sc_cpu_gemm_f32_args product = {
        .M = n_rows,
        .N = h->size,
        .K = n_keys,
        .a = ds,
        .lda = stride,
        .b = h->k,
        .ldb = h->packed,
        .c = g->dq + (size_t)(t0 * h->packed),
        .ldc = h->packed,
    };
    return sc_cpu_gemm_f32(be, &product, err);
}

sc_status SC_CPU_FN(sc_cpu_attention_bwd)(sc_backend *be, sc_stream *s,
                                          const sc_attention_bwd_args *a, sc_err *err)
{
    (void)s;
    SC_TRY(check("attention_bwd", a->dtype, (int64_t[]){a->B, a->T, a->C, a->n_head}, err));
    sc_cpu_gemm_enter(be);
    const int64_t tile = 2 * block_rows(a->T) * score_stride(a->T);
    const int64_t last = (a->T - 1) / QUERIES * QUERIES;
    int n_failed = 0;
#pragma omp parallel num_threads(be->n_threads) reduction(+ : n_failed)
    {
        float *scratch = (float *)a->scratch + omp_get_thread_num() * tile;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < a->B * a->n_head; i++) {
            const sc_cpu_head h = head_of(a->qkv, a->T, a->C, a->n_head, i);
            const size_t at = head_offset(a->T, a->C, a->n_head, i);
            float *dq = (float *)a->dqkv + (h.q - (const float *)a->qkv);
            const sc_cpu_head_grad g = {
                .y = (const float *)a->y + at,
                .dy = (const float *)a->dy + at,
                .lse = a->lse + i * a->T,
                .dq = dq,
                .dk = dq + a->C,
                .dv = dq + 2 * a->C,
            };
            for (int64_t t0 = last; t0 >= 0; t0 -= QUERIES) {
                n_failed += backward_block(be, &h, &g, t0, scratch, NULL) != SC_OK;
            }
        }
    }
    return outcome("attention_bwd", n_failed, err);
}
