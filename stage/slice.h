/*
 * slice - what a stage can do: F, B, I, W on one microbatch, and show its parameters.
 *
 * Two implementations: layers/slice_layers.c (a transformer's layers) and paced/slice_paced.c
 * (configured times and a hash chain in place of tensors). Nobody above knows which one it drives.
 *
 * Threads: the compute thread calls the operations; open and close happen before and after it runs
 * them. Memory: allocated once at open, from the plan's peaks; no operation allocates.
 */
#ifndef SC_STAGE_SLICE_H
#define SC_STAGE_SLICE_H

#include "kernels/backend.h"
#include "model/cost.h"
#include "model/registry.h"

#include <stdatomic.h>

/* Times of the paced slice for one microbatch of one stage. */
typedef struct sc_slice_pace {
    int64_t f_ns;
    int64_t i_ns;
    int64_t w_ns;
} sc_slice_pace;

typedef struct sc_slice_config {
    int stage;    // global index
    int n_stages; // of the whole model
    int n_mb;     // microbatches a step
    sc_stage_range range;
    const sc_model_spec *spec;     // borrowed while the slice lives
    const sc_registry *registry;   // borrowed
    sc_backend *backend;           // borrowed
    sc_stream *stream;             // borrowed; NULL on the CPU
    int B;                         // samples a microbatch
    int T;                         // tokens a sample
    sc_recompute recompute;        // its list is borrowed for open
    uint64_t seed;                 // initial weights
    int n_act_slots;               // microbatches that may be live: F done, B (or W) not done
    int n_keep_slots;              // microbatches that may be between I and W; 0: B only
    sc_slice_pace pace;            // paced only
    bool is_blank;                 // leave the weights zero: they come from another rank
    const atomic_bool *is_aborted; // seen between layers and in every wait
} sc_slice_config;

/* One parameter as the slice holds it. Tied embeddings: the embedding's entry and the head's entry
   have the same param and separate accumulators; their w is the same pointer when one slice holds
   both. */
typedef struct sc_slice_param {
    int param;         // index in the registry
    bool is_tied_copy; // the head's entry of a tied embedding: not counted in the norm
    float *w;          // (n_elems)
    float *grad;       // (n_elems), accumulates over the step; the optimizer zeroes it
    size_t n_elems;
} sc_slice_param;

/* One action's inputs and outputs. Pointers are borrowed for the call. */
typedef struct sc_slice_mb {
    uint64_t step;
    int mb;
    int act_slot;               // where F saves and B, I, W read; below n_act_slots
    int keep_slot;              // where I keeps dy for W; -1 for B
    const uint64_t *sample_ids; // (B) of this microbatch
    const int32_t *tokens;      // (B,T), the first stage's input
    const int32_t *targets;     // (B,T), the last stage's
    float loss_scale;           // 1 / valid tokens of the global batch
    bool is_forward_only;       // evaluation: nothing is saved; act_slot must be free and stays so
    const void *x;   // message from the stage before; NULL on the first stage. F only reads it; the
                     // slice copies or keeps what B needs
    void *y;         // message to the next stage; NULL on the last
    const void *dy;  // gradient message from the next stage; NULL on the last
    void *dx;        // gradient message to the stage before; NULL on the first
    double loss_sum; // out, F of the last stage: sum of token losses
    int64_t n_valid; // out, F of the last stage
    int64_t weight_ns;   // out, B: the part of it that computed weight gradients
    size_t during_bytes; // out: what the action took in slots and of work space, more than what is
                         // live before and after it; the plan adds up the same
} sc_slice_mb;

typedef struct sc_slice sc_slice;

typedef struct sc_slice_ops {
    sc_status (*forward)(sc_slice *slice, sc_slice_mb *mb, sc_err *err);
    sc_status (*backward)(sc_slice *slice, sc_slice_mb *mb,
                          sc_err *err); // B: I then W, layer by layer
    sc_status (*backward_input)(sc_slice *slice, sc_slice_mb *mb, sc_err *err);  // I
    sc_status (*backward_weight)(sc_slice *slice, sc_slice_mb *mb, sc_err *err); // W
    /* Activation bytes that live microbatches occupy now, counted slot by slot as layers write
       them: the independent count beside the plan. May be read between actions. */
    size_t (*activation_bytes)(const sc_slice *slice);
    /* Between steps, no slot occupied: makes room for another schedule's peaks. Never shrinks. */
    sc_status (*resize)(sc_slice *slice, int n_act_slots, int n_keep_slots, sc_err *err);
    void (*close)(sc_slice **slice);
} sc_slice_ops;

struct sc_slice {
    const sc_slice_ops *ops;
    size_t message_bytes;         // of one activation or gradient message
    const sc_slice_param *params; // (n_params) in registry order, a tied copy last
    int n_params;
};

/* layers/slice_layers.c and paced/slice_paced.c. Caller closes with (*out)->ops->close(&slice). */
sc_status sc_slice_layers_open(const sc_slice_config *config, sc_slice **out, sc_err *err);
sc_status sc_slice_paced_open(const sc_slice_config *config, sc_slice **out, sc_err *err);

#endif
