#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_math.h"

enum {
    PARTS = 4, // of a chunk of sum_squares: fixed, so that the order of addition is
    COLUMNS_PER_CHUNK = 8 * V16_LANES, // what one thread sums at a time, in registers
    ROWS_PER_BLOCK = 64                // rows summed before they join the total: less rounding
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

sc_status SC_CPU_FN(sc_cpu_reduce_add)(sc_backend *be, sc_stream *s, float *dst, const float *src,
                                       int64_t n, sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_dims("add", "n", (int64_t[]){n}, err));
#pragma omp parallel for num_threads(be->n_threads) schedule(static) if (n > SC_CPU_SERIAL_ELEMS)
    for (int64_t block = 0; block < n; block += SC_CPU_BLOCK_ELEMS) {
        const int64_t end = smaller(block + SC_CPU_BLOCK_ELEMS, n);
        for (int64_t i = block; i < end; i += V16_LANES) {
            sc_v16 v = v16_add(v16_load_n(dst + i, end - i), v16_load_n(src + i, end - i));
            v16_store_n(dst + i, v, end - i);
        }
    }
    return SC_OK;
}

/* The square of a float is exact in double, so fused and unfused forms give the same bits. Four
   places are read at once: one stream alone does not fill the memory's pipeline. */
static double chunk_squares(const float *x, int64_t n)
{
    const int64_t part = n / (PARTS * V16_LANES) * V16_LANES;
    sc_v16d acc[PARTS];
    memset(acc, 0, sizeof acc);
    for (int64_t i = 0; i < part; i += V16_LANES) {
        for (int k = 0; k < PARTS; k++) {
            acc[k] = v16d_add_square(acc[k], v16_load(x + k * part + i));
        }
    }
    for (int64_t i = PARTS * part; i < n; i += V16_LANES) {
        acc[0] = v16d_add_square(acc[0], v16_load_n(x + i, n - i));
    }
    return v16d_sum(acc, PARTS);
}

sc_status SC_CPU_FN(sc_cpu_reduce_sum_squares)(sc_backend *be, sc_stream *s, const float *x,
                                               int64_t n, double *partials, sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_dims("sum_squares", "n", (int64_t[]){n}, err));
    const int64_t n_chunks = (n + SC_NORM_CHUNK_ELEMS - 1) / SC_NORM_CHUNK_ELEMS;
#pragma omp parallel for num_threads(be->n_threads) schedule(static) if (n_chunks > 1)
    for (int64_t c = 0; c < n_chunks; c++) {
        const int64_t first = c * SC_NORM_CHUNK_ELEMS;
        partials[c] = chunk_squares(x + first, smaller(SC_NORM_CHUNK_ELEMS, n - first));
    }
    return SC_OK;
}

/* Adds rows [row, end) of columns from m0 to out. */
static void sum_columns(const float *x, int64_t M, int64_t m0, int64_t row, int64_t end, float *out)
{
    sc_v16 acc[COLUMNS_PER_CHUNK / V16_LANES];
    const int n_acc = (int)(sizeof acc / sizeof *acc);
    for (int k = 0; k < n_acc; k++) {
        acc[k] = v16_set(0.0f);
    }
    for (; row < end; row++) {
        const float *from = x + (size_t)row * (size_t)M + (size_t)m0;
        for (int k = 0; k < n_acc; k++) {
            const int64_t n = M - m0 - k * V16_LANES;
            if (n > 0) {
                acc[k] = v16_add(acc[k], v16_load_n(from + k * V16_LANES, n));
            }
        }
    }
    for (int k = 0; k < n_acc; k++) {
        const int64_t n = M - m0 - k * V16_LANES;
        if (n > 0) {
            float *to = out + m0 + k * V16_LANES;
            v16_store_n(to, v16_add(v16_load_n(to, n), acc[k]), n);
        }
    }
}

void SC_CPU_FN(sc_cpu_reduce_columns)(const sc_backend *be, const float *x, int64_t N, int64_t M,
                                      float *out)
{
#pragma omp parallel for num_threads(be->n_threads) \
    schedule(static) if (N * M > SC_CPU_SERIAL_ELEMS)
    for (int64_t m0 = 0; m0 < M; m0 += COLUMNS_PER_CHUNK) {
        for (int64_t row = 0; row < N; row += ROWS_PER_BLOCK) {
            sum_columns(x, M, m0, row, smaller(row + ROWS_PER_BLOCK, N), out);
        }
    }
}
