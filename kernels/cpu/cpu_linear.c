#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_math.h"

/* y = y + bias, then + residual or act = gelu(y), over one row: the one pass after the product. */
static void finish_row(const sc_linear_fwd_args *a, int64_t row)
{
    const size_t base = (size_t)row * (size_t)a->M;
    const float *bias = a->bias;
    const float *residual = a->residual != NULL ? (const float *)a->residual + base : NULL;
    float *act = a->y_act != NULL ? (float *)a->y_act + base : NULL;
    float *y = (float *)a->y + base;
    for (int64_t i = 0; i < a->M; i += V16_LANES) {
        const int64_t n = a->M - i;
        sc_v16 v = v16_load_n(y + i, n);
        if (bias != NULL) {
            v = v16_add(v, v16_load_n(bias + i, n));
        }
        if (residual != NULL) {
            v = v16_add(v, v16_load_n(residual + i, n));
        }
        v16_store_n(y + i, v, n);
        if (act != NULL) {
            v16_store_n(act + i, v16_gelu(v), n);
        }
    }
}

sc_status SC_CPU_FN(sc_cpu_linear_fwd)(sc_backend *be, sc_stream *s, const sc_linear_fwd_args *a,
                                       sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_f32("linear_fwd", a->dtype, err));
    SC_TRY(sc_cpu_check_dims("linear_fwd", "NKM", (int64_t[]){a->N, a->K, a->M}, err));
    sc_cpu_gemm_f32_args g = {
        .trans_b = a->is_out_in,
        .M = a->N,
        .N = a->M,
        .K = a->K,
        .a = a->x,
        .lda = a->K,
        .b = a->w,
        .ldb = a->is_out_in ? a->K : a->M,
        .c = a->y,
        .ldc = a->M,
    };
    SC_TRY(sc_cpu_gemm_f32(be, &g, err));
    if (a->bias == NULL && a->residual == NULL && a->y_act == NULL) {
        return SC_OK;
    }
#pragma omp parallel for num_threads(be->n_threads) \
    schedule(static) if (a->N * a->M > SC_CPU_SERIAL_ELEMS)
    for (int64_t row = 0; row < a->N; row++) {
        finish_row(a, row);
    }
    return SC_OK;
}

sc_status SC_CPU_FN(sc_cpu_linear_bwd_input)(sc_backend *be, sc_stream *s,
                                             const sc_linear_bwd_input_args *a, sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_f32("linear_bwd_input", a->dtype, err));
    SC_TRY(sc_cpu_check_dims("linear_bwd_input", "NKM", (int64_t[]){a->N, a->K, a->M}, err));
    sc_cpu_gemm_f32_args g = {
        .trans_b = !a->is_out_in,
        .M = a->N,
        .N = a->K,
        .K = a->M,
        .a = a->dy,
        .lda = a->M,
        .b = a->w,
        .ldb = a->is_out_in ? a->K : a->M,
        .c = a->dx,
        .ldc = a->K,
    };
    SC_TRY(sc_cpu_gemm_f32(be, &g, err));
    if (a->pre_act == NULL) {
        return SC_OK;
    }
#pragma omp parallel for num_threads(be->n_threads) \
    schedule(static) if (a->N * a->K > SC_CPU_SERIAL_ELEMS)
    for (int64_t row = 0; row < a->N; row++) {
        float *dx = (float *)a->dx + (size_t)row * (size_t)a->K;
        const float *pre = (const float *)a->pre_act + (size_t)row * (size_t)a->K;
        for (int64_t i = 0; i < a->K; i += V16_LANES) {
            const int64_t n = a->K - i;
            sc_v16 slope = v16_gelu_slope(v16_load_n(pre + i, n));
            v16_store_n(dx + i, v16_mul(v16_load_n(dx + i, n), slope), n);
        }
    }
    return SC_OK;
}

sc_status SC_CPU_FN(sc_cpu_linear_bwd_weight)(sc_backend *be, sc_stream *s,
                                              const sc_linear_bwd_weight_args *a, sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_f32("linear_bwd_weight", a->dtype, err));
    SC_TRY(sc_cpu_check_dims("linear_bwd_weight", "NKM", (int64_t[]){a->N, a->K, a->M}, err));
    const bool is_out_in = a->is_out_in;
    sc_cpu_gemm_f32_args g = {
        .trans_a = true,
        .M = is_out_in ? a->M : a->K,
        .N = is_out_in ? a->K : a->M,
        .K = a->N,
        .a = is_out_in ? a->dy : a->x,
        .lda = is_out_in ? a->M : a->K,
        .b = is_out_in ? a->x : a->dy,
        .ldb = is_out_in ? a->K : a->M,
        .beta = 1.0f,
        .c = a->dw,
        .ldc = is_out_in ? a->K : a->M,
    };
    SC_TRY(sc_cpu_gemm_f32(be, &g, err));
    if (a->dbias != NULL) {
        SC_CPU_FN(sc_cpu_reduce_columns)(be, a->dy, a->N, a->M, a->dbias);
    }
    return SC_OK;
}

sc_status SC_CPU_FN(sc_cpu_linear_gelu)(sc_backend *be, sc_stream *s, float *y, const float *x,
                                        int64_t n, sc_err *err)
{
    (void)s;
    (void)err;
#pragma omp parallel for num_threads(be->n_threads) schedule(static) if (n > SC_CPU_SERIAL_ELEMS)
    for (int64_t i = 0; i < n; i += V16_LANES) {
        v16_store_n(y + i, v16_gelu(v16_load_n(x + i, n - i)), n - i);
    }
    return SC_OK;
}
