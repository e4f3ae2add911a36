#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_math.h"

enum {
    COLUMNS_PER_CHUNK = 4 * V16_LANES, // what one thread sums at a time, in registers
    ROWS_PER_BLOCK = 64                // rows summed before they join the total: less rounding
};

/* Sum of a row in four times sixteen lanes, an order that the length alone fixes. */
static float sum_row(const float *x, int64_t n)
{
    sc_v16 acc[4] = {v16_set(0.0f), v16_set(0.0f), v16_set(0.0f), v16_set(0.0f)};
    int64_t i = 0;
    for (; i + 4 * V16_LANES <= n; i += 4 * V16_LANES) {
        for (int k = 0; k < 4; k++) {
            acc[k] = v16_add(acc[k], v16_load(x + i + k * V16_LANES));
        }
    }
    for (; i < n; i += V16_LANES) {
        acc[0] = v16_add(acc[0], v16_load_n(x + i, n - i));
    }
    return v16_sum(v16_add(v16_add(acc[0], acc[1]), v16_add(acc[2], acc[3])));
}

/* Sum of (x - mean)^2. */
static float sum_deviations(const float *x, float mean, int64_t n)
{
    const sc_v16 m = v16_set(mean);
    sc_v16 acc[4] = {v16_set(0.0f), v16_set(0.0f), v16_set(0.0f), v16_set(0.0f)};
    int64_t i = 0;
    for (; i + 4 * V16_LANES <= n; i += 4 * V16_LANES) {
        for (int k = 0; k < 4; k++) {
            sc_v16 d = v16_sub(v16_load(x + i + k * V16_LANES), m);
            acc[k] = v16_fma(d, d, acc[k]);
        }
    }
    for (; i < n; i += V16_LANES) {
        sc_v16 d = v16_keep_n(v16_sub(v16_load_n(x + i, n - i), m), n - i);
        acc[0] = v16_fma(d, d, acc[0]);
    }
    return v16_sum(v16_add(v16_add(acc[0], acc[1]), v16_add(acc[2], acc[3])));
}

static void norm_row(const sc_norm_fwd_args *a, int64_t row)
{
    const int64_t C = a->C;
    const float *x = (const float *)a->x + (size_t)row * (size_t)C;
    const float *gain = a->gain;
    const float *bias = a->bias;
    float *y = (float *)a->y + (size_t)row * (size_t)C;
    const float mean = sum_row(x, C) / (float)C;
    const float variance = sum_deviations(x, mean, C) / (float)C;
    const float rstd = 1.0f / __builtin_sqrtf(variance + a->epsilon);
    const sc_v16 m = v16_set(mean);
    const sc_v16 r = v16_set(rstd);
    for (int64_t i = 0; i < C; i += V16_LANES) {
        const int64_t n = C - i;
        sc_v16 hat = v16_mul(v16_sub(v16_load_n(x + i, n), m), r);
        v16_store_n(y + i, v16_fma(hat, v16_load_n(gain + i, n), v16_load_n(bias + i, n)), n);
    }
    a->mean[row] = mean;
    a->rstd[row] = rstd;
}

sc_status SC_CPU_FN(sc_cpu_norm_fwd)(sc_backend *be, sc_stream *s, const sc_norm_fwd_args *a,
                                     sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_f32("norm_fwd", a->dtype, err));
    SC_TRY(sc_cpu_check_dims("norm_fwd", "NC", (int64_t[]){a->N, a->C}, err));
#pragma omp parallel for num_threads(be->n_threads) \
    schedule(static) if (a->N * a->C > SC_CPU_SERIAL_ELEMS)
    for (int64_t row = 0; row < a->N; row++) {
        norm_row(a, row);
    }
    return SC_OK;
}

/* With hat = (x - mean) rstd and d = gain dy:
   dx = rstd (d - average(d) - hat average(d hat)) + residual. */
static void norm_row_back(const sc_norm_bwd_input_args *a, int64_t row)
{
    const int64_t C = a->C;
    const size_t base = (size_t)row * (size_t)C;
    const float *x = (const float *)a->x + base;
    const float *dy = (const float *)a->dy + base;
    const float *gain = a->gain;
    const float *residual = a->residual != NULL ? (const float *)a->residual + base : NULL;
    float *dx = (float *)a->dx + base;
    const sc_v16 m = v16_set(a->mean[row]);
    const sc_v16 r = v16_set(a->rstd[row]);
    sc_v16 sum_d[2] = {v16_set(0.0f), v16_set(0.0f)};
    sc_v16 sum_dh[2] = {v16_set(0.0f), v16_set(0.0f)};
    for (int64_t i0 = 0; i0 < C; i0 += 2 * V16_LANES) {
        for (int k = 0; k < 2 && i0 + k * V16_LANES < C; k++) {
            const int64_t i = i0 + k * V16_LANES;
            const int64_t n = C - i;
            sc_v16 d = v16_mul(v16_load_n(dy + i, n), v16_load_n(gain + i, n));
            sc_v16 hat = v16_mul(v16_sub(v16_load_n(x + i, n), m), r);
            sum_d[k] = v16_add(sum_d[k], d);
            sum_dh[k] = v16_fma(d, hat, sum_dh[k]); // d is zero beyond the row, whatever hat is
        }
    }
    const sc_v16 mean_d = v16_set(v16_sum(v16_add(sum_d[0], sum_d[1])) / (float)C);
    const sc_v16 mean_dh = v16_set(v16_sum(v16_add(sum_dh[0], sum_dh[1])) / (float)C);
    for (int64_t i = 0; i < C; i += V16_LANES) {
        const int64_t n = C - i;
        sc_v16 d = v16_mul(v16_load_n(dy + i, n), v16_load_n(gain + i, n));
        sc_v16 hat = v16_mul(v16_sub(v16_load_n(x + i, n), m), r);
        sc_v16 v = v16_sub(v16_sub(d, mean_d), v16_mul(hat, mean_dh));
        v = v16_mul(v, r);
        if (residual != NULL) {
            v = v16_add(v, v16_load_n(residual + i, n));
        }
        v16_store_n(dx + i, v, n);
    }
}

sc_status SC_CPU_FN(sc_cpu_norm_bwd_input)(sc_backend *be, sc_stream *s,
                                           const sc_norm_bwd_input_args *a, sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_f32("norm_bwd_input", a->dtype, err));
    SC_TRY(sc_cpu_check_dims("norm_bwd_input", "NC", (int64_t[]){a->N, a->C}, err));
#pragma omp parallel for num_threads(be->n_threads) \
    schedule(static) if (a->N * a->C > SC_CPU_SERIAL_ELEMS)
    for (int64_t row = 0; row < a->N; row++) {
        norm_row_back(a, row);
    }
    return SC_OK;
}

/* Adds rows [row, end) of columns from c0 to dgain and dbias. */
static void sum_columns(const sc_norm_bwd_weight_args *a, int64_t c0, int64_t row, int64_t end)
{
    sc_v16 gain[4];
    sc_v16 bias[4];
    for (int k = 0; k < 4; k++) {
        gain[k] = v16_set(0.0f);
        bias[k] = v16_set(0.0f);
    }
    for (; row < end; row++) {
        const size_t base = (size_t)row * (size_t)a->C + (size_t)c0;
        const float *x = (const float *)a->x + base;
        const float *dy = (const float *)a->dy + base;
        const sc_v16 m = v16_set(a->mean[row]);
        const sc_v16 r = v16_set(a->rstd[row]);
        for (int k = 0; k < 4; k++) {
            const int64_t n = a->C - c0 - k * V16_LANES;
            if (n > 0) {
                sc_v16 d = v16_load_n(dy + k * V16_LANES, n);
                sc_v16 hat = v16_mul(v16_sub(v16_load_n(x + k * V16_LANES, n), m), r);
                gain[k] = v16_fma(d, hat, gain[k]);
                bias[k] = v16_add(bias[k], d);
            }
        }
    }
    for (int k = 0; k < 4; k++) {
        const int64_t n = a->C - c0 - k * V16_LANES;
        if (n > 0) {
            float *dgain = a->dgain + c0 + k * V16_LANES;
            float *dbias = a->dbias + c0 + k * V16_LANES;
            v16_store_n(dgain, v16_add(v16_load_n(dgain, n), gain[k]), n);
            v16_store_n(dbias, v16_add(v16_load_n(dbias, n), bias[k]), n);
        }
    }
}

sc_status SC_CPU_FN(sc_cpu_norm_bwd_weight)(sc_backend *be, sc_stream *s,
                                            const sc_norm_bwd_weight_args *a, sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_f32("norm_bwd_weight", a->dtype, err));
    SC_TRY(sc_cpu_check_dims("norm_bwd_weight", "NC", (int64_t[]){a->N, a->C}, err));
#pragma omp parallel for num_threads(be->n_threads) \
    schedule(static) if (a->N * a->C > SC_CPU_SERIAL_ELEMS)
    for (int64_t c0 = 0; c0 < a->C; c0 += COLUMNS_PER_CHUNK) {
        for (int64_t row = 0; row < a->N; row += ROWS_PER_BLOCK) {
            int64_t end = row + ROWS_PER_BLOCK < a->N ? row + ROWS_PER_BLOCK : a->N;
            sum_columns(a, c0, row, end);
        }
    }
    return SC_OK;
}
