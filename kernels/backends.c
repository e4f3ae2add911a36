#include "kernels/backends.h"

#include "kernels/cpu/backend_cpu.h"

#include <string.h>

static sc_status fail_unknown(const char *name, sc_err *err)
{
    return sc_status_fail(err, SC_UNSUPPORTED, "backend '%s': built in are: cpu", name);
}

sc_status sc_backends_open(const char *name, int n_threads, const char *isa_max, sc_backend **out,
                           sc_err *err)
{
    if (strcmp(name, "cpu") == 0) {
        return sc_backend_cpu_open(n_threads, isa_max, out, err);
    }
    return fail_unknown(name, err);
}

sc_status sc_backends_find_isa(const char *name, const char **out, sc_err *err)
{
    if (strcmp(name, "cpu") == 0) {
        *out = sc_backend_cpu_find_isa();
        return SC_OK;
    }
    return fail_unknown(name, err);
}
