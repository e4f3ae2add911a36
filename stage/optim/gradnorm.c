#include "stage/optim/gradnorm.h"

#include <math.h>
#include <stdlib.h>

static size_t n_chunks(size_t n_elems)
{
    return (n_elems + SC_NORM_CHUNK_ELEMS - 1) / SC_NORM_CHUNK_ELEMS;
}

sc_status sc_gradnorm_open(const sc_optim *optim, sc_gradnorm *out, sc_err *err)
{
    size_t n_max = 1;
    for (int i = 0; i < optim->n_entries; i++) {
        size_t n = n_chunks(optim->entries[i].held.n_elems);
        n_max = n > n_max ? n : n_max;
    }
    *out = (sc_gradnorm){.optim = optim, .partials = calloc(n_max, sizeof *out->partials)};
    if (out->partials == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the norm of %zu chunks", n_max);
    }
    return SC_OK;
}

void sc_gradnorm_close(sc_gradnorm *gradnorm)
{
    free(gradnorm->partials);
    *gradnorm = (sc_gradnorm){0};
}

sc_status sc_gradnorm_local(sc_gradnorm *gradnorm, double *sums, sc_err *err)
{
    const sc_optim *optim = gradnorm->optim;
    sc_backend *be = optim->config.backend;
    int n_params = optim->config.registry == NULL ? 0 : optim->config.registry->n_params;
    for (int i = 0; i < n_params; i++) {
        sums[i] = 0.0;
    }
    for (int i = 0; i < optim->n_entries; i++) {
        const sc_optim_entry *entry = &optim->entries[i];
        const sc_slice_param *held = &entry->held;
        if (entry->primary != i || held->is_tied_copy) {
            continue;
        }
        SC_TRY(be->sum_squares(be, optim->config.stream, held->grad, (int64_t)held->n_elems,
                               gradnorm->partials, err));
        SC_TRY(be->stream_sync(be, optim->config.stream, err));
        double sum = 0.0;
        for (size_t c = 0; c < n_chunks(held->n_elems); c++) {
            sum += gradnorm->partials[c];
        }
        sums[held->param] = sum;
    }
    return SC_OK;
}

double sc_gradnorm_total(const double *sums, int n_ranks, int n_params)
{
    double total = 0.0;
    for (int i = 0; i < n_params; i++) {
        double tensor = 0.0;
        for (int r = 0; r < n_ranks; r++) {
            tensor += sums[(size_t)r * (size_t)n_params + (size_t)i];
        }
        total += tensor;
    }
    return sqrt(total);
}

sc_status sc_gradnorm_scale(double norm, float clip, float *out, sc_err *err)
{
    if (!isfinite(norm)) {
        return sc_status_fail(err, SC_NUMERIC, "the gradient norm is %g", norm);
    }
    *out = clip > 0.0F && norm > (double)clip ? (float)((double)clip / norm) : 1.0F;
    return SC_OK;
}
