#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_math.h"

static sc_status check(const char *op, sc_dtype dtype, const int64_t *dims, const int32_t *tokens,
                       sc_err *err)
{
    SC_TRY(sc_cpu_check_f32(op, dtype, err));
    SC_TRY(sc_cpu_check_dims(op, "BTCV", dims, err));
    return sc_cpu_check_indices(op, tokens, dims[0] * dims[1], dims[3], false, err);
}

/* y = a + b over n elements. */
static void add_rows(float *y, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i += V16_LANES) {
        v16_store_n(y + i, v16_add(v16_load_n(a + i, n - i), v16_load_n(b + i, n - i)), n - i);
    }
}

sc_status SC_CPU_FN(sc_cpu_embed_fwd)(sc_backend *be, sc_stream *s, const sc_embed_fwd_args *a,
                                      sc_err *err)
{
    (void)s;
    SC_TRY(check("embed_fwd", a->dtype, (int64_t[]){a->B, a->T, a->C, a->V}, a->tokens, err));
    const float *wte = a->wte;
    const float *wpe = a->wpe;
    float *y = a->y;
    const size_t C = (size_t)a->C;
#pragma omp parallel for num_threads(be->n_threads) \
    schedule(static) if (a->B * a->T * a->C > SC_CPU_SERIAL_ELEMS)
    for (int64_t row = 0; row < a->B * a->T; row++) {
        add_rows(y + (size_t)row * C, wte + (size_t)a->tokens[row] * C,
                 wpe + (size_t)(row % a->T) * C, a->C);
    }
    return SC_OK;
}

/* Two rows may name the same token, so threads share columns out, not rows; each column adds its
   rows in rising order. */
sc_status SC_CPU_FN(sc_cpu_embed_bwd)(sc_backend *be, sc_stream *s, const sc_embed_bwd_args *a,
                                      sc_err *err)
{
    (void)s;
    SC_TRY(check("embed_bwd", a->dtype, (int64_t[]){a->B, a->T, a->C, a->V}, a->tokens, err));
    enum {
        COLUMNS = 8 * V16_LANES
    };
    const float *dy = a->dy;
    const size_t C = (size_t)a->C;
#pragma omp parallel for num_threads(be->n_threads) \
    schedule(static) if (a->B * a->T * a->C > SC_CPU_SERIAL_ELEMS)
    for (int64_t c0 = 0; c0 < a->C; c0 += COLUMNS) {
        const int64_t n = a->C - c0 < COLUMNS ? a->C - c0 : COLUMNS;
        for (int64_t row = 0; row < a->B * a->T; row++) {
            const float *from = dy + (size_t)row * C + (size_t)c0;
            float *te = a->dwte + (size_t)a->tokens[row] * C + (size_t)c0;
            float *pe = a->dwpe + (size_t)(row % a->T) * C + (size_t)c0;
            add_rows(te, te, from, n);
            add_rows(pe, pe, from, n);
        }
    }
    return SC_OK;
}
