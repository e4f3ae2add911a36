#include "stage/optim/optim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN_ELEMS = 16
};

static size_t state_elems(const sc_optim *optim, const sc_optim_entry *entry)
{
    size_t n = optim->config.kind == SC_OPTIM_ADAMW ? sc_adamw_state_elems(entry->held.n_elems) : 0;
    return (n + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
}

static bool is_primary(const sc_optim *optim, int i)
{
    return optim->entries[i].primary == i;
}

/* The first entry with the same parameter as entry i; i itself when there is none before. */
static int find_primary(const sc_optim *optim, int i)
{
    int k = 0;
    while (optim->entries[k].held.param != optim->entries[i].held.param) {
        k++;
    }
    return k;
}

static void list(sc_optim *optim)
{
    for (int s = 0; s < optim->config.n_slices; s++) {
        const sc_slice *slice = optim->config.slices[s];
        for (int p = 0; p < slice->n_params; p++) {
            sc_optim_entry *entry = &optim->entries[optim->n_entries];
            entry->held = slice->params[p];
            entry->param = &optim->config.registry->params[entry->held.param];
            entry->primary = find_primary(optim, optim->n_entries);
            optim->n_entries++;
        }
    }
}

static sc_status allocate_state(sc_optim *optim, sc_err *err)
{
    sc_backend *be = optim->config.backend;
    size_t n = 0;
    for (int i = 0; i < optim->n_entries; i++) {
        n += is_primary(optim, i) ? state_elems(optim, &optim->entries[i]) : 0;
    }
    if (n == 0) {
        return SC_OK;
    }
    SC_TRY(be->memory_alloc(be, n * sizeof(float), &optim->memory, err));
    float *next = optim->memory;
    for (int i = 0; i < optim->n_entries; i++) {
        if (is_primary(optim, i)) {
            optim->entries[i].state = next;
            next += state_elems(optim, &optim->entries[i]);
        }
    }
    return SC_OK;
}

sc_status sc_optim_open(const sc_optim_config *config, sc_optim **out, sc_err *err)
{
    sc_status status = SC_OK;
    size_t n_max = 1;
    for (int s = 0; s < config->n_slices; s++) {
        n_max += (size_t)config->slices[s]->n_params;
    }
    sc_optim *optim = calloc(1, sizeof *optim);
    if (optim == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the optimizer");
    }
    optim->config = *config;
    optim->entries = calloc(n_max, sizeof *optim->entries);
    if (optim->entries == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of %zu parameters", n_max);
        goto out;
    }
    list(optim);
    SC_GOTO(allocate_state(optim, err));
    optim->config.slices = NULL;
    *out = optim;
    optim = NULL;
out:
    sc_optim_close(&optim);
    return status;
}

void sc_optim_close(sc_optim **optim)
{
    sc_optim *o = *optim;
    if (o == NULL) {
        return;
    }
    if (o->memory != NULL) {
        o->config.backend->memory_free(o->config.backend, o->memory);
    }
    free(o->entries);
    free(o);
    *optim = NULL;
}

sc_status sc_optim_merge_tied(sc_optim *optim, sc_err *err)
{
    sc_backend *be = optim->config.backend;
    sc_stream *stream = optim->config.stream;
    for (int i = 0; i < optim->n_entries; i++) {
        const sc_slice_param *copy = &optim->entries[i].held;
        const sc_slice_param *primary = &optim->entries[optim->entries[i].primary].held;
        if (is_primary(optim, i)) {
            continue;
        }
        SC_TRY(be->add(be, stream, primary->grad, copy->grad, (int64_t)copy->n_elems, err));
        SC_TRY(be->memory_zero(be, stream, copy->grad, copy->n_elems * sizeof(float), err));
    }
    return SC_OK;
}

float *sc_optim_tied_grad(const sc_optim *optim, size_t *n_elems_out)
{
    for (int i = 0; i < optim->n_entries; i++) {
        if (is_primary(optim, i) && optim->entries[i].param->tie_group >= 0) {
            *n_elems_out = optim->entries[i].held.n_elems;
            return optim->entries[i].held.grad;
        }
    }
    *n_elems_out = 0;
    return NULL;
}

/* An entry beside a primary in another slice has its own weights, which stay equal by copying. */
static sc_status copy_weights(const sc_optim *optim, const sc_optim_entry *entry, sc_err *err)
{
    sc_backend *be = optim->config.backend;
    const sc_slice_param *primary = &optim->entries[entry->primary].held;
    if (entry->held.w == primary->w) {
        return SC_OK;
    }
    return be->copy_to_device(be, optim->config.stream, entry->held.w, primary->w,
                              primary->n_elems * sizeof(float), err);
}

static sc_status step_entry(const sc_optim *optim, const sc_optim_update *update, int i,
                            sc_err *err)
{
    const sc_optim_entry *entry = &optim->entries[i];
    if (!is_primary(optim, i)) {
        return copy_weights(optim, entry, err);
    }
    if (optim->config.kind == SC_OPTIM_ADAMW) {
        return sc_adamw_step(update, entry, err);
    }
    return sc_sgd_step(update, entry, err);
}

sc_status sc_optim_step(sc_optim *optim, uint32_t lr_bits, uint64_t step, float grad_scale,
                        sc_err *err)
{
    assert(step >= 1);
    sc_optim_update update = {.config = &optim->config, .step = step, .grad_scale = grad_scale};
    memcpy(&update.lr, &lr_bits, sizeof update.lr);
    for (int i = 0; i < optim->n_entries; i++) {
        SC_TRY(step_entry(optim, &update, i, err));
    }
    return SC_OK;
}
