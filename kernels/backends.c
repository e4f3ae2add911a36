#include "kernels/backends.h"

#include "kernels/cpu/backend_cpu.h"

#include <string.h>

sc_status sc_backends_open(const char *name, int n_threads, const char *isa_max, sc_backend **out,
                           sc_err *err)
{
    if (strcmp(name, "cpu") == 0) {
        return sc_backend_cpu_open(n_threads, isa_max, out, err);
    }
    return sc_status_fail(err, SC_UNSUPPORTED, "backend '%s': built in are: cpu", name);
}
