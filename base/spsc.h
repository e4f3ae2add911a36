/*
 * spsc - a bounded queue of fixed-size items from one thread to one other, with an eventfd to wait
 * on.
 *
 * Owns:     its ring and its eventfd.
 * Threads:  exactly one pusher and one popper at a time; no locks.
 *
 * The eventfd is written on every push, so a popper may poll it beside other descriptors, or block
 * in sc_spsc_wait. A full queue refuses the push: sizes are chosen so that this is a bug, and
 * callers assert.
 */
#ifndef SC_BASE_SPSC_H
#define SC_BASE_SPSC_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>

/* The padding keeps the two threads' words in cache lines of their own. */
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
typedef struct sc_spsc {
    char *ring;
    size_t item_bytes;
    size_t n_slots;                  // a power of two
    int event_fd;                    // readable while something was pushed since the last clear
    _Alignas(64) atomic_size_t head; // next to pop
    _Alignas(64) atomic_size_t tail; // next to push
} sc_spsc;

/* n_slots is rounded up to a power of two. */
sc_status sc_spsc_init(sc_spsc *q, size_t item_bytes, size_t n_slots, sc_err *err);
/* Accepts a zeroed queue. */
void sc_spsc_done(sc_spsc *q);

/* Copies *item in and wakes the popper; false when full. */
bool sc_spsc_push(sc_spsc *q, const void *item);
/* Copies the oldest item out; false when empty. */
bool sc_spsc_pop(sc_spsc *q, void *item);
/* Makes the eventfd unreadable; call before popping until empty. */
void sc_spsc_clear(sc_spsc *q);
/* Blocks until something may have been pushed, then clears. */
void sc_spsc_wait(sc_spsc *q);

#endif
