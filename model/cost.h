/*
 * cost - FLOPs and bytes of a stage, counted from the spec alone.
 *
 * Everything is for one microbatch of B samples and T tokens, fp32. A product of (n,k) and (k,m)
 * counts 2nkm FLOPs; other work is not counted.
 */
#ifndef SC_MODEL_COST_H
#define SC_MODEL_COST_H

#include "model/registry.h"

typedef struct sc_stage_flops {
    double forward;
    double backward_input;
    double backward_weight;
} sc_stage_flops;

/* Matrix-product FLOPs of a stage. The first stage has an input gradient for all but its embedding.
 */
void sc_cost_flops(const sc_model_spec *spec, const sc_stage_range *range, int B, int T,
                   sc_stage_flops *out);

typedef struct sc_stage_bytes {
    size_t params;      // weights
    size_t grads;       // gradient accumulators; tied copies count apart
    size_t optimizer;   // AdamW moments (0 for SGD)
    size_t act_per_mb;  // saved by F for B: one activation slot
    size_t keep_per_mb; // kept by I for a separate W: one keep slot
    size_t keep_fused;  // one layer's worth of the same for a fused B; always there, beside keep
                        // slots, since a row may hold B, I and W
    size_t scratch;     // work space that does not depend on the number of microbatches, without
                        // the backend's own (attention_scratch_bytes)
    size_t message;     // one activation message between stages: B T C
} sc_stage_bytes;

/* Bytes of a stage by the layout that the layers use (stage/layers/README.md lists the tensors). */
void sc_cost_bytes(const sc_model_spec *spec, const sc_stage_range *range, int B, int T,
                   bool is_adamw, sc_stage_bytes *out);

#endif
