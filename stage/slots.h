/*
 * slots - which microbatch occupies which activation and keep slot, and how many bytes of it.
 *
 * Owns:     the state of each slot. A slot's life is F (free to live), then B (live to free), or I
 *           (live to split) and W (split to free). Every step out of that order is refused with
 *           stage, microbatch and step, since it would compute on another microbatch's tensors.
 * Does not: own the slots' memory.
 * Threads:  none of its own; one caller at a time.
 */
#ifndef SC_STAGE_SLOTS_H
#define SC_STAGE_SLOTS_H

#include "stage/slice.h"

typedef enum sc_slot_state {
    SC_SLOT_FREE,
    SC_SLOT_LIVE, // after F
    SC_SLOT_SPLIT // after I: W is still to come
} sc_slot_state;

typedef struct sc_slot {
    sc_slot_state state;
    uint64_t step;
    int mb;
    int keep;          // SPLIT: the keep slot that I filled
    size_t used_bytes; // written so far by the occupant
} sc_slot;

typedef struct sc_slots {
    int stage;
    int n_act;
    int n_keep;
    sc_slot *act;       // (n_act)
    size_t *keep_bytes; // (n_keep) used bytes, 0: free
} sc_slots;

/* n_act >= 1, n_keep >= 0. */
sc_status sc_slots_init(sc_slots *slots, int stage, int n_act, int n_keep, sc_err *err);
void sc_slots_done(sc_slots *slots);

/* Before an action: checks that it is in order. After F, B, I, W: changes the state. A forward-only
   F needs a free slot as work space and does not occupy it. */
sc_status sc_slots_check_f(const sc_slots *slots, const sc_slice_mb *mb, sc_err *err);
sc_status sc_slots_check_b(const sc_slots *slots, const sc_slice_mb *mb, sc_err *err);
sc_status sc_slots_check_i(const sc_slots *slots, const sc_slice_mb *mb, sc_err *err);
sc_status sc_slots_check_w(const sc_slots *slots, const sc_slice_mb *mb, sc_err *err);
void sc_slots_end_f(sc_slots *slots, const sc_slice_mb *mb, size_t used_bytes);
void sc_slots_end_b(sc_slots *slots, const sc_slice_mb *mb);
void sc_slots_end_i(sc_slots *slots, const sc_slice_mb *mb, size_t used_bytes);
void sc_slots_end_w(sc_slots *slots, const sc_slice_mb *mb);

/* Bytes of all occupied activation and keep slots. */
size_t sc_slots_used_bytes(const sc_slots *slots);

#endif
