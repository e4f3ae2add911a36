#include "stage/slots.h"

#include <assert.h>
#include <stdlib.h>

sc_status sc_slots_init(sc_slots *slots, int stage, int n_act, int n_keep, sc_err *err)
{
    *slots = (sc_slots){.stage = stage, .n_act = n_act, .n_keep = n_keep};
    if (n_act < 1 || n_keep < 0) {
        return sc_status_fail(err, SC_INVALID,
                              "stage %d: %d activation and %d keep slots; at least 1 and 0 needed",
                              stage, n_act, n_keep);
    }
    slots->act = calloc((size_t)n_act, sizeof *slots->act);
    slots->keep_bytes = calloc((size_t)n_keep + 1, sizeof *slots->keep_bytes);
    if (slots->act == NULL || slots->keep_bytes == NULL) {
        sc_slots_done(slots);
        return sc_status_fail(err, SC_NO_MEMORY, "stage %d: no memory for the state of %d slots",
                              stage, n_act + n_keep);
    }
    return SC_OK;
}

void sc_slots_done(sc_slots *slots)
{
    free(slots->act);
    free(slots->keep_bytes);
    slots->act = NULL;
    slots->keep_bytes = NULL;
}

static sc_status fail(const sc_slots *slots, const sc_slice_mb *mb, const char *what, sc_err *err)
{
    return sc_status_fail(err, SC_FAILED, "stage %d microbatch %d step %llu: %s (slot %d)",
                          slots->stage, mb->mb, (unsigned long long)mb->step, what, mb->act_slot);
}

static bool is_slot(const sc_slots *slots, const sc_slice_mb *mb)
{
    return mb->act_slot >= 0 && mb->act_slot < slots->n_act;
}

static bool is_occupant(const sc_slot *slot, const sc_slice_mb *mb)
{
    return slot->step == mb->step && slot->mb == mb->mb;
}

static sc_status check_live(const sc_slots *slots, const sc_slice_mb *mb, const char *name,
                            sc_err *err)
{
    if (!is_slot(slots, mb)) {
        return fail(slots, mb, "no such activation slot", err);
    }
    const sc_slot *slot = &slots->act[mb->act_slot];
    if (slot->state != SC_SLOT_FREE && !is_occupant(slot, mb)) {
        return sc_status_fail(err, SC_FAILED,
                              "stage %d microbatch %d step %llu: %s finds microbatch %d of step "
                              "%llu in slot %d",
                              slots->stage, mb->mb, (unsigned long long)mb->step, name, slot->mb,
                              (unsigned long long)slot->step, mb->act_slot);
    }
    if (slot->state != SC_SLOT_LIVE) {
        return sc_status_fail(err, SC_FAILED, "stage %d microbatch %d step %llu: %s %s (slot %d)",
                              slots->stage, mb->mb, (unsigned long long)mb->step, name,
                              slot->state == SC_SLOT_FREE ? "without F" : "after I", mb->act_slot);
    }
    return SC_OK;
}

sc_status sc_slots_check_f(const sc_slots *slots, const sc_slice_mb *mb, sc_err *err)
{
    if (!is_slot(slots, mb)) {
        return fail(slots, mb, "no such activation slot", err);
    }
    for (int i = 0; i < slots->n_act; i++) {
        const sc_slot *slot = &slots->act[i];
        if (slot->state != SC_SLOT_FREE && is_occupant(slot, mb)) {
            return fail(slots, mb, "F twice", err);
        }
    }
    if (slots->act[mb->act_slot].state != SC_SLOT_FREE) {
        return fail(slots, mb, "F into an occupied slot", err);
    }
    return SC_OK;
}

sc_status sc_slots_check_b(const sc_slots *slots, const sc_slice_mb *mb, sc_err *err)
{
    return check_live(slots, mb, "B", err);
}

sc_status sc_slots_check_i(const sc_slots *slots, const sc_slice_mb *mb, sc_err *err)
{
    SC_TRY(check_live(slots, mb, "I", err));
    if (mb->keep_slot < 0 || mb->keep_slot >= slots->n_keep) {
        return fail(slots, mb, "I without a keep slot", err);
    }
    if (slots->keep_bytes[mb->keep_slot] != 0) {
        return fail(slots, mb, "I into an occupied keep slot", err);
    }
    return SC_OK;
}

sc_status sc_slots_check_w(const sc_slots *slots, const sc_slice_mb *mb, sc_err *err)
{
    if (!is_slot(slots, mb)) {
        return fail(slots, mb, "no such activation slot", err);
    }
    const sc_slot *slot = &slots->act[mb->act_slot];
    if (slot->state != SC_SLOT_SPLIT || !is_occupant(slot, mb)) {
        return fail(slots, mb, "W without I", err);
    }
    if (slot->keep != mb->keep_slot) {
        return fail(slots, mb, "W with another keep slot than its I", err);
    }
    return SC_OK;
}

void sc_slots_end_f(sc_slots *slots, const sc_slice_mb *mb, size_t used_bytes)
{
    if (mb->is_forward_only) {
        return;
    }
    slots->act[mb->act_slot] =
        (sc_slot){.state = SC_SLOT_LIVE, .step = mb->step, .mb = mb->mb, .used_bytes = used_bytes};
}

void sc_slots_end_b(sc_slots *slots, const sc_slice_mb *mb)
{
    slots->act[mb->act_slot] = (sc_slot){.state = SC_SLOT_FREE};
}

void sc_slots_end_i(sc_slots *slots, const sc_slice_mb *mb, size_t used_bytes)
{
    assert(used_bytes > 0);
    slots->act[mb->act_slot].state = SC_SLOT_SPLIT;
    slots->act[mb->act_slot].keep = mb->keep_slot;
    slots->keep_bytes[mb->keep_slot] = used_bytes;
}

void sc_slots_end_w(sc_slots *slots, const sc_slice_mb *mb)
{
    slots->act[mb->act_slot] = (sc_slot){.state = SC_SLOT_FREE};
    slots->keep_bytes[mb->keep_slot] = 0;
}

size_t sc_slots_used_bytes(const sc_slots *slots)
{
    size_t bytes = 0;
    for (int i = 0; i < slots->n_act; i++) {
        bytes += slots->act[i].used_bytes;
    }
    for (int i = 0; i < slots->n_keep; i++) {
        bytes += slots->keep_bytes[i];
    }
    return bytes;
}
