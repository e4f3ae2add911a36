/*
 * recompute - which blocks make their activations again in the backward pass, and how much.
 *
 * none keeps all that the forward computed. selective drops what is made again without a matrix
 * product: norms' outputs and gelu's. full keeps a block's input alone and runs its forward again.
 * stage/layers/README.md has the bytes of each.
 */
#ifndef SC_MODEL_RECOMPUTE_H
#define SC_MODEL_RECOMPUTE_H

#include "base/arena.h"

typedef enum sc_recompute_kind {
    SC_RECOMPUTE_NONE,
    SC_RECOMPUTE_SELECTIVE,
    SC_RECOMPUTE_FULL,
    SC_RECOMPUTE_BLOCKS // full for the blocks of a list, none for the others
} sc_recompute_kind;

typedef struct sc_recompute {
    const int *blocks; // BLOCKS: (n_blocks) in rising order; borrowed
    int n_blocks;
    sc_recompute_kind kind;
} sc_recompute;

/* What a block does: NONE, SELECTIVE or FULL. */
sc_recompute_kind sc_recompute_of(const sc_recompute *recompute, int block);

/* As text: "none", "selective", "full" or "0,3,4". Lives in the arena. */
sc_status sc_recompute_format(const sc_recompute *recompute, sc_arena *arena, const char **out,
                              sc_err *err);
/* The text of a model of n_layer blocks. The list lives in the arena. */
sc_status sc_recompute_parse(const char *text, int n_layer, sc_arena *arena, sc_recompute *out,
                             sc_err *err);

/* A list must rise and stay below n_layer. What is wrong goes to err without a place. */
sc_status sc_recompute_check(const sc_recompute *recompute, int n_layer, sc_err *err);

#endif
