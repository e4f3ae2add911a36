#include "kernels/cpu/cpu.h"

#include <dnnl.h>
#include <inttypes.h>
#include <omp.h>

void sc_cpu_gemm_enter(const sc_backend *be)
{
    if (omp_get_max_threads() != be->n_threads) {
        omp_set_num_threads(be->n_threads);
    }
    omp_set_dynamic(0);
}

sc_status sc_cpu_gemm_f32(const sc_backend *be, const sc_cpu_gemm_f32_args *a, sc_err *err)
{
    if (!omp_in_parallel()) {
        sc_cpu_gemm_enter(be);
    }
    dnnl_status_t status =
        dnnl_sgemm(a->trans_a ? 'T' : 'N', a->trans_b ? 'T' : 'N', a->M, a->N, a->K, 1.0f, a->a,
                   a->lda, a->b, a->ldb, a->beta, a->c, a->ldc);
    if (status != dnnl_success) {
        return sc_status_fail(err, status == dnnl_out_of_memory ? SC_NO_MEMORY : SC_FAILED,
                              "gemm of %" PRId64 " x %" PRId64 " x %" PRId64
                              ": oneDNN gave up with status %d",
                              a->M, a->N, a->K, (int)status);
    }
    return SC_OK;
}

sc_status sc_cpu_gemm(sc_backend *be, sc_stream *s, const sc_gemm_args *a, sc_err *err)
{
    (void)s;
    SC_TRY(sc_cpu_check_f32("gemm", a->dtype, err));
    SC_TRY(sc_cpu_check_dims("gemm", "MNK", (int64_t[]){a->M, a->N, a->K}, err));
    sc_cpu_gemm_f32_args g = {
        .trans_a = a->trans_a,
        .trans_b = a->trans_b,
        .M = a->M,
        .N = a->N,
        .K = a->K,
        .a = a->a,
        .lda = a->lda,
        .b = a->b,
        .ldb = a->ldb,
        .beta = a->beta,
        .c = a->c,
        .ldc = a->ldc,
    };
    return sc_cpu_gemm_f32(be, &g, err);
}
