#include "kernels/cpu/cpu.h"

#include <inttypes.h>

sc_status sc_cpu_check_f32(const char *op, sc_dtype dtype, sc_err *err)
{
    if (dtype == SC_DTYPE_F32) {
        return SC_OK;
    }
    return sc_status_fail(err, SC_UNSUPPORTED, "%s: the cpu backend computes in fp32, not in %s",
                          op, sc_backend_dtype_text(dtype));
}

sc_status sc_cpu_check_dims(const char *op, const char *names, const int64_t *dims, sc_err *err)
{
    for (int i = 0; names[i] != '\0'; i++) {
        if (dims[i] < 1) {
            return sc_status_fail(err, SC_INVALID, "%s: %c is %" PRId64 ", must be at least 1", op,
                                  names[i], dims[i]);
        }
    }
    return SC_OK;
}

sc_status sc_cpu_check_indices(const char *op, const int32_t *indices, int64_t n, int64_t limit,
                               bool may_ignore, sc_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        bool is_ignored = may_ignore && indices[i] == SC_IGNORE_INDEX;
        if ((indices[i] < 0 || indices[i] >= limit) && !is_ignored) {
            return sc_status_fail(err, SC_INVALID,
                                  "%s: index %" PRId32 " at row %" PRId64
                                  " is outside the vocabulary of %" PRId64,
                                  op, indices[i], i, limit);
        }
    }
    return SC_OK;
}
