/*
 * cost - FLOPs and bytes of a stage, counted from the spec alone.
 *
 * Everything is for one microbatch, fp32. A product of (n,k) and (k,m) counts 2nkm FLOPs; other
 * work is not counted.
 */
#ifndef SC_MODEL_COST_H
#define SC_MODEL_COST_H

#include "model/recompute.h"
#include "model/registry.h"

/* How a model is trained, as far as it costs something. */
typedef struct sc_cost_layout {
    int B;         // samples of a microbatch
    int T;         // tokens of a sample
    bool is_adamw; // moments of AdamW; none for SGD
    sc_recompute recompute;
} sc_cost_layout;

/* What the hardware computes; without `recomputed` it is the model's FLOPs. */
typedef struct sc_stage_flops {
    double forward;
    double backward_input; // with `recomputed`
    double backward_weight;
    double recomputed; // forward products that I (or B) does again; selective has none
} sc_stage_flops;

/* Matrix-product FLOPs of a stage. The first stage has an input gradient for all but its embedding.
 */
void sc_cost_flops(const sc_model_spec *spec, const sc_stage_range *range,
                   const sc_cost_layout *layout, sc_stage_flops *out);

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
    size_t work_f;      // most that F, B, I or W has of tensors that are made again in the
    size_t work_b;      // backward pass: a fully recomputed block's, or a layer's that is
    size_t work_i;      // recomputed selectively; 0 without recomputation
    size_t work_w;
    size_t work;    // the largest of the four: always there, whatever the row
    size_t message; // one activation message between stages: B T C
} sc_stage_bytes;

/* Bytes of a stage by the layout that the layers use (stage/layers/README.md lists the tensors). */
void sc_cost_bytes(const sc_model_spec *spec, const sc_stage_range *range,
                   const sc_cost_layout *layout, sc_stage_bytes *out);

#endif
