/*
 * step_ops - the operations of one training step of GPT-2 124M, each with its shape and how often a
 * step calls it, and the step's matrix products alone.
 *
 * Operands are taken from a pool far larger than the caches, as a step's are.
 */
#ifndef SC_BENCH_STEP_OPS_H
#define SC_BENCH_STEP_OPS_H

#include "kernels/backend.h"

enum {
    SC_STEP_OPS_PARAMS = 124439808
};

/* What the operations work on; filled by the caller. */
typedef struct sc_step_ops {
    sc_backend *be;
    int64_t B;
    int64_t T;
    float *pool;      // (pool_n)
    size_t pool_n;    // at least 2^28
    size_t pool_at;   // next free; wraps
    int32_t *tokens;  // (B,T), below 50257
    double *partials; // a chunk of the parameters each
    void *scratch;    // attention's
} sc_step_ops;

typedef struct sc_step_op sc_step_op;
struct sc_step_op {
    const char *name;
    sc_status (*run)(sc_step_ops *b, const sc_step_op *op, sc_err *err); // one call
    int calls; // a step; 0 for one that shows what the machine gives
    int64_t K; // of a linear layer, as M and what follows the product
    int64_t M;
    bool is_out_in;
    bool has_bias;
    bool has_residual;
    bool has_act;
    bool is_product; // a matrix product alone, not a part of the step
};

/* All of them; borrowed for ever. */
const sc_step_op *sc_step_ops_list(int *n);
/* Multiply-adds times two of one call's matrix products, 0 for others. */
double sc_step_ops_flops(const sc_step_ops *b, const sc_step_op *op);
/* Bytes that one call must read and write, for those without a matrix product; else 0. */
double sc_step_ops_bytes(const sc_step_ops *b, const sc_step_op *op);

#endif
