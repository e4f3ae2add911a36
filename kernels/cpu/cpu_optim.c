#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_math.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One pass over memory: it is what bounds this operation. */
static void adamw_range(const sc_adamw_args *a, int64_t i, int64_t end)
{
    const sc_v16 zero = v16_set(0.0f);
    const sc_v16 grad_scale = v16_set(a->grad_scale);
    const sc_v16 beta1 = v16_set(a->beta1);
    const sc_v16 rest1 = v16_set(1.0f - a->beta1);
    const sc_v16 beta2 = v16_set(a->beta2);
    const sc_v16 rest2 = v16_set(1.0f - a->beta2);
    const sc_v16 inv1 = v16_set(1.0f / a->correction1);
    const sc_v16 inv2 = v16_set(1.0f / a->correction2);
    const sc_v16 epsilon = v16_set(a->epsilon);
    const sc_v16 decay = v16_set(a->decay);
    const sc_v16 minus_lr = v16_set(-a->lr);
    for (; i < end; i += V16_LANES) {
        const int64_t n = end - i;
        sc_v16 g = v16_mul(v16_load_n(a->grad + i, n), grad_scale);
        sc_v16 m = v16_fma(beta1, v16_load_n(a->m + i, n), v16_mul(rest1, g));
        sc_v16 v = v16_fma(beta2, v16_load_n(a->v + i, n), v16_mul(rest2, v16_mul(g, g)));
        sc_v16 w = v16_load_n(a->w + i, n);
        sc_v16 root = v16_add(v16_sqrt(v16_mul(v, inv2)), epsilon);
        sc_v16 move = v16_fma(decay, w, v16_div(v16_mul(m, inv1), root));
        v16_store_n(a->w + i, v16_fma(minus_lr, move, w), n);
        v16_store_n(a->m + i, m, n);
        v16_store_n(a->v + i, v, n);
        v16_store_n(a->grad + i, zero, n);
    }
}

sc_status SC_CPU_FN(sc_cpu_optim_adamw)(sc_backend *be, sc_stream *s, const sc_adamw_args *a,
                                        sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_dims("adamw", "n", (int64_t[]){a->n}, err));
#pragma omp parallel for num_threads(be->n_threads) schedule(static) if (a->n > SC_CPU_SERIAL_ELEMS)
    for (int64_t i = 0; i < a->n; i += SC_CPU_BLOCK_ELEMS) {
        adamw_range(a, i, smaller(i + SC_CPU_BLOCK_ELEMS, a->n));
    }
    return SC_OK;
}

static void sgd_range(const sc_sgd_args *a, int64_t i, int64_t end)
{
    const sc_v16 zero = v16_set(0.0f);
    const sc_v16 grad_scale = v16_set(a->grad_scale);
    const sc_v16 decay = v16_set(a->decay);
    const sc_v16 minus_lr = v16_set(-a->lr);
    for (; i < end; i += V16_LANES) {
        const int64_t n = end - i;
        sc_v16 w = v16_load_n(a->w + i, n);
        sc_v16 g = v16_mul(v16_load_n(a->grad + i, n), grad_scale);
        v16_store_n(a->w + i, v16_fma(minus_lr, v16_fma(decay, w, g), w), n);
        v16_store_n(a->grad + i, zero, n);
    }
}

sc_status SC_CPU_FN(sc_cpu_optim_sgd)(sc_backend *be, sc_stream *s, const sc_sgd_args *a,
                                      sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_dims("sgd", "n", (int64_t[]){a->n}, err));
#pragma omp parallel for num_threads(be->n_threads) schedule(static) if (a->n > SC_CPU_SERIAL_ELEMS)
    for (int64_t i = 0; i < a->n; i += SC_CPU_BLOCK_ELEMS) {
        sgd_range(a, i, smaller(i + SC_CPU_BLOCK_ELEMS, a->n));
    }
    return SC_OK;
}
