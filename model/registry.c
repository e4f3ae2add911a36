#include "model/registry.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TIE_NONE = -1,
    TIE_EMBEDDING = 0,
    PARAMS_PER_BLOCK = SC_PARAM_FC_OUT_B - SC_PARAM_LN1_W + 1,
    PARAMS_AT_ENDS = 4 // WTE, WPE, LNF_W, LNF_B
};

/* A dimension in terms of the spec. */
typedef enum sc_registry_dim {
    DIM_NONE,
    DIM_V,
    DIM_P,
    DIM_C,
    DIM_3C,
    DIM_INNER
} sc_registry_dim;

/* What each role is; a block's parameters are named "transformer.h.N." and the suffix. */
typedef struct sc_registry_role {
    const char *name;
    sc_registry_dim dims[2];
    sc_param_shard shard;
    sc_param_init init;
    bool is_residual; // projects into the residual stream: smaller initial weights
} sc_registry_role;

static const sc_registry_role ROLES[SC_PARAM_ROLE_COUNT] = {
    [SC_PARAM_WTE] =
        {"transformer.wte.weight", {DIM_V, DIM_C}, SC_SHARD_ROWS, SC_INIT_NORMAL, false},
    [SC_PARAM_WPE] =
        {"transformer.wpe.weight", {DIM_P, DIM_C}, SC_SHARD_NONE, SC_INIT_NORMAL, false},
    [SC_PARAM_LN1_W] = {"ln_1.weight", {DIM_C}, SC_SHARD_NONE, SC_INIT_ONE, false},
    [SC_PARAM_LN1_B] = {"ln_1.bias", {DIM_C}, SC_SHARD_NONE, SC_INIT_ZERO, false},
    [SC_PARAM_QKV_W] = {"attn.c_attn.weight", {DIM_C, DIM_3C}, SC_SHARD_QKV, SC_INIT_NORMAL, false},
    [SC_PARAM_QKV_B] = {"attn.c_attn.bias", {DIM_3C}, SC_SHARD_QKV, SC_INIT_ZERO, false},
    [SC_PARAM_ATTN_OUT_W] =
        {"attn.c_proj.weight", {DIM_C, DIM_C}, SC_SHARD_ROWS, SC_INIT_NORMAL, true},
    [SC_PARAM_ATTN_OUT_B] = {"attn.c_proj.bias", {DIM_C}, SC_SHARD_NONE, SC_INIT_ZERO, false},
    [SC_PARAM_LN2_W] = {"ln_2.weight", {DIM_C}, SC_SHARD_NONE, SC_INIT_ONE, false},
    [SC_PARAM_LN2_B] = {"ln_2.bias", {DIM_C}, SC_SHARD_NONE, SC_INIT_ZERO, false},
    [SC_PARAM_FC_W] =
        {"mlp.c_fc.weight", {DIM_C, DIM_INNER}, SC_SHARD_COLUMNS, SC_INIT_NORMAL, false},
    [SC_PARAM_FC_B] = {"mlp.c_fc.bias", {DIM_INNER}, SC_SHARD_COLUMNS, SC_INIT_ZERO, false},
    [SC_PARAM_FC_OUT_W] =
        {"mlp.c_proj.weight", {DIM_INNER, DIM_C}, SC_SHARD_ROWS, SC_INIT_NORMAL, true},
    [SC_PARAM_FC_OUT_B] = {"mlp.c_proj.bias", {DIM_C}, SC_SHARD_NONE, SC_INIT_ZERO, false},
    [SC_PARAM_LNF_W] = {"transformer.ln_f.weight", {DIM_C}, SC_SHARD_NONE, SC_INIT_ONE, false},
    [SC_PARAM_LNF_B] = {"transformer.ln_f.bias", {DIM_C}, SC_SHARD_NONE, SC_INIT_ZERO, false},
    [SC_PARAM_HEAD] = {"lm_head.weight", {DIM_V, DIM_C}, SC_SHARD_ROWS, SC_INIT_NORMAL, false},
};

static int64_t dim_size(const sc_model_spec *spec, sc_registry_dim dim)
{
    switch (dim) {
    case DIM_V:
        return spec->vocab_size;
    case DIM_P:
        return spec->n_positions;
    case DIM_C:
        return spec->n_embd;
    case DIM_3C:
        return 3 * (int64_t)spec->n_embd;
    case DIM_INNER:
        return spec->n_inner;
    case DIM_NONE:
        break;
    }
    return 1;
}

static float initial_std(const sc_model_spec *spec, const sc_registry_role *role)
{
    if (role->init != SC_INIT_NORMAL) {
        return 0.0F;
    }
    double std = spec->initializer_range;
    if (role->is_residual) {
        std /= sqrt(2.0 * spec->n_layer);
    }
    return (float)std;
}

static void append(sc_registry *registry, const sc_model_spec *spec, sc_param_role role_id,
                   int block)
{
    const sc_registry_role *role = &ROLES[role_id];
    sc_param *param = &registry->params[registry->n_params];
    *param = (sc_param){
        .role = role_id,
        .block = block,
        .n_dims = role->dims[1] == DIM_NONE ? 1 : 2,
        .shape = {dim_size(spec, role->dims[0]), dim_size(spec, role->dims[1])},
        .offset = registry->n_elems,
        .shard = role->shard,
        .tie_group =
            role_id == SC_PARAM_WTE && spec->tie_word_embeddings ? TIE_EMBEDDING : TIE_NONE,
        .has_decay = role->dims[1] != DIM_NONE,
        .init = role->init,
        .init_std = initial_std(spec, role),
    };
    param->n_elems = (size_t)param->shape[0] * (size_t)param->shape[1];
    if (block == SC_PARAM_NO_BLOCK) {
        (void)snprintf(param->name, sizeof param->name, "%s", role->name);
    } else {
        (void)snprintf(param->name, sizeof param->name, "transformer.h.%d.%s", block, role->name);
    }
    registry->n_params++;
    registry->n_elems += param->n_elems;
}

sc_status sc_registry_new(const sc_model_spec *spec, sc_registry **out, sc_err *err)
{
    assert(spec->n_layer >= 1 && spec->n_layer <= SC_SPEC_LAYERS_MAX && spec->n_inner >= 1);
    size_t n_max = (size_t)spec->n_layer * PARAMS_PER_BLOCK + PARAMS_AT_ENDS + 1;
    sc_registry *registry = calloc(1, sizeof *registry);
    sc_param *params = calloc(n_max, sizeof *params);
    if (registry == NULL || params == NULL) {
        free(registry);
        free(params);
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of %zu parameters", n_max);
    }
    registry->params = params;
    append(registry, spec, SC_PARAM_WTE, SC_PARAM_NO_BLOCK);
    append(registry, spec, SC_PARAM_WPE, SC_PARAM_NO_BLOCK);
    for (int block = 0; block < spec->n_layer; block++) {
        for (int role = SC_PARAM_LN1_W; role <= SC_PARAM_FC_OUT_B; role++) {
            append(registry, spec, (sc_param_role)role, block);
        }
    }
    append(registry, spec, SC_PARAM_LNF_W, SC_PARAM_NO_BLOCK);
    append(registry, spec, SC_PARAM_LNF_B, SC_PARAM_NO_BLOCK);
    if (!spec->tie_word_embeddings) {
        append(registry, spec, SC_PARAM_HEAD, SC_PARAM_NO_BLOCK);
    }
    *out = registry;
    return SC_OK;
}

void sc_registry_free(sc_registry **registry)
{
    if (*registry != NULL) {
        free((*registry)->params);
        free(*registry);
        *registry = NULL;
    }
}

bool sc_registry_is_held(const sc_registry *registry, int param, const sc_stage_range *range)
{
    const sc_param *p = &registry->params[param];
    switch (p->role) {
    case SC_PARAM_WTE:
        return range->has_embed || (range->has_head && p->tie_group == TIE_EMBEDDING);
    case SC_PARAM_WPE:
        return range->has_embed;
    case SC_PARAM_LNF_W:
    case SC_PARAM_LNF_B:
    case SC_PARAM_HEAD:
        return range->has_head;
    default:
        return p->block >= range->block_begin && p->block < range->block_end;
    }
}

int sc_registry_find(const sc_registry *registry, sc_param_role role, int block)
{
    for (int i = 0; i < registry->n_params; i++) {
        if (registry->params[i].role == role && registry->params[i].block == block) {
            return i;
        }
    }
    return -1;
}
