#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_math.h"

enum {
    SUM_BLOCK = 4096 // terms summed in float before they join the row's double
};

static float largest(const float *x, int64_t n)
{
    sc_v16 top[4] = {v16_set(x[0]), v16_set(x[0]), v16_set(x[0]), v16_set(x[0])};
    int64_t i = 0;
    for (; i + 4 * V16_LANES <= n; i += 4 * V16_LANES) {
        for (int k = 0; k < 4; k++) {
            top[k] = v16_max(top[k], v16_load(x + i + k * V16_LANES));
        }
    }
    float m = v16_top(v16_max(v16_max(top[0], top[1]), v16_max(top[2], top[3])));
    for (; i < n; i++) {
        m = x[i] > m ? x[i] : m;
    }
    return m;
}

/* e^(x - top) of up to 16 places, zero behind the last of n; x becomes them when is_kept. */
static inline sc_v16 exp_terms(float *x, int64_t n, sc_v16 top, bool is_kept)
{
    sc_v16 e = v16_exp(v16_sub(v16_load_n(x, n), top));
    if (is_kept) {
        v16_store_n(x, e, n);
    }
    return v16_keep_n(e, n);
}

/* Sum of e^(x - m) in double; x becomes those terms when is_kept. */
static double sum_exp(float *x, float m, int64_t n, bool is_kept)
{
    const sc_v16 top = v16_set(m);
    double sum = 0.0;
    for (int64_t block = 0; block < n; block += SUM_BLOCK) {
        const int64_t end = block + SUM_BLOCK < n ? block + SUM_BLOCK : n;
        sc_v16 acc[2] = {v16_set(0.0f), v16_set(0.0f)};
        for (int64_t i0 = block; i0 < end; i0 += 2 * V16_LANES) {
            for (int k = 0; k < 2 && i0 + k * V16_LANES < end; k++) {
                const int64_t i = i0 + k * V16_LANES;
                acc[k] = v16_add(acc[k], exp_terms(x + i, end - i, top, is_kept));
            }
        }
        sum += (double)v16_sum(v16_add(acc[0], acc[1]));
    }
    return sum;
}

static void scale_row(float *x, float factor, int64_t n)
{
    const sc_v16 f = v16_set(factor);
    for (int64_t i = 0; i < n; i += V16_LANES) {
        v16_store_n(x + i, v16_mul(v16_load_n(x + i, n - i), f), n - i);
    }
}

static void do_row(const sc_xent_args *a, int64_t row)
{
    float *x = (float *)a->logits + (size_t)row * (size_t)a->V;
    const int32_t target = a->targets[row];
    if (target == SC_IGNORE_INDEX) {
        a->losses[row] = 0.0f;
        if (!a->is_loss_only) {
            memset(x, 0, (size_t)a->V * sizeof *x);
        }
        return;
    }
    const float at_target = x[target];
    const float m = largest(x, a->V);
    const double sum = sum_exp(x, m, a->V, !a->is_loss_only);
    a->losses[row] = (float)(scalar_log(sum) + ((double)m - (double)at_target));
    if (!a->is_loss_only) {
        scale_row(x, (float)((double)a->scale / sum), a->V);
        x[target] -= a->scale;
    }
}

sc_status SC_CPU_FN(sc_cpu_xent)(sc_backend *be, sc_stream *s, const sc_xent_args *a, sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_f32("xent", a->dtype, err));
    SC_TRY(sc_cpu_check_dims("xent", "NV", (int64_t[]){a->N, a->V}, err));
    SC_TRY(sc_cpu_check_indices("xent", a->targets, a->N, a->V, true, err));
#pragma omp parallel for num_threads(be->n_threads) \
    schedule(static) if (a->N * a->V > SC_CPU_SERIAL_ELEMS)
    for (int64_t row = 0; row < a->N; row++) {
        do_row(a, row);
    }
    double loss_sum = 0.0;
    int64_t n_valid = 0;
    for (int64_t row = 0; row < a->N; row++) {
        loss_sum += (double)a->losses[row];
        n_valid += a->targets[row] != SC_IGNORE_INDEX;
    }
    *a->loss_sum = loss_sum;
    *a->n_valid = n_valid;
    return SC_OK;
}
