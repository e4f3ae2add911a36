/*
 * slice_rig - a whole model as slices in one process, driven through a step in a given order.
 *
 * Messages go from slice to slice by pointer and are overwritten with NaN as soon as their receiver
 * returns, so that a slice that does not copy what it needs later is found out. Slots are exactly
 * as many as the order needs.
 */
#ifndef SC_TESTS_STAGE_SLICE_RIG_H
#define SC_TESTS_STAGE_SLICE_RIG_H

#include "stage/optim/gradnorm.h"
#include "stage/optim/optim.h"
#include "stage/slice.h"

enum {
    SC_RIG_STAGES_MAX = 8,
    SC_RIG_MB_MAX = 16,
    SC_RIG_SLOTS_MAX = SC_RIG_MB_MAX,
    SC_RIG_OPS = 4,       // F, B, I, W
    SC_RIG_RECOMPUTES = 4 // none, selective, full, and full for blocks 0 and 2
};

typedef enum sc_rig_order {
    SC_RIG_GPIPE,       // all F, then all B
    SC_RIG_1F1B,        // p - s warm-up F, then B and F in turn
    SC_RIG_1F1B_SPLIT,  // the same with I in place of B, and W two microbatches later
    SC_RIG_GPIPE_SPLIT, // all F, all I, all W
    SC_RIG_ORDER_COUNT
} sc_rig_order;

typedef struct sc_rig_config {
    sc_model_spec spec; // checked
    int n_stages;
    int blocks[SC_RIG_STAGES_MAX]; // (n_stages) transformer blocks of each stage
    int B;
    int T;
    int n_mb;
    sc_rig_order order;
    sc_recompute recompute;
    sc_backend *backend; // borrowed
    bool is_paced;
    const atomic_bool *is_aborted; // or NULL
} sc_rig_config;

typedef struct sc_rig {
    sc_rig_config config;
    sc_registry *registry;
    sc_slice *slices[SC_RIG_STAGES_MAX];
    sc_stage_range ranges[SC_RIG_STAGES_MAX];
    int n_act[SC_RIG_STAGES_MAX];  // slots
    int n_keep[SC_RIG_STAGES_MAX]; // slots
    float *y[SC_RIG_STAGES_MAX];   // (n_mb) messages from a stage to the next
    float *dx[SC_RIG_STAGES_MAX];  // (n_mb) gradients from a stage to the one before
    int32_t *tokens;               // (n_mb,B,T)
    int32_t *targets;              // (n_mb,B,T)
    uint64_t *sample_ids;          // (n_mb,B)
    double losses[SC_RIG_MB_MAX];
    int64_t n_valid[SC_RIG_MB_MAX];
    int64_t weight_ns[SC_RIG_STAGES_MAX];               // of every B, added up
    size_t peak_bytes[SC_RIG_STAGES_MAX];               // activation_bytes, the largest seen
    size_t during_bytes[SC_RIG_STAGES_MAX][SC_RIG_OPS]; // of F, B, I, W, the largest seen
    float loss_scale;
} sc_rig;

extern const sc_recompute sc_slice_rig_recomputes[SC_RIG_RECOMPUTES];

/* What cost.h counts of it, with AdamW. */
sc_cost_layout sc_slice_rig_layout(const sc_rig_config *config);

/* Opens slices and buffers; tokens are made from a fixed seed, one target in nine is ignored. A
   failure fails the test. */
void sc_slice_rig_open(const sc_rig_config *config, sc_rig *rig);
void sc_slice_rig_close(sc_rig *rig);
/* Executes one step; the first failure is returned. */
sc_status sc_slice_rig_step(sc_rig *rig, uint64_t step, sc_err *err);
/* Sum of token losses over the step, in microbatch order, of a forward-only pass. */
double sc_slice_rig_evaluate(sc_rig *rig);

/* Gradient of a registry parameter, the tied copy's added: (n_elems), malloc, caller frees. */
float *sc_slice_rig_grad(const sc_rig *rig, int param);
/* The held entry of a parameter (is_tied_copy: the head's); NULL when there is none. */
const sc_slice_param *sc_slice_rig_find(const sc_rig *rig, int param, bool is_tied_copy);

/* The optimizers of a rig, one rank a stage. */
typedef struct sc_rig_optim {
    sc_optim *ranks[SC_RIG_STAGES_MAX];
} sc_rig_optim;

/* `settings` says kind, betas, epsilon and decay; the rest is the rig's. */
void sc_slice_rig_optim_open(const sc_rig *rig, const sc_optim_config *settings, sc_rig_optim *out);
void sc_slice_rig_optim_close(sc_rig_optim *optim);
/* The tail of a step: merges tied gradients within and between ranks, clips, updates. Returns the
   gradient norm. */
double sc_slice_rig_optim_step(const sc_rig *rig, sc_rig_optim *optim, float lr, uint64_t step,
                               float clip);

#endif
