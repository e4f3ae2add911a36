#include "stage/layers/layer_weights.h"

#include "base/rng.h"

#include <stdlib.h>

enum {
    ALIGN_ELEMS = 16,        // parameters start on cache lines
    INIT_CHUNK_ELEMS = 16384 // even: pairs of the normal generator stay together
};

static size_t padded(size_t n_elems)
{
    return (n_elems + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
}

static bool is_tied_whole(const sc_slice_config *config)
{
    return config->range.has_head && config->range.has_embed && config->spec->tie_word_embeddings;
}

/* Lists the held parameters without memory behind them. */
static void list(const sc_slice_config *config, sc_layer_weights *weights)
{
    const sc_registry *registry = config->registry;
    int wte = sc_registry_find(registry, SC_PARAM_WTE, SC_PARAM_NO_BLOCK);
    bool has_copy = config->range.has_head && config->spec->tie_word_embeddings;
    for (int i = 0; i < registry->n_params; i++) {
        bool is_copy_only = i == wte && !config->range.has_embed;
        if (sc_registry_is_held(registry, i, &config->range) && !is_copy_only) {
            weights->params[weights->n_params++] =
                (sc_slice_param){.param = i, .n_elems = registry->params[i].n_elems};
        }
    }
    if (has_copy) {
        weights->params[weights->n_params++] = (sc_slice_param){
            .param = wte, .is_tied_copy = true, .n_elems = registry->params[wte].n_elems};
    }
}

static sc_status allocate(const sc_slice_config *config, sc_layer_weights *weights, sc_err *err)
{
    sc_backend *be = config->backend;
    size_t n_grads = 0;
    for (int i = 0; i < weights->n_params; i++) {
        n_grads += padded(weights->params[i].n_elems);
    }
    size_t n_weights = n_grads;
    if (is_tied_whole(config)) {
        n_weights -= padded(weights->params[weights->n_params - 1].n_elems);
    }
    SC_TRY(be->memory_alloc(be, n_weights * sizeof(float), &weights->weights, err));
    SC_TRY(be->memory_alloc(be, n_grads * sizeof(float), &weights->grads, err));
    float *w = weights->weights;
    float *grad = weights->grads;
    for (int i = 0; i < weights->n_params; i++) {
        sc_slice_param *p = &weights->params[i];
        size_t n = padded(p->n_elems);
        p->grad = grad;
        grad += n;
        if (p->is_tied_copy && is_tied_whole(config)) {
            p->w = weights->params[0].w; // the embedding is the registry's first
        } else {
            p->w = w;
            w += n;
        }
    }
    return SC_OK;
}

static void fill(const sc_param *param, uint64_t seed, uint64_t stream, size_t first, size_t n,
                 float *out)
{
    if (param->init == SC_INIT_NORMAL) {
        sc_rng_normal(seed, stream, first, n, param->init_std, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = param->init == SC_INIT_ONE ? 1.0F : 0.0F;
    }
}

/* Fills one parameter through `chunk`, since the weights may be a device's memory. */
static sc_status initialise_one(const sc_slice_config *config, const sc_slice_param *p,
                                float *chunk, sc_err *err)
{
    sc_backend *be = config->backend;
    const sc_param *param = &config->registry->params[p->param];
    uint64_t stream = sc_rng_stream(param->name);
    for (size_t first = 0; first < p->n_elems; first += INIT_CHUNK_ELEMS) {
        size_t n = p->n_elems - first;
        n = n < INIT_CHUNK_ELEMS ? n : INIT_CHUNK_ELEMS;
        fill(param, config->seed, stream, first, n, chunk);
        SC_TRY(be->copy_to_device(be, config->stream, p->w + first, chunk, n * sizeof *chunk, err));
        SC_TRY(be->stream_sync(be, config->stream, err));
    }
    return SC_OK;
}

static sc_status initialise(const sc_slice_config *config, const sc_layer_weights *weights,
                            sc_err *err)
{
    sc_status status = SC_OK;
    float *chunk = malloc(INIT_CHUNK_ELEMS * sizeof *chunk);
    if (chunk == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "stage %d: no memory for initial weights",
                              config->stage);
    }
    for (int i = 0; i < weights->n_params; i++) {
        SC_GOTO(initialise_one(config, &weights->params[i], chunk, err));
    }
out:
    free(chunk);
    return status;
}

sc_status sc_layer_weights_open(const sc_slice_config *config, sc_layer_weights *out, sc_err *err)
{
    sc_status status = SC_OK;
    size_t n_max = (size_t)config->registry->n_params + 1;
    *out = (sc_layer_weights){.backend = config->backend, .registry = config->registry};
    out->params = calloc(n_max, sizeof *out->params);
    if (out->params == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "stage %d: no memory for a list of %zu parameters",
                              config->stage, n_max);
    }
    list(config, out);
    SC_GOTO(allocate(config, out, err));
    if (!config->is_blank) {
        SC_GOTO(initialise(config, out, err));
    }
out:
    if (status != SC_OK) {
        sc_layer_weights_close(out);
    }
    return status;
}

void sc_layer_weights_close(sc_layer_weights *weights)
{
    if (weights->grads != NULL) {
        weights->backend->memory_free(weights->backend, weights->grads);
    }
    if (weights->weights != NULL) {
        weights->backend->memory_free(weights->backend, weights->weights);
    }
    free(weights->params);
    *weights = (sc_layer_weights){0};
}

const sc_slice_param *sc_layer_weights_find(const sc_layer_weights *weights, sc_param_role role,
                                            int block)
{
    for (int i = 0; i < weights->n_params; i++) {
        const sc_slice_param *p = &weights->params[i];
        const sc_param *param = &weights->registry->params[p->param];
        sc_param_role use = p->is_tied_copy ? SC_PARAM_HEAD : param->role;
        if (use == role && param->block == block) {
            return p;
        }
    }
    return NULL;
}
