/*
 * action - one cell of a schedule: an operation of one stage on one microbatch.
 *
 * Text form, as in PyTorch's CSV: stage, letters, microbatch, e.g. "2F0", "1SEND_B3",
 * "0REDUCE_GRAD". F forward, B full backward (I then W), I input gradient, W weight gradient.
 * SEND_x carries the index of the sending stage, RECV_x that of the receiving stage: 0SEND_F1 pairs
 * with 1RECV_F1, 1SEND_B1 with 0RECV_B1.
 */
#ifndef SC_SCHEDULES_ACTION_H
#define SC_SCHEDULES_ACTION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* name, text, has a microbatch */
#define SC_OP_MAP(X) \
    X(F, "F", true) \
    X(B, "B", true) \
    X(I, "I", true) \
    X(W, "W", true) \
    X(SEND_F, "SEND_F", true) \
    X(RECV_F, "RECV_F", true) \
    X(SEND_B, "SEND_B", true) \
    X(RECV_B, "RECV_B", true) \
    X(REDUCE_GRAD, "REDUCE_GRAD", false)

#define SC_OP_ENUM(name, text, has_mb) SC_OP_##name,
typedef enum sc_op {
    SC_OP_MAP(SC_OP_ENUM) SC_OP_COUNT
} sc_op;
#undef SC_OP_ENUM

/* Limits of every table, whatever its source. */
enum {
    SC_STAGES_MAX = 4096,
    SC_MICROBATCHES_MAX = 65536,
    SC_ACTION_TEXT_MAX = 32
};

typedef struct sc_action {
    sc_op op;
    int stage; // global, 0 = first
    int mb;    // 0-based; -1 where the operation has none
} sc_action;

const char *sc_action_op_text(sc_op op);
bool sc_action_is_compute(sc_op op);  // F, B, I, W
bool sc_action_is_send(sc_op op);     // SEND_F, SEND_B
bool sc_action_is_recv(sc_op op);     // RECV_F, RECV_B
bool sc_action_is_backward(sc_op op); // B, I, W
bool sc_action_equals(sc_action a, sc_action b);

/* Writes the text form, cut at n bytes; returns out. SC_ACTION_TEXT_MAX bytes always suffice. */
char *sc_action_format(sc_action action, char *out, size_t n);
/* Writes n bytes of foreign text in double quotes for a message: what is not printable as \xNN, cut
   with "..." where `out` (n_out >= 16 bytes) ends. Returns out. */
char *sc_action_quote(const char *text, size_t n, char *out, size_t n_out);
/* Parses exactly n bytes, surrounding spaces allowed; anything left over is an error. */
sc_status sc_action_parse(const char *text, size_t n, sc_action *out, sc_err *err);

#endif
