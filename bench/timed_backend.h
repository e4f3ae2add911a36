/*
 * timed_backend - a backend that adds up what each kind of operation takes, around another one.
 *
 * Owns:     nothing: the operations are those of the backend behind it, with its context.
 * Threads:  the one that calls the operations.
 */
#ifndef SC_BENCH_TIMED_BACKEND_H
#define SC_BENCH_TIMED_BACKEND_H

#include "kernels/backend.h"

#define SC_TIMED_PART_MAP(X) \
    X(LINEAR_FWD, "linear, forward") \
    X(LINEAR_BWD_INPUT, "linear, input gradient") \
    X(LINEAR_BWD_WEIGHT, "linear, weight gradient") \
    X(ATTENTION_FWD, "attention, forward") \
    X(ATTENTION_BWD, "attention, backward") \
    X(NORM, "layer norms") \
    X(XENT, "cross entropy") \
    X(EMBED, "embedding") \
    X(TIED, "tied embedding: add, zero") \
    X(CLIP, "gradient norm") \
    X(OPTIMIZER, "AdamW")

#define SC_TIMED_PART_ENUM(name, text) SC_TIMED_##name,
typedef enum sc_timed_part {
    SC_TIMED_PART_MAP(SC_TIMED_PART_ENUM) SC_TIMED_PART_COUNT
} sc_timed_part;
#undef SC_TIMED_PART_ENUM

/* Wall time, and CPU time of the process with all its threads. */
typedef struct sc_timed_span {
    double wall_s;
    double cpu_s;
} sc_timed_span;

typedef struct sc_timed_backend {
    sc_backend base;         // first: what the slice and the optimizer are given
    const sc_backend *inner; // borrowed
    int part;                // of the operation under way
    uint64_t n_ops;          // begun so far
    sc_timed_span parts[SC_TIMED_PART_COUNT];
} sc_timed_backend;

/* Puts *out around inner, which must live as long. base.free must not be called. */
void sc_timed_backend_init(sc_timed_backend *out, const sc_backend *inner);
/* All parts to zero. */
void sc_timed_backend_reset(sc_timed_backend *timed);
const char *sc_timed_backend_part_text(int part);

sc_timed_span sc_timed_backend_now(void);
/* *sum += end - start. */
void sc_timed_backend_add(sc_timed_span *sum, sc_timed_span start, sc_timed_span end);

#endif
