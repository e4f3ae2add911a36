/*
 * registry - every parameter of a model as facts: name, shape, layer, tie group, decay class,
 * offset.
 *
 * The order of the registry is the global tensor order: reductions over parameters (the gradient
 * norm) follow it, so that nothing depends on the layout. Names are Hugging Face's
 * ("transformer.h.0.attn..."). Linear weights have GPT-2's Conv1D layout (in, out).
 */
#ifndef SC_MODEL_REGISTRY_H
#define SC_MODEL_REGISTRY_H

#include "model/spec.h"

#include <stdint.h>

/* What a parameter is within its layer. */
#define SC_PARAM_ROLE_MAP(X) \
    X(WTE) \
    X(WPE) \
    X(LN1_W) \
    X(LN1_B) \
    X(QKV_W) \
    X(QKV_B) \
    X(ATTN_OUT_W) \
    X(ATTN_OUT_B) \
    X(LN2_W) \
    X(LN2_B) \
    X(FC_W) \
    X(FC_B) \
    X(FC_OUT_W) \
    X(FC_OUT_B) \
    X(LNF_W) \
    X(LNF_B) \
    X(HEAD)

#define SC_PARAM_ENUM(name) SC_PARAM_##name,
typedef enum sc_param_role {
    SC_PARAM_ROLE_MAP(SC_PARAM_ENUM) SC_PARAM_ROLE_COUNT
} sc_param_role;
#undef SC_PARAM_ENUM

typedef enum sc_param_init {
    SC_INIT_ZERO,
    SC_INIT_ONE,
    SC_INIT_NORMAL
} sc_param_init;

typedef enum sc_param_shard {
    SC_SHARD_NONE,    // replicated over tensor ranks
    SC_SHARD_ROWS,    // dimension 0 is split
    SC_SHARD_COLUMNS, // dimension 1 (of a matrix) or 0 (of a bias) is split
    SC_SHARD_QKV      // columns, q, k and v each by heads
} sc_param_shard;

enum {
    SC_PARAM_NAME_MAX = 64,
    SC_PARAM_NO_BLOCK = -1
};

typedef struct sc_param {
    char name[SC_PARAM_NAME_MAX];
    sc_param_role role;
    int block;  // transformer block, SC_PARAM_NO_BLOCK for the ends
    int n_dims; // 1 or 2
    int64_t shape[2];
    size_t n_elems;
    size_t offset; // first element in the flat order of all parameters, in elements
    sc_param_shard shard;
    int tie_group;  // parameters with the same group >= 0 share one value; -1: none
    bool has_decay; // weight decay applies (matrices, as in GPT-2)
    sc_param_init init;
    float init_std; // of SC_INIT_NORMAL; residual projections have range / sqrt(2 L)
} sc_param;

typedef struct sc_registry {
    int n_params;
    sc_param *params; // (n_params), in global tensor order
    size_t n_elems; // sum over params; a tied head is not listed again, it is WTE with tie group 0
} sc_registry;

/* Lists a checked spec's parameters: WTE, WPE, blocks 0 .. L-1, LNF, and HEAD when it is not tied.
   Caller frees with sc_registry_free. */
sc_status sc_registry_new(const sc_model_spec *spec, sc_registry **out, sc_err *err);
void sc_registry_free(sc_registry **registry);

/* True when a stage with this range holds the parameter. The tied embedding is held by both the
   stage with the embedding and the stage with the head. */
bool sc_registry_is_held(const sc_registry *registry, int param, const sc_stage_range *range);
/* Index of a role in a block (block = SC_PARAM_NO_BLOCK for the ends), -1 when there is none. */
int sc_registry_find(const sc_registry *registry, sc_param_role role, int block);

#endif
